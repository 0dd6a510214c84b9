//! From entries back to a fleet task. Whatever can be derived is derived, not read.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fleet::Fleet;
use crate::fleet::state::entry::{FORMAT, Key, TaskEntry};
use crate::record::task::chain::Chain;
use crate::record::task::entry::{self, RestoreError};
use crate::record::task::seen::IdEntry;
use crate::record::task::shelf::Shelf;
use crate::record::time::Timestamp;
use crate::registry::Registry;

/// A task that is being restored, entry by entry.
#[derive(Debug)]
pub struct Restore {
    fleet: Fleet,
    task: Option<(TaskEntry<'static>, u128)>,
    commands: BTreeMap<u64, (String, u128)>,
    sum: u128,
    is_empty: bool,
}

impl Restore {
    /// Nothing restored yet; `task` and `registry` as in [`Fleet::new`].
    #[must_use]
    pub fn new(task: &str, registry: Arc<Registry>) -> Self {
        let fleet = Fleet::new(task, registry);
        Self { fleet, task: None, commands: BTreeMap::new(), sum: 0, is_empty: true }
    }

    /// Takes one record of the changelog, in its order; no value is a tombstone. The last value of a key counts, so that
    /// a changelog need not be compacted before.
    ///
    /// # Errors
    /// A record that no fleet task of this format wrote.
    pub fn apply(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), RestoreError> {
        let unknown = || RestoreError::Key { key: String::from_utf8_lossy(key).into(), stage: "fleet" };
        let parsed = Key::parse(key).ok_or_else(unknown)?;
        let text = parsed.text();
        let hash = value.map(|value| entry::hash(key, value));
        let given = value.zip(hash);
        let Fleet { sources, windows, signatures, ordered, .. } = &mut self.fleet;
        let before = match parsed {
            Key::Series(serial) => put(&mut windows.series, serial, &text, given)?,
            Key::Cell(bucket, serial) => put(&mut windows.cells, (bucket, serial), &text, given)?,
            Key::Signature(serial) => put(&mut signatures.shelf, serial, &text, given)?,
            Key::Session(serial, session) => put(&mut signatures.sessions, (serial, session), &text, given)?,
            Key::Ordered(key) => put(&mut ordered.shelf, key, &text, given)?,
            Key::Source(source) => put(&mut sources.shelf, source, &text, given)?,
            Key::Command(sequence) => {
                let id = value.map(|value| entry::read::<IdEntry<'static>>(&text, value)).transpose()?;
                let before = match id.zip(hash) {
                    Some((entry, hash)) => self.commands.insert(sequence, (entry.id.into_owned(), hash)),
                    None => self.commands.remove(&sequence),
                };
                before.map(|(_, hash)| hash)
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

    /// Hash of the entries taken so far, as [`Fleet::state_hash`].
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
        self.fleet.activate(registry);
    }

    /// The task. Of no entries at all it is an empty one.
    ///
    /// # Errors
    /// Entries that do not belong together.
    pub fn finish(self) -> Result<Fleet, RestoreError> {
        let Self { mut fleet, task, commands, sum, is_empty } = self;
        if is_empty {
            return Ok(fleet);
        }
        let (entry, hash) = task.ok_or(RestoreError::Torn("the entry `task` is missing"))?;
        let last = |last: Option<u64>| last.is_some_and(|last| last >= entry.next_serial);
        let series = fleet.windows.series.iter().next_back().map(|(serial, _)| *serial);
        let signature = fleet.signatures.shelf.iter().next_back().map(|(serial, _)| *serial);
        if last(series) || last(signature) {
            return Err(RestoreError::Torn("a series is newer than the task"));
        }
        if fleet.signatures.sessions.iter().any(|((serial, _), _)| fleet.signatures.shelf.get(serial).is_none()) {
            return Err(RestoreError::Torn("a session without its signature"));
        }
        let ids = commands.into_iter().map(|(sequence, (id, _))| (sequence, id));
        if !fleet.seen.restore(ids, entry.next_command) {
            return Err(RestoreError::Torn("a command is missing or newer than the task"));
        }
        fleet.now = Timestamp::from_micros(entry.now);
        fleet.watermark = Timestamp::from_micros(entry.watermark);
        fleet.frozen = entry.frozen;
        fleet.chain = Chain::behind(&fleet.task, entry.audit_seq, &entry.audit_hash);
        fleet.windows.next = entry.next_serial;
        fleet.restored(sum, hash, &entry.registry);
        Ok(fleet)
    }
}

/// Puts an entry in place, or takes it out. Gives the hash of the entry that was there before.
fn put<K: Ord + Clone, V: Clone + Serialize + DeserializeOwned>(
    shelf: &mut Shelf<K, V>,
    key: K,
    text: &str,
    given: Option<(&[u8], u128)>,
) -> Result<Option<u128>, RestoreError> {
    let entry = given.map(|(value, hash)| Ok::<_, RestoreError>((entry::read(text, value)?, hash))).transpose()?;
    Ok(shelf.restore(key, entry))
}

impl Fleet {
    /// A task as its entries say, each key once; `task` and `registry` as in [`Fleet::new`].
    ///
    /// # Errors
    /// Entries that no fleet task of this format wrote, or that do not belong together.
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
