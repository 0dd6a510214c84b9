//! The store fjall. Batches go to its journal in the order they are applied; what a power cut takes away is the end.

use std::path::Path;

use ::fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, config::CompressionPolicy};

use crate::engine::state::store::{CACHE_BYTES_MAX, CHECKPOINT_KEY, Checkpoint, Store, StoreError, Write};

/// What one store holds in memory before it becomes a file, in bytes. A process has several stores.
const MEMTABLE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Its journals are at most so long, in bytes: they are read at every start. No less is accepted.
const JOURNAL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// An open store.
pub struct Fjall {
    entries: Keyspace,
    db: Database,
}

impl Fjall {
    /// Opens it, or makes one.
    ///
    /// # Errors
    /// It is locked or damaged, or the disk fails.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let db = Database::builder(folder)
            .worker_threads(1)
            .cache_size(CACHE_BYTES_MAX)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .open()
            .map_err(cause)?;
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(MEMTABLE_BYTES_MAX)
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        };
        let entries = db.keyspace("entries", options).map_err(cause)?;
        Ok(Self { entries, db })
    }
}

impl Store for Fjall {
    fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        let found = self.entries.get(CHECKPOINT_KEY).map_err(cause)?;
        found.map(|bytes| Checkpoint::decode(&bytes)).transpose()
    }

    fn load(&self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), StoreError> {
        for entry in self.entries.iter() {
            let (key, value) = entry.into_inner().map_err(cause)?;
            if *key != *CHECKPOINT_KEY && !each(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn apply(&mut self, writes: &[Write], checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let mut batch = self.db.batch();
        for (key, value) in writes {
            match value {
                Some(value) => batch.insert(&self.entries, key.as_slice(), value.as_slice()),
                None => batch.remove(&self.entries, key.as_slice()),
            }
        }
        batch.insert(&self.entries, CHECKPOINT_KEY, checkpoint.encode());
        batch.commit().map_err(cause)
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        self.db.persist(PersistMode::SyncAll).map_err(cause)
    }
}

fn cause(error: ::fjall::Error) -> StoreError {
    match error {
        ::fjall::Error::Locked => StoreError::Locked,
        ::fjall::Error::Io(error) | ::fjall::Error::Storage(::fjall::LsmError::Io(error)) => StoreError::Io(error),
        // After a failed write it accepts no other.
        ::fjall::Error::Poisoned => StoreError::Io(std::io::Error::other("an earlier write failed")),
        other => StoreError::Damaged(format!("{other:?}")),
    }
}
