//! The sample runtime: it knows a bootstrap address and topic names, nothing of the processor. It sends its sessions'
//! events, waits for interventions within its budget, resolves, and goes on with the graph it was told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::Value;

use crate::cli::demo::session::{APP_VERSION, GRAPH, GRAPH_VERSION, Phase, Sample, Under};
use crate::engine::cluster::client::{self, Logs};
use crate::engine::{Cluster, EngineError, TopicNames};
use crate::record::intervention::InterventionStatus;
use crate::record::time::Timestamp;
use crate::resolve::{Context, OverrideTable, resolve};

/// How long a runtime waits for an applied intervention before it exits as it would without Reflex.
pub const BUDGET: Duration = Duration::from_secs(5);

/// One record of the story, as the runtime saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Topic.
    pub topic: String,
    /// Key.
    pub key: String,
    /// The record; none is a tombstone.
    pub value: Option<Value>,
    /// When the processor wrote it.
    pub written_at: Timestamp,
}

/// How one failing session was saved.
#[derive(Clone, Debug)]
pub struct Saved {
    /// When its node failed for good.
    pub failed_at: Timestamp,
    /// When it went on.
    pub resumed_at: Timestamp,
}

/// The runtime and its sessions.
pub struct Runtime {
    /// The sessions, the story's first.
    pub sessions: Vec<Sample>,
    /// Every record seen, by session.
    pub seen: BTreeMap<String, Vec<Seen>>,
    /// Failing sessions that went on.
    pub saved: BTreeMap<String, Saved>,
    /// Events sent.
    pub events: u64,
    producer: ThreadedProducer<DefaultProducerContext>,
    consumer: BaseConsumer<Logs>,
    topics: TopicNames,
    overrides: OverrideTable,
    applied: BTreeSet<(String, Option<String>)>,
    failed_at: BTreeMap<String, Timestamp>,
    due: BTreeSet<(Instant, usize)>,
}

/// Time between the starts of two sessions.
const PACE: Duration = Duration::from_millis(5);

impl Runtime {
    /// Connects; reads both topics from their beginning, all partitions, without a group.
    ///
    /// # Errors
    /// Those of the client.
    pub fn connect(
        cluster: &Cluster,
        topics: &TopicNames,
        partitions: i32,
        sessions: usize,
    ) -> Result<Self, EngineError> {
        let producer = client::create(&client::publisher(cluster), DefaultProducerContext)?;
        let mut reader = client::asking(cluster);
        reader.set("group.id", "sample-runtime").set("enable.auto.commit", "false");
        reader.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
        let consumer: BaseConsumer<Logs> = client::create(&reader, Logs)?;
        let mut wanted = TopicPartitionList::new();
        for topic in [&topics.interventions, &topics.overrides] {
            for partition in 0..partitions {
                let added = wanted.add_partition_offset(topic, partition, Offset::Beginning);
                added.map_err(|error| EngineError::kafka("reading overrides", &error))?;
            }
        }
        consumer.assign(&wanted).map_err(|error| EngineError::kafka("reading overrides", &error))?;
        read_to_end(&consumer, wanted.count());
        let sessions: Vec<Sample> = (0..sessions.max(1)).map(Sample::new).collect();
        let begin = Instant::now();
        let due = (0_u32..).zip(0..sessions.len()).map(|(nth, at)| (begin + PACE * nth, at)).collect();
        Ok(Self {
            sessions,
            seen: BTreeMap::new(),
            saved: BTreeMap::new(),
            events: 0,
            producer,
            consumer,
            topics: topics.clone(),
            overrides: OverrideTable::new(),
            applied: BTreeSet::new(),
            failed_at: BTreeMap::new(),
            due,
        })
    }

    /// Runs every session to its end, and on until the last override is gone; gives up at `deadline`.
    ///
    /// # Errors
    /// Those of the client.
    pub fn run(&mut self, deadline: Instant) -> Result<(), EngineError> {
        while !(self.due.is_empty() && self.all_ended() && self.overrides.is_empty()) {
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            while let Some((at, index)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
                self.due.remove(&(at, index));
                self.send_next(index, now)?;
            }
            self.read(Duration::from_millis(1));
        }
        let flushed = self.producer.flush(Duration::from_secs(5));
        flushed.map_err(|error| EngineError::kafka("sending events", &error))
    }

    fn all_ended(&self) -> bool {
        self.sessions.iter().all(|session| matches!(session.phase, Phase::Finished | Phase::GaveUp))
    }

