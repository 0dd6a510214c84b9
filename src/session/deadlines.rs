//! What is due when, and whose it is: ends of overrides, of proposals, of sessions that went quiet.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::time::Timestamp;
use crate::session::ids;
use crate::session::table::{Serial, Tracked};

/// What is due at a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// The life of an override ends.
    Override(ids::Key),
    /// A proposal (an intervention) lapses.
    Proposal(ids::Key),
    /// The session may have been idle for too long.
    Idle,
}

impl Due {
    /// The override or proposal of an id, as a command names it.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        let of_override = || ids::override_key(id).map(Self::Override);
        of_override().or_else(|| ids::intervention_key(id).map(Self::Proposal))
    }
}

/// Deadlines, first things first; at one instant by session, ends before idleness.
#[derive(Debug, Default)]
pub struct Deadlines {
    held: BTreeSet<(Timestamp, Serial, Due)>,
    idle: BTreeSet<(Timestamp, Serial)>,
    owners: BTreeMap<Due, Serial>,
}

impl Deadlines {
    /// Sets the end of an override or proposal.
    pub fn schedule(&mut self, at: Timestamp, serial: Serial, due: Due) {
        self.held.insert((at, serial, due));
        self.owners.insert(due, serial);
    }

    /// Takes it back.
    pub fn cancel(&mut self, at: Timestamp, serial: Serial, due: Due) {
        self.held.remove(&(at, serial, due));
        self.owners.remove(&due);
    }

    /// The session that holds an override or proposal.
    #[must_use]
    pub fn owner(&self, due: Due) -> Option<Serial> {
        self.owners.get(&due).copied()
    }

    /// Sets when a session may have been idle for too long.
    pub fn watch(&mut self, idle_at: Timestamp, serial: Serial) {
        self.idle.insert((idle_at, serial));
    }

    /// Takes it back.
    pub fn unwatch(&mut self, idle_at: Timestamp, serial: Serial) {
        self.idle.remove(&(idle_at, serial));
    }

    /// The session that is idle first.
    #[must_use]
    pub fn longest_idle(&self) -> Option<Serial> {
        self.idle.first().map(|(_, serial)| *serial)
    }

    /// When the next deadline is due.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        let held = self.held.first().map(|(at, ..)| *at);
        let idle = self.idle.first().map(|(at, _)| *at);
        held.into_iter().chain(idle).min()
    }

    /// Takes the first deadline at or before `now`. That of an idle session stays until it is gone or postponed.
    pub fn take_due(&mut self, now: Timestamp) -> Option<(Timestamp, Serial, Due)> {
        let at = self.next().filter(|at| *at <= now)?;
        if self.held.first().is_some_and(|(due, ..)| *due == at) {
            return self.held.pop_first();
        }
        self.idle.first().map(|(at, serial)| (*at, *serial, Due::Idle))
    }

    /// Everything that a session holds.
    pub fn file(&mut self, serial: Serial, tracked: &Tracked) {
        held_by(tracked).for_each(|(at, due)| self.schedule(at, serial, due));
    }

    /// Takes all of it back.
    pub fn unfile(&mut self, serial: Serial, tracked: &Tracked) {
        held_by(tracked).for_each(|(at, due)| self.cancel(at, serial, due));
    }

    /// Takes the idle deadlines of many sessions at once: the tree is built as small as it can be.
    pub fn watch_all(&mut self, idle: Vec<(Timestamp, Serial)>) {
        self.idle = idle.into_iter().collect();
    }
}

fn held_by(tracked: &Tracked) -> impl Iterator<Item = (Timestamp, Due)> {
    let overrides = tracked.overrides.iter().map(|live| (live.expires_at, Due::Override(live.id)));
    let proposals = tracked.waiting.iter().filter_map(|waiting| {
        let expires_at = waiting.intervention.proposal.as_ref()?.expires_at;
        Some((expires_at, Due::Proposal(ids::intervention_key(&waiting.intervention.intervention_id)?)))
    });
    overrides.chain(proposals)
}
