//! Ends what a dead writer left open: committed offsets and records behind its open transaction stay hidden until the
//! broker gives up on it, up to 20 s. Each tape record bears the transactional id of its writer; taking that id over
//! aborts the transaction at once.
//!
//! A writer that is alive after all loses nothing by it: it finds itself fenced, makes a new producer and looks at the
//! committed offsets before it goes on (`transaction`).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Headers;
use rdkafka::producer::{DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::engine::cluster::client::{CALL_TIMEOUT, Logs, create, ends, producer, reader};
use crate::engine::config::Config;
use crate::engine::error::{EngineError, words};
use crate::engine::task::place::TaskId;
use crate::engine::task::tape::WRITER_HEADER;

/// How long something may be hidden before its writer is looked for.
pub const HIDDEN_MAX: Duration = Duration::from_millis(500);
/// How long one question may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the tape of one task may take to be read.
const READ_MAX: Duration = Duration::from_secs(2);

/// Ends the open transactions of other writers on the tapes of these tasks; how many writers there were.
///
/// # Errors
/// A client cannot be made. A broker that does not answer is no error: whoever waits asks again.
pub fn release(config: &Config, tasks: &BTreeSet<TaskId>) -> Result<usize, EngineError> {
    let mut writers = BTreeSet::new();
    for task in tasks {
        writers.extend(writers_of(config, *task)?);
    }
    writers.remove(&config.worker_id());
    for writer in &writers {
        tracing::warn!(writer, "ending the open transaction of a process that is gone");
        let mut client = producer(config);
        client.set("transactional.id", writer);
        let taken: ThreadedProducer<DefaultProducerContext> = create(&client, DefaultProducerContext)?;
        if let Err(error) = taken.init_transactions(CALL_TIMEOUT) {
            tracing::warn!(writer, error = %words(&error), "its transaction could not be ended yet");
        }
    }
    Ok(writers.len())
}

/// Transactional ids on the part of a tape that readers of committed records do not see yet.
fn writers_of(config: &Config, task: TaskId) -> Result<BTreeSet<String>, EngineError> {
    let (tape, partition) = (config.topics.tapes()[task.stage as usize], task.partition);
    let mut found = BTreeSet::new();
    let stable: BaseConsumer<Logs> = create(&reader(config), Logs)?;
    let mut settings = ends(config);
    settings.set("group.id", &config.group).set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
    let all: BaseConsumer<Logs> = create(&settings, Logs)?;
    let ends =
        (stable.fetch_watermarks(tape, partition, ASK_TIMEOUT), all.fetch_watermarks(tape, partition, ASK_TIMEOUT));
    let (Ok((_, stable)), Ok((_, end))) = ends else { return Ok(found) };
    if stable >= end {
        return Ok(found);
    }
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(tape, partition, Offset::Offset(stable))
        .and_then(|()| all.assign(&list))
        .map_err(|error| EngineError::kafka("reading a tape", &error))?;
    let started = Instant::now();
    while started.elapsed() < READ_MAX {
        if let Some(Ok(message)) = all.poll(Duration::from_millis(50)) {
            let headers = message.headers().map(|headers| headers.iter().collect::<Vec<_>>()).unwrap_or_default();
            let writer = headers.iter().find(|header| header.key == WRITER_HEADER).and_then(|header| header.value);
            found.extend(writer.and_then(|writer| std::str::from_utf8(writer).ok()).map(str::to_owned));
            if message.offset() + 1 >= end {
                break;
            }
        } else if all.position().is_ok_and(|positions| {
            let element = positions.find_partition(tape, partition);
            matches!(element.map(|element| element.offset()), Some(Offset::Offset(at)) if at >= end)
        }) {
            break;
        }
    }
    Ok(found)
}
