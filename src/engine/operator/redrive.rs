//! Dead letters read back, and sent to their inputs again, each once.
//!
//! A letter that goes back leaves a mark on the dead-letter topic in the same transaction: an empty record with the header
//! `__reflex.redriven` and the letter's place. One process at a time has the transactional id, and looks for marks after it
//! took it. So a letter is sent again once, whoever asks and however often; its mark outlives it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rdkafka::message::{Header, OwnedHeaders};

use crate::engine::cluster::acls::redrive_id;
use crate::engine::config::{Config, dead_letters_of};
use crate::engine::error::EngineError;
use crate::engine::operator::once::Once;
use crate::engine::operator::scan::{Record, bounds, scan};
use crate::engine::task::batch::Publication;
use crate::record::dead_letter::HEADER_PREFIX;

/// What all headers of this program begin with: they do not go back.
const OWN_PREFIX: &str = "__reflex.";
/// Where a record that was sent again came from: `TOPIC/PARTITION/OFFSET` of the letter.
pub const REDRIVEN: &str = "__reflex.redriven";
/// Most letters of one transaction; the rest follows in others.
pub const LETTERS_MAX: usize = 1000;
/// Most bytes of one transaction.
const BYTES_MAX: usize = 32 << 20;

/// One dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Its topic.
    pub topic: String,
    /// The record.
    pub record: Record,
    /// Whether it was sent again already.
    pub is_redriven: bool,
}

impl Letter {
    /// `TOPIC/PARTITION/OFFSET`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}/{}/{}", self.topic, self.record.partition, self.record.offset)
    }

    /// What its error header of this name says.
    #[must_use]
    pub fn error(&self, name: &str) -> Option<String> {
        self.record.header(&format!("{HEADER_PREFIX}{name}"))
    }

    /// The original's headers.
    pub fn original_headers(&self) -> impl Iterator<Item = &(Vec<u8>, Option<Vec<u8>>)> {
        self.record.headers.iter().filter(|(name, _)| !name.starts_with(OWN_PREFIX.as_bytes()))
    }

    /// Why it cannot go back, where it cannot.
    #[must_use]
    pub fn obstacle(&self) -> Option<&'static str> {
        if self.is_redriven {
            Some("it was sent again already")
        } else if self.error("value_bytes").is_some() {
            Some("its value was too large for the dead-letter topic and is not in it")
        } else if self.original_headers().any(|(name, _)| std::str::from_utf8(name).is_err() || name.contains(&0)) {
            Some("a header has a name that is not UTF-8")
        } else {
            None
        }
    }

    /// The original as it goes back to `input`, and the mark that it did.
    fn publications(&self, input: &Arc<str>, partitions: i32) -> [Publication; 2] {
        let place = self.place();
        let redriven = || Header { key: REDRIVEN, value: Some(place.as_str()) };
        let original = self.original_headers().fold(OwnedHeaders::new(), |headers, (name, value)| {
            // Names that are no text were an obstacle.
            let key = std::str::from_utf8(name).unwrap_or_default();
            headers.insert(Header { key, value: value.as_deref() })
        });
        let has_key = self.record.key.as_ref().is_some_and(|key| !key.is_empty());
        // Without a key it goes to where it was, if that is still there.
        let was = self.error("partition").and_then(|text| text.parse().ok());
        let partition = was.filter(|partition| !has_key && (0..partitions).contains(partition));
        let back = Publication {
            topic: Arc::clone(input),
            partition,
            key: self.record.key.clone(),
            value: self.record.value.clone(),
            headers: Some(original.insert(redriven())),
        };
        let mark = Publication {
            topic: Arc::from(self.topic.as_str()),
            partition: Some(self.record.partition),
            key: self.record.key.clone(),
            value: None,
            headers: Some(OwnedHeaders::new().insert(redriven())),
        };
        [back, mark]
    }
}

/// Every letter on the dead-letter topics, in order of topic, partition and offset.
///
/// # Errors
/// A topic does not exist, or no broker answers.
pub fn letters(config: &Config) -> Result<Vec<Letter>, EngineError> {
    let mut all = Vec::new();
    for topic in config.topics.inputs().map(dead_letters_of) {
        let (mut letters, mut marks) = (Vec::new(), BTreeSet::new());
        scan(config, &topic, &mut |record| match mark(&record) {
            Some(place) => drop(marks.insert(place)),
            None => letters.push(Letter { topic: topic.clone(), record, is_redriven: false }),
        })?;
        for letter in &mut letters {
            letter.is_redriven = marks.contains(&letter.place());
        }
        letters.sort_by_key(|letter| (letter.record.partition, letter.record.offset));
        all.append(&mut letters);
    }
    Ok(all)
}

/// The place a mark speaks of. A letter that was sent again and failed again has that header too, and errors beside it.
fn mark(record: &Record) -> Option<String> {
    let has_errors = record.headers.iter().any(|(name, _)| name.starts_with(HEADER_PREFIX.as_bytes()));
    record.header(REDRIVEN).filter(|_| !has_errors && record.value.is_none())
}

