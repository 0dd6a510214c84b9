//! One transaction: the batch's records and offsets, all or nothing; what happens when a step fails.
//!
//! State is not rolled back: after an abort the *same* effects and offsets are sent again, never computed again. After
//! an unknown outcome the committed offsets tell whether the transaction went through.
//!
//! Invariant: no effect of an input is published twice and none is lost, whatever a commit answers (`tests/kafka.rs`).
//! A transaction of idle ticks alone has no offset to tell by: after an unknown outcome its records are sent again.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer;
use rdkafka::{Offset, TopicPartitionList};

use crate::engine::assignment::Group;
use crate::engine::batch::{Batch, Input};
use crate::engine::classifier::{Action, Call, Seen, classify};
use crate::engine::client::CALL_TIMEOUT;
use crate::engine::config::Config;
use crate::engine::counters::Counters;
use crate::engine::error::{EngineError, words};
use crate::engine::fencing::Fencings;
use crate::engine::native;
use crate::engine::patience::Patience;
use crate::engine::producer::{Ends, Transactional, abort, connect, discard, produce};

/// Aborts of one batch; over: the engine ends, because repeating does not help.
pub const ABORTS_MAX: usize = 10;
const DOING: &str = "committing a transaction";

/// How a commit ended, where it did not fail for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Committed, once.
    Committed,
    /// This process is no member of the group at the moment: the batch is kept, a rebalance will tell.
    NotMember,
}

enum Stumble {
    NotMember,
    Failed(Call, KafkaError),
}

/// Publishes batches in transactions.
pub struct Publisher {
    config: Config,
    stop: Arc<AtomicBool>,
    producer: Option<Transactional>,
    fencings: Fencings,
    /// The last outcome is not known yet: look at the committed offsets before anything else.
    unsettled: bool,
}

impl Publisher {
    /// Takes the transactional id over.
    pub fn new(config: &Config, stop: &Arc<AtomicBool>) -> Result<Self, EngineError> {
        let producer = connect(config, &Patience::new(config.broker_timeout.max(CALL_TIMEOUT), stop))?;
        Ok(Self {
            config: config.clone(),
            stop: Arc::clone(stop),
            producer: Some(producer),
            fencings: Fencings::default(),
            unsettled: false,
        })
    }

    /// Commits the batch, however long that takes within the limits.
    pub fn commit(
        &mut self,
        consumer: &BaseConsumer<Group>,
        batch: &Batch,
        counters: &mut Counters,
    ) -> Result<Outcome, EngineError> {
        let patience = Patience::new(self.config.outage_max, &self.stop);
        let mut aborts = 0;
        loop {
            if native::generation(consumer).is_none() {
                return Ok(Outcome::NotMember);
            }
            if let Some(outcome) = self.settle(consumer, batch, &patience)? {
                return Ok(outcome);
            }
            let (call, error) = match self.attempt(consumer, batch) {
                Ok(()) => return Ok(Outcome::Committed),
                Err(Stumble::NotMember) => return self.leave_open(&patience, counters),
                Err(Stumble::Failed(call, error)) => (call, error),
            };
            let seen = Seen::of(&error);
            tracing::warn!(?call, error = %words(&error), "transaction not committed");
            if classify(call, seen) == Action::Abort && self.producer.as_ref().is_some_and(abort) {
                counters.aborted += 1;
                aborts += 1;
                if seen.is_group_change() {
                    return Ok(Outcome::NotMember);
                }
                if seen.is_not_permitted() || aborts > ABORTS_MAX {
                    return Err(EngineError::kafka(DOING, &error));
                }
                patience.pause(DOING, &words(&error))?;
            } else {
                self.rebuild(seen, &patience, counters)?;
            }
        }
    }

    /// Ends the open transaction of a process that is no member: nothing was committed.
    fn leave_open(&mut self, patience: &Patience, counters: &mut Counters) -> Result<Outcome, EngineError> {
        counters.aborted += 1;
        if !self.producer.as_ref().is_some_and(abort) {
            let seen =
                Seen { code: rdkafka::types::RDKafkaErrorCode::Fail, fatal: false, retriable: false, abort: true };
            self.rebuild(seen, patience, counters)?;
        }
        Ok(Outcome::NotMember)
    }

