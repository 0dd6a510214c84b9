//! Beginnings and ends: runs, sessions, deadlines. Healthy events of untracked sessions leave at the first lookup.

use std::time::Duration;

use twox_hash::XxHash3_64;

use crate::record::event::{Event, EventType, Route};
use crate::record::intervention::InterventionStatus as Status;
use crate::record::task::Effects;
use crate::record::time::Timestamp;
use crate::session::deadlines::Due;
use crate::session::guards::irreversible_runs;
use crate::session::ids;
use crate::session::intervention::Why;
use crate::session::lane::Lane;
use crate::session::table::{Serial, Tracked};
use crate::session::track::Run;
use crate::session::{Arrival, Session};

/// How many idle sessions are looked at to find those without an override when the table is full.
const EVICTION_TRIES: usize = 64;

impl Session {
    /// Fires every deadline at or before `now`, each at its own time.
    pub(crate) fn fire_deadlines(&mut self, now: Timestamp, effects: &mut Effects) {
        while let Some((at, serial, due)) = self.table.take_due(now) {
            self.now = self.now.max(at);
            match due {
                Due::Override(id) => self.end_override(serial, id, "expired", &Why::default(), effects),
                Due::Proposal(key) => {
                    let id = ids::of_intervention(key);
                    if let Some(waiting) = self.take_waiting(serial, &id) {
                        let why = Why { reason: Some("approval_timeout"), ..Why::default() };
                        self.drop_waiting(waiting, Status::Expired, why, effects);
                        self.forget_if_empty(serial);
                    }
                }
                Due::Idle => self.idle(serial),
            }
        }
    }

    fn idle_at(&self) -> Timestamp {
        self.now.plus(Duration::from_millis(self.registry.limits.session_idle_ms_max.max(1)))
    }

    fn idle(&mut self, serial: Serial) {
        if self.table.get(serial).is_some_and(|tracked| !tracked.is_held()) {
            self.lose(serial);
        } else {
            let idle_at = self.idle_at();
            self.table.postpone_idle(serial, idle_at);
        }
    }

    /// The tracked session of a failure event; `None` where the event was seen before.
    pub(crate) fn admit(&mut self, arrival: &Arrival<'_>) -> Option<Serial> {
        let event = arrival.event;
        let serial = self.track(event);
        let id = XxHash3_64::oneshot(event.event_id.as_bytes());
        let max = self.registry.limits.duplicate_ids_max as usize;
        let ids = &mut self.table.get_mut(serial)?.failure_ids;
        if ids.contains(&id) {
            self.counts.duplicates += 1;
            return None;
        }
        if ids.len() >= max && !ids.is_empty() {
            ids.remove(0);
        }
        if max > 0 {
            ids.push(id);
        }
        let idle_at = self.idle_at();
        self.table.postpone_idle(serial, idle_at);
        Some(serial)
    }

    fn track(&mut self, event: &Event<'_>) -> Serial {
        let tenant = event.tenant.as_deref();
        if let Some(serial) = self.table.find(tenant, &event.session_id) {
            return serial;
        }
        self.make_room();
        let idle_at = self.idle_at();
        self.table.insert(tenant, &event.session_id, idle_at)
    }

    /// Forgets who was idle longest, until one more fits. Those that are held go to the end of the queue, so that they
    /// are not looked at again and again.
    fn make_room(&mut self) {
        let idle_at = self.idle_at();
        for _ in 0..EVICTION_TRIES {
            if self.table.tracked() < self.registry.limits.sessions_tracked_max as usize {
                return;
            }
            let Some(oldest) = self.table.longest_idle() else { return };
            if self.table.get(oldest).is_some_and(Tracked::is_held) {
                self.table.postpone_idle(oldest, idle_at);
            } else {
                self.counts.sessions_evicted += 1;
                self.lose(oldest);
            }
        }
    }

