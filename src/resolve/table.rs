//! The overrides a reader of the compacted topic holds, indexed so that a question costs a few map probes.
//!
//! ```text
//!  key -> slot -> record                                  every record, usable or not
//!  graph -> session_id -> slots                           usable session records
//!        -> [dimension set] -> values -> slots            usable cohort records: one probe for each dimension set
//! ```
//!
//! The cost of a question grows with the dimension sets in use, not with the records. The maps are never iterated:
//! their order means nothing.
//!
//! Invariant: finds the records a scan over all of them finds (`tests/resolve.rs`).

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serde::Deserialize;
use serde_json::Value;

use crate::record::overrides::{Override, Shadow};
use crate::record::scope::Scope;
use crate::record::time::Timestamp;
use crate::resolve::context::Context;
use crate::resolve::group::Group;
use crate::resolve::precedence::{Entry, Unusable};

/// What became of one record of the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is in force now.
    Stored,
    /// It is kept but can match nobody; what the key held before is gone.
    Ignored(Unusable),
    /// The key is gone.
    Removed,
    /// A tombstone for a key that is not held.
    Absent,
    /// The same record once more.
    Unchanged,
    /// An older (attempt, revision) of the override held; dropped.
    Older,
    /// Another content under the (attempt, revision) held; the one held stays. Two writers: raise it.
    Conflict,
    /// No override could be read from it; the one held stays. Raise it.
    Undecodable,
}

/// Where a record is: usable records are in the index.
#[derive(Clone, Debug)]
enum Held {
    Usable(usize),
    Unusable(Box<Override>),
}

/// Live overrides by key, with the index over the usable ones.
#[derive(Clone, Debug, Default)]
pub struct OverrideTable {
    by_key: HashMap<String, Held, FixedState>,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    graphs: HashMap<String, Graph, FixedState>,
}

#[derive(Clone, Debug, Default)]
struct Graph {
    sessions: HashMap<String, Vec<usize>, FixedState>,
    groups: Vec<Group>,
}

impl OverrideTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys are held, usable or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether no key is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The record of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Override> {
        match self.by_key.get(key)? {
            Held::Usable(slot) => self.entry(*slot).map(|entry| &entry.record),
            Held::Unusable(record) => Some(record),
        }
    }

    /// Takes the next record of the topic; `None` is a tombstone. The later in the log wins, unless it is an older or
    /// an unequal copy of the same publication.
    pub fn apply(&mut self, key: &str, record: Option<Override>) -> Applied {
        let Some(record) = record else {
            return if self.remove(key) { Applied::Removed } else { Applied::Absent };
        };
        if let Some(held) = self.get(key).filter(|held| held.override_id == record.override_id) {
            let (next, last) = ((record.attempt, record.revision), (held.attempt, held.revision));
            if next < last {
                return Applied::Older;
            }
            if next == last {
                return if record == *held { Applied::Unchanged } else { Applied::Conflict };
            }
        }
        self.remove(key);
        self.insert(key, record)
    }

    /// [`Self::apply`] for a value as it stands on the topic, in JSON.
    pub fn apply_json(&mut self, key: &str, value: Option<&[u8]>) -> Applied {
        match value.map(decode) {
            None => self.apply(key, None),
            Some(Some(record)) => self.apply(key, Some(record)),
            Some(None) => Applied::Undecodable,
        }
    }

    /// Calls `found` with each live entry that matches, in no particular order.
    pub fn matching<'a>(&'a self, graph: &str, context: &Context, now: Timestamp, mut found: impl FnMut(&'a Entry)) {
        let Some(graph) = self.graphs.get(graph) else { return };
        let mut offer = |slots: &[usize]| {
            for entry in slots.iter().filter_map(|slot| self.entry(*slot)) {
                let tenant = entry.record.tenant.as_ref();
                let own = tenant.is_none() || tenant == context.tenant.as_ref();
                if own && entry.record.expires_at > now {
                    found(entry);
                }
            }
        };
        if let Some(slots) = context.session_id.as_ref().and_then(|session_id| graph.sessions.get(session_id)) {
            offer(slots);
        }
        for slots in graph.groups.iter().filter_map(|group| group.find(context)) {
            offer(slots);
        }
    }

    fn entry(&self, slot: usize) -> Option<&Entry> {
        self.entries.get(slot)?.as_ref()
    }

    fn insert(&mut self, key: &str, record: Override) -> Applied {
        let entry = match Entry::new(key, record) {
            Ok(entry) => entry,
            Err((why, record)) => {
                self.by_key.insert(key.to_owned(), Held::Unusable(record));
                return Applied::Ignored(why);
            }
        };
        let slot = self.free.pop().unwrap_or(self.entries.len());
        self.graphs.entry_ref(entry.record.graph.as_str()).or_default().insert(&entry, slot);
        if slot == self.entries.len() {
            self.entries.push(Some(entry));
        } else {
            self.entries[slot] = Some(entry);
        }
        self.by_key.insert(key.to_owned(), Held::Usable(slot));
        Applied::Stored
    }

    fn remove(&mut self, key: &str) -> bool {
        let held = self.by_key.remove(key);
        let Some(Held::Usable(slot)) = held else { return held.is_some() };
        let Some(entry) = self.entries.get_mut(slot).and_then(Option::take) else { return true };
        self.free.push(slot);
        if let Some(graph) = self.graphs.get_mut(&entry.record.graph) {
            graph.remove(&entry, slot);
            if graph.sessions.is_empty() && graph.groups.is_empty() {
                self.graphs.remove(&entry.record.graph);
            }
        }
        true
    }
}

impl Graph {
    fn insert(&mut self, entry: &Entry, slot: usize) {
        if let Scope::Session { session_id } = &entry.record.scope {
            self.sessions.entry_ref(session_id.as_str()).or_default().push(slot);
            return;
        }
        if let Some(group) = self.groups.iter_mut().find(|group| group.holds(entry)) {
            group.insert(entry, slot);
        } else {
            let mut group = Group::of(entry);
            group.insert(entry, slot);
            self.groups.push(group);
        }
    }

    /// Nothing empty stays behind: it would cost a probe for each question.
    fn remove(&mut self, entry: &Entry, slot: usize) {
        let Scope::Session { session_id } = &entry.record.scope else {
            self.groups.iter_mut().filter(|group| group.holds(entry)).for_each(|group| group.remove(entry, slot));
            self.groups.retain(|group| !group.is_empty());
            return;
        };
        if let Some(slots) = self.sessions.get_mut(session_id) {
            slots.retain(|held| *held != slot);
            if slots.is_empty() {
                self.sessions.remove(session_id);
            }
        }
    }
}

/// Reads an override as a runtime does: what resolution does without may be missing. A record without `created_at` is
/// the oldest; a shadow block that is not complete runs no shadow and does not cost the session its degraded route.
fn decode(json: &[u8]) -> Option<Override> {
    let mut value: Value = serde_json::from_slice(json).ok()?;
    let fields = value.as_object_mut()?;
    if fields.get("created_at").is_none_or(Value::is_null) {
        fields.insert("created_at".to_owned(), Timestamp::MIN.to_string().into());
    }
    if fields.get("shadow").is_some_and(|shadow| Shadow::deserialize(shadow).is_err()) {
        fields.remove("shadow");
    }
    serde_json::from_value(value).ok()
}
