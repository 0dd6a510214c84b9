//! One task, decided again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use rdkafka::Message;
use rdkafka::Timestamp as KafkaTimestamp;
use rdkafka::message::BorrowedMessage;

use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::state::restore::TaskRestore;
use crate::engine::task::batch::{Publication, Transaction};
use crate::engine::task::catalogue::Registries;
use crate::engine::task::encode::Outlets;
use crate::engine::task::intake::{Intake, Raw};
use crate::engine::task::place::{Input, Role, TaskId};
use crate::engine::task::tape::{Progress, Run, Step, TapeRecord};
use crate::engine::task::{Record, Ruling, Shared, Task};
use crate::engine::verify::compare::{Decided, differences};
use crate::engine::verify::source::{Lane, Source};
use crate::engine::verify::{Difference, Entries};
use crate::record::dead_letter::Code;
use crate::record::time::Timestamp;

/// A task on its way along its tape.
pub struct Replay {
    id: TaskId,
    topic: String,
    registries: Registries,
    shared: Shared,
    task: Task,
    /// The state as committed, for whenever the task is restored.
    entries: Entries,
    incarnation: u64,
    /// Incarnations seen.
    pub incarnations: u64,
    lanes: [Option<Lane>; 2],
    /// Audit records decided again.
    audit: Vec<Vec<u8>>,
    audit_topic: Arc<str>,
}

impl Replay {
    /// The state before this record, from the changelog.
    pub fn begin(
        config: &Config,
        registries: &Registries,
        id: TaskId,
        first: &TapeRecord,
        source: &Source,
    ) -> Result<Self, EngineError> {
        let shared = Shared {
            intake: Intake::new(config.tenant.clone(), config.schemas.clone()),
            outlets: Outlets::new(config, BTreeMap::new()),
            names: config.topics.inputs().map(Arc::from),
            writer: String::new(),
        };
        let topic = config.topics.states()[id.stage as usize].to_owned();
        let entries = if first.seq == 0 { Entries::new() } else { source.state(first.changelog_next)? };
        let task = restored(id, &topic, registries, &entries, first)?;
        let found = format!("{:032x}", task.core.state_hash());
        if let Some(wanted) = first.state_hash.as_ref().filter(|wanted| **wanted != found) {
            let words = format!(
                "the state before transaction {} has hash {found} on the changelog and {wanted} on the tape: it was \
                 compacted since (min.compaction.lag.ms), or is not what was published",
                first.seq
            );
            return Err(EngineError::State { task: id.to_string(), topic, words });
        }
        Ok(Self {
            id,
            topic,
            registries: registries.clone(),
            shared,
            task,
            entries,
            incarnation: first.incarnation,
            incarnations: 1,
            lanes: [None, None],
            audit: Vec::new(),
            audit_topic: Arc::from(config.topics.audit.as_str()),
        })
    }

    /// Decides one transaction again; what differs, if anything does.
    pub fn decide(&mut self, record: &TapeRecord, source: &Source) -> Result<Option<String>, EngineError> {
        if record.incarnation != self.incarnation {
            self.incarnation = record.incarnation;
            self.incarnations += 1;
            self.task = restored(self.id, &self.topic, &self.registries, &self.entries, record)?;
        }
        let state_hash = format!("{:032x}", self.task.core.state_hash());
        if record.state_hash.as_ref().is_some_and(|wanted| *wanted != state_hash) {
            return Ok(Some(format!("the state before it has hash {state_hash}, not {:?}", record.state_hash)));
        }
        self.task.progress = Progress { seq: record.seq, incarnation: record.incarnation, ..Progress::default() };
        for step in &record.steps {
            if step.runs.is_empty() {
                self.task.let_pass(step.now, Instant::now(), &self.shared.outlets)?;
            }
            for run in &step.runs {
                self.run(step, run, source)?;
            }
        }
        let mut transaction = Transaction::default();
        self.task.close(&self.shared, &mut transaction)?;
        let decided = Decided::of(&transaction)?;
        if let Some(words) = differences(self.id, record, &decided) {
            return Ok(Some(words));
        }
        self.keep(decided.published);
        self.task.committed(None);
        Ok(None)
    }

