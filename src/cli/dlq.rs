//! `reflex dlq list | show | redrive`: what could not be used, why, and back to its input once that is mended.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Subcommand;
use serde_json::{Value, json};

use crate::cli::decide::operator;
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::{known, unwritable};
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::cli::table::{Table, clean, write_values};
use crate::engine::TopicNames;
use crate::engine::config::dead_letters_of;
use crate::engine::operator::redrive::{Letter, letters, redrive};
use crate::record::dead_letter::Code;
use crate::record::time::Timestamp;

/// Most bytes of a value that are shown; the rest is counted.
const SHOWN_BYTES_MAX: usize = 65_536;

/// Most letters that `list` prints where nothing else is said, the latest.
const LISTED_MAX: usize = 100;

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Which there are, and why; no values.
    List(Select),
    /// One with its headers; key and values of the original are masked.
    Show {
        /// TOPIC/PARTITION/OFFSET, as `list` prints it
        place: String,
        /// Key, header values and value of the original as they are: they may hold anything
        #[arg(long)]
        raw: bool,
    },
    /// Send letters to their inputs again, each once; without --execute it only says which.
    Redrive(Redrive),
}

/// Which letters.
#[derive(Debug, clap::Args)]
pub struct Select {
    /// With this code, as `list` prints it
    #[arg(long)]
    code: Option<String>,
    /// On this topic: its name, or that of the input
    #[arg(long)]
    topic: Option<String>,
    /// Written since this time (RFC 3339), or this long ago (2h)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// At most so many, the latest [default: `list` 100, `redrive` all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

/// Arguments of `redrive`.
#[derive(Debug, clap::Args)]
pub struct Redrive {
    /// TOPIC/PARTITION/OFFSET, as `list` prints it; none: those of the filters, of which one is needed
    places: Vec<String>,
    #[command(flatten)]
    select: Select,
    /// All there are
    #[arg(long)]
    all: bool,
    /// Do it
    #[arg(long)]
    execute: bool,
}

impl Select {
    /// Refuses what no letter of this release can have.
    fn check(&self, topics: &TopicNames) -> Result<(), Failure> {
        known("--code", self.code.as_deref(), Code::WORDS)?;
        let names: Vec<String> =
            topics.inputs().into_iter().flat_map(|input| [input.to_owned(), dead_letters_of(input)]).collect();
        known("--topic", self.topic.as_deref(), &names.iter().map(String::as_str).collect::<Vec<_>>())?;
        self.since.as_deref().map_or(Ok(()), |text| since(text).map(|_| ()))
    }

    fn names_something(&self) -> bool {
        self.code.is_some() || self.topic.is_some() || self.since.is_some()
    }

    /// The letters it means, the latest where there are more than the limit.
    fn of<'a>(&self, letters: &'a [Letter], limit: usize) -> Result<Vec<&'a Letter>, Failure> {
        let since = self.since.as_deref().map(since).transpose()?;
        let admits = |letter: &&Letter| {
            self.code.as_ref().is_none_or(|code| letter.error("code").as_ref() == Some(code))
                && self
                    .topic
                    .as_ref()
                    .is_none_or(|topic| letter.topic == *topic || letter.topic == dead_letters_of(topic))
                && since.is_none_or(|since| letter.record.at_ms.is_some_and(|at| at >= since))
        };
        let mut found: Vec<&Letter> = letters.iter().filter(admits).collect();
        found.sort_by_key(|letter| letter.record.at_ms);
        let more = found.len().saturating_sub(self.limit.map_or(limit, |limit| limit as usize));
        Ok(found.split_off(more))
    }
}

/// Milliseconds of a time, or of so long ago.
fn since(text: &str) -> Result<i64, Failure> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_micros() / 1000);
    }
    let ago = humantime::parse_duration(text).map_err(|_| {
        let message = format!("--since {}: neither a time (RFC 3339) nor a duration (2h)", clean(text));
        Failure::new(Exit::Usage, message)
    })?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(i64::try_from(now.saturating_sub(ago).as_millis()).unwrap_or(i64::MAX))
}

