//! The audit chain of a task: each record carries the hash of the one before.

use crate::record::audit::Audit;
use crate::record::command::Command;
use crate::record::output::{Output, Record};
use crate::record::position::Evidence;
use crate::record::time::Timestamp;
use crate::record::topic::Topic;

/// A transition to be recorded.
pub struct Transition<'a> {
    /// `intervention`, `override`, `escalation`, `command`, `task` or `registry`.
    pub entity: &'a str,
    /// Id of the record.
    pub entity_id: &'a str,
    /// State before.
    pub from: Option<&'a str>,
    /// State after.
    pub to: &'a str,
    /// Why.
    pub reason: Option<&'a str>,
    /// Who, where a person decided.
    pub author: Option<&'a str>,
    /// The input that caused it; none for deadlines.
    pub cause: Option<Evidence>,
}

/// Head of the chain.
#[derive(Debug)]
pub struct Chain {
    task: String,
    seq: u64,
    previous_hash: String,
}

impl Chain {
    /// An empty chain.
    #[must_use]
    pub fn new(task: &str) -> Self {
        Self { task: task.to_owned(), seq: 0, previous_hash: String::new() }
    }

    /// A chain that goes on behind record `seq - 1`, whose hash is `previous_hash`.
    #[must_use]
    pub fn behind(task: &str, seq: u64, previous_hash: &str) -> Self {
        Self { task: task.to_owned(), seq, previous_hash: previous_hash.to_owned() }
    }

    /// Number of the next record, and the hash of the last.
    #[must_use]
    pub fn head(&self) -> (u64, &str) {
        (self.seq, &self.previous_hash)
    }

    /// The next record of the chain.
    pub fn record(&mut self, at: Timestamp, transition: Transition<'_>) -> Output {
        let audit = Audit {
            task: self.task.clone(),
            seq: self.seq,
            previous_hash: std::mem::take(&mut self.previous_hash),
            at,
            entity: transition.entity.to_owned(),
            entity_id: transition.entity_id.to_owned(),
            from: transition.from.map(str::to_owned),
            to: transition.to.to_owned(),
            reason: transition.reason.map(str::to_owned),
            author: transition.author.map(str::to_owned),
            cause: transition.cause,
        };
        self.seq += 1;
        self.previous_hash = audit.hash();
        Output { at, topic: Topic::Audit, key: audit.entity_id.clone(), value: Some(Record::Audit(Box::new(audit))) }
    }

    /// The next record, of something a person did to the whole task.
    pub fn task_moved(
        &mut self,
        at: Timestamp,
        entity: &str,
        (from, to): (&str, &str),
        command: &Command,
        cause: &Evidence,
    ) -> Output {
        let task = self.task.clone();
        let transition = Transition {
            entity,
            entity_id: &task,
            from: Some(from).filter(|from| !from.is_empty()),
            to,
            reason: Some(&command.reason),
            author: Some(&command.author),
            cause: Some(cause.clone()),
        };
        self.record(at, transition)
    }

    /// The next record, of a command that was carried out, or refused for a reason.
    pub fn answered(
        &mut self,
        at: Timestamp,
        command: &Command,
        outcome: Result<(), &'static str>,
        cause: Evidence,
    ) -> Output {
        let (to, reason) = match outcome {
            Ok(()) => ("done", command.reason.as_str()),
            Err(refusal) => ("refused", refusal),
        };
        let transition = Transition {
            entity: "command",
            entity_id: &command.command_id,
            from: None,
            to,
            reason: Some(reason),
            author: Some(&command.author),
            cause: Some(cause),
        };
        self.record(at, transition)
    }
}
