//! Compacted topics as tables: read from their beginning, then on and on. No group, nothing committed.
//!
//! Invariant: [`Follower::is_at_end`] is true only after everything was handed over that was committed when the follower
//! was made (`tests/kafka/http.rs`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::engine::cluster::admin::Admin;
use crate::engine::cluster::client::{Logs, create, reader};
use crate::engine::cluster::ends::bounds_of;
use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::operator::scan::{Record, judge};

/// Partitions are counted again this often: a topic may get more.
const COUNT_EVERY: Duration = Duration::from_secs(30);
const DOING: &str = "following topics";

/// Reads all partitions of some topics, committed records only.
pub struct Follower {
    consumer: BaseConsumer<Logs>,
    topics: Vec<String>,
    partitions: usize,
    /// Ends that are not reached yet, as they were at the beginning.
    left: BTreeMap<(String, i32), i64>,
    timeout: Duration,
    counted: Instant,
}

impl Follower {
    /// From the beginning of these topics.
    ///
    /// # Errors
    /// A topic does not exist, may not be read, or no broker answers.
    pub fn new(config: &Config, topics: &[&str]) -> Result<Self, EngineError> {
        let topics: Vec<String> = topics.iter().map(|topic| (*topic).to_owned()).collect();
        let found = Admin::new(&config.cluster, config.broker_timeout)?.existing(&topics)?;
        let mut client = reader(config);
        // What is new is looked for at once, also where another partition is idle.
        client.set("fetch.wait.max.ms", "100");
        let consumer: BaseConsumer<Logs> = create(&client, Logs)?;
        let (mut list, mut left) = (TopicPartitionList::new(), BTreeMap::new());
        for topic in &topics {
            let count = found.get(topic).ok_or_else(|| EngineError::TopicMissing(topic.clone()))?.partitions;
            for partition in 0..i32::try_from(count).unwrap_or(i32::MAX) {
                let (first, end) = bounds_of(&consumer, topic, partition, config.broker_timeout)?;
                list.add_partition_offset(topic, partition, Offset::Offset(first))
                    .map_err(|error| EngineError::kafka(DOING, &error))?;
                if first < end {
                    left.insert((topic.clone(), partition), end);
                }
            }
        }
        consumer.assign(&list).map_err(|error| EngineError::kafka(DOING, &error))?;
        let (partitions, timeout) = (list.count(), config.broker_timeout);
        Ok(Self { consumer, topics, partitions, left, timeout, counted: Instant::now() })
    }

    /// The next record, where one comes within `wait`, with the number of its topic.
    ///
    /// # Errors
    /// Those after which nothing comes any more, and that a topic has other partitions than before: make another one.
    pub fn poll(&mut self, wait: Duration) -> Result<Option<(usize, Record)>, EngineError> {
        if self.counted.elapsed() > COUNT_EVERY {
            self.count()?;
        }
        match self.consumer.poll(wait) {
            None => Ok(None),
            Some(Ok(message)) => {
                let topic = self.topics.iter().position(|topic| topic == message.topic());
                Ok(topic.map(|topic| (topic, Record::of(&message))))
            }
            Some(Err(error)) => judge(&self.topics.join(", "), &error).map(|()| None),
        }
    }

    /// Whether everything was handed over that was committed at the beginning; open transactions do not count.
    ///
    /// # Errors
    /// Those of the client.
    pub fn is_at_end(&mut self) -> Result<bool, EngineError> {
        if self.left.is_empty() {
            return Ok(true);
        }
        // By position, not by records: the last one may be a marker.
        let positions = self.consumer.position().map_err(|error| EngineError::kafka(DOING, &error))?;
        self.left.retain(|(topic, partition), end| {
            let position = positions.find_partition(topic, *partition).map(|element| element.offset());
            !matches!(position, Some(Offset::Offset(offset)) if offset >= *end)
        });
        Ok(self.left.is_empty())
    }

    fn count(&mut self) -> Result<(), EngineError> {
        self.counted = Instant::now();
        let mut partitions = 0;
        for topic in &self.topics {
            // A broker that is away is no news: what was read stays.
            let Ok(metadata) = self.consumer.fetch_metadata(Some(topic), self.timeout) else { return Ok(()) };
            partitions += metadata.topics().iter().map(|topic| topic.partitions().len()).sum::<usize>();
        }
        if partitions != self.partitions {
            let words = format!("{DOING}: {partitions} partitions, and there were {}", self.partitions);
            return Err(EngineError::Outage(words));
        }
        Ok(())
    }
}
