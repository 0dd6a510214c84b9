//! The tracked sessions of a task, found by (tenant, session id).
//!
//! A session lies packed, as of the last commit, until it is touched; then a working copy is used until the next commit.
//! So what was is still there when a commit fails, and a session that nothing happens to takes little memory.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use crate::record::time::Timestamp;
use crate::session::deadlines::{Deadlines, Due};
use crate::session::guards::Guards;
use crate::session::intervention::Waiting;
use crate::session::overrides::Live;
use crate::session::state::entry::{self, Change, Key, is_default};
use crate::session::state::names::Names;
use crate::session::state::pack::{Packed, node_bit};
use crate::session::track::Run;

/// Number of a tracked session: in order of its first failure, never used twice.
pub type Serial = u64;

/// One tracked session: it failed, or went past an irreversible node. In state entries its fields have one letter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tracked {
    /// Its tenant.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Box<str>>,
    /// Its id.
    #[serde(rename = "s")]
    pub session_id: Box<str>,
    /// Runs with a failure, oldest first.
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
    /// Live overrides: at most one per graph.
    #[serde(rename = "o", default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Live>,
    /// Proposals that wait for a person: at most one per graph.
    #[serde(rename = "w", default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
    /// Interventions recorded for it, refused ones not.
    #[serde(rename = "i", default, skip_serializing_if = "is_default")]
    pub interventions: u32,
    /// Hashes of the last failure event ids, oldest first.
    #[serde(rename = "f", default, skip_serializing_if = "Vec::is_empty")]
    pub failure_ids: Vec<u64>,
    /// When it may have been idle for too long.
    #[serde(rename = "a", with = "entry::micros")]
    pub idle_at: Timestamp,
}

impl Tracked {
    /// Whether nothing would be lost by forgetting it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.interventions == 0 && self.failure_ids.is_empty() && !self.is_held()
    }

    /// Whether an override or a proposal keeps it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.overrides.is_empty() || !self.waiting.is_empty()
    }

    /// Position of a run.
    #[must_use]
    pub fn run_index(&self, graph: &str, run_id: Option<&str>, shadow: bool) -> Option<usize> {
        self.runs.iter().position(|run| run.is(graph, run_id, shadow))
    }
}

/// The working copy of a session.
#[derive(Debug)]
struct Working {
    /// The session; `None`: it is gone.
    tracked: Option<Tracked>,
    /// Whether it may have changed since its entry was last taken.
    touched: bool,
    /// Whether it may have changed since the last commit.
    changed: bool,
    /// Hash of its entry when it was last taken, where there was one.
    taken: Option<u128>,
}

/// A session in the table of keys, with its hash: a table that grows need not look at the sessions.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    /// The serial's bytes, so that a slot takes 12.
    serial: [u8; 8],
}

impl Slot {
    fn new(hash: u32, serial: Serial) -> Self {
        Self { hash, serial: serial.to_ne_bytes() }
    }

    fn serial(self) -> Serial {
        Serial::from_ne_bytes(self.serial)
    }

    fn spread(self) -> u64 {
        spread(self.hash)
    }
}

/// Sessions and deadlines. Nothing here iterates in hash order.
#[derive(Debug, Default)]
pub struct Table {
    packed: BTreeMap<Serial, Packed>,
    working: BTreeMap<Serial, Working>,
    names: Names,
    by_key: HashTable<Slot>,
    /// What is due when.
    pub deadlines: Deadlines,
    /// The next serial.
    pub next: Serial,
    /// Bytes of the packed sessions.
    pub bytes: u64,
}

impl Table {
    /// Number of tracked sessions.
    #[must_use]
    pub fn tracked(&self) -> usize {
        self.by_key.len()
    }

    /// Finds a session and makes it ready to be read and changed. Allocates nothing where there is none: healthy events
    /// pass here.
    #[must_use]
    pub fn find(&mut self, tenant: Option<&str>, session_id: &str) -> Option<Serial> {
        let serial = self.look_up(tenant, session_id)?;
        self.open(serial);
        Some(serial)
    }

    /// Finds a session like [`Table::find`] where it may track a node of that name in one of its runs. For events that
    /// concern such nodes only: most of what a failing session reports need not be unpacked for.
    #[must_use]
    pub fn find_node(&mut self, tenant: Option<&str>, session_id: &str, node: Option<&str>) -> Option<Serial> {
        let serial = self.look_up(tenant, session_id)?;
        if !self.working.contains_key(&serial) {
            let nodes = self.packed.get(&serial)?.header(&self.names).nodes;
            if nodes & node_bit(node) == 0 {
                return None;
            }
            self.open(serial);
        }
        Some(serial)
    }

