//! Whether a transaction that was acknowledged is there, on every partition.
//!
//! A coordinator acknowledges the end of a transaction once it has written it down; the markers that end it on each
//! partition come after. Kafka since 4.3 (4.4.0 included) leaves out the markers of a partition that has no leader at that
//! moment (KAFKA-20734), as where all its replicas restart: the records stay open behind a commit that was acknowledged,
//! and the next end of a transaction of the same producer on that partition decides them, an abort as well. So after a
//! connection was lost, and before anything else is sent, it is looked at where the last transaction is there. Where it is
//! not, what is open is ended, and what is missing is published again.
//!
//! Invariant: what a commit acknowledged is there once, or nowhere (`kafka::commit`, `tests/faults`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::MetadataTopic;
use rdkafka::producer::Producer;
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::engine::cluster::client::{CALL_TIMEOUT, Logs, create, reader};
use crate::engine::commit::classifier::Call;
use crate::engine::commit::producer::{Place, abort, produce};
use crate::engine::commit::transaction::{Publisher, Stumble, partitions};
use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::group::assignment::Group;
use crate::engine::native;
use crate::engine::patience::Patience;
use crate::engine::shown::counters::Counters;
use crate::engine::task::batch::{Publication, Transaction};

/// How long records may take to be seen before something is thought to hide them.
pub const SEEN_WITHIN: Duration = Duration::from_millis(500);
/// How long the open transactions of others may hide records: their timeout, and until a broker notices, twice.
const HIDDEN_MAX: Duration = Duration::from_secs(40);
/// Connections have to be there for this long before an idle worker looks.
const CALM_MIN: Duration = Duration::from_secs(1);
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
    /// Whether nobody can have begun with the state before it: it is there, or was open until now.
    is_known: bool,
}

/// The last transaction that was acknowledged.
#[derive(Debug)]
pub struct Kept {
    pub transaction: Arc<Transaction>,
    /// Where its records are, in their order.
    pub places: Vec<Place>,
    /// Disruptions when it began, or was last seen whole.
    pub seen: u64,
    /// Whether its tasks were this worker's ever since.
    pub is_ours: bool,
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
    /// Whether connections are back for a while, and the last transaction was not looked at since.
    pub fn is_to_confirm(&mut self, now: Instant) -> bool {
        let disruptions = self.reports.disruptions();
        if self.disruptions.is_none_or(|(known, _)| known != disruptions) {
            self.disruptions = Some((disruptions, now));
        }
        let is_calm = self.disruptions.is_some_and(|(_, since)| now.duration_since(since) >= CALM_MIN);
        is_calm && self.kept.as_ref().is_some_and(|kept| kept.seen != disruptions)
    }

