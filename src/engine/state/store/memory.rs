//! A store that ends with its process: for tests, and where no disk is to be used.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::state::store::{CHECKPOINT_KEY, Checkpoint, Store, StoreError, Write};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Entries in memory; a clone shares them.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Entries>>);

impl Memory {
    fn with<T>(&self, run: impl FnOnce(&mut Entries) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for Memory {
    fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        self.with(|entries| entries.get(CHECKPOINT_KEY).map(|bytes| Checkpoint::decode(bytes)).transpose())
    }

    fn load(&self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), StoreError> {
        self.with(|entries| {
            let _ = entries.iter().filter(|(key, _)| *key != CHECKPOINT_KEY).all(|(key, value)| each(key, value));
        });
        Ok(())
    }

    fn apply(&mut self, writes: &[Write], checkpoint: &Checkpoint) -> Result<(), StoreError> {
        self.with(|entries| {
            for (key, value) in writes {
                match value {
                    Some(value) => drop(entries.insert(key.clone(), value.clone())),
                    None => drop(entries.remove(key)),
                }
            }
            entries.insert(CHECKPOINT_KEY.to_vec(), checkpoint.encode());
        });
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}
