//! Committed offsets, looked at all the time: they never go back, and how long they stood still.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::world::{PARTITIONS, World};

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Looks until `done`.
///
/// # Panics
/// Where an offset goes back.
pub fn offsets(world: &World, done: &AtomicBool) {
    let consumer = committed_reader(world);
    let mut seen: BTreeMap<(String, i32), i64> = BTreeMap::new();
    while !done.load(Ordering::Relaxed) {
        let started = Instant::now();
        for (place, offset) in committed(&consumer, world).unwrap_or_default() {
            let before = seen.entry(place.clone()).or_insert(offset);
            assert!(*before <= offset, "the committed offset of {place:?} went back from {before} to {offset}");
            *before = offset;
        }
        thread::sleep(LOOK_EVERY.saturating_sub(started.elapsed()));
    }
}

/// Asks for offsets only; those of a transaction that is open are not waited for.
pub fn committed_reader(world: &World) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", &world.bootstrap)
        .set("group.id", &world.name)
        .set("isolation.level", "read_uncommitted")
        .create()
        .expect("a consumer")
}

/// Committed offsets by input and partition; none where no broker answers.
pub fn committed(consumer: &BaseConsumer, world: &World) -> Option<BTreeMap<(String, i32), i64>> {
    let topics = world.topics();
    let mut list = TopicPartitionList::new();
    for topic in topics.inputs() {
        list.add_partition_range(topic, 0, PARTITIONS - 1);
    }
    let found = consumer.committed_offsets(list, Duration::from_secs(5)).ok()?;
    let offsets = found.elements().into_iter().filter_map(|element| {
        let offset = element.offset().to_raw().filter(|offset| *offset >= 0)?;
        Some(((element.topic().to_owned(), element.partition()), offset))
    });
    Some(offsets.collect())
}
