//! Outputs of the stages as records to publish: topic, partition, bytes, and whether the topic takes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::config::{Config, Encoding, dead_letters_of};
use crate::engine::task::batch::Publication;
use crate::engine::task::dead_letter::RECORD_OVERHEAD;
use crate::engine::task::place::{StageName, TaskId};
use crate::engine::task::tape::Progress;
use crate::record::codec::{RecordKind, avro};
use crate::record::dead_letter::{Code, Rejection};
use crate::record::output::{Output, Record};
use crate::record::topic::Topic;
use crate::session::Change;

/// `max.message.bytes` of a topic nobody described: the broker's default.
pub const TOPIC_BYTES_MAX: usize = 1_048_588;

/// Where outputs go and how large they may be.
#[derive(Debug)]
pub struct Outlets {
    topics: [(Topic, Arc<str>); 5],
    /// By stage.
    state: [Arc<str>; 2],
    tape: [Arc<str>; 2],
    dead_letters: [Arc<str>; 4],
    bytes_max: BTreeMap<String, usize>,
    encoding: Encoding,
}

impl Outlets {
    /// `bytes_max`: `max.message.bytes` by topic name, where known.
    pub fn new(config: &Config, bytes_max: BTreeMap<String, usize>) -> Self {
        Self {
            topics: Topic::ALL.map(|topic| (topic, Arc::from(config.topics.of(topic)))),
            state: config.topics.states().map(Arc::from),
            tape: config.topics.tapes().map(Arc::from),
            dead_letters: config.topics.inputs().map(|input| Arc::from(dead_letters_of(input))),
            bytes_max,
            encoding: config.encoding,
        }
    }

    /// The dead-letter topic of an input.
    pub fn dead_letters(&self, input: usize) -> (&Arc<str>, usize) {
        let topic = &self.dead_letters[input];
        (topic, self.bytes_max(topic))
    }

    /// One output of a task.
    pub fn publication(&self, output: &Output, task: TaskId) -> Result<Publication, Rejection> {
        let Some((_, topic)) = self.topics.iter().find(|(topic, _)| *topic == output.topic) else {
            return Err(Rejection::new(Code::Unpublishable, "an output topic without a name"));
        };
        let value = output.value.as_ref().map(|record| self.bytes(record)).transpose()?;
        let size = output.key.len() + value.as_ref().map_or(0, Vec::len) + RECORD_OVERHEAD;
        let limit = self.bytes_max(topic);
        if size > limit {
            return Err(Rejection::new(
                Code::Unpublishable,
                format_args!("an output of {size} bytes; topic {topic} takes {limit}"),
            ));
        }
        // The audit chain of a task stays in the task's own partition, in order.
        let partition = (output.topic == Topic::Audit).then_some(task.partition);
        let key = Some(output.key.clone().into_bytes());
        Ok(Publication { topic: Arc::clone(topic), partition, key, value, headers: None })
    }

    /// One changed entry of the state of a task.
    pub fn change(&self, change: Change, task: TaskId) -> Publication {
        let Change { key, value } = change;
        self.entry(key.into_bytes(), value, task)
    }

    /// The engine's own entry in the changelog of a task.
    pub fn progress(&self, value: Vec<u8>, task: TaskId) -> Publication {
        self.entry(Progress::KEY.to_vec(), Some(value), task)
    }

    fn entry(&self, key: Vec<u8>, value: Option<Vec<u8>>, task: TaskId) -> Publication {
        let topic = Arc::clone(&self.state[task.stage as usize]);
        Publication { topic, partition: Some(task.partition), key: Some(key), value, headers: None }
    }

    /// The tape of a stage.
    pub fn tape(&self, stage: StageName) -> Arc<str> {
        Arc::clone(&self.tape[stage as usize])
    }

    fn bytes_max(&self, topic: &str) -> usize {
        self.bytes_max.get(topic).copied().unwrap_or(TOPIC_BYTES_MAX)
    }

    fn bytes(&self, record: &Record) -> Result<Vec<u8>, Rejection> {
        let refused =
            |why: &dyn std::fmt::Display| Rejection::new(Code::Unpublishable, format_args!("an output: {why}"));
        match self.encoding {
            Encoding::Json => serde_json::to_vec(record).map_err(|_| refused(&"no JSON")),
            Encoding::Avro => {
                let value = serde_json::to_value(record).map_err(|_| refused(&"no JSON"))?;
                avro::encode(kind(record), &value).map_err(|error| refused(&error))
            }
        }
    }
}

fn kind(record: &Record) -> RecordKind {
    match record {
        Record::Intervention(_) => RecordKind::Intervention,
        Record::Override(_) => RecordKind::Override,
        Record::Escalation(_) => RecordKind::Escalation,
        Record::Audit(_) => RecordKind::Audit,
        Record::Fleet(_) => RecordKind::Fleet,
    }
}