/// Lists, shows or sends again.
///
/// # Errors
/// Exit 64 for a redrive of nothing in particular, a code or a topic that there is not, 66 for a letter that is not there, 69
/// without broker or topic, 75 where a transaction did not go through.
pub fn run(verb: &Verb, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    if let Verb::Redrive(args) = verb
        && args.places.is_empty()
        && !args.all
        && !args.select.names_something()
    {
        return Err(Failure::new(Exit::Usage, "which letters? Name their places, a filter, or --all"));
    }
    if let Verb::List(select) | Verb::Redrive(Redrive { select, .. }) = verb {
        select.check(&resolved.settings.topics.names())?;
    }
    let config = operator(resolved)?;
    let all = letters(&config)?;
    let output = resolved.settings.output;
    match verb {
        Verb::List(select) => list(&select.of(&all, LISTED_MAX)?, output, out),
        Verb::Show { place, raw } => {
            let letter = find(&all, place)?;
            serde_json::to_writer_pretty(&mut *out, &whole(letter, *raw))
                .map_err(Into::into)
                .and_then(|()| writeln!(out))
                .map_err(unwritable)?;
            Ok(Exit::Done)
        }
        Verb::Redrive(args) => {
            let chosen: Vec<&Letter> = if args.places.is_empty() {
                args.select.of(&all, usize::MAX)?
            } else {
                args.places.iter().map(|place| find(&all, place)).collect::<Result<_, _>>()?
            };
            let wanted = chosen.iter().filter(|letter| letter.obstacle().is_none()).map(|letter| letter.place());
            let sent = if args.execute { redrive(&config, &wanted.collect())? } else { Vec::new() };
            report(&chosen, args.execute.then_some(&sent), output, out)
        }
    }
}

fn find<'a>(all: &'a [Letter], place: &str) -> Result<&'a Letter, Failure> {
    all.iter().find(|letter| letter.place() == place).ok_or_else(|| {
        let message = format!("{}: no such dead letter; `reflex dlq list` shows their places", clean(place));
        Failure::new(Exit::NoInput, message)
    })
}

fn at(letter: &Letter) -> String {
    letter.record.at_ms.map(|millis| Timestamp::from_millis(millis).to_string()).unwrap_or_default()
}

fn origin(letter: &Letter) -> String {
    let part = |name: &str| letter.error(name).unwrap_or_else(|| "?".to_owned());
    format!("{}/{}/{}", part("topic"), part("partition"), part("offset"))
}

fn list(letters: &[&Letter], output: Output, out: &mut dyn Write) -> Result<Exit, Failure> {
    let word = |letter: &Letter, name: &str| letter.error(name).unwrap_or_default();
    let written = if output == Output::Table {
        let mut table = Table::new(&["place", "at", "code", "message", "origin", "redriven"]);
        for letter in letters {
            let redriven = if letter.is_redriven { "yes" } else { "" };
            let (code, message) = (word(letter, "code"), word(letter, "message"));
            table.row(&[&letter.place(), &at(letter), &code, &message, &origin(letter), redriven]);
        }
        table.write(out)
    } else {
        let one = |letter: &&Letter| {
            json!({
                "place": letter.place(), "at": at(letter), "stage": word(letter, "stage"), "code": word(letter, "code"),
                "message": word(letter, "message"), "origin": origin(letter), "redriven": letter.is_redriven,
                "obstacle": letter.obstacle(),
            })
        };
        write_values(output, &letters.iter().map(one).collect::<Vec<_>>(), out)
    };
    written.map_err(unwritable)?;
    Ok(Exit::Done)
}

/// A letter with everything it has; what came from outside is masked unless it is asked for.
fn whole(letter: &Letter, raw: bool) -> Value {
    let shown = |bytes: Option<&Vec<u8>>| match bytes {
        None => Value::Null,
        Some(bytes) if raw => in_full(bytes),
        Some(bytes) => json!({ "bytes": bytes.len() }),
    };
    let headers = letter
        .original_headers()
        .map(|(name, value)| json!({ "name": clean(&String::from_utf8_lossy(name)), "value": shown(value.as_ref()) }));
    let error = |name: &str| letter.error(name);
    json!({
        "place": letter.place(), "at": at(letter), "redriven": letter.is_redriven, "obstacle": letter.obstacle(),
        "errors": {
            "stage": error("stage"), "code": error("code"), "message": error("message"), "topic": error("topic"),
            "partition": error("partition"), "offset": error("offset"), "timestamp": error("timestamp"),
            "value_bytes": error("value_bytes"),
        },
        "key": shown(letter.record.key.as_ref()), "headers": headers.collect::<Vec<_>>(),
        "value": shown(letter.record.value.as_ref()),
    })
}

