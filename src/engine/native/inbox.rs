//! Records in batches, through a queue of the consumer's own making: half the price of one record at a time.
//!
//! The queues of the partitions are forwarded to one private queue before they are assigned; batches are taken from
//! that. Rebalances and errors of the group stay on the consumer's main queue, which is polled as ever. Batches from the
//! main queue would swallow the rebalances.

use std::ffi::{CStr, CString, c_int};
use std::ptr::{self, NonNull};
use std::thread;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::bindings;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedHeaders;
use rdkafka::types::RDKafkaRespErr;

/// Most records held at once: small enough that one look at the clock serves them all.
const HELD_MAX: usize = 256;

/// A consumer, its private queue, and the records taken from there and not used yet.
///
/// Fields are dropped in this order, which the safety of every block below relies on: records, queue, consumer.
pub struct Inbox<C: ConsumerContext> {
    held: Held,
    queue: Queue,
    consumer: BaseConsumer<C>,
}

impl<C: ConsumerContext> Inbox<C> {
    /// An inbox without partitions.
    #[allow(unsafe_code, reason = "rust-rdkafka has no queue of one's own")]
    pub fn new(consumer: BaseConsumer<C>) -> Result<Self, KafkaError> {
        // SAFETY: the client lives as long as `consumer`, which outlives the queue as a field of the same value.
        let queue = unsafe { bindings::rd_kafka_queue_new(consumer.client().native_ptr()) };
        let queue = NonNull::new(queue).ok_or_else(|| KafkaError::ClientCreation("no queue".into()))?;
        Ok(Self { held: Held::default(), queue: Queue(queue), consumer })
    }

    /// The consumer, for everything but records.
    pub fn consumer(&self) -> &BaseConsumer<C> {
        &self.consumer
    }

    /// Directs what these partitions will deliver here. To be called before each `assign` of them.
    #[allow(unsafe_code, reason = "rust-rdkafka forwards to no other queue")]
    pub fn forward(&self, partitions: &TopicPartitionList) -> Result<(), KafkaError> {
        let unknown = || KafkaError::MessageConsumption(RDKafkaErrorCode::UnknownPartition);
        for element in partitions.elements() {
            let topic = CString::new(element.topic()).map_err(|_| unknown())?;
            // SAFETY: client, topic and our queue are alive; what `get_partition` gives is one reference, given back by
            // the drop of `partition`. Forwarding makes the partition hold a reference of its own to our queue.
            unsafe {
                let client = self.consumer.client().native_ptr();
                let partition = bindings::rd_kafka_queue_get_partition(client, topic.as_ptr(), element.partition());
                let partition = Queue(NonNull::new(partition).ok_or_else(unknown)?);
                bindings::rd_kafka_queue_forward(partition.0.as_ptr(), self.queue.0.as_ptr());
            }
        }
        Ok(())
    }

    /// Takes what has been fetched, waiting for the first record; how many are held now.
    pub fn fill(&mut self, wait: Duration) -> usize {
        if self.held.is_empty() {
            self.held.clear();
            self.take(0, HELD_MAX);
            if self.held.is_empty() && !wait.is_zero() {
                match c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX) {
                    // The library counts in milliseconds and would come back at once.
                    0 => thread::sleep(wait),
                    wait_ms => self.take(wait_ms, 1),
                }
                self.take(0, HELD_MAX - self.held.len());
            }
        }
        self.held.len()
    }

    /// Appends up to `count` records. The library waits until they are complete or the time is over.
    #[allow(unsafe_code, reason = "rust-rdkafka takes one record at a time")]
    fn take(&mut self, wait_ms: c_int, count: usize) {
        let place = &mut self.held.records;
        let count = count.min(HELD_MAX - place.len());
        place.reserve(HELD_MAX);
        // SAFETY: there is room for `count` pointers behind the last one; the library writes as many as it says, each of
        // a record that is ours to destroy once. A pointer of ours is never null, so the types agree.
        unsafe {
            let end = place.as_mut_ptr().add(place.len()).cast::<*mut bindings::rd_kafka_message_t>();
            let taken = bindings::rd_kafka_consume_batch_queue(self.queue.0.as_ptr(), wait_ms, end, count);
            // Negative: the arguments were wrong, nothing was written.
            place.set_len(place.len() + usize::try_from(taken).unwrap_or(0));
        }
    }

    /// The next record held, or the error that a partition has. It is given back with the call after this one.
    pub fn next(&mut self) -> Option<Result<Received<'_>, KafkaError>> {
        let record = self.held.next()?;
        let error = record.error();
        Some(if error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            Ok(record)
        } else {
            Err(KafkaError::MessageConsumption(error.into()))
        })
    }

    /// Throws away what is held: records of partitions that were given up must not be met again after they came back.
    pub fn discard(&mut self) {
        self.held.clear();
    }
}

