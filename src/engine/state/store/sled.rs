//! The store sled. It flushes by itself every half a second; what a power cut takes away, the next check finds missing.

use std::io;
use std::path::Path;

use crate::engine::state::store::{CACHE_BYTES_MAX, CHECKPOINT_KEY, Checkpoint, Store, StoreError, Write};

/// An open store.
#[derive(Debug)]
pub struct Sled {
    db: ::sled::Db,
}

impl Sled {
    /// Opens it, or makes one.
    ///
    /// # Errors
    /// It is locked or damaged, or the disk fails.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let config = ::sled::Config::new().path(folder).cache_capacity(CACHE_BYTES_MAX);
        Ok(Self { db: config.mode(::sled::Mode::HighThroughput).open().map_err(cause)? })
    }
}

impl Store for Sled {
    fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        let found = self.db.get(CHECKPOINT_KEY).map_err(cause)?;
        found.map(|bytes| Checkpoint::decode(&bytes)).transpose()
    }

    fn load(&self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), StoreError> {
        for entry in self.db.iter() {
            let (key, value) = entry.map_err(cause)?;
            if *key != *CHECKPOINT_KEY && !each(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn apply(&mut self, writes: &[Write], checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let mut batch = ::sled::Batch::default();
        for (key, value) in writes {
            match value {
                Some(value) => batch.insert(key.as_slice(), value.as_slice()),
                None => batch.remove(key.as_slice()),
            }
        }
        batch.insert(CHECKPOINT_KEY, checkpoint.encode());
        self.db.apply_batch(batch).map_err(cause)
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        self.db.flush().map(|_| ()).map_err(cause)
    }
}

fn cause(error: ::sled::Error) -> StoreError {
    match error {
        // It has no kind of its own for this.
        ::sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => StoreError::Locked,
        ::sled::Error::Io(error) if error.kind() == io::ErrorKind::WouldBlock => StoreError::Locked,
        ::sled::Error::Io(error) => StoreError::Io(error),
        other => StoreError::Damaged(other.to_string()),
    }
}
