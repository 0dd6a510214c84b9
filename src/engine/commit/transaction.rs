//! One transaction: its records and offsets, all or nothing; what happens when a step fails.
//!
//! After an abort the *same* effects and offsets are sent again, not computed again: the tasks are rolled back only where
//! the broker does not take a record. After an unknown outcome the committed offsets tell whether the transaction went
//! through: with each offset goes the number of the task's transaction, which moves even where the offset does not. Whether
//! what was acknowledged is there is looked at where a connection was lost soon after (`confirm`).
//!
//! Invariant: no effect of an input is published twice and none is lost, whatever a commit answers (`tests/kafka.rs`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer;
use rdkafka::{Offset, TopicPartitionList};

use crate::engine::cluster::client::CALL_TIMEOUT;
use crate::engine::commit::classifier::{Action, Call, Seen, classify};
use crate::engine::commit::confirm::Kept;
use crate::engine::commit::producer::{Reports, Transactional, abort, connect, discard, measure_clock, produce};
use crate::engine::config::Config;
use crate::engine::error::{EngineError, words};
use crate::engine::failpoint;
use crate::engine::group::assignment::Group;
use crate::engine::group::fencing::Fencings;
use crate::engine::group::sent::{is_of_others, metadata};
use crate::engine::native;
use crate::engine::patience::Patience;
use crate::engine::shown::counters::Counters;
use crate::engine::task::batch::{Span, Transaction};
use crate::engine::task::place::Input;

/// Aborts of one transaction; over: the engine ends, because repeating does not help.
pub const ABORTS_MAX: usize = 10;
/// Aborts after which a record that a broker does not take is looked for.
pub const REFUSALS_MAX: usize = 3;
/// How long one question for the committed offsets may take after an unknown outcome: nobody polls the group meanwhile.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
const DOING: &str = "committing a transaction";

/// How a commit ended, where it did not fail for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Committed, once.
    Committed,
    /// This process is no member of the group at the moment: the transaction is kept, a rebalance will tell.
    NotMember,
    /// A broker does not take one of the records, whatever is repeated.
    Refused,
}

/// Why an attempt at a transaction did not go through.
pub(super) enum Stumble {
    /// This process is no member of the group.
    NotMember,
    /// The transaction before it is not whole.
    Doubt,
    /// A call failed.
    Failed(Call, KafkaError),
}

/// Publishes transactions.
pub struct Publisher {
    pub(super) config: Config,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) producer: Option<Transactional>,
    fencings: Fencings,
    /// Since when the last outcome is not known: look at the committed offsets before anything else.
    unsettled: Option<Instant>,
    /// The last transaction that was acknowledged.
    pub(super) kept: Option<Kept>,
    /// Whether the tasks know of a transaction that is not there: they are to be given up.
    pub(super) is_left: bool,
    pub(super) reports: Arc<Reports>,
}

impl Publisher {
    /// Takes the transactional id over.
    pub fn new(config: &Config, stop: &Arc<AtomicBool>) -> Result<Self, EngineError> {
        let reports = Arc::new(Reports::new(&config.topics));
        let patience = Patience::new(config.broker_timeout.max(CALL_TIMEOUT), stop);
        let producer = connect(config, &reports, &patience)?;
        if config.check_topics {
            measure_clock(&producer, &config.topics.tape_session)
                .map_err(|error| EngineError::kafka("measuring the clock of the brokers", &error))?;
        }
        Ok(Self {
            config: config.clone(),
            stop: Arc::clone(stop),
            producer: Some(producer),
            fencings: Fencings::default(),
            unsettled: None,
            kept: None,
            is_left: false,
            reports,
        })
    }

