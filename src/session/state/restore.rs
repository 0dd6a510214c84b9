//! From entries back to a task. Whatever can be derived is derived, not read: indexes, deadlines, use of limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::record::task::chain::Chain;
use crate::record::task::entry::{self, RestoreError};
use crate::record::task::seen::IdEntry;
use crate::record::time::Timestamp;
use crate::registry::Registry;
use crate::session::Session;
use crate::session::state::entry::{FORMAT, Key, RateEntry, TaskEntry};
use crate::session::table::Tracked;

/// Ids by number, with the hashes of their entries.
type Ids = BTreeMap<u64, (String, u128)>;

/// A task that is being restored, entry by entry.
#[derive(Debug)]
pub struct Restore {
    session: Session,
    task: Option<(TaskEntry<'static>, u128)>,
    commands: Ids,
    graphs: Ids,
    sum: u128,
    is_empty: bool,
}

impl Restore {
    /// Nothing restored yet; `task` and `registry` as in [`Session::new`].
    #[must_use]
    pub fn new(task: &str, registry: Arc<Registry>) -> Self {
        let session = Session::new(task, registry);
        Self { session, task: None, commands: Ids::new(), graphs: Ids::new(), sum: 0, is_empty: true }
    }

    /// Takes one record of the changelog, in its order; no value is a tombstone. The last value of a key counts, so that
    /// a changelog need not be compacted before.
    ///
    /// # Errors
    /// A record that no session task of this format wrote.
    pub fn apply(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), RestoreError> {
        let parsed = Key::parse(key)
            .ok_or_else(|| RestoreError::Key { key: String::from_utf8_lossy(key).into(), stage: "session" })?;
        let hash = value.map(|value| entry::hash(key, value));
        let before = match parsed {
            Key::Session(serial) => {
                let tracked = value.map(|value| read::<Tracked>(parsed, value)).transpose()?;
                if tracked
                    .as_ref()
                    .is_some_and(|tracked| !tracked.runs.iter().all(crate::session::track::Run::is_sound))
                {
                    return Err(RestoreError::Value { key: parsed.text(), why: String::from("a shape is missing") });
                }
                self.session.table.put(serial, tracked.as_ref().zip(hash))
            }
            Key::Command(sequence) => restore_id(&mut self.commands, parsed, sequence, value.zip(hash))?,
            Key::Graph(sequence) => restore_id(&mut self.graphs, parsed, sequence, value.zip(hash))?,
            Key::Second(second) => {
                let entry = value.map(|value| read::<RateEntry>(parsed, value)).transpose()?;
                self.session.guards.interventions.restore(second, entry.zip(hash))
            }
            Key::Task => {
                let entry = value.map(|value| entry::read_task(value, FORMAT)).transpose()?;
                std::mem::replace(&mut self.task, entry.zip(hash)).map(|(_, hash)| hash)
            }
        };
        self.is_empty = false;
        self.sum = self.sum.wrapping_sub(before.unwrap_or(0)).wrapping_add(hash.unwrap_or(0));
        Ok(())
    }

    /// Hash of the entries taken so far, as [`Session::state_hash`].
    #[must_use]
    pub fn state_hash(&self) -> u128 {
        self.sum
    }

    /// Version of the registry that was active when the last entry `task` taken so far was written.
    #[must_use]
    pub fn registry_version(&self) -> Option<&str> {
        self.task.as_ref().map(|(entry, _)| entry.registry.as_ref())
    }

    /// Decides by this registry once the task is there: for whoever only then knows which version it is.
    pub fn activate(&mut self, registry: Arc<Registry>) {
        self.session.activate(registry);
    }

    /// The task. Of no entries at all it is an empty one.
    ///
    /// # Errors
    /// Entries that do not belong together.
    pub fn finish(self) -> Result<Session, RestoreError> {
        let Self { mut session, task, commands, graphs, sum, is_empty } = self;
        if is_empty {
            return Ok(session);
        }
        let (entry, hash) = task.ok_or(RestoreError::Torn("the entry `task` is missing"))?;
        if session.table.last().is_some_and(|last| last >= entry.next_serial) {
            return Err(RestoreError::Torn("a session is newer than the task"));
        }
        let ids = |ids: Ids| ids.into_iter().map(|(sequence, (id, _))| (sequence, id));
        if !session.seen.restore(ids(commands), entry.next_command) {
            return Err(RestoreError::Torn("a command is missing or newer than the task"));
        }
        if !session.graphs.restore(ids(graphs), entry.next_graph) {
            return Err(RestoreError::Torn("a graph is missing or newer than the task"));
        }
        session.now = Timestamp::from_micros(entry.now);
        session.frozen = entry.frozen;
        session.chain = Chain::behind(&session.task, entry.audit_seq, &entry.audit_hash);
        session.table.next = entry.next_serial;
        let until = entry.irreversible_unknown_until.map(Timestamp::from_micros);
        session.guards.irreversible_unknown_until = until;
        session.table.restored(&mut session.guards);
        session.restored(sum, hash, &entry.registry);
        Ok(session)
    }
}

impl Session {
    /// A task as its entries say, each key once; `task` and `registry` as in [`Session::new`].
    ///
    /// # Errors
    /// Entries that no session task of this format wrote, or that do not belong together.
    pub fn restore<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        task: &str,
        registry: Arc<Registry>,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, RestoreError> {
        let mut restore = Restore::new(task, registry);
        for (key, value) in entries {
            restore.apply(key.as_ref(), Some(value.as_ref()))?;
        }
        restore.finish()
    }
}

/// Puts the entry of an id in place, or takes it out. Gives the hash of the entry that was there before.
fn restore_id(
    ids: &mut Ids,
    key: Key,
    sequence: u64,
    entry: Option<(&[u8], u128)>,
) -> Result<Option<u128>, RestoreError> {
    let before = match entry {
        Some((value, hash)) => ids.insert(sequence, (read::<IdEntry<'static>>(key, value)?.id.into_owned(), hash)),
        None => ids.remove(&sequence),
    };
    Ok(before.map(|(_, hash)| hash))
}

fn read<T: DeserializeOwned>(key: Key, value: &[u8]) -> Result<T, RestoreError> {
    entry::read(&key.text(), value)
}
