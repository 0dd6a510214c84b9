//! The tracked sessions of a task, found by (tenant, session id), and the deadlines of what they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::FixedState;
use hashbrown::HashTable;

use crate::record::overrides::Override;
use crate::record::time::Timestamp;
use crate::session::intervention::Waiting;
use crate::session::track::Run;

/// Number of a tracked session: in order of its first failure, never used twice.
pub type Serial = u64;

/// One tracked session: it failed, or went past an irreversible node.
#[derive(Debug)]
pub struct Tracked {
    /// Its tenant.
    pub tenant: Option<Box<str>>,
    /// Its id.
    pub session_id: Box<str>,
    /// Runs with a failure, oldest first.
    pub runs: Vec<Run>,
    /// Live overrides: at most one per graph.
    pub overrides: Vec<Override>,
    /// Proposals that wait for a person: at most one per graph.
    pub waiting: Vec<Waiting>,
    /// Interventions recorded for it, refused ones not.
    pub interventions: u32,
    /// Hashes of the last failure event ids, oldest first.
    pub failure_ids: Vec<u64>,
    idle_at: Timestamp,
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

/// What is due at a deadline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// The life of an override (by id) ends.
    Override(String),
    /// A proposal (by intervention id) lapses.
    Proposal(String),
    /// The session may have been idle for too long.
    Idle,
}

/// Sessions and deadlines. Nothing here iterates in hash order.
#[derive(Debug, Default)]
pub struct Table {
    sessions: BTreeMap<Serial, Tracked>,
    by_key: HashTable<Serial>,
    deadlines: BTreeSet<(Timestamp, Serial, Due)>,
    idle: BTreeSet<(Timestamp, Serial)>,
    next: Serial,
}

impl Table {
    /// Number of tracked sessions.
    #[must_use]
    pub fn tracked(&self) -> usize {
        self.sessions.len()
    }

    /// Finds a session. Allocates nothing: healthy events pass here.
    #[must_use]
    pub fn find(&self, tenant: Option<&str>, session_id: &str) -> Option<Serial> {
        if self.sessions.is_empty() {
            return None;
        }
        let same = |serial: &Serial| {
            let known = self.sessions.get(serial);
            known.is_some_and(|known| &*known.session_id == session_id && known.tenant.as_deref() == tenant)
        };
        self.by_key.find(hash(tenant, session_id), same).copied()
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
        self.sessions.insert(serial, tracked);
        self.idle.insert((idle_at, serial));
        let sessions = &self.sessions;
        self.by_key.insert_unique(hash(tenant, session_id), serial, |serial| {
            sessions.get(serial).map_or(0, |known| hash(known.tenant.as_deref(), &known.session_id))
        });
        serial
    }

    /// Removes a session with its idle deadline. Its overrides and proposals must have ended before.
    pub fn remove(&mut self, serial: Serial) -> Option<Tracked> {
        let tracked = self.sessions.remove(&serial)?;
        let key = hash(tracked.tenant.as_deref(), &tracked.session_id);
        if let Ok(entry) = self.by_key.find_entry(key, |known| *known == serial) {
            entry.remove();
        }
        self.idle.remove(&(tracked.idle_at, serial));
        Some(tracked)
    }

    /// A session.
    #[must_use]
    pub fn get(&self, serial: Serial) -> Option<&Tracked> {
        self.sessions.get(&serial)
    }

    /// A session, to change it.
    pub fn get_mut(&mut self, serial: Serial) -> Option<&mut Tracked> {
        self.sessions.get_mut(&serial)
    }

    /// Sets a deadline.
    pub fn schedule(&mut self, at: Timestamp, serial: Serial, due: Due) {
        self.deadlines.insert((at, serial, due));
    }

    /// Takes a deadline back.
    pub fn cancel(&mut self, at: Timestamp, serial: Serial, due: Due) {
        self.deadlines.remove(&(at, serial, due));
    }

    /// When the next deadline is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let due = self.deadlines.first().map(|(at, ..)| *at);
        let idle = self.idle.first().map(|(at, _)| *at);
        due.into_iter().chain(idle).min()
    }

    /// Takes the first deadline at or before `now`; what ends comes before what was idle.
    pub fn take_due(&mut self, now: Timestamp) -> Option<(Timestamp, Serial, Due)> {
        let at = self.next_deadline().filter(|at| *at <= now)?;
        if self.deadlines.first().is_some_and(|(due, ..)| *due == at) {
            return self.deadlines.pop_first();
        }
        self.idle.first().map(|(at, serial)| (*at, *serial, Due::Idle))
    }

    /// Moves the idle deadline of a session.
    pub fn postpone_idle(&mut self, serial: Serial, idle_at: Timestamp) {
        if let Some(tracked) = self.sessions.get_mut(&serial) {
            self.idle.remove(&(tracked.idle_at, serial));
            tracked.idle_at = idle_at;
            self.idle.insert((idle_at, serial));
        }
    }

    /// The session whose idle deadline is first.
    #[must_use]
    pub fn longest_idle(&self) -> Option<Serial> {
        self.idle.first().map(|(_, serial)| *serial)
    }
}

fn hash(tenant: Option<&str>, session_id: &str) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    tenant.hash(&mut hasher);
    session_id.hash(&mut hasher);
    hasher.finish()
}
