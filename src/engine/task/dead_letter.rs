//! Dead letters as records: the original whole, and why it could not be used.

use std::sync::Arc;

use rdkafka::message::{BorrowedHeaders, Header, OwnedHeaders};

use crate::engine::native;
use crate::engine::task::batch::Publication;
use crate::engine::task::intake::Raw;
use crate::record::dead_letter::{HEADER_PREFIX, Rejection, headers as reasons};
use crate::record::position::Position;
use crate::record::time::Timestamp;

/// Most bytes that a record adds to its key, value and headers.
pub const RECORD_OVERHEAD: usize = 128;
/// Most bytes that a header adds to its name and value.
const HEADER_OVERHEAD: usize = 10;

/// The dead letter of one input of a stage.
///
/// Where the topic would not take it (`bytes_max`), it goes without its value: its place in the log is in the headers,
/// and `__reflex.errors.value_bytes` says how much was left out.
pub fn letter(
    topic: &Arc<str>,
    raw: Raw<'_>,
    position: Position<'_>,
    stage: &str,
    at: Timestamp,
    rejection: &Rejection,
    bytes_max: usize,
) -> Publication {
    let mut headers = raw.headers.map(BorrowedHeaders::detach).unwrap_or_default();
    let header_bytes = raw.headers.map_or(0, header_bytes);
    let mut added = 0;
    let Position { topic: input, partition, offset } = position;
    for (name, value) in reasons(rejection, stage, input, partition, offset, at) {
        added += name.len() + value.len() + HEADER_OVERHEAD;
        headers = insert(headers, &name, &value);
    }
    let key = raw.key.map(<[u8]>::to_vec);
    let mut value = raw.value.map(<[u8]>::to_vec);
    let size = |value: &Option<Vec<u8>>| {
        key.as_ref().map_or(0, Vec::len) + value.as_ref().map_or(0, Vec::len) + header_bytes + added + RECORD_OVERHEAD
    };
    if size(&value) > bytes_max {
        let left_out = value.take().map_or(0, |value| value.len());
        headers = insert(headers, &format!("{HEADER_PREFIX}value_bytes"), &left_out.to_string());
    }
    Publication { topic: Arc::clone(topic), partition: None, key, value, headers: Some(headers) }
}

fn insert(headers: OwnedHeaders, name: &str, value: &str) -> OwnedHeaders {
    headers.insert(Header { key: name, value: Some(value) })
}

fn header_bytes(headers: &BorrowedHeaders) -> usize {
    native::headers(headers)
        .iter()
        .map(|(name, value)| name.len() + value.map_or(0, <[u8]>::len) + HEADER_OVERHEAD)
        .sum()
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Headers;

    use super::*;
    use crate::record::dead_letter::Code;

    fn letter_of(value: &[u8], bytes_max: usize) -> Publication {
        let headers = OwnedHeaders::new()
            .insert(Header { key: "traceparent", value: Some("00-1") })
            .insert(Header { key: "traceparent", value: Some("00-2") });
        let raw = Raw { key: Some(b"k"), value: Some(value), headers: Some(headers.as_borrowed()) };
        let position = Position { topic: "events", partition: 3, offset: 7 };
        let rejection = Rejection::new(Code::NotJson, "no JSON");
        letter(&Arc::from("events.dlq"), raw, position, "session", Timestamp::EPOCH, &rejection, bytes_max)
    }

    #[test]
    fn the_original_is_kept_whole_and_the_reason_added() {
        let letter = letter_of(b"{", 1000);
        assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (Some(&b"k"[..]), Some(&b"{"[..])));
        let headers = letter.headers.expect("headers");
        let read: Vec<(String, String)> = headers
            .iter()
            .map(|header| {
                (header.key.to_owned(), String::from_utf8_lossy(header.value.unwrap_or_default()).into_owned())
            })
            .collect();
        let expected = [
            ("traceparent", "00-1"),
            ("traceparent", "00-2"),
            ("__reflex.errors.stage", "session"),
            ("__reflex.errors.code", "not_json"),
            ("__reflex.errors.message", "no JSON"),
            ("__reflex.errors.topic", "events"),
            ("__reflex.errors.partition", "3"),
            ("__reflex.errors.offset", "7"),
            ("__reflex.errors.timestamp", "1970-01-01T00:00:00.000Z"),
        ];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_no_topic_takes_goes_without_its_value() {
        let letter = letter_of(&[b'x'; 5000], 2000);
        assert_eq!(letter.value, None);
        let headers = letter.headers.expect("headers");
        let last = headers.get(headers.count() - 1);
        assert_eq!((last.key, last.value), ("__reflex.errors.value_bytes", Some(&b"5000"[..])));
    }
}
