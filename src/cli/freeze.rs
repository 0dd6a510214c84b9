//! `reflex freeze` and `reflex unfreeze`: new automation stops, or goes on, in every task at once.

use std::io::Write;

use crate::cli::decide::{Wait, Why, command, decide};
use crate::cli::exit::{Exit, Failure};
use crate::cli::settings::Resolved;
use crate::engine::operator::orders::Owner;
use crate::record::command::Verb;

/// Arguments of both.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    wait: Wait,
}

/// Sends the command to every task. Lifting and expiring go on while tasks are frozen.
///
/// # Errors
/// Exit 64 without a reason, 69 without broker or topic, 75 where not every task has answered in time.
pub fn run(verb: Verb, args: &Args, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let command = command(verb, "*", None, &args.why)?;
    decide(resolved, &Owner::Everybody, &command, args.wait, out)
}