    /// Position of the event's run in its session, opened where it is new.
    pub(crate) fn open_run(&mut self, serial: Serial, event: &Event<'_>) -> Option<usize> {
        let shadow = *event.route() == Route::Shadow;
        let max = (self.registry.limits.runs_per_session_max as usize).max(1);
        let idle_at = self.idle_at();
        let tracked = self.table.get_mut(serial)?;
        let run_id = event.run_id.as_deref();
        if let Some(index) = tracked.run_index(&event.graph, run_id, shadow) {
            return Some(index);
        }
        if tracked.runs.len() >= max {
            let oldest = tracked.runs.remove(0);
            if oldest.irreversible {
                self.guards.irreversible_runs -= 1;
                self.guards.irreversible_unknown_until = Some(idle_at);
            }
        }
        tracked.runs.push(Run::new(&event.graph, run_id, shadow));
        Some(tracked.runs.len() - 1)
    }

    /// A node started or completed, or progress was made.
    pub(crate) fn went_on(&mut self, event: &Event<'_>) {
        let completed = event.event_type == EventType::NodeCompleted;
        let node = event.node.as_deref();
        if completed && *event.route() != Route::Shadow && node.is_some_and(|n| self.irreversible_nodes.contains(n)) {
            self.passed_irreversible(event);
        }
        let concerns_nodes_of_that_name = match event.event_type {
            EventType::NodeStarted | EventType::NodeCompleted => true,
            EventType::Progress => node.is_some(),
            _ => false,
        };
        let (tenant, session_id) = (event.tenant.as_deref(), &event.session_id);
        let found = if concerns_nodes_of_that_name {
            self.table.find_node(tenant, session_id, node)
        } else {
            self.table.find(tenant, session_id)
        };
        let Some(serial) = found else { return };
        let artifacts_max = self.registry.limits.artifacts_per_run_max as usize;
        let shadow = *event.route() == Route::Shadow;
        self.table.change(serial, |tracked| {
            let index = tracked.run_index(&event.graph, event.run_id.as_deref(), shadow);
            let Some(run) = index.map(|index| &mut tracked.runs[index]) else { return false };
            let went_on = match event.event_type {
                EventType::NodeStarted => run.started(Lane::of(event), node),
                EventType::NodeCompleted => run.completed(Lane::of(event), node),
                _ => run.progressed(Lane::of(event), node),
            };
            let artifact = event.artifact.as_ref().filter(|artifact| artifact.present != Some(false));
            let name = artifact.and_then(|artifact| artifact.name.as_ref());
            let named = name.filter(|_| event.event_type == EventType::ArtifactProduced);
            named.is_some_and(|name| run.produced(name, artifacts_max)) || went_on
        });
    }

    /// An irreversible node completed: the run is not rerouted any more.
    fn passed_irreversible(&mut self, event: &Event<'_>) {
        let schema = event.running_schema();
        let graph = self.registry.graph(schema.as_deref(), &event.graph);
        let passed = graph.zip(event.node.as_deref()).is_some_and(|(graph, node)| {
            graph.nodes.get(node).is_some_and(|facts| facts.irreversible) && graph.has_successor(node)
        });
        if !passed {
            return;
        }
        if self.guards.irreversible_runs >= self.registry.limits.irreversible_runs_max {
            self.guards.irreversible_unknown_until = Some(self.idle_at());
            return;
        }
        let serial = self.track(event);
        let idle_at = self.idle_at();
        self.table.postpone_idle(serial, idle_at);
        let Some(run) = self.open_run(serial, event) else { return };
        if let Some(tracked) = self.table.get_mut(serial) {
            let before = std::mem::replace(&mut tracked.runs[run].irreversible, true);
            self.guards.irreversible_runs += u32::from(!before);
        }
    }

    pub(crate) fn graph_started(&mut self, event: &Event<'_>) {
        if *event.route() == Route::Shadow {
            self.close_unnamed_run(event);
            return;
        }
        self.close_unnamed_run(event);
        let Some(serial) = self.table.find(event.tenant.as_deref(), &event.session_id) else { return };
        self.table.change(serial, |tracked| !std::mem::take(&mut tracked.failure_ids).is_empty());
        self.forget_if_empty(serial);
    }

    /// A run without an id lasts until the next start or end of its graph.
    fn close_unnamed_run(&mut self, event: &Event<'_>) {
        if event.run_id.is_none()
            && let Some(serial) = self.table.find(event.tenant.as_deref(), &event.session_id)
        {
            self.close_run(serial, event);
        }
    }