/// Sends letters of these places to their inputs again, in transactions of [`LETTERS_MAX`]; gives those it sent.
///
/// # Errors
/// A topic does not exist, no broker answers, or a transaction did not go through: what the ones before it sent is marked.
pub fn redrive(config: &Config, places: &BTreeSet<String>) -> Result<Vec<String>, EngineError> {
    let mut sent = Vec::new();
    loop {
        // The id first, then the marks: what another process sent until now is seen, and it sends nothing more.
        let once = Once::take(config, &redrive_id(&config.group))?;
        let found = letters(config)?;
        let wanted: Vec<&Letter> = found
            .iter()
            .filter(|letter| places.contains(&letter.place()) && letter.obstacle().is_none())
            .take(LETTERS_MAX)
            .collect();
        if wanted.is_empty() {
            once.give_up();
            return Ok(sent);
        }
        let inputs = inputs(config)?;
        let (mut publications, mut bytes, mut done) = (Vec::new(), 0, Vec::new());
        for letter in wanted {
            let Some((input, partitions)) = inputs.get(letter.topic.as_str()) else { continue };
            publications.extend(letter.publications(input, *partitions));
            done.push(letter.place());
            bytes += letter.record.value.as_ref().map_or(0, Vec::len);
            if bytes > BYTES_MAX {
                break;
            }
        }
        once.write(&publications)?;
        sent.append(&mut done);
    }
}

/// Inputs and how many partitions they have, by their dead-letter topics. Where a letter goes is decided by the topic it
/// lies on, not by what its headers say.
fn inputs(config: &Config) -> Result<BTreeMap<String, (Arc<str>, i32)>, EngineError> {
    let mut inputs = BTreeMap::new();
    for input in config.topics.inputs() {
        let partitions = i32::try_from(bounds(config, input)?.len()).unwrap_or(i32::MAX);
        inputs.insert(dead_letters_of(input), (Arc::from(input), partitions));
    }
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Headers;

    use super::*;

    fn letter(key: Option<&str>, more: &[(&str, &str)]) -> Letter {
        let headers =
            [("traceparent", "00-1"), ("__reflex.errors.code", "not_json"), ("__reflex.errors.partition", "2")];
        let headers = headers.iter().chain(more);
        let record = Record {
            partition: 1,
            offset: 7,
            at_ms: Some(0),
            key: key.map(|key| key.as_bytes().to_vec()),
            value: Some(b"{".to_vec()),
            headers: headers.map(|(name, value)| (name.as_bytes().to_vec(), Some(value.as_bytes().to_vec()))).collect(),
        };
        Letter { topic: "events.dlq".into(), record, is_redriven: false }
    }

    fn headers_of(publication: &Publication) -> Vec<(String, String)> {
        let headers = publication.headers.as_ref().expect("headers");
        let text = |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
        headers.iter().map(|header| (header.key.to_owned(), text(header.value))).collect()
    }

    #[test]
    fn the_original_goes_back_without_our_headers_and_leaves_a_mark() {
        let letter = letter(Some("k"), &[(REDRIVEN, "events.dlq/0/1")]);
        let [back, mark] = letter.publications(&Arc::from("events"), 3);
        assert_eq!((&*back.topic, back.partition, back.value.as_deref()), ("events", None, Some(&b"{"[..])));
        let redriven = (REDRIVEN.to_owned(), "events.dlq/1/7".to_owned());
        assert_eq!(headers_of(&back), [("traceparent".to_owned(), "00-1".to_owned()), redriven.clone()]);
        assert_eq!((&*mark.topic, mark.partition, mark.value.is_none()), ("events.dlq", Some(1), true));
        assert_eq!(headers_of(&mark), [redriven]);
    }

    #[test]
    fn without_a_key_it_goes_to_its_partition() {
        let partition = |key, partitions| letter(key, &[]).publications(&Arc::from("events"), partitions)[0].partition;
        assert_eq!((partition(None, 3), partition(Some(""), 3)), (Some(2), Some(2)));
        assert_eq!((partition(None, 2), partition(Some("k"), 3)), (None, None));
    }

    #[test]
    fn what_cannot_go_back_says_why_and_marks_are_no_letters() {
        assert_eq!(letter(None, &[]).obstacle(), None);
        assert!(letter(None, &[("__reflex.errors.value_bytes", "9")]).obstacle().expect("one").contains("too large"));
        let mut odd = letter(None, &[]);
        odd.record.headers.push((vec![0xff], None));
        assert!(odd.obstacle().expect("one").contains("UTF-8"));
        assert_eq!(Letter { is_redriven: true, ..letter(None, &[]) }.obstacle(), Some("it was sent again already"));
        let mut failed_again = letter(None, &[(REDRIVEN, "x")]).record;
        assert_eq!(mark(&failed_again), None);
        failed_again.value = None;
        assert_eq!(mark(&failed_again), None, "a dead letter without a value is a letter");
        failed_again.headers.retain(|(name, _)| name == REDRIVEN.as_bytes());
        assert_eq!(mark(&failed_again).as_deref(), Some("x"));
    }
}
