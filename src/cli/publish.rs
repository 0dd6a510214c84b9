//! `reflex publish FILE…`: recorded events to the events topic, so that a newcomer can try a real broker without another
//! tool.

use std::io::{BufReader, IsTerminal, Read, Write, stderr};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::cli::engine_config::cluster;
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::lines::{Source, open, read_line};
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::engine::EngineError;
use crate::engine::cluster::admin::Admin;
use crate::engine::publish::Feed;
use crate::record::codec::json::event_from_bytes;
use crate::record::dead_letter::{Code, Rejection};
use crate::record::time::Timestamp;
use crate::registry::Limits;

/// Arguments of `reflex publish`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files of recorded events, one JSON object a line; `-` is standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Events a second at most [default: as fast as the broker takes them]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// Leave `occurred_at` as it is, instead of shifting all so that the first is now
    #[arg(long)]
    pub keep_times: bool,
    /// A malformed line fails the program (exit 65), after the rest was published
    #[arg(long)]
    pub strict: bool,
}

/// Publishes; malformed lines are named and skipped.
///
/// # Errors
/// Exit 66 for a missing file, 65 for malformed lines with `--strict`, 69 without broker or topic.
pub fn run(args: &Args, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    // All files are there before anything is published.
    let sources = args.files.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let settings = &resolved.settings;
    let timeout = Duration::from_millis(settings.broker_timeout_ms);
    let topic = settings.topics.events.clone();
    let cluster = cluster(settings);
    if Admin::new(&cluster, timeout)?.existing(std::slice::from_ref(&topic))?.is_empty() {
        return Err(EngineError::TopicMissing(topic).into());
    }
    let mut run = Publish {
        feed: Feed::new(&cluster, &topic)?,
        bar: bar(&sources),
        started: Instant::now(),
        rate: args.rate,
        shift: if args.keep_times { Shift::Keep } else { Shift::Unknown },
        published: 0,
        malformed: 0,
    };
    for (name, _, reader) in sources {
        run.source(&name, reader)?;
    }
    run.feed.finish()?;
    run.bar.finish_and_clear();
    let written = match settings.output {
        Output::Table => {
            writeln!(out, "{} events to {topic}, {} malformed lines skipped", run.published, run.malformed)
        }
        _ => writeln!(out, "{}", json!({ "topic": topic, "published": run.published, "malformed": run.malformed })),
    };
    written.map_err(unwritable)?;
    if args.strict && run.malformed > 0 {
        return Err(Failure::new(Exit::BadInput, format_args!("{} malformed lines", run.malformed)));
    }
    Ok(Exit::Done)
}

fn bar(sources: &[Source]) -> ProgressBar {
    let length: Option<u64> = sources.iter().map(|(_, length, _)| *length).sum();
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{bar:40} {bytes}/{total_bytes} {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// How far every `occurred_at` is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shift {
    /// Not at all.
    Keep,
    /// The first time decides.
    Unknown,
    /// By this many microseconds.
    By(i64),
}

struct Publish {
    feed: Feed,
    bar: ProgressBar,
    started: Instant,
    rate: Option<u32>,
    shift: Shift,
    published: u64,
    malformed: u64,
}

impl Publish {
    fn source(&mut self, name: &str, reader: Box<dyn Read>) -> Result<(), Failure> {
        let bytes_max = u64::from(Limits::default().event_bytes_max);
        let mut reader = BufReader::with_capacity(1 << 16, reader);
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            let read = read_line(&mut reader, &mut line, bytes_max)
                .map_err(|error| Failure::new(Exit::NoInput, format_args!("{name}: {error}")))?;
            if read == 0 {
                break;
            }
            self.bar.inc(read);
            if line.trim_ascii().is_empty() {
                continue;
            }
            let oversized = line.len() as u64 > bytes_max;
            let taken = if oversized {
                Err(Rejection::new(Code::Oversized, format_args!("longer than {bytes_max} bytes")))
            } else {
                prepare(line.trim_ascii(), &mut self.shift)
            };
            match taken {
                Ok((session_id, text)) => self.send(&session_id, &text)?,
                Err(rejection) => {
                    self.malformed += 1;
                    self.bar.suspend(|| eprintln!("{name}:{number}: {rejection}"));
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, session_id: &str, text: &str) -> Result<(), Failure> {
        if let Some(rate) = self.rate {
            let due = Duration::from_secs(1).mul_f64(self.published_f64() / f64::from(rate));
            thread::sleep(due.saturating_sub(self.started.elapsed()));
        }
        self.feed.send(session_id, text)?;
        self.published += 1;
        Ok(())
    }

    #[allow(clippy::cast_precision_loss, reason = "a pace, not a count")]
    fn published_f64(&self) -> f64 {
        self.published as f64
    }
}

/// Checks an event and moves its time; session id and text. Everything else in the text stays as it is, byte by byte.
fn prepare(line: &[u8], shift: &mut Shift) -> Result<(String, String), Rejection> {
    let event = event_from_bytes(line, Limits::default().field_bytes_max as usize)?;
    let text = std::str::from_utf8(line).map_err(|_| Rejection::new(Code::NotJson, "not UTF-8"))?;
    let session_id = event.session_id.as_str().to_owned();
    let Some(occurred_at) = event.occurred_at else { return Ok((session_id, text.to_owned())) };
    let by = match *shift {
        Shift::Keep => return Ok((session_id, text.to_owned())),
        Shift::By(by) => by,
        Shift::Unknown => {
            let by = now().as_micros() - occurred_at.as_micros();
            *shift = Shift::By(by);
            by
        }
    };
    let moved = Timestamp::from_micros(occurred_at.as_micros().saturating_add(by));
    let text = replace_time(text, moved).unwrap_or_else(|| text.to_owned());
    Ok((session_id, text))
}

/// The text with another value of its top-level `occurred_at`.
fn replace_time(text: &str, time: Timestamp) -> Option<String> {
    use std::collections::BTreeMap;
    let fields: BTreeMap<std::borrow::Cow<'_, str>, &serde_json::value::RawValue> = serde_json::from_str(text).ok()?;
    let raw = fields.get("occurred_at")?.get();
    // The raw value is a part of the text, so its place is the distance of the two beginnings.
    let start = (raw.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let (before, rest) = text.split_at_checked(start)?;
    let after = rest.strip_prefix(raw)?;
    Some(format!("{before}\"{time}\"{after}"))
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"event_id":"e1", "type":"progress","session_id":"s1","graph":"g","new":{"occurred_at":1e2},"occurred_at":"2026-01-01T00:00:00Z","x":1.50}"#;

    #[test]
    fn only_the_time_is_changed() {
        let mut shift = Shift::By(1_000_000);
        let (session_id, text) = prepare(LINE.as_bytes(), &mut shift).expect("an event");
        assert_eq!(session_id, "s1");
        assert_eq!(text, LINE.replace("2026-01-01T00:00:00Z", "2026-01-01T00:00:01.000Z"));
        let (_, kept) = prepare(LINE.as_bytes(), &mut Shift::Keep).expect("an event");
        assert_eq!(kept, LINE);
    }

    #[test]
    fn the_first_time_is_now_and_the_others_follow() {
        let mut shift = Shift::Unknown;
        prepare(LINE.as_bytes(), &mut shift).expect("an event");
        let Shift::By(by) = shift else { panic!("no shift: {shift:?}") };
        let first: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let moved = Timestamp::from_micros(first.as_micros() + by);
        assert!(moved.millis_since(now()).abs() < 60_000);
    }
}