    fn look_up(&self, tenant: Option<&str>, session_id: &str) -> Option<Serial> {
        if self.by_key.is_empty() {
            return None;
        }
        let Self { packed, working, names, by_key, .. } = self;
        let hash = hash(tenant, session_id);
        let same =
            |slot: &Slot| slot.hash == hash && key(packed, working, names, slot.serial()) == Some((tenant, session_id));
        by_key.find(spread(hash), same).map(|slot| slot.serial())
    }

    /// Makes the working copy of a session.
    fn open(&mut self, serial: Serial) {
        if !self.working.contains_key(&serial)
            && let Some(packed) = self.packed.get(&serial)
        {
            let tracked = Some(packed.unpack(&self.names));
            let working = Working { tracked, touched: false, changed: false, taken: Some(packed.hash()) };
            self.working.insert(serial, working);
        }
    }

    /// Adds a session that is not there yet.
    pub fn insert(&mut self, tenant: Option<&str>, session_id: &str, idle_at: Timestamp) -> Serial {
        let serial = self.next;
        self.next += 1;
        let tracked = Tracked {
            tenant: tenant.map(Into::into),
            session_id: session_id.into(),
            runs: Vec::new(),
            overrides: Vec::new(),
            waiting: Vec::new(),
            interventions: 0,
            failure_ids: Vec::new(),
            idle_at,
        };
        self.file(serial, &tracked);
        self.working.insert(serial, Working { tracked: Some(tracked), touched: true, changed: true, taken: None });
        serial
    }

    /// Removes a session with its deadlines.
    pub fn remove(&mut self, serial: Serial) -> Option<Tracked> {
        let working = self.working.get_mut(&serial)?;
        let tracked = working.tracked.take()?;
        (working.touched, working.changed) = (true, true);
        if working.taken.is_none() && !self.packed.contains_key(&serial) {
            // No entry of it was ever taken.
            self.working.remove(&serial);
        }
        self.unfile(serial, &tracked);
        Some(tracked)
    }

    /// A session that was found.
    #[must_use]
    pub fn get(&self, serial: Serial) -> Option<&Tracked> {
        self.working.get(&serial)?.tracked.as_ref()
    }

    /// A session that was found, to change it.
    pub fn get_mut(&mut self, serial: Serial) -> Option<&mut Tracked> {
        let working = self.working.get_mut(&serial)?;
        (working.touched, working.changed) = (true, true);
        working.tracked.as_mut()
    }

    /// Lets `change` change a session that was found; it says whether it did.
    pub fn change(&mut self, serial: Serial, change: impl FnOnce(&mut Tracked) -> bool) {
        if let Some(working) = self.working.get_mut(&serial)
            && let Some(tracked) = &mut working.tracked
            && change(tracked)
        {
            (working.touched, working.changed) = (true, true);
        }
    }

    /// Takes the first deadline at or before `now`, and finds its session.
    pub fn take_due(&mut self, now: Timestamp) -> Option<(Timestamp, Serial, Due)> {
        let due = self.deadlines.take_due(now);
        due.inspect(|(_, serial, _)| self.open(*serial))
    }

    /// Moves the idle deadline of a session that was found.
    pub fn postpone_idle(&mut self, serial: Serial, idle_at: Timestamp) {
        if let Some(tracked) = self.get_mut(serial) {
            let before = std::mem::replace(&mut tracked.idle_at, idle_at);
            self.deadlines.unwatch(before, serial);
            self.deadlines.watch(idle_at, serial);
        }
    }

    /// Finds the session whose idle deadline is first.
    #[must_use]
    pub fn longest_idle(&mut self) -> Option<Serial> {
        let serial = self.deadlines.longest_idle()?;
        self.open(serial);
        Some(serial)
    }

    /// Finds the session that holds an override or a proposal.
    #[must_use]
    pub fn owner(&mut self, id: &str) -> Option<(Serial, Due)> {
        let due = Due::named(id)?;
        let serial = self.deadlines.owner(due)?;
        self.open(serial);
        Some((serial, due))
    }

    fn file(&mut self, serial: Serial, tracked: &Tracked) {
        let slot = Slot::new(hash(tracked.tenant.as_deref(), &tracked.session_id), serial);
        self.by_key.insert_unique(slot.spread(), slot, |slot| slot.spread());
        self.deadlines.watch(tracked.idle_at, serial);
        self.deadlines.file(serial, tracked);
    }

