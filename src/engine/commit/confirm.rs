//! Whether a transaction that was acknowledged is there, on every partition.
//!
//! A coordinator acknowledges the end of a transaction once it has written it down; the markers that end it on each
//! partition come after. Kafka since 4.3 (4.4.0 included) leaves out the markers of a partition that has no leader at that
//! moment (KAFKA-20734), as where all its replicas restart: the records stay open behind a commit that was acknowledged,
//! and the next end of a transaction of the same producer on that partition decides them, an abort as well. So where a
//! connection was lost soon after an acknowledgement, and before the next transaction ends, it is looked at where the last
//! one is. Where it is not, what is open is ended, and what is missing is published again: as long as the offsets go with
//! it, which the group fences, or the state is there, so that whoever owns the tasks knows of it. Else its inputs are taken
//! again.
//!
//! Where everything is there, as on a broker that does as it should, nothing is sent (`tests/faults`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::metadata::MetadataTopic;
use rdkafka::producer::Producer;
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::engine::cluster::client::{CALL_TIMEOUT, Logs, create, reader};
use crate::engine::commit::classifier::{Action, Call, Seen, classify};
use crate::engine::commit::producer::{Place, abort, produce};
use crate::engine::commit::transaction::{Publisher, Stumble, offsets};
use crate::engine::config::Config;
use crate::engine::error::{EngineError, words};
use crate::engine::group::assignment::Group;
use crate::engine::group::sent::number_of_nothing;
use crate::engine::native;
use crate::engine::patience::Patience;
use crate::engine::shown::counters::Counters;
use crate::engine::task::batch::{Publication, Transaction};
use crate::engine::task::tape::WRITER_HEADER;

/// A connection that is lost later after an acknowledgement has nothing to do with its markers.
const DOUBT_MAX: Duration = Duration::from_secs(15);
/// Records are not looked for longer after their acknowledgement: compaction and retention take them away as well.
const AGE_MAX: Duration = Duration::from_mins(10);
/// How long records may take to be seen before something is thought to hide them.
const SEEN_WITHIN: Duration = Duration::from_secs(2);
/// How long the open transactions of others may hide records: their timeout, and until a broker notices, twice.
const HIDDEN_MAX: Duration = Duration::from_secs(40);
/// How long one question may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_MAX: Duration = Duration::from_millis(20);
const AGAIN: &str = "what was missing of it is published again";
const LEFT: &str = "its inputs are taken again";
const DOING: &str = "looking whether the last transaction is there";

/// A partition of an output.
type Part = (Arc<str>, i32);

/// What became of the records of a transaction on one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They can be read.
    There,
    /// They were aborted.
    Gone,
    /// Something before them is open, or they are.
    Open,
}

/// Where a transaction is.
struct Found {
    /// The partitions on which it was aborted.
    gone: BTreeSet<Part>,
    /// Whether that is all of them.
    is_nowhere: bool,
    /// Whether the state of all its tasks is there.
    is_known: bool,
}

/// The last transaction that was acknowledged.
#[derive(Debug)]
pub struct Kept {
    pub transaction: Arc<Transaction>,
    /// Where its records are, in their order.
    pub places: Vec<Place>,
    /// When it was acknowledged.
    pub at: Instant,
}

impl Kept {
    /// Its last record on each partition: compaction keeps that longer than any before it.
    fn lasts(&self) -> BTreeMap<Part, i64> {
        let mut lasts = BTreeMap::new();
        for (publication, (partition, offset)) in self.transaction.publications.iter().zip(&self.places) {
            let last = lasts.entry((Arc::clone(&publication.topic), *partition)).or_insert(*offset);
            *last = (*last).max(*offset);
        }
        lasts
    }
}

impl Publisher {
    /// Its tasks may be somebody else's from now on.
    pub fn disown(&mut self) {
        (self.kept, self.is_left) = (None, false);
    }