    /// Takes the records of one run.
    fn run(&mut self, step: &Step, run: &Run, source: &Source) -> Result<(), EngineError> {
        let input = self.id.input(run.input);
        let lane = &mut self.lanes[run.input.slot()];
        if lane.is_none() {
            *lane = Some(source.input(input, run.first)?);
        }
        let Some(lane) = lane else { return Ok(()) };
        while let Some(message) = lane.next(run.next)? {
            let record = record(input, &message);
            if record.offset < run.first {
                continue;
            }
            // What was larger than a topic took then is refused as it was, whatever topics take now; a version that there
            // was not then is none, even if there is one now.
            let is_unpublishable = step.skipped.iter().any(|skipped| {
                skipped.input == run.input && skipped.offset == record.offset && skipped.code == Code::Unpublishable
            });
            let is_version_unknown = run.input == Role::Commands && step.unknown_versions.contains(&record.offset);
            let ruling = Ruling { is_unpublishable, is_version_unknown };
            self.task.take(record, ruling, step.now, Instant::now(), &self.shared, &self.registries)?;
        }
        Ok(())
    }

    /// Notes what is committed.
    fn keep(&mut self, published: &[Publication]) {
        for publication in published {
            let Some(key) = publication.key.clone() else { continue };
            if *publication.topic == *self.topic {
                match publication.value.clone() {
                    Some(value) => drop(self.entries.insert(key, value)),
                    None => drop(self.entries.remove(&key)),
                }
            } else if publication.topic == self.audit_topic {
                self.audit.extend(publication.value.clone());
            }
        }
    }

    /// An audit record behind the last one decided again, where the tape (of so many records) has not grown meanwhile.
    pub fn surplus(&self, source: &Source, records: usize) -> Result<Option<Difference>, EngineError> {
        let Some(last) = self.audit.last() else { return Ok(None) };
        let audit = source.audit()?;
        let behind = audit.iter().rposition(|(_, value)| value == last).map(|at| &audit[at + 1..]);
        let Some((seq, _)) = behind.and_then(<[_]>::first) else { return Ok(None) };
        if source.tape()?.len() > records {
            return Ok(None);
        }
        let words = format!("audit record {seq} is on the audit topic, and no transaction decided it");
        Ok(Some(Difference { seq: self.task.progress.seq, words }))
    }

    /// Compares the audit records decided again with those on their topic, byte for byte.
    pub fn audit_difference(&self, source: &Source) -> Result<Option<Difference>, EngineError> {
        if self.audit.is_empty() {
            return Ok(None);
        }
        Ok(crate::engine::verify::compare::audit(&self.audit, &source.audit()?, self.task.progress.seq))
    }
}

fn restored(
    id: TaskId,
    topic: &str,
    registries: &Registries,
    entries: &Entries,
    record: &TapeRecord,
) -> Result<Task, EngineError> {
    let mut restore = TaskRestore::new(id, topic, registries);
    for (key, value) in entries {
        restore.apply(key, Some(value)).map_err(|words| EngineError::State {
            task: id.to_string(),
            topic: topic.to_owned(),
            words,
        })?;
    }
    let (core, _) = restore.finish()?;
    let progress = Progress { seq: record.seq, incarnation: record.incarnation, ..Progress::default() };
    Ok(Task::new(id, core, progress, [None; 2], record.changelog_next))
}

fn record<'a>(input: Input, message: &'a BorrowedMessage<'_>) -> Record<'a> {
    let at = match message.timestamp() {
        KafkaTimestamp::CreateTime(millis) | KafkaTimestamp::LogAppendTime(millis) => Timestamp::from_millis(millis),
        KafkaTimestamp::NotAvailable => Timestamp::EPOCH,
    };
    let raw = Raw { key: message.key(), value: message.payload(), headers: message.headers() };
    Record { input, offset: message.offset(), at, raw }
}