    fn attempt(&self, consumer: &BaseConsumer<Group>, batch: &Batch) -> Result<(), Stumble> {
        let failed = |call| move |error| Stumble::Failed(call, error);
        // Without a producer the last rebuild failed, which ended the engine.
        let Some(producer) = &self.producer else { return Err(Stumble::NotMember) };
        producer.begin_transaction().map_err(failed(Call::Begin))?;
        produce(producer, &batch.publications).map_err(failed(Call::Produce))?;
        if !batch.spans.is_empty() {
            let offsets = offsets(batch, self.config.topics.inputs()).map_err(failed(Call::SendOffsets))?;
            // Fresh, after the last poll; the same generation before and after makes it that of the metadata between.
            let generation = native::generation(consumer).ok_or(Stumble::NotMember)?;
            let metadata = consumer.group_metadata().ok_or(Stumble::NotMember)?;
            if native::generation(consumer) != Some(generation) {
                return Err(Stumble::NotMember);
            }
            again(Call::SendOffsets, |left| producer.send_offsets_to_transaction(&offsets, &metadata, left))
                .map_err(failed(Call::SendOffsets))?;
        }
        producer.commit_transaction(CALL_TIMEOUT).map_err(failed(Call::Commit))
    }

    /// Destroys the producer and takes the id over anew, which fences whatever the old one left on its way.
    fn rebuild(&mut self, seen: Seen, patience: &Patience, counters: &mut Counters) -> Result<(), EngineError> {
        self.unsettled = true;
        counters.rebuilt += 1;
        if seen.is_fencing() {
            thread::sleep(self.fencings.note(&self.config.worker_id(), Instant::now())?);
        }
        if let Some(old) = self.producer.take() {
            discard(old);
        }
        self.producer = Some(connect(&self.config, patience)?);
        Ok(())
    }

    /// After an unknown outcome: committed (the outcome), not committed (none: send it again), or not to be told.
    fn settle(
        &mut self,
        consumer: &BaseConsumer<Group>,
        batch: &Batch,
        patience: &Patience,
    ) -> Result<Option<Outcome>, EngineError> {
        if !self.unsettled {
            return Ok(None);
        }
        let committed = loop {
            // Somebody else's commits say nothing about ours.
            if native::generation(consumer).is_none() {
                return Ok(Some(Outcome::NotMember));
            }
            match consumer.committed_offsets(partitions(batch, self.config.topics.inputs()), CALL_TIMEOUT) {
                Ok(committed) => break committed,
                Err(error) => patience.pause("reading committed offsets", &words(&error))?,
            }
        };
        if native::generation(consumer).is_none() {
            return Ok(Some(Outcome::NotMember));
        }
        let names = self.config.topics.inputs();
        let found = |input: Input| match committed.find_partition(names[input.topic], input.partition)?.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        let all = |expected: fn(&crate::engine::batch::Span) -> Option<i64>| {
            batch.spans.iter().all(|(input, span)| found(*input) == expected(span))
        };
        self.unsettled = false;
        if batch.spans.is_empty() || all(|span| span.previous) {
            Ok(None)
        } else if all(|span| Some(span.next)) {
            Ok(Some(Outcome::Committed))
        } else {
            Err(EngineError::Undecided(format!(
                "the committed offsets of group {} are neither those sent nor those before: was the group reset while \
                 this process ran?",
                self.config.group
            )))
        }
    }

    /// How far changelogs came by the last commit; nothing after an outcome that had to be asked for.
    pub fn take_ends(&self) -> Ends {
        self.producer.as_ref().map(|producer| producer.context().take_ends()).unwrap_or_default()
    }

    /// Gives the producer up.
    pub fn close(&mut self) {
        if let Some(producer) = self.producer.take() {
            discard(producer);
        }
    }
}

/// Repeats a call while its errors allow it.
fn again(call: Call, mut run: impl FnMut(Duration) -> Result<(), KafkaError>) -> Result<(), KafkaError> {
    let deadline = Instant::now() + CALL_TIMEOUT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Err(error) = run(left.max(Duration::from_millis(1))) else { return Ok(()) };
        if left.is_zero() || classify(call, Seen::of(&error)) != Action::Again {
            return Err(error);
        }
    }
}

fn partitions(batch: &Batch, names: [&str; 2]) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for input in batch.spans.keys() {
        list.add_partition(names[input.topic], input.partition);
    }
    list
}

fn offsets(batch: &Batch, names: [&str; 2]) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for (input, span) in &batch.spans {
        list.add_partition_offset(names[input.topic], input.partition, Offset::Offset(span.next))?;
    }
    Ok(list)
}