    /// Whether a connection was lost soon after the last transaction was acknowledged, and not all of it is seen since.
    pub(super) fn is_in_doubt(&mut self) -> bool {
        let Some(lost) = self.reports.disrupted_at() else { return false };
        let is_to_see =
            |kept: &Kept| lost.saturating_duration_since(kept.at) < DOUBT_MAX && kept.at.elapsed() < AGE_MAX;
        let Some(kept) = self.kept.as_ref().filter(|kept| is_to_see(kept)) else { return false };
        let seen = fates(&self.config, &kept.lasts(), SEEN_WITHIN);
        let is_whole = seen.is_ok_and(|seen| seen.values().all(|fate| *fate == Fate::There));
        if is_whole {
            // What was seen once stays.
            self.kept = None;
        }
        !is_whole
    }

    /// Makes the last transaction whole, where it is in doubt.
    ///
    /// # Errors
    /// No broker answers in time.
    pub(super) fn confirm(
        &mut self,
        consumer: &BaseConsumer<Group>,
        counters: &mut Counters,
    ) -> Result<(), EngineError> {
        let patience = Patience::new(self.config.outage_max, &self.stop);
        let mut may_send = true;
        while self.is_in_doubt() {
            let Some(mut kept) = self.kept.take() else { return Ok(()) };
            let found = match self.look(consumer, &kept, counters, &patience) {
                Ok(found) => found,
                Err(error) => {
                    self.kept = Some(kept);
                    patience.pause(DOING, &error.to_string())?;
                    continue;
                }
            };
            let is_member = native::generation(consumer).is_some() && !consumer.context().is_pending();
            let with_offsets = may_send && is_member;
            let partitions = words_of(&found.gone);
            if !with_offsets && (found.is_nowhere || !found.is_known) {
                tracing::error!(partitions, "a broker acknowledged a transaction and dropped its end: {LEFT}");
                counters.torn += 1;
                self.is_left = true;
                return Ok(());
            }
            match self.publish_again(consumer, &mut kept, &found.gone, with_offsets) {
                Ok(()) if found.gone.is_empty() => return Ok(()),
                Ok(()) => {
                    tracing::error!(partitions, "a broker acknowledged a transaction and dropped its end: {AGAIN}");
                    counters.torn += 1;
                    kept.at = Instant::now();
                    self.kept = Some(kept);
                }
                Err(stumble) => {
                    self.kept = Some(kept);
                    // The group has moved on: then the state of the tasks alone tells where they go on.
                    may_send &= !matches!(&stumble, Stumble::NotMember)
                        && !matches!(&stumble, Stumble::Failed(_, error) if Seen::of(error).is_group_change());
                    self.get_up(&stumble, &patience, counters)?;
                    patience.pause(DOING, "what is missing could not be published")?;
                }
            }
        }
        Ok(())
    }

    /// Looks where a transaction is, until that is settled on every partition.
    fn look(
        &mut self,
        consumer: &BaseConsumer<Group>,
        kept: &Kept,
        counters: &mut Counters,
        patience: &Patience,
    ) -> Result<Found, EngineError> {
        let lasts = kept.lasts();
        let mut fates_now = fates(&self.config, &lasts, SEEN_WITHIN)?;
        let open = |fates: &BTreeMap<Part, Fate>| -> BTreeMap<Part, i64> {
            lasts
                .iter()
                .filter(|(part, _)| fates.get(*part) == Some(&Fate::Open))
                .map(|(p, f)| (p.clone(), *f))
                .collect()
        };
        // Beginning waits until the coordinator is done with the transaction before: what is open then is open for ever,
        // and an end of ours decides it. What is committed stays so.
        let sent = offsets(&kept.transaction, self.config.topics.inputs(), &self.config.worker_id())
            .map_err(|error| EngineError::kafka(DOING, &error))?;
        if let Err(stumble) = self.probe(consumer, &sent, open(&fates_now).into_keys()) {
            self.get_up(&stumble, patience, counters)?;
            return Err(EngineError::Outage("what is open could not be ended".into()));
        }
        let since = Instant::now();
        loop {
            let left = open(&fates_now);
            if left.is_empty() {
                break;
            }
            if since.elapsed() > HIDDEN_MAX || self.stop.load(Ordering::Relaxed) {
                let hidden = words_of(&left.into_keys().collect());
                return Err(EngineError::Outage(format!("{DOING}: open transactions of others hide it on {hidden}")));
            }
            fates_now.extend(fates(&self.config, &left, SEEN_WITHIN * 4)?);
        }
        let gone: BTreeSet<Part> =
            fates_now.into_iter().filter(|(_, fate)| *fate == Fate::Gone).map(|(part, _)| part).collect();
        let states = self.config.topics.states();
        let is_known = !gone.iter().any(|(topic, _)| states.contains(&&**topic));
        Ok(Found { is_nowhere: gone.len() == lasts.len(), is_known, gone })
    }

