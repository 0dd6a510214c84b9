//! `reflex token`: a new token, and the entry of it for the file `http_tokens`, which holds its hash alone.

use std::fs::File;
use std::io::{Read, Write};

use serde_json::json;

use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;

/// What is random in a token.
const BYTES: usize = 32;

/// Arguments of `reflex token`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Who will bear it: the author of its decisions
    name: String,
    /// What it is for; may be given more than once
    #[arg(long = "role", required = true, value_name = "ROLE", value_parser = ["runtime", "viewer", "operator", "approver"])]
    roles: Vec<String>,
}

/// Prints the entry, and the token itself, which is shown once, on standard error; as JSON, both.
///
/// # Errors
/// Exit 75 where the system gives no random bytes.
pub fn run(args: &Args, as_json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| Failure::new(Exit::TryAgain, format_args!("making a token: {error}")))?;
    // A hash of random bytes, for its way of writing them.
    let token = format!("reflex_{}", blake3::Hash::from(bytes).to_hex());
    let hash = blake3::hash(token.as_bytes()).to_hex();
    let written = if as_json {
        let value = json!({ "token": token, "name": args.name, "roles": args.roles, "blake3": hash.as_str() });
        writeln!(out, "{value}")
    } else {
        let (name, roles) = (toml::Value::from(&*args.name), toml::Value::from(args.roles.clone()));
        // Apart from the entry, so that it does not end up in the file with it.
        eprintln!("token, shown once: {token}");
        writeln!(out, "[[token]]\nname = {name}\nroles = {roles}\nblake3 = \"{hash}\"")
    };
    written.map_err(unwritable)?;
    Ok(Exit::Done)
}
