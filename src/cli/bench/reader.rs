//! Overrides as runtimes see them: committed records only.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Message, Offset, TopicPartitionList};
use serde::Deserialize;

use crate::engine::cluster::client::{self, Logs};
use crate::engine::{Cluster, EngineError};

const DOING: &str = "reading overrides";
/// Longest wait for the next record or end; over: what was found is what there is.
const PATIENCE: Duration = Duration::from_secs(10);

/// One override on the topic.
#[derive(Clone, Debug, Deserialize)]
pub struct Seen {
    /// Its id.
    pub override_id: String,
    /// Whom it is for.
    pub scope: Scope,
}

/// Whom an override is for.
#[derive(Clone, Debug, Deserialize)]
pub struct Scope {
    /// The session.
    pub session_id: String,
}

/// Reads the topic from its beginning.
pub struct Reader {
    consumer: BaseConsumer<Logs>,
    partitions: i32,
}

/// What came next.
enum Next {
    Override(Box<Seen>),
    Removal,
    End(i32),
    Nothing,
}

impl Reader {
    /// A reader of every partition.
    ///
    /// # Errors
    /// Those of the client.
    pub fn new(cluster: &Cluster, topic: &str, partitions: i32) -> Result<Self, EngineError> {
        let mut reader = client::asking(cluster);
        reader.set("group.id", "reflex-bench-reader").set("enable.auto.commit", "false");
        reader.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
        reader.set("fetch.wait.max.ms", "10").set("fetch.queue.backoff.ms", "1");
        let consumer: BaseConsumer<Logs> = client::create(&reader, Logs)?;
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            let added = list.add_partition_offset(topic, partition, Offset::Beginning);
            added.map_err(|error| EngineError::kafka(DOING, &error))?;
        }
        consumer.assign(&list).map_err(|error| EngineError::kafka(DOING, &error))?;
        Ok(Self { consumer, partitions })
    }

    fn next(&self, wait: Duration) -> Result<Next, EngineError> {
        match self.consumer.poll(wait) {
            None => Ok(Next::Nothing),
            Some(Err(KafkaError::PartitionEOF(partition))) => Ok(Next::End(partition)),
            Some(Err(error)) => Err(EngineError::kafka(DOING, &error)),
            Some(Ok(message)) => {
                let Some(bytes) = message.payload() else { return Ok(Next::Removal) };
                let seen = serde_json::from_slice(bytes)
                    .map_err(|error| EngineError::Kafka { doing: DOING, words: format!("not an override: {error}") })?;
                Ok(Next::Override(seen))
            }
        }
    }

    /// The next override and when it was read, within `wait`.
    ///
    /// # Errors
    /// Those of the client, and a record that is no override.
    pub fn poll(&self, wait: Duration) -> Result<Option<(Seen, Instant)>, EngineError> {
        Ok(match self.next(wait)? {
            Next::Override(seen) => Some((*seen, Instant::now())),
            Next::Removal | Next::End(_) | Next::Nothing => None,
        })
    }

    /// Reads every partition to its end: different override ids, and records in all.
    ///
    /// # Errors
    /// As [`Reader::poll`].
    pub fn count(&self) -> Result<(u64, u64), EngineError> {
        let (mut ids, mut records) = (BTreeSet::new(), 0);
        let mut ended = BTreeSet::new();
        while i32::try_from(ended.len()).is_ok_and(|ended| ended < self.partitions) {
            match self.next(PATIENCE)? {
                Next::Override(seen) => {
                    ids.insert(seen.override_id);
                    records += 1;
                }
                Next::Removal => records += 1,
                Next::End(partition) => drop(ended.insert(partition)),
                Next::Nothing => break,
            }
        }
        Ok((ids.len() as u64, records))
    }
}
