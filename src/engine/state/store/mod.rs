//! The local store: a disposable copy of a task's state on the disk of this process, so that a restart need not read the
//! whole changelog.
//!
//! ```text
//!  changelog ──(read_committed, up to the last mark)──> keeper ──> one store a task: DATA_DIR/store/STAGE/PARTITION
//!  start: store ──(scan, hash)──> check ──> Restore ──> tail of the changelog from `changelog_next` on
//! ```
//!
//! The changelog is the truth. A store is written by the keeper's own thread, from what the changelog holds for good, and
//! never by a worker: it can be behind, but not ahead. It is never trusted because it opened: every start scans it and
//! compares the hash with the one its task had at the checkpoint. On any doubt it is set aside, removed, and made anew.
//!
//! - [`check`]: opens and checks; what is doubtful is set aside.
//! - [`keeper`]: what workers tell the thread that writes (`writer`).
//! - [`hands`]: a worker's side of it.
//! - [`follow`]: the keeper's reader of changelogs.
//! - [`loading`]: loads the stores of an assignment, two at a time, while the worker polls its group.
//! - [`sweep`]: removes what nobody uses any more.
//! - [`memory`], [`sled`], [`fjall`]: the stores.
//!
//! Invariant: a store that was loaded, and the tail of the changelog over it, are the state that the whole changelog
//! gives (`tests/store.rs`).

pub mod check;
pub mod fjall;
pub mod follow;
pub mod hands;
pub mod keeper;
pub mod loading;
pub mod memory;
pub mod sled;
pub mod sweep;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Version of how stores are written; another one is set aside.
pub const FORMAT: u32 = 1;
/// The key of the checkpoint; entries of state never begin with a zero byte.
pub const CHECKPOINT_KEY: &[u8] = b"\0checkpoint";
/// What a store may keep in memory for reads, in bytes: it is read once, from first to last.
pub const CACHE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Which store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// None: state is in memory and in the changelog only.
    #[default]
    Memory,
    /// A B-tree over a log.
    Sled,
    /// A log-structured merge tree.
    Fjall,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Sled, Self::Fjall];

    /// Its name in settings and paths.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sled => "sled",
            Self::Fjall => "fjall",
        }
    }
}

/// Where stores are, and how old they may be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which store.
    pub kind: Kind,
    /// The folder of all stores.
    pub folder: PathBuf,
    /// A checkpoint older than this is not used: tombstones of the changelog may be gone by then.
    pub age_max: Duration,
}

/// A task whose state is kept: its changelog and its partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// Its stage, as the folder of its stores is called.
    pub stage: &'static str,
    /// Its changelog.
    pub topic: String,
    /// Id of that topic, which another topic of the same name does not have; empty: not known.
    pub topic_id: String,
    /// Its partition.
    pub partition: i32,
}

impl Task {
    /// The folder of its store.
    #[must_use]
    pub fn folder(&self, stores: &Path) -> PathBuf {
        stores.join(self.stage).join(self.partition.to_string())
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stage, self.partition)
    }
}

/// How far a store is, written with its entries, all or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// [`FORMAT`].
    pub format: u32,
    /// The changelog.
    pub topic: String,
    /// Its id; empty: not known.
    #[serde(default)]
    pub topic_id: String,
    /// The partition.
    pub partition: i32,
    /// The first offset of the changelog that is not in the store.
    pub changelog_next: i64,
    /// Hash of the state there, as the task itself told it, in hex; none: the store is being filled, and not whole.
    pub state_hash: Option<String>,
    /// When it was known to be all the changelog holds, in milliseconds since the epoch.
    pub written_at: u64,
}

impl Checkpoint {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The checkpoint of some bytes.
    ///
    /// # Errors
    /// Anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        serde_json::from_slice(bytes).map_err(|error| StoreError::Damaged(format!("the checkpoint: {error}")))
    }
}

/// A state's hash as checkpoints hold it.
#[must_use]
pub fn hex(hash: u128) -> String {
    format!("{hash:032x}")
}

/// One entry to write: its key, and its value, or none where it is gone.
pub type Write = (Vec<u8>, Option<Vec<u8>>);

/// The entries and the checkpoint of one task. Every call may also panic: callers catch that ([`check::guarded`]).
pub trait Store: Send {
    /// The checkpoint; none: nothing was ever written.
    ///
    /// # Errors
    /// What is damaged.
    fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError>;

    /// Every entry once, in any order; `each` says whether to go on.
    ///
    /// # Errors
    /// What is damaged.
    fn load(&self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), StoreError>;

    /// Writes entries and the checkpoint behind them, all or nothing.
    ///
    /// # Errors
    /// The disk is full, or fails.
    fn apply(&mut self, writes: &[Write], checkpoint: &Checkpoint) -> Result<(), StoreError>;

    /// Puts everything on the disk and closes.
    ///
    /// # Errors
    /// The disk is full, or fails.
    fn close(self: Box<Self>) -> Result<(), StoreError>;
}

/// Why a store cannot be used. None of these stops a task: the changelog has everything.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process, or a dying one, holds it.
    #[error("in use by another process")]
    Locked,
    /// Its content is not what it should be.
    #[error("{0}")]
    Damaged(String),
    /// The disk failed, or is full.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The library panicked.
    #[error("panic: {0}")]
    Panic(String),
}

/// Opens the store in a folder, or makes one.
///
/// # Errors
/// It is locked, damaged, or the disk fails.
pub fn open(kind: Kind, folder: &Path) -> Result<Box<dyn Store>, StoreError> {
    match kind {
        Kind::Memory => Ok(Box::<memory::Memory>::default()),
        Kind::Sled => Ok(Box::new(sled::Sled::open(folder)?)),
        Kind::Fjall => Ok(Box::new(fjall::Fjall::open(folder)?)),
    }
}