    /// Commits the transaction, however long that takes within the limits.
    pub fn commit(
        &mut self,
        consumer: &BaseConsumer<Group>,
        transaction: &Arc<Transaction>,
        counters: &mut Counters,
    ) -> Result<Outcome, EngineError> {
        let patience = Patience::new(self.config.outage_max, &self.stop);
        let mut aborts = 0;
        loop {
            self.confirm(consumer, counters)?;
            if self.is_left || native::generation(consumer).is_none() {
                return Ok(Outcome::NotMember);
            }
            if let Some(outcome) = self.settle(consumer, transaction)? {
                return Ok(outcome);
            }
            let begun = Instant::now();
            let (call, error) = match self.attempt(consumer, transaction) {
                Ok(()) => {
                    counters.attempts.add(begun.elapsed());
                    return Ok(Outcome::Committed);
                }
                Err(stumble @ Stumble::NotMember) => {
                    self.get_up(&stumble, &patience, counters)?;
                    return Ok(Outcome::NotMember);
                }
                Err(stumble @ Stumble::Doubt) => {
                    self.get_up(&stumble, &patience, counters)?;
                    patience.pause(DOING, "the transaction before it is not whole")?;
                    continue;
                }
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
                if seen.is_refusal() && aborts >= REFUSALS_MAX {
                    return Ok(Outcome::Refused);
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

    /// Ends what a stumble left open: nothing of it is committed, or that is to be looked at.
    pub(super) fn get_up(
        &mut self,
        stumble: &Stumble,
        patience: &Patience,
        counters: &mut Counters,
    ) -> Result<(), EngineError> {
        let nothing = Seen { code: RDKafkaErrorCode::Fail, fatal: false, retriable: false, abort: true };
        let (action, seen) = match stumble {
            Stumble::NotMember | Stumble::Doubt => (Action::Abort, nothing),
            Stumble::Failed(call, error) => (classify(*call, Seen::of(error)), Seen::of(error)),
        };
        counters.aborted += 1;
        if action == Action::Abort && self.producer.as_ref().is_some_and(abort) {
            return Ok(());
        }
        self.rebuild(seen, patience, counters)
    }

    fn attempt(&mut self, consumer: &BaseConsumer<Group>, transaction: &Arc<Transaction>) -> Result<(), Stumble> {
        let failed = |call| move |error| Stumble::Failed(call, error);
        self.reports.settled();
        // Without a producer the last rebuild failed, which ended the engine.
        let Some(producer) = &self.producer else { return Err(Stumble::NotMember) };
        producer.begin_transaction().map_err(failed(Call::Begin))?;
        let places = produce(producer, &transaction.publications).map_err(failed(Call::Produce))?;
        failpoint::pass("after_produce");
        // An end of this transaction would be one of what the last one left open, too.
        if self.is_in_doubt() {
            return Err(Stumble::Doubt);
        }
        let Some(producer) = &self.producer else { return Err(Stumble::NotMember) };
        self.send_offsets(producer, consumer, transaction)?;
        failpoint::pass("after_send_offsets");
        failpoint::pass("before_end_txn");
        let kept = Kept { transaction: Arc::clone(transaction), places, at: Instant::now() };
        #[cfg(feature = "failpoints")]
        let Some(kept) = self.lose_end(consumer, kept)? else { return Ok(()) };
        let Some(producer) = &self.producer else { return Err(Stumble::NotMember) };
        producer.commit_transaction(CALL_TIMEOUT).map_err(failed(Call::Commit))?;
        // A record that a broker had twice is nobody knows where.
        self.kept =
            Some(Kept { at: Instant::now(), ..kept }).filter(|kept| kept.places.iter().all(|(_, offset)| *offset >= 0));
        Ok(())
    }

    /// Sends the offsets of a transaction, as a member of the group or not at all.
    pub(super) fn send_offsets(
        &self,
        producer: &Transactional,
        consumer: &BaseConsumer<Group>,
        transaction: &Transaction,
    ) -> Result<(), Stumble> {
        let failed = |error| Stumble::Failed(Call::SendOffsets, error);
        if transaction.spans.is_empty() {
            return Ok(());
        }
        let offsets = offsets(transaction, self.config.topics.inputs(), &self.config.worker_id()).map_err(failed)?;
        // Fresh, after the last poll; the same generation before and after makes it that of the metadata between.
        let generation = native::generation(consumer).ok_or(Stumble::NotMember)?;
        let metadata = consumer.group_metadata().ok_or(Stumble::NotMember)?;
        if native::generation(consumer) != Some(generation) {
            return Err(Stumble::NotMember);
        }
        again(Call::SendOffsets, |left| producer.send_offsets_to_transaction(&offsets, &metadata, left)).map_err(failed)
    }

    /// Destroys the producer and takes the id over anew, which fences whatever the old one left on its way.
    fn rebuild(&mut self, seen: Seen, patience: &Patience, counters: &mut Counters) -> Result<(), EngineError> {
        self.unsettled.get_or_insert_with(Instant::now);
        counters.rebuilt += 1;
        if seen.is_fencing() {
            thread::sleep(self.fencings.note(&self.config.worker_id(), Instant::now())?);
        }
        if let Some(old) = self.producer.take() {
            discard(old);
        }
        self.producer = Some(connect(&self.config, &self.reports, patience)?);
        Ok(())
    }

    /// After an unknown outcome: committed (the outcome), not committed (none: send it again), or not to be told.
    fn settle(
        &mut self,
        consumer: &BaseConsumer<Group>,
        transaction: &Transaction,
    ) -> Result<Option<Outcome>, EngineError> {
        const ASKING: &str = "reading committed offsets";
        let Some(since) = self.unsettled else { return Ok(None) };
        let wanted = partitions(transaction, self.config.topics.inputs());
        let committed = match consumer.committed_offsets(wanted, SETTLE_TIMEOUT) {
            Ok(committed) => committed,
            // The group may have news, which only a poll brings: it is asked again after that.
            Err(error) if since.elapsed() < self.config.outage_max => {
                tracing::warn!(doing = ASKING, last = words(&error), "trying again");
                return Ok(Some(Outcome::NotMember));
            }
            Err(error) => return Err(EngineError::Outage(format!("{ASKING}: {}", words(&error)))),
        };
        // Somebody else's commits say nothing about ours; and a consumer that was fenced is told nothing, whatever it is
        // answered: the next poll brings that.
        if native::generation(consumer).is_none() || consumer.client().fatal_error().is_some() {
            return Ok(Some(Outcome::NotMember));
        }
        let (names, writer) = (self.config.topics.inputs(), self.config.worker_id());
        let found = |input: Input| {
            let element = committed.find_partition(names[input.topic], input.partition)?;
            match element.offset() {
                Offset::Offset(offset) => Some((offset, element.metadata().to_owned())),
                _ => None,
            }
        };
        let all = |expected: fn(&Span) -> Option<(i64, bool)>| {
            transaction.spans.iter().all(|(input, span)| {
                let found = found(*input).map(|(offset, sent)| (offset, sent == metadata(span, &writer)));
                found == expected(span)
            })
        };
        let is_of_others = |(input, span): (&Input, &Span)| {
            found(*input)
                .is_some_and(|(offset, sent)| is_of_others(&sent, span, &writer) && span.previous != Some(offset))
        };
        (self.unsettled, self.kept) = (None, None);
        if transaction.spans.is_empty() || all(|span| span.previous.map(|offset| (offset, false))) {
            Ok(None)
        } else if all(|span| Some((span.next, true))) {
            Ok(Some(Outcome::Committed))
        } else if transaction.spans.iter().any(is_of_others) {
            // The group has not told this process yet; it may own them again later.
            self.unsettled = Some(since);
            Ok(Some(Outcome::NotMember))
        } else {
            Err(EngineError::Undecided(format!(
                "the committed offsets of group {} are neither those sent nor those before: was the group reset while \
                 this process ran?",
                self.config.group
            )))
        }
    }

    /// What delivery reports told.
    pub fn reports(&self) -> &Reports {
        &self.reports
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

fn partitions(transaction: &Transaction, names: [&str; 4]) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for input in transaction.spans.keys() {
        list.add_partition(names[input.topic], input.partition);
    }
    list
}

/// The offsets of a transaction, each with what tells who sent it.
pub(super) fn offsets(
    transaction: &Transaction,
    names: [&str; 4],
    writer: &str,
) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for (input, span) in &transaction.spans {
        let topic = names[input.topic];
        list.add_partition_offset(topic, input.partition, Offset::Offset(span.next))?;
        if let Some(mut element) = list.find_partition(topic, input.partition) {
            element.set_metadata(metadata(span, writer));
        }
    }
    Ok(list)
}
