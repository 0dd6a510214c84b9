//! What the client library alone takes to read the topic: the limit of every engine that uses it.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::cli::bench::drive::Mark;
use crate::engine::cluster::client::{self, Logs};
use crate::engine::{Config, EngineError, Inbox};

const DOING: &str = "reading events";
/// Longest wait for more; over: what was read is what there is.
const PATIENCE: Duration = Duration::from_secs(10);

/// One reading of the topic.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Records.
    pub events: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// When the first one was there.
    pub begun: Mark,
    /// When the last one was there.
    pub ended: Mark,
}

struct Count {
    events: u64,
    bytes: u64,
    begun: Option<Mark>,
}

impl Count {
    fn add(&mut self, value: Option<&[u8]>) {
        self.begun.get_or_insert_with(Mark::now);
        self.events += 1;
        self.bytes += value.map_or(0, <[u8]>::len) as u64;
    }

    fn end(self) -> Reading {
        let ended = Mark::now();
        Reading { events: self.events, bytes: self.bytes, begun: self.begun.unwrap_or(ended), ended }
    }
}

/// A consumer with the engine's settings, and where it is to begin.
fn consumer(config: &Config, partitions: i32) -> Result<(BaseConsumer<Logs>, TopicPartitionList), EngineError> {
    let config = Config { group: format!("{}-raw", config.group), ..config.clone() };
    let consumer = client::create(&client::consumer(&config), Logs)?;
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        let added = list.add_partition_offset(&config.topics.events, partition, Offset::Beginning);
        added.map_err(|error| EngineError::kafka(DOING, &error))?;
    }
    Ok((consumer, list))
}

/// Reads the topic in batches through a private queue, as the engine does, and does nothing else.
///
/// # Errors
/// Those of the client.
pub fn batches(config: &Config, partitions: i32, events: u64) -> Result<Reading, EngineError> {
    let failed = |error| EngineError::kafka(DOING, &error);
    let (consumer, list) = consumer(config, partitions)?;
    let mut inbox = Inbox::new(consumer).map_err(failed)?;
    inbox.forward(&list).map_err(failed)?;
    inbox.consumer().assign(&list).map_err(failed)?;
    let mut count = Count { events: 0, bytes: 0, begun: None };
    while count.events < events && inbox.fill(PATIENCE) > 0 {
        while let Some(record) = inbox.next() {
            count.add(record.map_err(failed)?.value());
        }
    }
    Ok(count.end())
}

/// Reads the topic one record at a time, with the safe call of the library.
///
/// # Errors
/// Those of the client.
pub fn polls(config: &Config, partitions: i32, events: u64) -> Result<Reading, EngineError> {
    let failed = |error| EngineError::kafka(DOING, &error);
    let (consumer, list) = consumer(config, partitions)?;
    consumer.assign(&list).map_err(failed)?;
    let mut count = Count { events: 0, bytes: 0, begun: None };
    while count.events < events {
        let Some(message) = consumer.poll(PATIENCE) else { break };
        count.add(message.map_err(failed)?.payload());
    }
    Ok(count.end())
}
