//! Recorded events as one log: files one after the other, missing times filled, then sorted by append time.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cli::exit::{Exit, Failure};
use crate::record::codec::json;
use crate::record::dead_letter::{Code, Rejection};
use crate::record::event::Event;
use crate::record::time::Timestamp;

/// One file as read.
pub struct Source {
    /// Its name as given; `-` is standard input.
    pub name: String,
    bytes: Vec<u8>,
}

/// A line that is no event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Malformed {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// Code of the rejection.
    pub code: String,
    /// What is wrong, without values.
    pub message: String,
}

/// The log of one replay.
pub struct Log<'a> {
    /// (append time, event), sorted; an event's index is its offset.
    pub events: Vec<(Timestamp, Event<'a>)>,
    /// What was passed over, in the order of the files.
    pub malformed: Vec<Malformed>,
}

/// Reads files, `-` being standard input.
///
/// # Errors
/// Exit 66 where a file cannot be read.
pub fn read(files: &[PathBuf]) -> Result<Vec<Source>, Failure> {
    files.iter().map(|file| read_one(file)).collect()
}

fn read_one(file: &Path) -> Result<Source, Failure> {
    let name = file.display().to_string();
    let bytes = if name == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    let bytes = bytes.map_err(|error| Failure::new(Exit::NoInput, format_args!("{name}: {error}")))?;
    Ok(Source { name, bytes })
}

/// The lines of a source that are not blank, numbered from 1.
pub fn lines(source: &Source) -> impl Iterator<Item = (usize, &[u8])> {
    let numbered = source.bytes.split(|byte| *byte == b'\n').enumerate();
    numbered.map(|(index, line)| (index + 1, line)).filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace))
}

/// Puts the sources one after the other, fills missing times (previous + 1 ms; first: the epoch) and sorts by append
/// time; the sort is stable.
#[must_use]
pub fn merge(sources: &[Source], field_bytes_max: usize) -> Log<'_> {
    let mut log = Log { events: Vec::new(), malformed: Vec::new() };
    let mut next = Timestamp::EPOCH;
    for source in sources {
        for (line, bytes) in lines(source) {
            match parse(bytes, field_bytes_max) {
                Ok((appended_at, event)) => {
                    let at = appended_at.or(event.occurred_at).unwrap_or(next);
                    next = at.plus(Duration::from_millis(1));
                    log.events.push((at, event));
                }
                Err(rejection) => log.malformed.push(malformed(&source.name, line, &rejection)),
            }
        }
    }
    log.events.sort_by_key(|(at, _)| *at);
    log
}

/// The line's place and what is wrong with it.
#[must_use]
pub fn malformed(file: &str, line: usize, rejection: &Rejection) -> Malformed {
    Malformed { file: file.to_owned(), line, code: rejection.code.to_string(), message: rejection.message.clone() }
}

/// The one field of a recorded line that is not part of an event: its append time, to test lateness.
#[derive(Deserialize)]
struct Recorded {
    #[serde(default)]
    appended_at: Option<Timestamp>,
}

fn parse(bytes: &[u8], field_bytes_max: usize) -> Result<(Option<Timestamp>, Event<'_>), Rejection> {
    let event = json::event_from_bytes(bytes, field_bytes_max)?;
    let recorded: Recorded = serde_json::from_slice(bytes)
        .map_err(|_| Rejection::new(Code::BadTime, "appended_at: not an RFC 3339 time"))?;
    Ok((recorded.appended_at, event))
}
