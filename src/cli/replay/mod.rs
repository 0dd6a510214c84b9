//! `reflex replay`: the pure core over recorded events, no broker, nothing published.

pub mod diff;
pub mod log;
pub mod report;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::record::position::Position;
use crate::record::time::Timestamp;
use crate::record::topic::{self, Topic};
use crate::registry::Registry;
use crate::session::{Counts, Effects, Input, Session};
use diff::Decisions;
use log::Log;
use report::Gather;

/// Arguments of `reflex replay`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files of recorded events, one JSON object a line; `-` is standard input. Several are one log, merged by time.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Replay against a second registry too, and print only what changes, per session.
    #[arg(long, value_name = "DIR")]
    pub diff: Option<PathBuf>,
    /// A malformed line fails the replay (exit 65).
    #[arg(long)]
    pub strict: bool,
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// For a person.
    Table,
    /// The report as one JSON object.
    Json,
    /// Each record that would be published, one a line.
    Ndjson,
}

/// Replays, and writes to `out`; `second` is the registry of `--diff`.
///
/// # Errors
/// Exit 66 for a missing file, 65 for malformed lines with `--strict`.
pub fn run(
    args: &Args,
    registry: &Arc<Registry>,
    second: Option<&Arc<Registry>>,
    shape: Shape,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let sources = log::read(&args.files)?;
    let log = log::merge(&sources, registry.limits.field_bytes_max as usize);
    let malformed = log.malformed.len();
    for bad in log.malformed.iter().filter(|_| shape == Shape::Ndjson || second.is_some()) {
        eprintln!("{}:{}: {}: {}", report::plain(&bad.file), bad.line, bad.code, bad.message);
    }
    let found = if let Some(second) = second {
        difference(&log, registry, second, shape, out)?
    } else {
        replay(log, registry, shape, out)?;
        false
    };
    if args.strict && malformed > 0 {
        return Err(Failure::new(Exit::BadInput, format_args!("{malformed} malformed lines")));
    }
    Ok(if found { Exit::Found } else { Exit::Done })
}

fn replay(log: Log<'_>, registry: &Arc<Registry>, shape: Shape, out: &mut dyn Write) -> Result<(), Failure> {
    let mut gather = Gather::default();
    let mut written = Ok(());
    let counts = drive(&log, registry, |at, effects| {
        gather.effects(at, effects);
        if shape == Shape::Ndjson && written.is_ok() {
            let published = effects.outputs.iter().filter(|output| output.topic != Topic::Fleet);
            written = published.into_iter().try_for_each(|output| write_line(output, out));
        }
    });
    written.map_err(unwritable)?;
    log.events.iter().for_each(|(_, event)| gather.event(event));
    let report = gather.finish(log.malformed, &counts);
    match shape {
        Shape::Table => write!(out, "{}", report.table()).map_err(unwritable),
        Shape::Json => write_json(&report, out),
        Shape::Ndjson => Ok(()),
    }
}

fn difference(
    log: &Log<'_>,
    first: &Arc<Registry>,
    second: &Arc<Registry>,
    shape: Shape,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let decide = |registry: &Arc<Registry>| {
        let mut decisions = Decisions::default();
        drive(log, registry, |_, effects| effects.outputs.iter().for_each(|output| decisions.output(output)));
        decisions
    };
    let difference = diff::compare(&decide(first), &decide(second));
    match shape {
        Shape::Table => write!(out, "{}", difference.table()).map_err(unwritable)?,
        Shape::Json => write_json(&difference, out)?,
        Shape::Ndjson => {
            for change in &difference.sessions {
                write_line(change, out).map_err(unwritable)?;
            }
        }
    }
    Ok(!difference.sessions.is_empty())
}

/// Steps the session stage over a log; evidence stands at `reflex.events`, partition 0, index in the log.
pub fn drive(log: &Log<'_>, registry: &Arc<Registry>, mut each: impl FnMut(Timestamp, &Effects)) -> Counts {
    let mut session = Session::new("session/0", registry.clone());
    let mut effects = Effects::default();
    for (offset, (at, event)) in (0_i64..).zip(&log.events) {
        let position = Position { topic: topic::EVENTS, partition: 0, offset };
        session.step(*at, Input::Event { position, event, received_at: *at }, &mut effects);
        each(*at, &effects);
        effects.clear();
    }
    session.counts().clone()
}

fn write_line<T: serde::Serialize + ?Sized>(value: &T, out: &mut dyn Write) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

fn write_json<T: serde::Serialize>(value: &T, out: &mut dyn Write) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from).map_err(unwritable)?;
    out.write_all(b"\n").map_err(unwritable)
}
