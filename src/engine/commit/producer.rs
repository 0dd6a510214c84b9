//! The transactional producer: one at a time under one id, with a count of what was delivered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Message, Timestamp as KafkaTimestamp};

use crate::engine::clock::local;
use crate::engine::cluster::client::{CALL_TIMEOUT, Logs, create, producer};
use crate::engine::commit::classifier::{Action, Call, Seen, classify};
use crate::engine::config::{Config, TopicNames};
use crate::engine::error::{EngineError, words};
use crate::engine::failpoint;
use crate::engine::native;
use crate::engine::patience::Patience;
use crate::engine::task::batch::Publication;
use crate::engine::task::place::{StageName, TaskId};
use crate::record::time::Timestamp;

/// A producer whose thread serves delivery reports.
pub type Transactional = ThreadedProducer<Deliveries>;

/// How long one wait for acknowledgements may take before the clock is looked at again.
const FLUSH_STEP: Duration = Duration::from_millis(100);
/// Aborts in a row that may fail before the producer is given up.
const ABORT_TRIES: usize = 3;

/// What delivery reports tell beside success; it outlives a producer.
#[derive(Debug)]
pub struct Reports {
    states: [String; 2],
    tapes: [String; 2],
    changelog_ends: Mutex<BTreeMap<TaskId, i64>>,
    broker_ahead_micros: AtomicI64,
    disrupted_at: Mutex<Option<Instant>>,
}

impl Reports {
    /// Nothing told yet.
    pub fn new(topics: &TopicNames) -> Self {
        Self {
            states: topics.states().map(str::to_owned),
            tapes: topics.tapes().map(str::to_owned),
            changelog_ends: Mutex::default(),
            broker_ahead_micros: AtomicI64::new(0),
            disrupted_at: Mutex::default(),
        }
    }

    fn note(&self, message: &BorrowedMessage<'_>) {
        let topic = message.topic();
        for (index, stage) in StageName::ALL.into_iter().enumerate() {
            if topic == self.states[index] {
                let task = TaskId { stage, partition: message.partition() };
                let mut ends = self.changelog_ends.lock().unwrap_or_else(PoisonError::into_inner);
                let end = ends.entry(task).or_default();
                *end = (*end).max(message.offset() + 1);
            } else if topic == self.tapes[index]
                && let KafkaTimestamp::LogAppendTime(millis) = message.timestamp()
            {
                let ahead = Timestamp::from_millis(millis).as_micros() - local().as_micros();
                self.broker_ahead_micros.store(ahead, Ordering::Relaxed);
            }
        }
    }

    /// Where the changelogs of tasks end behind what was delivered to them.
    pub fn changelog_ends(&self) -> BTreeMap<TaskId, i64> {
        self.changelog_ends.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A connection was lost, or is not to be had.
    pub fn disrupted(&self) {
        self.disrupted_at.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
    }

    /// Nothing is in doubt: what is lost from now on counts.
    pub fn settled(&self) {
        *self.disrupted_at.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// When a connection was lost first since [`Reports::settled`].
    pub fn disrupted_at(&self) -> Option<Instant> {
        *self.disrupted_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By how much the clock of the brokers is ahead of this machine's, as last seen.
    pub fn broker_ahead_micros(&self) -> i64 {
        self.broker_ahead_micros.load(Ordering::Relaxed)
    }
}

/// Counts delivery reports.
#[derive(Debug)]
pub struct Deliveries {
    reports: Arc<Reports>,
    delivered: AtomicU64,
    failed: AtomicU64,
    error: Mutex<Option<KafkaError>>,
    places: Mutex<Vec<Place>>,
}

/// Partition and offset of a record.
pub type Place = (i32, i64);

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        Logs::line(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure};
        if matches!(error.rdkafka_error_code(), Some(AllBrokersDown | BrokerTransportFailure)) {
            self.reports.disrupted();
        }
        Logs.error(error, reason);
    }
}

impl ProducerContext for Deliveries {
    /// Number of the record among those of its transaction.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        match result {
            Ok(message) => {
                self.reports.note(message);
                if let Some(place) = self.places.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
                    *place = (message.partition(), message.offset());
                }
                self.delivered.fetch_add(1, Ordering::Release);
            }
            Err((error, _)) => {
                let mut known = self.error.lock().unwrap_or_else(PoisonError::into_inner);
                // What is thrown away with a record that failed says nothing of the cause.
                if known.as_ref().is_none_or(is_consequence) {
                    *known = Some(error.clone());
                }
                drop(known);
                self.failed.fetch_add(1, Ordering::Release);
            }
        }
    }
}

/// Whether a record was only thrown away because of another one.
fn is_consequence(error: &KafkaError) -> bool {
    matches!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight))
}

impl Deliveries {
    /// No report yet.
    pub fn new(reports: &Arc<Reports>) -> Self {
        let (delivered, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { reports: Arc::clone(reports), delivered, failed, error: Mutex::default(), places: Mutex::default() }
    }

    /// Delivered since the producer was made.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Acquire)
    }