    /// Ends what a process with this id left open though a broker takes it for ended, wherever that is. Nothing of this
    /// process may be open. What does not succeed is told, and may be tried again.
    ///
    /// # Errors
    /// No producer can be made any more.
    pub fn end_own(
        &mut self,
        consumer: &BaseConsumer<Group>,
        inputs: &TopicPartitionList,
        counters: &mut Counters,
    ) -> Result<(), EngineError> {
        const DOING: &str = "ending what this process may have left open";
        tracing::warn!("{DOING}");
        let found = match consumer.fetch_metadata(None, ASK_TIMEOUT) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(doing = DOING, error = %words(&error), "no success yet");
                return Ok(());
            }
        };
        let outputs = self.config.topics.outputs();
        let is_output = |topic: &&MetadataTopic| outputs.iter().any(|output| output == topic.name());
        let parts = found.topics().iter().filter(is_output).flat_map(|topic| {
            let name: Arc<str> = Arc::from(topic.name());
            topic.partitions().iter().map(move |partition| (Arc::clone(&name), partition.id()))
        });
        let mut list = inputs.clone();
        let is_set = list.set_all_offsets(Offset::Offset(0));
        for mut element in list.elements() {
            // Should a broker keep them: no task takes them for its own.
            element.set_metadata(number_of_nothing());
        }
        if let (Ok(()), Err(stumble)) = (is_set, self.probe(consumer, &list, parts)) {
            let patience = Patience::new(self.config.outage_max, &self.stop);
            self.get_up(&stumble, &patience, counters)?;
        }
        Ok(())
    }

    /// A transaction of ours that is aborted, with a record for each of these partitions, and with offsets of the group.
    pub(super) fn probe(
        &self,
        consumer: &BaseConsumer<Group>,
        sent: &TopicPartitionList,
        parts: impl Iterator<Item = Part>,
    ) -> Result<(), Stumble> {
        let Some(producer) = &self.producer else { return Err(Stumble::NotMember) };
        let writer = self.config.worker_id();
        let probes: Vec<Publication> = parts
            .map(|(topic, partition)| Publication {
                topic,
                partition: Some(partition),
                key: Some(b"probe".to_vec()),
                value: None,
                // Should this process end now, others find out whose it is.
                headers: Some(OwnedHeaders::new().insert(Header { key: WRITER_HEADER, value: Some(&writer) })),
            })
            .collect();
        producer.begin_transaction().map_err(|error| Stumble::Failed(Call::Begin, error))?;
        produce(producer, &probes).map_err(|error| Stumble::Failed(Call::Produce, error))?;
        if let Some(group) = consumer.group_metadata()
            && let Err(error) = producer.send_offsets_to_transaction(sent, &group, CALL_TIMEOUT)
            // A refusal does: the partition of the group takes part. A request that may still be on its way does not.
            && classify(Call::SendOffsets, Seen::of(&error)) != Action::Abort
        {
            return Err(Stumble::Failed(Call::SendOffsets, error));
        }
        if abort(producer) { Ok(()) } else { Err(Stumble::Doubt) }
    }

    /// Publishes again what is missing of a transaction; its offsets too, where they are still ours to send.
    fn publish_again(
        &self,
        consumer: &BaseConsumer<Group>,
        kept: &mut Kept,
        gone: &BTreeSet<Part>,
        with_offsets: bool,
    ) -> Result<(), Stumble> {
        let Some(producer) = &self.producer else { return Err(Stumble::NotMember) };
        let publications = &kept.transaction.publications;
        let is_missing =
            |number: &usize| gone.contains(&(Arc::clone(&publications[*number].topic), kept.places[*number].0));
        let missing: Vec<usize> = (0..publications.len()).filter(is_missing).collect();
        producer.begin_transaction().map_err(|error| Stumble::Failed(Call::Begin, error))?;
        let again: Vec<Publication> = missing
            .iter()
            .map(|number| Publication { partition: Some(kept.places[*number].0), ..publications[*number].clone() })
            .collect();
        let places = produce(producer, &again).map_err(|error| Stumble::Failed(Call::Produce, error))?;
        // Whatever becomes of this transaction: it is there that the records are looked for next.
        for (number, place) in missing.into_iter().zip(places) {
            kept.places[number] = place;
        }
        if with_offsets {
            self.send_offsets(producer, consumer, &kept.transaction)?;
        }
        producer.commit_transaction(CALL_TIMEOUT).map_err(|error| Stumble::Failed(Call::Commit, error))
    }
}

