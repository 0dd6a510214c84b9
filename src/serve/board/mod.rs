//! What this process knows of the compacted topics: live overrides with a cursor over their changes, and interventions.
//!
//! ```text
//!  reader ──> Board ──> resolve          the table of `resolve`
//!                  ├──> overrides        everything, or the changes since a cursor; a ring of `changes_kept_max`
//!                  └──> interventions    the newest `interventions_kept_max`, by session
//! ```
//!
//! One writer (the reader's thread), many readers, for microseconds each. What Kafka said last stays while Kafka is away.
//!
//! Invariant: whoever applies the changes since a cursor in order holds what a full answer holds (`tests/serve`).

mod log;
mod wakers;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;

use crate::engine::shown::watch::wall;
use crate::record::intervention::Intervention;
use crate::record::overrides::Override;
use crate::record::scope::Scope;
use crate::resolve::{Applied, OverrideTable};
use crate::serve::{Limit, Limits, Served};
pub use log::Kept;
use log::Log;
pub use wakers::Waker;
use wakers::Wakers;

/// One record of the overrides topic, or its removal.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its number in this process, from 1.
    pub version: u64,
    /// The key on the topic.
    pub key: Arc<str>,
    /// The graph.
    pub graph: Arc<str>,
    /// The record as JSON on one line; none: removed.
    pub json: Option<Arc<str>>,
}

/// What changed since a cursor.
#[derive(Debug)]
pub enum Since {
    /// These, in order; possibly none.
    Changes(Vec<Arc<Change>>),
    /// The cursor is too old, or not of this process.
    Unknown,
}

/// What is known now.
#[derive(Debug)]
pub struct Board {
    inner: RwLock<Inner>,
    changed: watch::Sender<u64>,
    wakers: Arc<Wakers>,
    /// Tells cursors of this process from those of others.
    epoch: String,
    changes_kept_max: usize,
    ready: AtomicBool,
    unreadable: AtomicU64,
    served: Arc<Served>,
}

#[derive(Debug)]
struct Inner {
    table: OverrideTable,
    held: BTreeMap<Arc<str>, Held>,
    keys: HashMap<String, Arc<str>>,
    changes: VecDeque<Arc<Change>>,
    version: u64,
    log: Log,
}

#[derive(Debug)]
struct Held {
    last: Arc<Change>,
    override_id: String,
}

impl Board {
    /// An empty one, which is not ready.
    #[must_use]
    pub fn new(limits: &Limits, served: &Arc<Served>) -> Self {
        let inner = Inner {
            table: OverrideTable::new(),
            held: BTreeMap::new(),
            keys: HashMap::new(),
            changes: VecDeque::new(),
            version: 0,
            log: Log::new(limits.interventions_kept_max),
        };
        Self {
            inner: RwLock::new(inner),
            changed: watch::Sender::new(0),
            wakers: Arc::default(),
            epoch: format!("{:x}", wall().as_micros()),
            changes_kept_max: limits.changes_kept_max,
            ready: AtomicBool::new(false),
            unreadable: AtomicU64::new(0),
            served: Arc::clone(served),
        }
    }

    /// Whether the topics were read to their end once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Takes everything the overrides topic holds, the last value of each key: what is not there is gone.
    pub fn load(&self, overrides: &BTreeMap<String, String>) {
        let mut inner = self.write();
        let gone: Vec<Arc<str>> = inner.held.keys().filter(|key| !overrides.contains_key(&***key)).cloned().collect();
        for key in gone {
            self.apply(&mut inner, &key, None);
        }
        for (key, json) in overrides {
            self.apply(&mut inner, key, Some(json));
        }
        drop(inner);
        self.ready.store(true, Ordering::Release);
        self.tell();
    }

    /// Takes the next record of the overrides topic, as JSON; none: a tombstone.
    pub fn put_override(&self, key: &str, json: Option<&str>) {
        let session = self.apply(&mut self.write(), key, json);
        self.tell();
        if let Some(session) = session {
            self.wakers.wake(&session);
        }
    }

    /// Takes the next record of the Intervention Log, as JSON.
    pub fn put_intervention(&self, id: &str, json: Option<&str>) {
        let Some(json) = json else {
            self.write().log.remove(id);
            return;
        };
        let Ok(record) = serde_json::from_str::<Intervention>(json) else {
            self.unreadable();
            return;
        };
        let session = match &record.scope {
            Scope::Session { session_id } => Some(session_id.clone()),
            Scope::Cohort(_) | Scope::Unknown { .. } => None,
        };
        if self.write().log.put(record, one_line(json)) {
            self.served.reached(Limit::Interventions);
        }
        if let Some(session) = session {
            self.wakers.wake(&session);
        }
    }

    /// A record could not be read.
    pub fn unreadable(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
    }

    /// How many records could not be read, or contradict what is held.
    #[must_use]
    pub fn unreadable_count(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Overrides and interventions held.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize) {
        let inner = self.read();
        (inner.held.len(), inner.log.len())
    }

