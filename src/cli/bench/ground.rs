//! The topics of one run: outputs of its own, events loaded for it or left from an earlier run.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use crate::cli::bench::fleet::{Fleet, Plan, Step};
use crate::cli::exit::{Exit, Failure};
use crate::engine::cluster::admin::{Admin, TopicFacts};
use crate::engine::cluster::client::{self, Logs};
use crate::engine::cluster::topics::{TopicSpec, apply, compare, wait_until_there, wanted};
use crate::engine::config::dead_letters_of;
use crate::engine::publish::Feed;
use crate::engine::{Cluster, EngineError, TopicNames};
use crate::record::time::Timestamp;

/// What all topics of the benchmark begin with.
const PREFIX: &str = "reflex.bench";
/// When the first recorded event occurred: 2026-11-30T07:00:00Z.
const BEGIN_MS: i64 = 1_796_022_000_000;
/// Events of a recorded millisecond.
const EVENTS_PER_MS: i64 = 20;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Topics that are there for one run.
pub struct Ground {
    /// Their names.
    pub names: TopicNames,
    /// Partitions of each.
    pub partitions: i32,
    cluster: Cluster,
    admin: Admin,
    made: Vec<String>,
}

impl Ground {
    /// Creates what is missing. Events are on `events`, or on a topic that ends with the run.
    ///
    /// # Errors
    /// Exit 69 where no broker answers.
    pub fn lay(cluster: &Cluster, run: &str, events: Option<&str>, partitions: usize) -> Result<Self, Failure> {
        let names = names(run, events);
        let admin = Admin::new(cluster, TIMEOUT)?;
        let existing = admin.existing(std::slice::from_ref(&names.events))?;
        // Those of a topic that is there decide.
        let partitions = existing.get(&names.events).map_or(partitions, |facts| facts.partitions);
        let specs = wanted(&names, partitions, true);
        let all: Vec<String> = specs.iter().map(|spec| spec.name.clone()).collect();
        let there: BTreeMap<String, TopicFacts> = admin.existing(&all)?;
        let missing: Vec<&TopicSpec> = specs.iter().filter(|spec| !there.contains_key(&spec.name)).collect();
        for spec in &missing {
            apply(&admin, spec, None, &compare(spec, None))?;
        }
        wait_until_there(&admin, &missing)?;
        // Events that are kept keep their dead letters: a name that is deleted and made again at once is neither.
        let is_kept = |name: &str| events.is_some_and(|events| name == events || name == dead_letters_of(events));
        let made = missing.iter().map(|spec| spec.name.clone()).filter(|name| !is_kept(name)).collect();
        let partitions = i32::try_from(partitions).unwrap_or(i32::MAX);
        Ok(Self { partitions, cluster: cluster.clone(), made, names, admin })
    }

    /// Loads the fleet, unless the topic holds it already.
    ///
    /// # Errors
    /// Exit 69 for a topic that holds something else.
    pub fn load(&self, plan: Plan, expected: u64) -> Result<(), Failure> {
        match self.events()? {
            0 => {}
            events if events == expected => return Ok(()),
            events => {
                let name = &self.names.events;
                let message = format!("{name} holds {events} events instead of {expected}: delete it");
                return Err(Failure::new(Exit::Unavailable, message));
            }
        }
        let mut fleet = Fleet::new(plan);
        self.send("", std::iter::from_fn(|| fleet.step()))
    }

    /// Sends steps as events; `run` tells their sessions from others.
    ///
    /// # Errors
    /// What is not delivered.
    pub fn send(&self, run: &str, steps: impl Iterator<Item = Step>) -> Result<(), Failure> {
        let feed = self.feed(&self.names.events)?;
        let (mut session_id, mut text) = (String::new(), String::new());
        for (sent, step) in (0..).zip(steps) {
            step.write_session_id(run, &mut session_id);
            step.write_event(&session_id, Timestamp::from_millis(BEGIN_MS + sent / EVENTS_PER_MS), &mut text);
            feed.send(&session_id, &text)?;
        }
        Ok(feed.finish()?)
    }

    /// A feed that is made for many records.
    ///
    /// # Errors
    /// Those of the client.
    pub fn feed(&self, topic: &str) -> Result<Feed, EngineError> {
        let mut cluster = self.cluster.clone();
        for (property, value) in [("linger.ms", "20"), ("compression.type", "lz4"), ("batch.size", "262144")] {
            cluster.properties.entry(property.to_owned()).or_insert_with(|| value.to_owned());
        }
        Feed::new(&cluster, topic)
    }

    /// Makes the group begin behind everything that is on the inputs now. No member of it may be there yet.
    ///
    /// # Errors
    /// Where a broker refuses.
    pub fn skip(&self, group: &str) -> Result<(), EngineError> {
        const DOING: &str = "committing offsets";
        let mut list = TopicPartitionList::new();
        for topic in self.names.inputs() {
            for (partition, (_, next)) in (0..).zip(self.admin.ends(topic, self.partitions)?) {
                let added = list.add_partition_offset(topic, partition, Offset::Offset(next));
                added.map_err(|error| EngineError::kafka(DOING, &error))?;
            }
        }
        let mut asking = client::asking(&self.cluster);
        asking.set("group.id", group);
        let consumer: BaseConsumer<Logs> = client::create(&asking, Logs)?;
        consumer.commit(&list, CommitMode::Sync).map_err(|error| EngineError::kafka(DOING, &error))
    }

    /// Events on the topic.
    ///
    /// # Errors
    /// Where the broker does not tell.
    pub fn events(&self) -> Result<u64, EngineError> {
        let ends = self.admin.ends(&self.names.events, self.partitions)?;
        Ok(ends.iter().map(|(first, next)| u64::try_from(next - first).unwrap_or(0)).sum())
    }

    /// Events that the group has not committed.
    ///
    /// # Errors
    /// Where the broker does not tell.
    pub fn behind(&self, group: &str) -> Result<u64, EngineError> {
        let mut asking = client::asking(&self.cluster);
        asking.set("group.id", group);
        let consumer: BaseConsumer<Logs> = client::create(&asking, Logs)?;
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&self.names.events, 0, self.partitions - 1);
        let committed = consumer
            .committed_offsets(list, TIMEOUT)
            .map_err(|error| EngineError::kafka("reading committed offsets", &error))?;
        let ends = self.admin.ends(&self.names.events, self.partitions)?;
        let behind = (0..).zip(ends).map(|(partition, (first, next))| {
            let found = committed.find_partition(&self.names.events, partition);
            let committed = found.and_then(|found| found.offset().to_raw()).filter(|offset| *offset >= first);
            u64::try_from(next - committed.unwrap_or(first)).unwrap_or(0)
        });
        Ok(behind.sum())
    }

    /// Removes what was made for this run.
    ///
    /// # Errors
    /// Where the broker refuses.
    pub fn clear(&self) -> Result<(), EngineError> {
        self.made.iter().try_for_each(|name| self.admin.delete(name))
    }
}

/// Name of the topic that holds a fleet for runs to come.
#[must_use]
pub fn kept(plan: Plan, partitions: usize) -> String {
    let Plan { events, sessions, failing_parts, seed } = plan;
    format!("{PREFIX}.events-{events}-{sessions}-{failing_parts}-{seed}-{partitions}")
}

/// Names of the topics of a run; events may be elsewhere.
#[must_use]
pub fn names(run: &str, events: Option<&str>) -> TopicNames {
    let names = TopicNames::prefixed(&format!("{PREFIX}.{run}"));
    TopicNames { events: events.map_or_else(|| names.events.clone(), str::to_owned), ..names }
}
