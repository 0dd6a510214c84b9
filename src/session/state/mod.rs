//! Durable state of a task: entries that changed, back to the last commit, and a hash of everything.
//!
//! The order of calls, all within one transaction of the engine:
//!
//! ```text
//! step step ... -> flush -> take_changes -> (write outputs, changes, offsets) -> committed   or, where it failed, rollback
//! ```
//!
//! A changelog that holds all changes of committed transactions, in order, is the state: the last value of each key, less
//! those that end in a tombstone, is what [`Restore`](restore::Restore) takes.
//!
//! Invariant: a task restored from its changelog goes on byte for byte like one that never stopped, and so does one rolled
//! back (`tests/properties/durable.rs`).

pub mod entry;
pub mod names;
pub mod pack;
pub mod restore;

use std::sync::Arc;

use crate::record::task::chain::Chain;
use crate::record::time::Timestamp;
use crate::registry::Registry;
use crate::session::state::entry::{Change, FORMAT, Key, TaskEntry};
use crate::session::{Counts, Session, dimensions, signature};

/// What the entry `task` says, without the texts that follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    now: Timestamp,
    frozen: bool,
    audit_seq: u64,
    next_serial: u64,
    next_command: u64,
    next_graph: u64,
    irreversible_unknown_until: Option<Timestamp>,
}

/// Where entries were last taken, and what was last committed.
#[derive(Debug)]
pub struct Marks {
    /// The task's entry as last taken; none: never.
    taken: Option<Taken>,
    /// Hash of all entries as last taken.
    sum: u128,
    committed: Option<Committed>,
    /// The registry of an empty task.
    first_registry: Arc<Registry>,
}

/// The entry `task` when it was last taken.
#[derive(Clone, Debug)]
struct Taken {
    head: Head,
    /// Version of the registry.
    version: String,
    /// Of the entry.
    hash: u128,
}

/// What a rollback goes back to, besides what tables keep themselves.
#[derive(Clone, Debug)]
struct Committed {
    taken: Taken,
    sum: u128,
    audit_hash: String,
    registry: Arc<Registry>,
    counts: Counts,
}

/// A task that nothing happened to.
const NOTHING: Head = Head {
    now: Timestamp::MIN,
    frozen: false,
    audit_seq: 0,
    next_serial: 0,
    next_command: 0,
    next_graph: 0,
    irreversible_unknown_until: None,
};

impl Marks {
    /// Nothing taken, nothing committed.
    #[must_use]
    pub fn new(registry: &Arc<Registry>) -> Self {
        Self { taken: None, sum: 0, committed: None, first_registry: Arc::clone(registry) }
    }
}

impl Session {
    /// The entries that changed since the last call, each once, in a fixed order; empty where nothing did. What was made
    /// and removed in between is not mentioned. The entry `task`, about 150 bytes, comes last whenever there is any other
    /// and whenever the clock moved: so one per commit at most, and the clock of a restored task is that of the commit.
    #[must_use]
    pub fn take_changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        let sum = &mut self.marks.sum;
        self.table.take_changes(sum, &mut changes);
        self.seen.take_changes(sum, &mut changes);
        self.graphs.take_changes(sum, &mut changes);
        self.guards.interventions.take_changes(sum, &mut changes);
        let head = self.head();
        let taken = self.marks.taken.as_ref();
        let same = match taken {
            Some(taken) => taken.head == head && taken.version == self.registry.version,
            None => head == NOTHING && Arc::ptr_eq(&self.registry, &self.marks.first_registry),
        };
        if changes.is_empty() && same {
            return changes;
        }
        let before = taken.map_or(0, |taken| taken.hash);
        let (key, value) = (Key::Task.text(), entry::encode(&self.task_entry(head)));
        let hash = entry::hash(key.as_bytes(), &value);
        self.marks.sum = self.marks.sum.wrapping_sub(before).wrapping_add(hash);
        self.marks.taken = Some(Taken { head, version: self.registry.version.clone(), hash });
        changes.push(Change { key, value: Some(value) });
        changes
    }

    /// What was last taken is committed. Changes that were not taken are, as far as the state is concerned, committed too
    /// and never handed out: take first.
    pub fn committed(&mut self) {
        drop(self.take_changes());
        self.table.committed();
        self.seen.committed();
        self.graphs.committed();
        self.guards.interventions.committed();
        self.mark_committed();
    }

    fn mark_committed(&mut self) {
        if let Some(taken) = self.marks.taken.clone() {
            let audit_hash = self.chain.head().1.to_owned();
            let (registry, counts) = (Arc::clone(&self.registry), self.counts.clone());
            self.marks.committed = Some(Committed { taken, sum: self.marks.sum, audit_hash, registry, counts });
        }
    }

    /// Marks a restored task: `sum` of all entries, `hash` of the entry `task`, written under a version of the registry.
    pub(crate) fn restored(&mut self, sum: u128, hash: u128, version: &str) {
        self.marks.sum = sum;
        self.marks.taken = Some(Taken { head: self.head(), version: version.to_owned(), hash });
        self.mark_committed();
    }

    /// Back to what it was when [`Session::committed`] was last called, or, where it never was, when it was made or
    /// restored.
    pub fn rollback(&mut self) {
        self.table.rollback(&mut self.guards);
        self.seen.rollback();
        self.graphs.rollback();
        self.exposure.rows.clear();
        self.guards.interventions.rollback();
        let Some(Committed { taken, sum, audit_hash, registry, counts }) = self.marks.committed.clone() else {
            let registry = Arc::clone(&self.marks.first_registry);
            *self = Self::new(&self.task, registry);
            return;
        };
        let head = taken.head;
        self.now = head.now;
        self.frozen = head.frozen;
        self.table.next = head.next_serial;
        self.guards.irreversible_unknown_until = head.irreversible_unknown_until;
        self.chain = Chain::behind(&self.task, head.audit_seq, &audit_hash);
        self.counts = counts;
        self.marks.sum = sum;
        self.marks.taken = Some(taken);
        self.activate(registry);
    }

    /// Hash of all entries as of the last [`Session::take_changes`]: the same for the same entries, in whatever order and
    /// by whichever way they came to be. An empty task has 0.
    #[must_use]
    pub fn state_hash(&self) -> u128 {
        self.marks.sum
    }

    /// Decides by another version of the registry from now on. What is decided already stays as it is.
    pub fn activate(&mut self, registry: Arc<Registry>) {
        if !Arc::ptr_eq(&self.registry, &registry) {
            self.irreversible_nodes = signature::irreversible_nodes(&registry);
            self.dimensions = dimensions(&registry);
            self.exposure.activate(&registry, &self.dimensions);
            self.registry = registry;
        }
    }

    fn head(&self) -> Head {
        Head {
            now: self.now,
            frozen: self.frozen,
            audit_seq: self.chain.head().0,
            next_serial: self.table.next,
            next_command: self.seen.next(),
            next_graph: self.graphs.next(),
            irreversible_unknown_until: self.guards.irreversible_unknown_until,
        }
    }

    fn task_entry(&self, head: Head) -> TaskEntry<'_> {
        TaskEntry {
            format: FORMAT,
            now: head.now.as_micros(),
            frozen: head.frozen,
            audit_seq: head.audit_seq,
            audit_hash: self.chain.head().1.into(),
            next_serial: head.next_serial,
            next_command: head.next_command,
            next_graph: head.next_graph,
            irreversible_unknown_until: head.irreversible_unknown_until.map(Timestamp::as_micros),
            registry: self.registry.version.as_str().into(),
        }
    }
}