    /// Its tasks may be somebody else's from now on.
    pub fn disown(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.is_ours = false;
        }
    }

    /// Whether the last transaction was acknowledged before a connection was lost, and is not seen whole since.
    pub(super) fn is_in_doubt(&mut self) -> bool {
        let disruptions = self.reports.disruptions();
        let Some(kept) = self.kept.as_mut().filter(|kept| kept.seen != disruptions) else { return false };
        let seen = fates(&self.config, &kept.lasts(), SEEN_WITHIN);
        let is_whole = seen.is_ok_and(|seen| seen.values().all(|fate| *fate == Fate::There));
        if is_whole {
            kept.seen = disruptions;
        }
        !is_whole
    }

    /// Makes the last transaction whole, where a connection was lost since it was acknowledged: what is missing of it is
    /// published again, or, where nothing of it is there and its tasks may be somebody else's by now, left to them.
    ///
    /// # Errors
    /// No broker answers in time.
    pub fn confirm(&mut self, consumer: &BaseConsumer<Group>, counters: &mut Counters) -> Result<(), EngineError> {
        let patience = Patience::new(self.config.outage_max, &self.stop);
        let mut may_send = true;
        while self.is_in_doubt() {
            let disruptions = self.reports.disruptions();
            let Some(mut kept) = self.kept.take() else { return Ok(()) };
            let found = match self.look(consumer, &kept, counters, &patience) {
                Ok(found) => found,
                Err(error) => {
                    self.kept = Some(kept);
                    patience.pause(DOING, &error.to_string())?;
                    continue;
                }
            };
            if found.gone.is_empty() {
                kept.seen = disruptions;
                self.kept = Some(kept);
                continue;
            }
            let is_member = native::generation(consumer).is_some() && !consumer.context().is_pending();
            let with_offsets = may_send && kept.is_ours && is_member;
            let partitions = words_of(&found.gone);
            if !with_offsets && (found.is_nowhere || !kept.is_ours && !found.is_known) {
                tracing::error!(partitions, "a broker acknowledged a transaction and dropped its end: {LEFT}");
                counters.torn += 1;
                return Ok(());
            }
            match self.publish_again(consumer, &mut kept, &found.gone, with_offsets) {
                Ok(()) => {
                    tracing::error!(partitions, "a broker acknowledged a transaction and dropped its end: {AGAIN}");
                    counters.torn += 1;
                    kept.seen = disruptions;
                    self.kept = Some(kept);
                }
                Err(stumble) => {
                    self.kept = Some(kept);
                    // The group may have moved on; then the state of the tasks alone tells where they go on.
                    may_send &= !matches!(stumble, Stumble::NotMember | Stumble::Failed(Call::SendOffsets, _));
                    self.get_up(&stumble, &patience, counters)?;
                    patience.pause(DOING, "what is missing could not be published")?;
                }
            }
        }
        Ok(())
    }

    /// Whether a transaction whose outcome is not known was committed: then some of it can be read, and the rest is missing.
    ///
    /// # Errors
    /// No broker answers in time.
    pub(super) fn is_anywhere(
        &mut self,
        consumer: &BaseConsumer<Group>,
        sent: Kept,
        patience: &Patience,
        counters: &mut Counters,
    ) -> Result<bool, EngineError> {
        loop {
            match self.look(consumer, &sent, counters, patience) {
                Ok(found) if found.is_nowhere => return Ok(false),
                Ok(_) => {
                    self.kept = Some(sent);
                    return Ok(true);
                }
                Err(error) => patience.pause(DOING, &error.to_string())?,
            }
        }
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
        let states = self.config.topics.states();
        let is_known = fates_now.iter().all(|((topic, _), fate)| *fate != Fate::Gone || !states.contains(&&**topic));
        let open = |fates: &BTreeMap<Part, Fate>| -> BTreeMap<Part, i64> {
            lasts
                .iter()
                .filter(|(part, _)| fates.get(*part) == Some(&Fate::Open))
                .map(|(p, f)| (p.clone(), *f))
                .collect()
        };
        // Beginning waits until the coordinator is done with the transaction before: what is open then is open for ever,
        // and an end of ours decides it. What is committed stays so.
        let inputs = partitions(&kept.transaction, self.config.topics.inputs());
        if let Err(stumble) = self.probe(consumer, &inputs, open(&fates_now).into_keys()) {
            self.get_up(&stumble, patience, counters)?;
            return Err(EngineError::Outage("what is open could not be ended".into()));
        }
        let since = Instant::now();
        loop {
            let left = open(&fates_now);
            if left.is_empty() {
                break;
            }
            if since.elapsed() > HIDDEN_MAX {
                let hidden = words_of(&left.into_keys().collect());
                return Err(EngineError::Outage(format!("{DOING}: open transactions of others hide it on {hidden}")));
            }
            fates_now.extend(fates(&self.config, &left, SEEN_WITHIN)?);
        }
        let gone: BTreeSet<Part> =
            fates_now.into_iter().filter(|(_, fate)| *fate == Fate::Gone).map(|(part, _)| part).collect();
        Ok(Found { is_nowhere: gone.len() == lasts.len(), is_known, gone })
    }

    /// Ends what a process with this id left open though a broker takes it for ended, wherever that is. Nothing of this
    /// process may be open.
    ///
    /// # Errors
    /// No broker answers in time.
    pub fn end_own(
        &mut self,
        consumer: &BaseConsumer<Group>,
        inputs: &TopicPartitionList,
        counters: &mut Counters,
    ) -> Result<(), EngineError> {
        const DOING: &str = "ending what this process left open";
        let patience = Patience::new(self.config.outage_max, &self.stop);
        let mut parts: Vec<Part> = Vec::new();
        for topic in self.config.topics.outputs() {
            let found = consumer.fetch_metadata(Some(&topic), CALL_TIMEOUT);
            let found = found.map_err(|error| EngineError::kafka(DOING, &error))?;
            let topic: Arc<str> = Arc::from(topic);
            let partitions = found.topics().iter().flat_map(MetadataTopic::partitions);
            parts.extend(partitions.map(|partition| (Arc::clone(&topic), partition.id())));
        }
        tracing::warn!("{DOING}");
        if let Err(stumble) = self.probe(consumer, inputs, parts.into_iter()) {
            self.get_up(&stumble, &patience, counters)?;
        }
        Ok(())
    }

    /// A transaction of ours that is aborted, with a record for each of these partitions, and with offsets of the group.
    pub(super) fn probe(
        &self,
        consumer: &BaseConsumer<Group>,
        inputs: &TopicPartitionList,
        parts: impl Iterator<Item = Part>,
    ) -> Result<(), Stumble> {
        let Some(producer) = &self.producer else { return Err(Stumble::NotMember) };
        let probes: Vec<Publication> = parts
            .map(|(topic, partition)| Publication {
                topic,
                partition: Some(partition),
                key: Some(b"probe".to_vec()),
                value: None,
                headers: None,
            })
            .collect();
        producer.begin_transaction().map_err(|error| Stumble::Failed(Call::Begin, error))?;
        produce(producer, &probes).map_err(|error| Stumble::Failed(Call::Produce, error))?;
        let mut offsets = inputs.clone();
        if let (Ok(()), Some(group)) = (offsets.set_all_offsets(Offset::Offset(0)), consumer.group_metadata()) {
            // The group may refuse them: its partition takes part all the same.
            let _ = producer.send_offsets_to_transaction(&offsets, &group, CALL_TIMEOUT);
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
        let again: Vec<&Publication> = missing.iter().map(|number| &publications[*number]).collect();
        let places = produce(producer, again).map_err(|error| Stumble::Failed(Call::Produce, error))?;
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
pub fn fates(
    config: &Config,
    lasts: &BTreeMap<Part, i64>,
    within: Duration,
) -> Result<BTreeMap<Part, Fate>, EngineError> {
    let failed = |error| EngineError::kafka(DOING, &error);
    let reader: BaseConsumer<Logs> = create(&reader(config), Logs)?;
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

fn words_of(parts: &BTreeSet<Part>) -> String {
    let names: Vec<String> = parts.iter().map(|(topic, partition)| format!("{topic}/{partition}")).collect();
    names.join(", ")
}