    fn close_run(&mut self, serial: Serial, event: &Event<'_>) {
        let shadow = *event.route() == Route::Shadow;
        self.table.change(serial, |tracked| {
            let index = tracked.run_index(&event.graph, event.run_id.as_deref(), shadow);
            let closed = index.map(|index| tracked.runs.remove(index));
            self.guards.irreversible_runs -= closed.as_ref().map_or(0, |run| u32::from(run.irreversible));
            closed.is_some()
        });
    }

    /// `graph_completed` or `graph_failed`.
    pub(crate) fn run_ended(&mut self, arrival: &Arrival<'_>, effects: &mut Effects) {
        let event = arrival.event;
        let Some(serial) = self.table.find(event.tenant.as_deref(), &event.session_id) else { return };
        self.close_run(serial, event);
        if *event.route() != Route::Shadow
            && let Some(id) = self.override_ended_by(serial, event)
        {
            self.end_override(serial, id, event.event_type.as_str(), &caused_by(arrival), effects);
        }
        self.forget_if_empty(serial);
    }

    /// `session_ended`: ends every graph of the session.
    pub(crate) fn session_ended(&mut self, arrival: &Arrival<'_>, effects: &mut Effects) {
        let event = arrival.event;
        if *event.route() == Route::Shadow {
            return;
        }
        let Some(serial) = self.table.find(event.tenant.as_deref(), &event.session_id) else { return };
        let Some(tracked) = self.table.get(serial) else { return };
        let overrides: Vec<ids::Key> = tracked.overrides.iter().map(|live| live.id).collect();
        let waiting: Vec<String> =
            tracked.waiting.iter().map(|waiting| waiting.intervention.intervention_id.clone()).collect();
        let why = caused_by(arrival);
        for id in waiting {
            if let Some(waiting) = self.take_waiting(serial, &id) {
                let why = Why { reason: Some("session_ended"), ..why.clone() };
                self.drop_waiting(waiting, Status::Expired, why, effects);
            }
        }
        for id in overrides {
            self.end_override(serial, id, "session_ended", &why, effects);
        }
        self.forget(serial);
    }

    /// `override_ignored`: a runtime that gave up waiting will not come back for it.
    pub(crate) fn override_ignored(&mut self, arrival: &Arrival<'_>, effects: &mut Effects) {
        let event = arrival.event;
        if event.reason.as_deref() != Some("budget_expired") || *event.route() == Route::Shadow {
            return;
        }
        let Some(serial) = self.table.find(event.tenant.as_deref(), &event.session_id) else { return };
        let ignored = self.table.get(serial).and_then(|tracked| {
            let of_graph = tracked.overrides.iter().filter(|live| *live.graph == *event.graph);
            let named = |id| event.override_id.as_deref().is_none_or(|ignored| ids::override_key(ignored) == Some(id));
            of_graph.map(|live| live.id).find(|id| named(*id))
        });
        if let Some(id) = ignored {
            self.end_override(serial, id, "budget_expired", &caused_by(arrival), effects);
        }
    }

    /// Forgets a session that holds nothing any more.
    pub(crate) fn forget_if_empty(&mut self, serial: Serial) {
        if self.table.get(serial).is_some_and(Tracked::is_empty) {
            self.forget(serial);
        }
    }

    /// Forgets a session that may go on: a run past an irreversible node is not known any more.
    fn lose(&mut self, serial: Serial) {
        if self.table.get(serial).is_some_and(|tracked| tracked.runs.iter().any(|run| run.irreversible)) {
            self.guards.irreversible_unknown_until = Some(self.idle_at());
        }
        self.forget(serial);
    }

    fn forget(&mut self, serial: Serial) {
        if let Some(tracked) = self.table.remove(serial) {
            self.guards.irreversible_runs -= irreversible_runs(&tracked);
        }
    }
}

fn caused_by<'a>(arrival: &Arrival<'_>) -> Why<'a> {
    Why { cause: Some(arrival.position.evidence(&arrival.event.event_id)), ..Why::default() }
}
