//! `reflex verify`: from tape, inputs and changelog the same decisions again, byte for byte.

use std::io::Write;
use std::str::FromStr;

use crate::cli::engine_config::config;
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::engine::Registries;
use crate::engine::verify::{Bound, Request, Verified, verify};
use crate::record::time::Timestamp;

/// What to verify.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this task, session/N or fleet/N; again for more
    #[arg(long = "task", value_name = "TASK")]
    tasks: Vec<String>,
    /// From this transaction (a number), or from this time (RFC 3339) on [default: all the tape has]
    #[arg(long, value_name = "SEQ|TIME", value_parser = bound)]
    from: Option<Bound>,
    /// Up to this transaction, or to this time
    #[arg(long, value_name = "SEQ|TIME", value_parser = bound)]
    to: Option<Bound>,
}

fn bound(text: &str) -> Result<Bound, String> {
    if let Ok(seq) = text.parse() {
        return Ok(Bound::Seq(seq));
    }
    let time = Timestamp::from_str(text).map_err(|_| "neither the number of a transaction nor a time (RFC 3339)")?;
    Ok(Bound::Time(time))
}

/// Verifies and reports.
///
/// # Errors
/// Exit 69 without a broker or without what is to be verified, 64 for a task that does not exist.
pub fn run(args: &Args, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let settings = &resolved.settings;
    let config = config(settings, "verify")?;
    let request = Request { tasks: args.tasks.clone(), from: args.from, to: args.to };
    let is_table = settings.output == Output::Table;
    let mut written = Ok(());
    let all = verify(&config, &Registries::in_band(&config), &request, &mut |verified| {
        if is_table && written.is_ok() {
            written = line(verified, out);
        }
    })?;
    written.map_err(unwritable)?;
    let (inputs, outputs) =
        all.iter().fold((0, 0), |(inputs, outputs), verified| (inputs + verified.inputs, outputs + verified.outputs));
    let differ = all.iter().filter(|verified| verified.difference.is_some()).count();
    match settings.output {
        Output::Table => writeln!(out, "{inputs} inputs, {outputs} records, {differ} of {} tasks differ", all.len()),
        Output::Json => serde_json::to_writer_pretty(&mut *out, &all).map_err(Into::into).and_then(|()| writeln!(out)),
        Output::Ndjson => all.iter().try_for_each(|verified| {
            serde_json::to_writer(&mut *out, verified)?;
            writeln!(out)
        }),
    }
    .map_err(unwritable)?;
    if all.iter().all(|verified| verified.span.is_none()) {
        tracing::warn!("nothing was verified: no tape has a transaction there");
        return Ok(Exit::Found);
    }
    Ok(if differ == 0 { Exit::Done } else { Exit::Found })
}

fn line(verified: &Verified, out: &mut dyn Write) -> std::io::Result<()> {
    let Verified { task, span, inputs, outputs, incarnations, difference } = verified;
    match (span, difference) {
        (None, _) => writeln!(out, "{task}: nothing on the tape"),
        (Some((first, last)), None) => writeln!(
            out,
            "{task}: identical, transactions {first} to {last}, {inputs} inputs, {outputs} records, {incarnations} \
             incarnations"
        ),
        (Some(_), Some(difference)) => writeln!(out, "{task}: DIFFERS at {difference}"),
    }
}
