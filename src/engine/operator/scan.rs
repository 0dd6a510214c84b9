//! A topic read from its beginning to its end, for verbs that look something up: no group, nothing committed.
//!
//! The end is that of writers, open transactions included; it is reached by the reader's position, never by its messages
//! (the last record may be a marker). A transaction of a dead process holds the reader up for 20 s at most.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::engine::cluster::admin::Admin;
use crate::engine::cluster::client::{Logs, create, ends, reader};
use crate::engine::cluster::ends::bounds_of;
use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::native;

/// Longest wait without progress: an open transaction of a dead process is aborted before.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
const DOING: &str = "reading a topic";

/// A name and a value as bytes.
pub type OwnedHeader = (Vec<u8>, Option<Vec<u8>>);

/// One record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
    /// Time in milliseconds, where it has one.
    pub at_ms: Option<i64>,
    /// Key.
    pub key: Option<Vec<u8>>,
    /// Value.
    pub value: Option<Vec<u8>>,
    /// Headers in order; a name may stand several times, and be no text.
    pub headers: Vec<OwnedHeader>,
}

impl Record {
    /// The last header of this name, as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().rev().find(|(found, _)| found == name.as_bytes())?;
        Some(String::from_utf8_lossy(value.as_deref()?).into_owned())
    }

    pub(in crate::engine) fn of(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().map(native::headers).unwrap_or_default();
        Self {
            partition: message.partition(),
            offset: message.offset(),
            at_ms: message.timestamp().to_millis(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.into_iter().map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec))).collect(),
        }
    }
}

/// Where the partitions of a topic begin and end.
pub type Bounds = BTreeMap<i32, (i64, i64)>;

/// First and next offset of each partition, open transactions included.
///
/// # Errors
/// The topic does not exist, or no broker answers.
pub fn bounds(config: &Config, topic: &str) -> Result<Bounds, EngineError> {
    let admin = Admin::new(&config.cluster, config.broker_timeout)?;
    let name = topic.to_owned();
    let found = admin.existing(std::slice::from_ref(&name))?;
    let partitions = found.get(topic).ok_or(EngineError::TopicMissing(name))?.partitions;
    let asking: BaseConsumer<Logs> = create(&ends(config), Logs)?;
    let partitions = 0..i32::try_from(partitions).unwrap_or(i32::MAX);
    partitions.map(|partition| Ok((partition, bounds_of(&asking, topic, partition, config.broker_timeout)?))).collect()
}

/// Hands over every committed record that a topic holds, by partition in order of offsets.
///
/// # Errors
/// The topic does not exist, no broker answers, or nothing comes any more.
pub fn scan(config: &Config, topic: &str, each: &mut dyn FnMut(Record)) -> Result<(), EngineError> {
    let bounds = bounds(config, topic)?;
    let mut left: BTreeMap<i32, i64> =
        bounds.iter().filter(|(_, (first, end))| first < end).map(|(partition, (_, end))| (*partition, *end)).collect();
    let starts = bounds.into_iter().filter(|(partition, _)| left.contains_key(partition));
    let reader = Reader::new(config, topic, starts.map(|(partition, (first, _))| (partition, first)))?;
    let mut progressed = Instant::now();
    while !left.is_empty() {
        if let Some(record) = reader.poll(POLL)? {
            progressed = Instant::now();
            // What came after the question for the end is for the next one who asks.
            if left.get(&record.partition).is_some_and(|end| record.offset < *end) {
                each(record);
            }
            continue;
        }
        let positions = reader.positions()?;
        let before = left.len();
        left.retain(|partition, end| positions.get(partition).is_none_or(|position| position < end));
        if left.len() < before {
            progressed = Instant::now();
        }
        if progressed.elapsed() > PATIENCE {
            let seconds = PATIENCE.as_secs();
            return Err(EngineError::Outage(format!(
                "reading {topic}: nothing came for {seconds} s; an open transaction may be in the way"
            )));
        }
    }
    Ok(())
}

/// Reads on from given offsets, committed records only.
pub struct Reader {
    consumer: BaseConsumer<Logs>,
    topic: String,
}

impl Reader {
    /// A reader of these partitions.
    ///
    /// # Errors
    /// Those of the client.
    pub fn new(
        config: &Config,
        topic: &str,
        starts: impl IntoIterator<Item = (i32, i64)>,
    ) -> Result<Self, EngineError> {
        let consumer: BaseConsumer<Logs> = create(&reader(config), Logs)?;
        let mut list = TopicPartitionList::new();
        for (partition, offset) in starts {
            let added = list.add_partition_offset(topic, partition, Offset::Offset(offset));
            added.map_err(|error| EngineError::kafka(DOING, &error))?;
        }
        if list.count() > 0 {
            consumer.assign(&list).map_err(|error| EngineError::kafka(DOING, &error))?;
        }
        Ok(Self { consumer, topic: topic.to_owned() })
    }

    /// The next record, where one comes within `wait`.
    ///
    /// # Errors
    /// Those after which nothing comes any more.
    pub fn poll(&self, wait: Duration) -> Result<Option<Record>, EngineError> {
        match self.consumer.poll(wait) {
            None => Ok(None),
            Some(Ok(message)) => Ok(Some(Record::of(&message))),
            Some(Err(error)) => judge(&self.topic, &error).map(|()| None),
        }
    }

    /// Where each partition is; markers and aborted records count.
    fn positions(&self) -> Result<BTreeMap<i32, i64>, EngineError> {
        let positions = self.consumer.position().map_err(|error| EngineError::kafka(DOING, &error))?;
        let found =
            positions.elements_for_topic(&self.topic).into_iter().filter_map(|element| match element.offset() {
                Offset::Offset(offset) => Some((element.partition(), offset)),
                _ => None,
            });
        Ok(found.collect())
    }
}

/// Whether nothing comes any more after this error.
pub(in crate::engine) fn judge(topic: &str, error: &KafkaError) -> Result<(), EngineError> {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            Err(EngineError::TopicMissing(topic.to_owned()))
        }
        _ => match EngineError::kafka(DOING, error) {
            denied @ EngineError::NotPermitted(_) => Err(denied),
            fatal if matches!(error, KafkaError::MessageConsumptionFatal(_)) => Err(fatal),
            // The library goes on by itself.
            _ => Ok(()),
        },
    }
}