    fn unfile(&mut self, serial: Serial, tracked: &Tracked) {
        let slot = Slot::new(hash(tracked.tenant.as_deref(), &tracked.session_id), serial);
        if let Ok(entry) = self.by_key.find_entry(slot.spread(), |known| known.serial() == serial) {
            entry.remove();
        }
        self.deadlines.unwatch(tracked.idle_at, serial);
        self.deadlines.unfile(serial, tracked);
    }

    /// Appends the entries that changed since they were last taken, and keeps `sum` the hash of all.
    pub fn take_changes(&mut self, sum: &mut u128, changes: &mut Vec<Change>) {
        for (serial, working) in &mut self.working {
            if !std::mem::take(&mut working.touched) {
                continue;
            }
            let key = Key::Session(*serial).text();
            let value = working.tracked.as_ref().map(entry::encode);
            let hash = value.as_ref().map(|value| entry::hash(key.as_bytes(), value));
            let before = std::mem::replace(&mut working.taken, hash);
            if hash != before {
                *sum = sum.wrapping_sub(before.unwrap_or(0)).wrapping_add(hash.unwrap_or(0));
                changes.push(Change { key, value });
            }
        }
    }

    /// What was taken is committed: packs the working copies.
    pub fn committed(&mut self) {
        for (serial, working) in std::mem::take(&mut self.working) {
            let before = self.packed.get(&serial);
            if !working.changed || working.taken == before.map(Packed::hash) {
                continue;
            }
            let _ = self.put(serial, working.tracked.as_ref().zip(working.taken));
        }
    }

    /// Drops the working copies: the sessions are as they were at the last commit.
    pub fn rollback(&mut self, guards: &mut Guards) {
        let mut working = std::mem::take(&mut self.working);
        working.retain(|_, working| working.changed);
        for (serial, working) in &working {
            if let Some(tracked) = &working.tracked {
                self.unfile(*serial, tracked);
                guards.uncount(tracked);
            }
        }
        for serial in working.keys() {
            if let Some(packed) = self.packed.get(serial) {
                let tracked = packed.unpack(&self.names);
                self.file(*serial, &tracked);
                guards.count(&tracked);
            }
        }
    }

    /// Puts a session in place, packed, or takes it out; its indexes are not touched. Gives the hash of the entry that was
    /// there before.
    pub fn put(&mut self, serial: Serial, tracked: Option<(&Tracked, u128)>) -> Option<u128> {
        let packed = tracked.map(|(tracked, hash)| Packed::new(tracked, hash, &mut self.names));
        self.bytes += packed.as_ref().map_or(0, Packed::bytes);
        let before = match packed {
            Some(packed) => self.packed.insert(serial, packed),
            None => self.packed.remove(&serial),
        };
        before.map(|before| {
            self.bytes -= before.bytes();
            before.release(&mut self.names);
            before.hash()
        })
    }

    /// Builds the indexes of all sessions put in place.
    pub fn restored(&mut self, guards: &mut Guards) {
        let packed = std::mem::take(&mut self.packed);
        let mut idle = Vec::with_capacity(packed.len());
        self.by_key = HashTable::with_capacity(packed.len());
        for (serial, packed) in &packed {
            let header = packed.header(&self.names);
            idle.push((header.idle_at, *serial));
            let slot = Slot::new(hash(header.tenant, header.session_id), *serial);
            self.by_key.insert_unique(slot.spread(), slot, |slot| slot.spread());
            if header.has_more {
                let tracked = packed.unpack(&self.names);
                self.deadlines.file(*serial, &tracked);
                guards.count(&tracked);
            }
        }
        self.packed = packed;
        self.deadlines.watch_all(idle);
    }

    /// The last serial in use.
    #[must_use]
    pub fn last(&self) -> Option<Serial> {
        self.packed.last_key_value().map(|(serial, _)| *serial)
    }
}

/// What a session is found by: never changed, so that the packed one will do.
fn key<'a>(
    packed: &'a BTreeMap<Serial, Packed>,
    working: &'a BTreeMap<Serial, Working>,
    names: &'a Names,
    serial: Serial,
) -> Option<(Option<&'a str>, &'a str)> {
    if let Some(packed) = packed.get(&serial) {
        let header = packed.header(names);
        return Some((header.tenant, header.session_id));
    }
    let tracked = working.get(&serial)?.tracked.as_ref()?;
    Some((tracked.tenant.as_deref(), &tracked.session_id))
}

fn hash(tenant: Option<&str>, session_id: &str) -> u32 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    tenant.hash(&mut hasher);
    session_id.hash(&mut hasher);
    (hasher.finish() >> 32) as u32
}

/// The hash as tables want it, with something in the bits at either end.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