/// One reference to a queue.
struct Queue(NonNull<bindings::rd_kafka_queue_t>);

// SAFETY: the library's queues may be used from any thread.
#[allow(unsafe_code, reason = "a pointer into a thread-safe library")]
unsafe impl Send for Queue {}

impl Drop for Queue {
    #[allow(unsafe_code, reason = "the reference is ours")]
    fn drop(&mut self) {
        // SAFETY: the reference is given back once; the client outlives it.
        unsafe { bindings::rd_kafka_queue_destroy(self.0.as_ptr()) }
    }
}

/// Records in order: those before `used` are destroyed, except the one before it, which may be in use.
#[derive(Default)]
struct Held {
    records: Vec<NonNull<bindings::rd_kafka_message_t>>,
    used: usize,
    destroyed: usize,
}

// SAFETY: a record may be read and destroyed on any thread.
#[allow(unsafe_code, reason = "pointers into a thread-safe library")]
unsafe impl Send for Held {}

impl Held {
    fn len(&self) -> usize {
        self.records.len() - self.used
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[allow(unsafe_code, reason = "the records are pointers")]
    fn next(&mut self) -> Option<Received<'_>> {
        self.destroy(self.used);
        let record = *self.records.get(self.used)?;
        self.used += 1;
        // SAFETY: alive until `destroyed` passes it, which needs `&mut self` and thus the end of this borrow.
        Some(Received { native: unsafe { record.as_ref() } })
    }

    fn clear(&mut self) {
        self.destroy(self.records.len());
        self.records.clear();
        (self.used, self.destroyed) = (0, 0);
    }

    #[allow(unsafe_code, reason = "the records are ours to destroy")]
    fn destroy(&mut self, end: usize) {
        for record in self.records.iter().take(end).skip(self.destroyed) {
            // SAFETY: each record is destroyed once, because `destroyed` only grows until all are forgotten.
            unsafe { bindings::rd_kafka_message_destroy(record.as_ptr()) }
        }
        self.destroyed = self.destroyed.max(end);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}

/// One record, borrowed from the library.
#[derive(Clone, Copy)]
pub struct Received<'a> {
    native: &'a bindings::rd_kafka_message_t,
}

impl<'a> Received<'a> {
    fn error(self) -> RDKafkaRespErr {
        self.native.err
    }

    /// Partition.
    pub fn partition(self) -> i32 {
        self.native.partition
    }

    /// Offset.
    pub fn offset(self) -> i64 {
        self.native.offset
    }

    /// Whether the record is of this topic.
    #[allow(unsafe_code, reason = "the name is a C string")]
    pub fn is_of(self, topic: &str) -> bool {
        // SAFETY: the topic lives as long as the record, and its name as long as the topic.
        let name = unsafe { CStr::from_ptr(bindings::rd_kafka_topic_name(self.native.rkt)) };
        name.to_bytes() == topic.as_bytes()
    }

    /// Key.
    pub fn key(self) -> Option<&'a [u8]> {
        bytes(self.native.key.cast(), self.native.key_len)
    }

    /// Value.
    pub fn value(self) -> Option<&'a [u8]> {
        bytes(self.native.payload.cast(), self.native.len)
    }

    /// Time in milliseconds, where the record has one.
    #[allow(unsafe_code, reason = "the time is behind a call")]
    pub fn timestamp_millis(self) -> Option<i64> {
        // SAFETY: the record is alive; the kind of time may stay untold.
        let millis = unsafe { bindings::rd_kafka_message_timestamp(self.native, ptr::null_mut()) };
        (millis >= 0).then_some(millis)
    }

    /// Headers, where there are any.
    #[allow(unsafe_code, reason = "the headers are behind a call")]
    pub fn headers(self) -> Option<&'a BorrowedHeaders> {
        let mut headers = ptr::null_mut();
        // SAFETY: the place is written before it is read, which the return value tells. The headers live as long as the
        // record; a `BorrowedHeaders` is librdkafka's own pointer under another type (as in `headers`).
        unsafe {
            let answer = bindings::rd_kafka_message_headers(self.native, &raw mut headers);
            let there = answer == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR && !headers.is_null();
            there.then(|| &*headers.cast::<BorrowedHeaders>())
        }
    }
}

#[allow(unsafe_code, reason = "key and value are pointers and lengths")]
fn bytes<'a>(start: *const u8, len: usize) -> Option<&'a [u8]> {
    // SAFETY: both come from a record that the caller borrows for `'a`.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, len) })
}