/// Text where it is text, else hexadecimal digits. JSON escapes what a terminal would act on, but for what turns the
/// direction of reading: such text is shown in hexadecimal digits too.
fn in_full(bytes: &[u8]) -> Value {
    let head = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let lines = |text: &str| text.replace(['\n', '\t', '\r'], " ");
    match std::str::from_utf8(head) {
        Ok(text) if clean(text) == lines(text) => json!({ "bytes": bytes.len(), "utf8": text }),
        _ => {
            let hex: Vec<String> = head.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "bytes": bytes.len(), "hex": hex.concat() })
        }
    }
}

/// What became, or would become, of each letter.
fn report(
    chosen: &[&Letter],
    sent: Option<&Vec<String>>,
    output: Output,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let sent_places: Option<BTreeSet<&String>> = sent.map(|sent| sent.iter().collect());
    let outcome = |letter: &Letter| match (letter.obstacle(), &sent_places) {
        (Some(obstacle), _) => format!("not sent: {obstacle}"),
        (None, None) => "would be sent".to_owned(),
        (None, Some(sent)) if sent.contains(&letter.place()) => "sent".to_owned(),
        (None, Some(_)) => "not sent: another process sent it, or it is gone".to_owned(),
    };
    let written = if output == Output::Table {
        let mut table = Table::new(&["place", "code", "outcome"]);
        for letter in chosen {
            table.row(&[&letter.place(), &letter.error("code").unwrap_or_default(), &outcome(letter)]);
        }
        table.write(out).and_then(|()| match sent {
            Some(_) => Ok(()),
            None => writeln!(out, "nothing was sent: --execute does it"),
        })
    } else {
        let one = |letter: &&Letter| json!({ "place": letter.place(), "code": letter.error("code"), "outcome": outcome(letter) });
        write_values(output, &chosen.iter().map(one).collect::<Vec<_>>(), out)
    };
    written.map_err(unwritable)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::operator::scan::Record;

    fn letter(value: &[u8]) -> Letter {
        let headers = vec![(b"authorization".to_vec(), Some(b"hunter2".to_vec()))];
        let record = Record { value: Some(value.to_vec()), key: Some(b"k".to_vec()), headers, ..Record::default() };
        Letter { topic: "events.dlq".into(), record, is_redriven: false }
    }

    #[test]
    fn what_came_from_outside_is_masked_unless_asked_for() {
        let masked = whole(&letter(b"{\"secret\":1}"), false).to_string();
        assert!(!masked.contains("hunter2") && !masked.contains("secret"), "{masked}");
        let raw = whole(&letter(b"{\"secret\":1}"), true);
        assert_eq!(raw["value"]["utf8"], "{\"secret\":1}");
        assert_eq!(raw["headers"][0]["value"]["utf8"], "hunter2");
        assert_eq!(whole(&letter(&[0xff, 0x00]), true)["value"]["hex"], "ff00");
        assert!(whole(&letter("\u{202e}a".as_bytes()), true)["value"]["hex"].is_string());
        assert!(whole(&letter("\u{1b}[2J".as_bytes()), true)["value"]["hex"].is_string());
        assert_eq!(whole(&letter(&vec![b'x'; 100_000]), true)["value"]["bytes"], 100_000);
    }

    #[test]
    fn a_code_that_there_is_not_is_refused_with_those_there_are() {
        let select = |code: &str| Select { code: Some(code.into()), topic: None, since: None, limit: None };
        let failure = select("nonsense").check(&TopicNames::default()).expect_err("refused");
        assert_eq!(failure.exit, Exit::Usage);
        assert!(
            failure.message.starts_with("--code nonsense: no such code; there are not_json, "),
            "{}",
            failure.message
        );
        for code in Code::WORDS {
            assert!(select(code).check(&TopicNames::default()).is_ok(), "{code}");
        }
    }

    #[test]
    fn times_are_absolute_or_ago() {
        assert_eq!(since("1970-01-01T00:00:01Z").expect("a time"), 1000);
        assert!(since("2h").expect("a duration") > 0);
        assert_eq!(since("yesterday\u{1b}").expect_err("neither").exit, Exit::Usage);
    }
}
