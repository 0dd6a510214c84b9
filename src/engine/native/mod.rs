//! The one place with `unsafe`: what librdkafka knows and rust-rdkafka does not show, or shows by panicking.

pub mod describe;
pub mod inbox;

use std::ffi::CStr;
use std::ptr;
use std::time::Duration;

use rdkafka::bindings;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::message::BorrowedHeaders;
use rdkafka::producer::{Producer, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaRespErr;

/// Generation of the consumer's group membership; none while it is no member.
///
/// A commit without a generation is not checked by the broker: a member that has been replaced could commit. Hence no
/// transaction is committed unless this is there.
#[allow(unsafe_code, reason = "rust-rdkafka keeps the generation to itself")]
pub fn generation<C: ConsumerContext>(consumer: &BaseConsumer<C>) -> Option<i32> {
    let client = consumer.client().native_ptr();
    // SAFETY: `client` is a live client, borrowed for this call. The metadata, if any, is owned by the caller of
    // `rd_kafka_consumer_group_metadata`, read once, and destroyed exactly once.
    let generation = unsafe {
        let metadata = bindings::rd_kafka_consumer_group_metadata(client);
        if metadata.is_null() {
            return None;
        }
        let generation = bindings::rd_kafka_consumer_group_metadata_generation_id(metadata);
        bindings::rd_kafka_consumer_group_metadata_destroy(metadata);
        generation
    };
    (generation >= 0).then_some(generation)
}

/// Sends what lingers and waits until nothing is in flight, for so long at most; whether nothing is.
///
/// rust-rdkafka's `flush` ends lingering for an instant only and then waits in steps. This one asks the library to wait:
/// until it returns nothing lingers, and it returns with the last delivery report. Those must be served by another thread.
#[allow(unsafe_code, reason = "rust-rdkafka never lets the library wait")]
pub fn flush<C: ProducerContext + 'static>(producer: &ThreadedProducer<C>, patience: Duration) -> bool {
    let millis = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the client is live, borrowed for this call, which neither keeps the pointer nor calls back into Rust: this
    // thread is given no events, since delivery reports go to the thread of the producer.
    let answer = unsafe { bindings::rd_kafka_flush(producer.client().native_ptr(), millis) };
    answer == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
}

/// One header: name and value.
pub type HeaderBytes<'a> = (&'a [u8], Option<&'a [u8]>);

/// Headers in order, names as bytes: rust-rdkafka panics on a name that is not UTF-8, and a record must not be able to
/// end the process.
#[allow(unsafe_code, reason = "rust-rdkafka panics on names that are not UTF-8")]
pub fn headers(headers: &BorrowedHeaders) -> Vec<HeaderBytes<'_>> {
    // A `&BorrowedHeaders` is librdkafka's own pointer under another type (rust-rdkafka `BorrowedHeaders::as_native_ptr`).
    let native = ptr::from_ref(headers).cast::<bindings::rd_kafka_headers_t>();
    let mut found = Vec::new();
    for index in 0.. {
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        // SAFETY: `native` lives as long as `headers`; the three places are written before they are read, which the
        // return value tells; name and value live as long as the headers, which are never changed while borrowed.
        unsafe {
            let answer = bindings::rd_kafka_header_get_all(native, index, &raw mut name, &raw mut value, &raw mut size);
            if answer != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                break;
            }
            let name = CStr::from_ptr(name).to_bytes();
            let value = (!value.is_null()).then(|| std::slice::from_raw_parts(value.cast::<u8>(), size));
            found.push((name, value));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rdkafka::message::{Header, OwnedHeaders};

    use super::*;

    #[test]
    fn headers_come_in_order_with_empty_and_null_values() {
        let owned = OwnedHeaders::new()
            .insert(Header { key: "a", value: Some("1") })
            .insert(Header { key: "a", value: Some("") })
            .insert(Header::<&str> { key: "b", value: None });
        let expected: [HeaderBytes<'_>; 3] = [(b"a", Some(b"1")), (b"a", Some(b"")), (b"b", None)];
        assert_eq!(headers(owned.as_borrowed()), expected);
    }
}
