//! Topics as readers of committed records see them, with offsets and times, and where they end.

use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Headers;
use rdkafka::{Message, Offset, TopicPartitionList};
use serde_json::Value;

use super::world::{PARTITIONS, SOON, World};

/// One record.
#[derive(Clone, Debug)]
pub struct Record {
    pub partition: i32,
    pub offset: i64,
    pub at_ms: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Record {
    pub fn json(&self) -> Value {
        serde_json::from_slice(self.value.as_deref().unwrap_or(b"null")).expect("JSON")
    }

    pub fn header(&self, name: &str) -> String {
        let found = self.headers.iter().rev().find(|(other, _)| other == name);
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
    }
}

/// A reader of whole topics.
pub struct Reader(BaseConsumer);

impl Reader {
    pub fn committed(world: &World) -> Self {
        Self::new(world, "read_committed")
    }

    pub fn uncommitted(world: &World) -> Self {
        Self::new(world, "read_uncommitted")
    }

    fn new(world: &World, isolation: &str) -> Self {
        let consumer = ClientConfig::new()
            .set("bootstrap.servers", &world.bootstrap)
            .set("group.id", format!("{}-oracle", world.name))
            .set("isolation.level", isolation)
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", "20")
            .create()
            .expect("a consumer");
        Self(consumer)
    }

    /// Everything there is now, in order of partition and offset.
    pub fn read(&self, topic: &str) -> Vec<Record> {
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(topic, partition, Offset::Beginning).expect("a partition");
        }
        self.0.assign(&list).expect("assigned");
        let (mut records, mut open, started) = (Vec::new(), PARTITIONS, Instant::now());
        while open > 0 {
            assert!(started.elapsed() < SOON, "no end of {topic}");
            match self.0.poll(Duration::from_millis(200)) {
                Some(Ok(message)) => records.push(record(&message)),
                Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
                Some(Err(_)) | None => {}
            }
        }
        records.sort_by_key(|record| (record.partition, record.offset));
        records
    }

    /// The end of a partition as this reader sees it.
    pub fn end(&self, topic: &str, partition: i32) -> i64 {
        self.0.fetch_watermarks(topic, partition, SOON).expect("watermarks").1
    }
}

fn record(message: &impl Message) -> Record {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers.iter().map(|header| (header.key.to_owned(), header.value.unwrap_or_default().to_vec())).collect()
    });
    Record {
        partition: message.partition(),
        offset: message.offset(),
        at_ms: message.timestamp().to_millis().unwrap_or_default(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers,
    }
}
