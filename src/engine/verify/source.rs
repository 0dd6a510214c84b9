//! What a task is verified against: its tape, its changelog, its inputs, its audit trail, as committed readers see them.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::BorrowedMessage;
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::engine::cluster::client::{Logs, create, ends, reader};
use crate::engine::config::Config;
use crate::engine::error::{EngineError, words};
use crate::engine::task::place::{Input, TaskId};
use crate::engine::task::tape::TapeRecord;
use crate::engine::verify::Entries;
use crate::record::audit::Audit;

/// How long one question may take, and how long nothing may come.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL_MAX: Duration = Duration::from_millis(100);
const DOING: &str = "verifying";

/// Topics of one task.
pub struct Source {
    config: Config,
    task: TaskId,
}

impl Source {
    /// Nothing read yet.
    pub fn new(config: &Config, task: TaskId) -> Self {
        Self { config: config.clone(), task }
    }

    /// The whole tape.
    pub fn tape(&self) -> Result<Vec<TapeRecord>, EngineError> {
        let topic = self.config.topics.tapes()[self.task.stage as usize];
        let mut tape = Vec::new();
        self.each(topic, i64::MAX, |message| {
            let record: TapeRecord = serde_json::from_slice(message.payload().unwrap_or_default())
                .map_err(|error| self.unusable(topic, message.offset(), &error.to_string()))?;
            if record.task != self.task.to_string() {
                let words = format!("a record of {}", record.task);
                return Err(self.unusable(topic, message.offset(), &words));
            }
            tape.push(record);
            Ok(())
        })?;
        Ok(tape)
    }

    /// The state as the changelog had it up to an offset.
    pub fn state(&self, next: i64) -> Result<Entries, EngineError> {
        let topic = self.config.topics.states()[self.task.stage as usize];
        let mut entries = Entries::new();
        self.each(topic, next, |message| {
            let key = message.key().unwrap_or_default().to_vec();
            match message.payload() {
                Some(value) => drop(entries.insert(key, value.to_vec())),
                None => drop(entries.remove(&key)),
            }
            Ok(())
        })?;
        Ok(entries)
    }

    /// The audit records of the task: number and value.
    pub fn audit(&self) -> Result<Vec<(u64, Vec<u8>)>, EngineError> {
        let (topic, name) = (self.config.topics.audit.as_str(), self.task.to_string());
        let mut audit = Vec::new();
        self.each(topic, i64::MAX, |message| {
            let value = message.payload().unwrap_or_default();
            if let Ok(record) = serde_json::from_slice::<Audit>(value)
                && record.task == name
            {
                audit.push((record.seq, value.to_vec()));
            }
            Ok(())
        })?;
        Ok(audit)
    }

    /// Every committed record of the task's partition of a topic, below an offset.
    fn each(
        &self,
        topic: &str,
        next: i64,
        mut take: impl FnMut(&BorrowedMessage<'_>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let asking: BaseConsumer<Logs> = create(&ends(&self.config), Logs)?;
        let (first, end) = asking
            .fetch_watermarks(topic, self.task.partition, PATIENCE)
            .map_err(|error| EngineError::kafka(DOING, &error))?;
        let end = end.min(next);
        if first >= end {
            return Ok(());
        }
        let mut lane = Lane::new(&self.config, topic, self.task.partition, first)?;
        while let Some(message) = lane.next(end)? {
            take(&message)?;
        }
        Ok(())
    }

    /// A reader of one input from an offset on.
    pub fn input(&self, input: Input, first: i64) -> Result<Lane, EngineError> {
        let topic = self.config.topics.inputs()[input.topic];
        let asking: BaseConsumer<Logs> = create(&ends(&self.config), Logs)?;
        let (kept, end) = asking
            .fetch_watermarks(topic, input.partition, PATIENCE)
            .map_err(|error| EngineError::kafka(DOING, &error))?;
        if kept > first || end <= first {
            let words = format!(
                "{topic}/{} has offsets {kept} to {end}; the tape begins at {first}: its inputs are gone",
                input.partition
            );
            return Err(EngineError::OffsetLost(words));
        }
        Lane::new(&self.config, topic, input.partition, first)
    }

    fn unusable(&self, topic: &str, offset: i64, words: &str) -> EngineError {
        let words = format!("at offset {offset}: {words}");
        EngineError::State { task: self.task.to_string(), topic: topic.to_owned(), words }
    }
}

/// A reader of one partition.
pub struct Lane {
    reader: BaseConsumer<Logs>,
    topic: String,
    partition: i32,
}

impl Lane {
    fn new(config: &Config, topic: &str, partition: i32, first: i64) -> Result<Self, EngineError> {
        let reader: BaseConsumer<Logs> = create(&reader(config), Logs)?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(first))
            .and_then(|()| reader.assign(&list))
            .map_err(|error| EngineError::kafka(DOING, &error))?;
        Ok(Self { reader, topic: topic.to_owned(), partition })
    }

    /// The next record below an offset; none: there is no more.
    pub fn next(&mut self, end: i64) -> Result<Option<BorrowedMessage<'_>>, EngineError> {
        let waiting = Instant::now();
        loop {
            if self.position()?.is_some_and(|position| position >= end) {
                return Ok(None);
            }
            match self.reader.poll(POLL_MAX) {
                Some(Ok(message)) if message.offset() < end => return Ok(Some(message)),
                // Everything below is there already, or was never a record.
                Some(Ok(_)) => return Ok(None),
                Some(Err(error)) => tracing::debug!(error = %words(&error), "verifying"),
                None => {}
            }
            if waiting.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                let words = format!("verifying: nothing came of {}/{} for {seconds} s", self.topic, self.partition);
                return Err(EngineError::Outage(words));
            }
        }
    }

    fn position(&self) -> Result<Option<i64>, EngineError> {
        let positions = self.reader.position().map_err(|error| EngineError::kafka(DOING, &error))?;
        Ok(positions.find_partition(&self.topic, self.partition).and_then(|element| match element.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }))
    }
}
