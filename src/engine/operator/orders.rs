//! Commands of people as records: to the task that owns what they decide on, or to every task, and what became of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::cluster::acls::commands_id;
use crate::engine::cluster::admin::Admin;
use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::operator::once::Once;
use crate::engine::operator::scan::{Bounds, Reader, bounds};
use crate::engine::task::batch::Publication;
use crate::engine::task::place::{StageName, TaskId};
use crate::record::audit::Audit;
use crate::record::codec::{DecodeLimits, Headers, decode};
use crate::record::command::Command;
use crate::record::scope::Scope;

/// Key of a command to every task: it goes by partition.
const KEY_OF_ALL: &str = "*";
const RECORD_BYTES_MAX: usize = 16 << 20;

/// Whose decision it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Every task of both stages.
    Everybody,
    /// The session task of this session.
    Session(String),
    /// The fleet task of this graph.
    Graph(String),
}

impl Owner {
    /// The owner of a record of this scope.
    #[must_use]
    pub fn of(scope: &Scope, graph: &str) -> Self {
        match scope {
            Scope::Session { session_id } => Self::Session(session_id.clone()),
            Scope::Cohort(_) | Scope::Unknown { .. } => Self::Graph(graph.to_owned()),
        }
    }
}

/// What a task did with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The task.
    pub task: String,
    /// Whether it did it.
    pub is_done: bool,
    /// Why not.
    pub reason: Option<String>,
}

/// A command that was sent.
pub struct Sent {
    command_id: String,
    /// Names of the tasks that will answer; none: one task, and which one is not known.
    tasks: BTreeSet<String>,
    audit: Bounds,
}

/// One record a partition of both command topics.
///
/// # Errors
/// A topic is missing, or no broker answers.
pub fn to_everybody(config: &Config, command: &Command, key: &str) -> Result<Vec<Publication>, EngineError> {
    let names = [config.topics.session_commands.clone(), config.topics.commands.clone()];
    let found = Admin::new(&config.cluster, config.broker_timeout)?.existing(&names)?;
    let mut publications = Vec::new();
    for name in names {
        let partitions = found.get(&name).ok_or_else(|| EngineError::TopicMissing(name.clone()))?.partitions;
        let topic: Arc<str> = Arc::from(name);
        for partition in 0..i32::try_from(partitions).unwrap_or(i32::MAX) {
            publications.push(publication(&topic, Some(partition), key, command));
        }
    }
    Ok(publications)
}

fn publication(topic: &Arc<str>, partition: Option<i32>, key: &str, command: &Command) -> Publication {
    Publication {
        topic: Arc::clone(topic),
        partition,
        key: Some(key.as_bytes().to_vec()),
        // A command is text alone: it always has a JSON form.
        value: serde_json::to_vec(command).ok(),
        headers: None,
    }
}

/// Sends a command in a transaction of its own.
///
/// # Errors
/// A topic is missing, no broker answers, or the transaction did not go through.
pub fn send(config: &Config, owner: &Owner, command: &Command) -> Result<Sent, EngineError> {
    let publications = match owner {
        Owner::Everybody => to_everybody(config, command, KEY_OF_ALL)?,
        Owner::Session(session_id) => {
            let topic = &config.topics.session_commands;
            bounds(config, topic)?;
            vec![publication(&Arc::from(topic.as_str()), None, session_id, command)]
        }
        Owner::Graph(graph) => {
            let topic = &config.topics.commands;
            bounds(config, topic)?;
            vec![publication(&Arc::from(topic.as_str()), None, &format!("graph/{graph}"), command)]
        }
    };
    let sent = Sent::before(config, command, owner)?;
    Once::take(config, &commands_id(&config.group))?.write(&publications)?;
    Ok(sent)
}

impl Sent {
    /// Where the audit topic ends before the command is sent, which is where its answers are looked for.
    ///
    /// # Errors
    /// A topic is missing, or no broker answers.
    pub fn before(config: &Config, command: &Command, owner: &Owner) -> Result<Self, EngineError> {
        let audit = bounds(config, &config.topics.audit)?;
        let tasks = match owner {
            Owner::Everybody => {
                let partitions = bounds(config, &config.topics.session_commands)?;
                let tasks = |stage: StageName| {
                    partitions.keys().map(move |partition| TaskId { stage, partition: *partition }.to_string())
                };
                StageName::ALL.into_iter().flat_map(tasks).collect()
            }
            Owner::Session(_) | Owner::Graph(_) => BTreeSet::new(),
        };
        Ok(Self { command_id: command.command_id.clone(), tasks, audit })
    }

    /// How many tasks it went to.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len().max(1)
    }

    /// Names of the tasks that have not answered.
    #[must_use]
    pub fn silent(&self, answers: &[Answer]) -> Vec<String> {
        let has_answered = |task: &String| answers.iter().any(|answer| answer.task == *task);
        self.tasks.iter().filter(|task| !has_answered(task)).cloned().collect()
    }

    /// Waits until every task has answered, at most this long; the answers by task.
    ///
    /// # Errors
    /// No broker answers.
    pub fn answers(&self, config: &Config, limit: Duration) -> Result<Vec<Answer>, EngineError> {
        let deadline = Instant::now() + limit;
        let starts = self.audit.iter().map(|(partition, (_, end))| (*partition, *end));
        let reader = Reader::new(config, &config.topics.audit, starts)?;
        let mut answers = BTreeMap::new();
        while answers.len() < self.tasks() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let Some(record) = reader.poll(left.min(Duration::from_millis(200)))? else { continue };
            let Some(audit) = record.value.as_deref().and_then(|value| audit(config, value)) else { continue };
            let is_expected = self.tasks.is_empty() || self.tasks.contains(&audit.task);
            if audit.entity == "command" && audit.entity_id == self.command_id && is_expected {
                let is_done = audit.to == "done";
                let reason = audit.reason.filter(|_| !is_done);
                answers.insert(audit.task.clone(), Answer { task: audit.task, is_done, reason });
            }
        }
        Ok(answers.into_values().collect())
    }
}

fn audit(config: &Config, value: &[u8]) -> Option<Audit> {
    serde_json::from_str(&text(config, value)?).ok()
}

/// The JSON text of an output record, whatever it was written as; none where it is no record.
#[must_use]
pub fn text(config: &Config, value: &[u8]) -> Option<String> {
    let limits = DecodeLimits { event_bytes_max: RECORD_BYTES_MAX, field_bytes_max: RECORD_BYTES_MAX };
    decode(&Headers::NONE, Some(value), &config.schemas, limits).ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::command::Verb;

    #[test]
    fn a_command_goes_to_the_owner_of_its_record() {
        assert_eq!(Owner::of(&Scope::session("s"), "g"), Owner::Session("s".into()));
        assert_eq!(Owner::of(&Scope::Cohort(BTreeMap::new()), "g"), Owner::Graph("g".into()));
    }

    #[test]
    fn a_record_of_it_is_what_the_stages_read() {
        let command = Command {
            command_id: "c".into(),
            verb: Verb::Freeze,
            target: "*".into(),
            content_hash: None,
            order: None,
            reason: "r".into(),
            author: "a".into(),
        };
        let sent = publication(&Arc::from("t"), Some(2), KEY_OF_ALL, &command);
        assert_eq!((sent.partition, sent.key.as_deref()), (Some(2), Some(&b"*"[..])));
        let read: Command = serde_json::from_slice(&sent.value.expect("a value")).expect("a command");
        assert_eq!(read, command);
    }
}
