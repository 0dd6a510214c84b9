//! Durable state of a fleet task: entries that changed, back to the last commit, and a hash of everything. The order of
//! calls is that of the session stage.
//!
//! Invariant: a task restored from its changelog goes on byte for byte like one that never stopped, and so does one rolled
//! back (`tests/properties/fleet.rs`).

pub mod entry;
pub mod restore;

use std::sync::Arc;

use crate::fleet::state::entry::{FORMAT, Key, TaskEntry};
use crate::fleet::{Change, Counts, Fleet};
use crate::record::task::chain::Chain;
use crate::record::task::entry as bytes;
use crate::record::time::Timestamp;
use crate::registry::Registry;

/// What the entry `task` says, without the texts that follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    now: Timestamp,
    watermark: Timestamp,
    frozen: bool,
    audit_seq: u64,
    next_serial: u64,
    next_command: u64,
}

/// A task that nothing happened to.
const NOTHING: Head = Head {
    now: Timestamp::MIN,
    watermark: Timestamp::MIN,
    frozen: false,
    audit_seq: 0,
    next_serial: 0,
    next_command: 0,
};

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

impl Marks {
    /// Nothing taken, nothing committed.
    #[must_use]
    pub fn new(registry: &Arc<Registry>) -> Self {
        Self { taken: None, sum: 0, committed: None, first_registry: Arc::clone(registry) }
    }
}

impl Fleet {
    /// The entries that changed since the last call, each once, in a fixed order; empty where nothing did. The entry `task`
    /// comes last whenever there is any other and whenever the clock moved.
    #[must_use]
    pub fn take_changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        let sum = &mut self.marks.sum;
        self.sources.shelf.take_changes(|source| Key::Source(source.clone()).text(), sum, &mut changes);
        self.windows.series.take_changes(|serial| Key::Series(*serial).text(), sum, &mut changes);
        self.windows.cells.take_changes(|(bucket, serial)| Key::Cell(*bucket, *serial).text(), sum, &mut changes);
        self.signatures.shelf.take_changes(|serial| Key::Signature(*serial).text(), sum, &mut changes);
        let session = |(serial, session): &(u64, u64)| Key::Session(*serial, *session).text();
        self.signatures.sessions.take_changes(session, sum, &mut changes);
        self.ordered.shelf.take_changes(|key| Key::Ordered(key.clone()).text(), sum, &mut changes);
        self.seen.take_changes(sum, &mut changes);
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
        let (key, value) = (Key::Task.text(), bytes::encode(&self.task_entry(head)));
        let hash = bytes::hash(key.as_bytes(), &value);
        self.marks.sum = self.marks.sum.wrapping_sub(before).wrapping_add(hash);
        self.marks.taken = Some(Taken { head, version: self.registry.version.clone(), hash });
        changes.push(Change { key, value: Some(value) });
        changes
    }

    /// What was last taken is committed. Changes that were not taken are, as far as the state is concerned, committed too
    /// and never handed out: take first.
    pub fn committed(&mut self) {
        drop(self.take_changes());
        self.sources.shelf.committed();
        self.windows.series.committed();
        self.windows.cells.committed();
        self.signatures.shelf.committed();
        self.signatures.sessions.committed();
        self.ordered.shelf.committed();
        self.seen.committed();
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
        self.reindex();
        self.mark_committed();
    }

    fn reindex(&mut self) {
        self.sources.reindex(self.now);
        self.windows.reindex();
        self.signatures.reindex(&self.windows);
        self.ordered.reindex();
    }

    /// Back to what it was when [`Fleet::committed`] was last called, or, where it never was, when it was made or restored.
    pub fn rollback(&mut self) {
        let Some(Committed { taken, sum, audit_hash, registry, counts }) = self.marks.committed.clone() else {
            let registry = Arc::clone(&self.marks.first_registry);
            *self = Self::new(&self.task, registry);
            return;
        };
        self.sources.shelf.rollback();
        self.windows.series.rollback();
        self.windows.cells.rollback();
        self.signatures.shelf.rollback();
        self.signatures.sessions.rollback();
        self.ordered.shelf.rollback();
        self.seen.rollback();
        let head = taken.head;
        self.now = head.now;
        self.watermark = head.watermark;
        self.frozen = head.frozen;
        self.windows.next = head.next_serial;
        self.chain = Chain::behind(&self.task, head.audit_seq, &audit_hash);
        self.counts = counts;
        self.marks.sum = sum;
        self.marks.taken = Some(taken);
        self.registry = registry;
        self.reindex();
    }

    /// Hash of all entries as of the last [`Fleet::take_changes`]: the same for the same entries, in whatever order and by
    /// whichever way they came to be. An empty task has 0.
    #[must_use]
    pub fn state_hash(&self) -> u128 {
        self.marks.sum
    }

    /// Decides by another version of the registry from now on.
    pub fn activate(&mut self, registry: Arc<Registry>) {
        self.registry = registry;
    }

    fn head(&self) -> Head {
        Head {
            now: self.now,
            watermark: self.watermark,
            frozen: self.frozen,
            audit_seq: self.chain.head().0,
            next_serial: self.windows.next,
            next_command: self.seen.next(),
        }
    }

    fn task_entry(&self, head: Head) -> TaskEntry<'_> {
        TaskEntry {
            format: FORMAT,
            now: head.now.as_micros(),
            watermark: head.watermark.as_micros(),
            frozen: head.frozen,
            audit_seq: head.audit_seq,
            audit_hash: self.chain.head().1.into(),
            next_serial: head.next_serial,
            next_command: head.next_command,
            registry: self.registry.version.as_str().into(),
        }
    }
}
