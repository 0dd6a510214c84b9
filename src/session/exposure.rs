//! Exposure: how many runs began and ended, by graph, route and cohort dimensions. The denominators of the fleet stage.
//!
//! Runs are counted in rows between two commits; [`Session::flush`] publishes the rows right before the changes of state
//! are taken, and forgets them. They are no state: what is rolled back is read, and counted, again.
//!
//! A task with nothing to say says nothing: the fleet stage does not wait for a source that is silent for 10 s, which is
//! as long as a record of no rows in each bucket would let it wait.
//!
//! Invariant: however a log is cut into commits, its rows add up to the same counts (`tests/properties/rows.rs`).

use std::collections::{BTreeMap, BTreeSet};

use crate::record::event::{Event, EventType, Route};
use crate::record::fleet::{self, FleetRecord};
use crate::record::output::{Output, Record};
use crate::record::task::Effects;
use crate::record::topic::Topic;
use crate::registry::Registry;
use crate::session::deadlines::Due;
use crate::session::lane::Lane;
use crate::session::rows::{Place, RowTable};
use crate::session::{Arrival, Session, ids};

/// What counting runs needs to know.
#[derive(Debug)]
pub struct Exposure {
    /// Rows since the last flush.
    pub(crate) rows: RowTable,
    /// Required artifacts by graph, all of its versions.
    artifacts: BTreeMap<String, BTreeSet<String>>,
}

impl Exposure {
    /// Nothing counted.
    #[must_use]
    pub fn new(registry: &Registry, dimensions: &[String]) -> Self {
        Self { rows: RowTable::new(dimensions), artifacts: required_artifacts(registry) }
    }

    /// Counts by other dimensions, and knows other artifacts, from now on.
    pub fn activate(&mut self, registry: &Registry, dimensions: &[String]) {
        self.rows.close();
        self.rows.name(dimensions);
        self.artifacts = required_artifacts(registry);
    }
}

fn required_artifacts(registry: &Registry) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::<String, BTreeSet<String>>::new();
    for graph in registry.graphs.values() {
        let required = graph.nodes.values().filter(|node| node.required);
        for artifact in required.filter_map(|node| node.artifact.as_ref()) {
            all.entry(graph.name.clone()).or_default().insert(artifact.clone());
        }
    }
    all
}

impl Session {
    /// Counts a run that began or ended. Allocates nothing where its row is there, but for a latency of a new range.
    pub(crate) fn expose(&mut self, arrival: &Arrival<'_>) {
        let event = arrival.event;
        let started = event.event_type == EventType::GraphStarted;
        let reports_starts = self.graphs.contains(&event.graph);
        if started && !reports_starts {
            self.graphs.admit(&event.graph, self.registry.limits.graphs_seen_max as usize);
        }
        let completed = event.event_type == EventType::GraphCompleted;
        let artifact = if completed { self.artifact_of(event) } else { None };
        let limits = &self.registry.limits;
        let place = Place {
            event,
            override_id: event.override_id.as_deref().filter(|id| !self.is_of_one_session(id)),
            late: arrival.late,
            value_bytes_max: limits.field_bytes_max as usize,
        };
        let bucket = fleet::bucket_of(self.now);
        let (tally, folded) = self.exposure.rows.tally(bucket, &place, limits.fleet_rows_max as usize);
        self.counts.rows_folded += folded;
        tally.runs_started += u64::from(started || !reports_starts);
        tally.runs_completed += u64::from(completed);
        tally.runs_failed += u64::from(event.event_type == EventType::GraphFailed);
        tally.artifacts_present += u64::from(artifact == Some(true));
        tally.artifacts_missing += u64::from(artifact == Some(false));
        if let Some(latency_ms) = event.latency_ms.filter(|_| completed) {
            tally.latency.record(latency_ms);
        }
    }

    /// Whether an override is one of a session of this task: evidence of nobody else, and a row for each would be many.
    fn is_of_one_session(&self, id: &str) -> bool {
        ids::override_key(id).is_some_and(|key| self.table.deadlines.owner(Due::Override(key)).is_some())
    }

    /// Whether a completed run has its required artifact: the event's own word, else, of a run that failed on the way,
    /// what was produced since; none where that is not known.
    fn artifact_of(&mut self, event: &Event<'_>) -> Option<bool> {
        let schema = event.schema_ref.as_deref();
        let name = schema.and_then(|schema| schema.rsplit_once(':')).map_or(&*event.graph, |(name, _)| name);
        let required = self.exposure.artifacts.get(name).or_else(|| self.exposure.artifacts.get(&*event.graph))?;
        let own = event.artifact.as_ref().filter(|own| own.name.as_deref().is_none_or(|name| required.contains(name)));
        if let Some(present) = own.and_then(|own| own.present) {
            return Some(present);
        }
        let serial = self.table.find(event.tenant.as_deref(), &event.session_id)?;
        let tracked = self.table.get(serial)?;
        let run = tracked.run_index(&event.graph, event.run_id.as_deref(), *event.route() == Route::Shadow)?;
        let graph = self.registry.graph(event.running_schema().as_deref(), &event.graph)?;
        tracked.runs[run].artifacts_present(Lane::of(event), |node| {
            graph.nodes.get(node).filter(|facts| facts.required)?.artifact.as_deref()
        })
    }

    /// Appends the rows counted since the last call, by bucket, graph and row, and forgets them. To be called right before
    /// [`Session::take_changes`], in every commit.
    pub fn flush(&mut self, effects: &mut Effects) {
        if self.exposure.rows.is_empty() {
            return;
        }
        for table in self.exposure.rows.take(&self.task, self.now) {
            effects.outputs.push(self.to_fleet(FleetRecord::Rows(table)));
        }
    }

    /// A record for the fleet stage.
    pub(crate) fn to_fleet(&self, record: FleetRecord) -> Output {
        let key = record.key();
        Output { at: self.now, topic: Topic::Fleet, key, value: Some(Record::Fleet(Box::new(record))) }
    }
}