    /// So many records come next: forgets the failures and places of those before.
    pub fn begin(&self, records: usize) {
        self.failed.store(0, Ordering::Release);
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = vec![(0, 0); records];
    }

    /// Where the records went, once all are delivered.
    pub fn take_places(&self) -> Vec<Place> {
        std::mem::take(&mut *self.places.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The last failure since [`Deliveries::begin`].
    pub fn failure(&self) -> Option<KafkaError> {
        (self.failed.load(Ordering::Acquire) > 0)
            .then(|| self.error.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .flatten()
    }
}

/// Makes a producer and takes the id over: an open transaction of a predecessor is aborted, a late request fenced.
pub fn connect(config: &Config, reports: &Arc<Reports>, patience: &Patience) -> Result<Transactional, EngineError> {
    const DOING: &str = "taking over the transactional id";
    loop {
        let made: Transactional = create(&producer(config), Deliveries::new(reports))?;
        loop {
            let timeout = CALL_TIMEOUT.min(patience.left().max(Duration::from_millis(100)));
            let Err(error) = made.init_transactions(timeout) else { return Ok(made) };
            let seen = Seen::of(&error);
            if seen.is_not_permitted() {
                return Err(EngineError::kafka(DOING, &error));
            }
            patience.pause(DOING, &words(&error))?;
            if classify(Call::Init, seen) != Action::Again {
                break;
            }
        }
        discard(made);
    }
}

/// Destroys a producer without waiting: destroying may block on a broker that does not answer.
pub fn discard(producer: Transactional) {
    // Without a thread it is dropped here, which only takes longer.
    let _ = thread::Builder::new().name("discard".into()).spawn(move || drop(producer));
}

/// Asks a broker for its time, by a record that is never committed: its delivery report bears the broker's time.
pub fn measure_clock(producer: &Transactional, tape: &str) -> Result<(), KafkaError> {
    producer.begin_transaction()?;
    let probe = Publication {
        topic: Arc::from(tape),
        partition: Some(0),
        key: Some(b"clock".to_vec()),
        value: None,
        headers: None,
    };
    produce(producer, [&probe])?;
    if abort(producer) { Ok(()) } else { Err(KafkaError::MessageProduction(RDKafkaErrorCode::Fail)) }
}

/// Hands every record to the producer and waits until all are acknowledged.
///
/// Nothing is sent before all are handed over (they linger): the library sends a request a partition, one after the other
/// on one connection, and each costs a broker the better part of a millisecond, however small it is.
///
/// `commit_transaction` would wait too, but in steps of 100 ms: it polls a queue that the producer's own thread has
/// already emptied. So nothing may be in flight when it is called.
///
/// Gives where each went.
pub fn produce<'a>(
    producer: &Transactional,
    publications: impl IntoIterator<Item = &'a Publication, IntoIter: ExactSizeIterator>,
) -> Result<Vec<Place>, KafkaError> {
    let deadline = Instant::now() + CALL_TIMEOUT;
    let publications = publications.into_iter();
    let count = publications.len();
    producer.context().begin(count);
    let before = producer.context().delivered();
    for (number, publication) in publications.enumerate() {
        if number > 0 && number == count / 2 {
            failpoint::pass("mid_produce");
        }
        enqueue(producer, publication, number, deadline)?;
    }
    while !native::flush(producer, FLUSH_STEP) {
        if Instant::now() >= deadline {
            return Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut));
        }
    }
    if let Some(error) = producer.context().failure() {
        return Err(error);
    }
    let delivered = producer.context().delivered() - before;
    if delivered == count as u64 {
        Ok(producer.context().take_places())
    } else {
        Err(KafkaError::MessageProduction(RDKafkaErrorCode::Fail))
    }
}

fn enqueue(
    producer: &Transactional,
    publication: &Publication,
    number: usize,
    deadline: Instant,
) -> Result<(), KafkaError> {
    let mut record: BaseRecord<'_, [u8], [u8], usize> = BaseRecord::with_opaque_to(&publication.topic, number);
    if let Some(partition) = publication.partition {
        record = record.partition(partition);
    }
    if let Some(key) = &publication.key {
        record = record.key(key.as_slice());
    }
    if let Some(value) = &publication.value {
        record = record.payload(value.as_slice());
    }
    if let Some(headers) = &publication.headers {
        record = record.headers(headers.clone());
    }
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((error, back)) => {
                let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
                if !full || Instant::now() >= deadline {
                    return Err(error);
                }
                record = back;
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Aborts the open transaction; false when the producer has to be given up.
pub fn abort(producer: &Transactional) -> bool {
    let deadline = Instant::now() + CALL_TIMEOUT;
    let mut tries = 0;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Err(error) = producer.abort_transaction(left.max(Duration::from_millis(100))) else { return true };
        match classify(Call::Abort, Seen::of(&error)) {
            Action::Again if !left.is_zero() => {}
            Action::Abort if tries < ABORT_TRIES => tries += 1,
            _ => return false,
        }
    }
}