#[cfg(feature = "failpoints")]
impl Publisher {
    /// For tests of faults: does what a broker does that acknowledges a transaction and drops its end, everywhere or on
    /// every second partition, and then loses its connections. None: it was to be lost.
    pub(super) fn lose_end(&mut self, consumer: &BaseConsumer<Group>, mut kept: Kept) -> Result<Option<Kept>, Stumble> {
        use crate::engine::failpoint::is_lost;
        let is_all = is_lost("end_txn");
        if !is_all && !is_lost("end_txn_in_part") {
            return Ok(Some(kept));
        }
        if !self.producer.as_ref().is_some_and(abort) {
            return Err(Stumble::Doubt);
        }
        if !is_all {
            let there: BTreeSet<Part> = kept.lasts().into_keys().step_by(2).collect();
            self.publish_again(consumer, &mut kept, &there, true)?;
        }
        self.reports.disrupted();
        self.kept = Some(kept);
        Ok(None)
    }
}

/// What became of the records at these places, as far as it can be seen in time.
///
/// # Errors
/// A client cannot be made.
fn fates(config: &Config, lasts: &BTreeMap<Part, i64>, within: Duration) -> Result<BTreeMap<Part, Fate>, EngineError> {
    let failed = |error| EngineError::kafka(DOING, &error);
    let reader = Reading(Some(create(&reader(config), Logs)?));
    let Some(reader) = &reader.0 else { return Ok(BTreeMap::new()) };
    let mut wanted = TopicPartitionList::new();
    for ((topic, partition), last) in lasts {
        wanted.add_partition_offset(topic, *partition, Offset::Offset(*last)).map_err(failed)?;
    }
    reader.assign(&wanted).map_err(failed)?;
    let mut fates: BTreeMap<Part, Fate> = lasts.keys().map(|part| (part.clone(), Fate::Open)).collect();
    let since = Instant::now();
    while since.elapsed() < within && fates.values().any(|fate| *fate == Fate::Open) {
        if let Some(Ok(message)) = reader.poll(POLL_MAX) {
            let part = (Arc::from(message.topic()), message.partition());
            let last = lasts.get(&part).copied();
            let fate = fates.get_mut(&part).filter(|fate| **fate == Fate::Open);
            if let Some((fate, last)) = fate.zip(last).filter(|(_, last)| message.offset() >= *last) {
                *fate = if message.offset() == last { Fate::There } else { Fate::Gone };
            }
            continue;
        }
        // Positions go past records that were aborted, which no poll brings.
        let positions = reader.position().map_err(failed)?;
        for ((topic, partition), fate) in fates.iter_mut().filter(|(_, fate)| **fate == Fate::Open) {
            let position = positions.find_partition(topic, *partition).map(|element| element.offset());
            let last = lasts[&(Arc::clone(topic), *partition)];
            if matches!(position, Some(Offset::Offset(position)) if position > last) {
                *fate = Fate::Gone;
            }
        }
    }
    Ok(fates)
}

/// A reader. Closing one takes 100 ms or more: nobody waits for it.
struct Reading(Option<BaseConsumer<Logs>>);

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(reader) = self.0.take() {
            // Without a thread it is dropped here, which only takes longer.
            let _ = thread::Builder::new().name("discard".into()).spawn(move || drop(reader));
        }
    }
}

fn words_of(parts: &BTreeSet<Part>) -> String {
    let names: Vec<String> = parts.iter().map(|(topic, partition)| format!("{topic}/{partition}")).collect();
    names.join(", ")
}