    /// Asks the table of overrides.
    pub fn with_table<T>(&self, ask: impl FnOnce(&OverrideTable) -> T) -> T {
        ask(&self.read().table)
    }

    /// Everything, and the cursor of it.
    #[must_use]
    pub fn everything(&self) -> (String, Vec<Arc<Change>>) {
        let inner = self.read();
        (self.cursor(inner.version), inner.held.values().map(|held| Arc::clone(&held.last)).collect())
    }

    /// What changed since a cursor, and the cursor after it.
    #[must_use]
    pub fn since(&self, cursor: &str) -> (String, Since) {
        let inner = self.read();
        let now = self.cursor(inner.version);
        let Some(version) = self.version_of(cursor).filter(|version| *version <= inner.version) else {
            return (now, Since::Unknown);
        };
        let missing = usize::try_from(inner.version - version).unwrap_or(usize::MAX);
        let Some(start) = inner.changes.len().checked_sub(missing) else { return (now, Since::Unknown) };
        (now, Since::Changes(inner.changes.range(start..).cloned().collect()))
    }

    /// The cursor behind a version.
    #[must_use]
    pub fn cursor(&self, version: u64) -> String {
        format!("{}-{version}", self.epoch)
    }

    /// Changes when there are changes of overrides.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Wakes when something of this session changes.
    #[must_use]
    pub fn waker(&self, session_id: &str) -> Waker {
        self.wakers.waker(session_id)
    }

    /// The interventions held of a session, newest first.
    #[must_use]
    pub fn of_session(&self, session_id: &str) -> Vec<Arc<Kept>> {
        self.read().log.of_session(session_id)
    }

    /// One intervention.
    #[must_use]
    pub fn intervention(&self, id: &str) -> Option<Arc<Kept>> {
        self.read().log.get(id)
    }

    /// The live override of this id: the record, and its JSON.
    #[must_use]
    pub fn override_of(&self, override_id: &str) -> Option<(Override, Arc<str>)> {
        let inner = self.read();
        let key = inner.keys.get(override_id)?;
        let json = inner.held.get(key)?.last.json.clone()?;
        Some((inner.table.get(key)?.clone(), json))
    }

    /// Applies one record; the session it concerns.
    fn apply(&self, inner: &mut Inner, key: &str, json: Option<&str>) -> Option<String> {
        let before = inner.table.get(key).and_then(session_of);
        match inner.table.apply_json(key, json.map(str::as_bytes)) {
            Applied::Stored | Applied::Ignored(_) => {}
            Applied::Removed => {
                let held = inner.held.remove(key)?;
                inner.keys.remove(&held.override_id);
                self.note(inner, &held.last.key, &held.last.graph, None);
                return before;
            }
            Applied::Absent | Applied::Unchanged | Applied::Older => return None,
            Applied::Conflict | Applied::Undecodable => {
                self.unreadable();
                return None;
            }
        }
        let record = inner.table.get(key)?;
        let (session, graph, override_id) =
            (session_of(record), Arc::from(record.graph.as_str()), record.override_id.clone());
        let change = self.note(inner, &Arc::from(key), &graph, json.map(one_line));
        inner.keys.insert(override_id.clone(), Arc::clone(&change.key));
        let before = inner.held.insert(Arc::clone(&change.key), Held { last: change, override_id });
        if let Some(before) = before {
            // Another override under the same key; the same one stands under its id already.
            let replaced = inner.held.get(key).is_some_and(|held| held.override_id != before.override_id);
            if replaced {
                inner.keys.remove(&before.override_id);
            }
        }
        session
    }

    fn note(&self, inner: &mut Inner, key: &Arc<str>, graph: &Arc<str>, json: Option<Arc<str>>) -> Arc<Change> {
        inner.version += 1;
        let (key, graph) = (Arc::clone(key), Arc::clone(graph));
        let change = Arc::new(Change { version: inner.version, key, graph, json });
        inner.changes.push_back(Arc::clone(&change));
        while inner.changes.len() > self.changes_kept_max {
            inner.changes.pop_front();
        }
        change
    }

    fn tell(&self) {
        self.changed.send_replace(self.read().version);
    }

    fn version_of(&self, cursor: &str) -> Option<u64> {
        let (epoch, version) = cursor.split_once('-')?;
        (epoch == self.epoch).then(|| version.parse().ok()).flatten()
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn session_of(record: &Override) -> Option<String> {
    match &record.scope {
        Scope::Session { session_id } => Some(session_id.clone()),
        Scope::Cohort(_) | Scope::Unknown { .. } => None,
    }
}

/// The same JSON on one line, as streams need it.
fn one_line(json: &str) -> Arc<str> {
    if json.contains(['\n', '\r'])
        && let Ok(value) = serde_json::from_str::<serde_json::Value>(json)
    {
        return Arc::from(value.to_string());
    }
    Arc::from(json)
}