    fn send_next(&mut self, index: usize, now: Instant) -> Result<(), EngineError> {
        let session = &mut self.sessions[index];
        if session.phase == Phase::Waiting {
            return self.wait(index, now);
        }
        let Some((mut event, pause)) = session.next() else { return Ok(()) };
        let at = wall();
        event["occurred_at"] = Value::String(at.to_string());
        if event["type"] == "node_failed" {
            self.failed_at.insert(session.session_id.clone(), at);
        }
        let text = event.to_string();
        let record = BaseRecord::to(&self.topics.events).key(&session.session_id).payload(&text);
        self.producer.send(record).map_err(|(error, _)| EngineError::kafka("sending events", &error))?;
        self.events += 1;
        self.due.insert((now + pause, index));
        Ok(())
    }

    /// One look of a waiting session: resumes it, leaves it waiting, or gives up.
    fn wait(&mut self, index: usize, now: Instant) -> Result<(), EngineError> {
        let at = wall();
        let session = &mut self.sessions[index];
        let failed_at = self.failed_at.get(&session.session_id).copied().unwrap_or(at);
        if self.applied.contains(&(session.session_id.clone(), Some(session.run_id.clone()))) {
            let context = Context {
                session_id: Some(session.session_id.clone()),
                run_id: Some(session.run_id.clone()),
                phase: crate::resolve::Phase::Failed,
                tenant: Some(session.tenant.clone()),
                region: Some(session.region.to_owned()),
                app_version: Some(APP_VERSION.to_owned()),
                graph_version: Some(GRAPH_VERSION.to_owned()),
                ..Context::default()
            };
            let found = resolve(&self.overrides, GRAPH, &context, at);
            if let (Some(override_id), Some(entry_point)) = (found.override_id, found.entry_point) {
                let under = Under {
                    schema_ref: found.schema_ref.to_string(),
                    override_id: override_id.to_owned(),
                    attempt: found.override_attempt.unwrap_or(0),
                    entry_point: entry_point.to_owned(),
                };
                session.resume(under);
                self.saved.insert(session.session_id.clone(), Saved { failed_at, resumed_at: at });
                return self.send_next(index, now);
            }
        }
        if at.millis_since(failed_at) > i64::try_from(BUDGET.as_millis()).unwrap_or(i64::MAX) {
            session.phase = Phase::GaveUp;
        } else {
            self.due.insert((now + Duration::from_millis(1), index));
        }
        Ok(())
    }

    /// Takes what came on the two topics.
    pub fn read(&mut self, longest: Duration) {
        let mut wait = longest;
        while let Some(polled) = self.consumer.poll(wait) {
            wait = Duration::ZERO;
            let Ok(message) = polled else { continue };
            let key = String::from_utf8_lossy(message.key().unwrap_or_default()).into_owned();
            let value = message.payload().and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
            let written_at = Timestamp::from_millis(message.timestamp().to_millis().unwrap_or(0));
            if message.topic() == self.topics.overrides {
                self.overrides.apply_json(&key, message.payload());
            }
            let topic = message.topic().to_owned();
            self.note(Seen { topic, key, value, written_at });
        }
    }

    fn note(&mut self, seen: Seen) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let scope = match &seen.value {
            Some(value) => value["scope"].clone(),
            None => serde_json::from_str::<Value>(&seen.key).map(|key| key["scope"].clone()).unwrap_or_default(),
        };
        let Some(session_id) = text(&scope["session_id"]) else { return };
        if let Some(value) = &seen.value
            && value["status"] == InterventionStatus::Applied.as_str()
        {
            self.applied.insert((session_id.clone(), text(&value["run_id"])));
        }
        self.seen.entry(session_id).or_default().push(seen);
    }
}

/// A runtime is ready once it has read what is there: every partition to its end. The topics of the demo are new, so
/// nothing is passed over.
fn read_to_end(consumer: &BaseConsumer<Logs>, partitions: usize) {
    let patience = Instant::now() + Duration::from_secs(3);
    let mut ended = BTreeSet::new();
    while ended.len() < partitions && Instant::now() < patience {
        if let Some(Err(KafkaError::PartitionEOF(partition))) = consumer.poll(Duration::from_millis(10)) {
            // An end names its partition only; both topics have as many.
            let again = !ended.insert((partition, 0));
            ended.extend(again.then_some((partition, 1)));
        }
    }
}

/// The runtime's clock.
#[must_use]
pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
