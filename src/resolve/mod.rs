//! What runtimes compute: which graph schema to run, from the live overrides, without a call to anybody.
//!
//! ```text
//!  reflex.overrides ──> OverrideTable::apply ──> resolve(table, graph, context, now) ──> Resolution
//! ```
//!
//! Order of the winner: operator deny > operator force > session > cohort with more dimensions > dimension rank
//! (tenant > region > `app_version` > `graph_version` > attributes by name) > newer `created_at` > smaller id.
//! Records that are expired, of another tenant, or hold a word this version does not know are ignored; without a
//! winner the answer is the global schema. Nothing here can fail or wait.
//!
//! Invariant: every language computes the same (`vectors/resolve.json`, `tests/resolve.rs`), and the index of the
//! table finds what a scan over all records finds (`tests/resolve.rs`).

pub mod bucket;
pub mod context;
mod group;
pub mod precedence;
pub mod resolution;
pub mod table;

pub use context::{Context, Phase};
pub use resolution::{Reason, Resolution, SchemaRef};
pub use table::{Applied, OverrideTable};

use crate::record::event::Route;
use crate::record::overrides::{Override, OverrideKind, OverrideMode};
use crate::record::scope::Scope;
use crate::record::time::Timestamp;
use bucket::Purpose;
use precedence::Entry;

/// Which schema to run; `now` is the runtime's own clock corrected by the measured broker offset.
///
/// `losers` of the result stays empty, so that nothing is allocated; [`explain`] fills it.
#[must_use]
pub fn resolve<'a>(table: &'a OverrideTable, graph: &'a str, context: &'a Context, now: Timestamp) -> Resolution<'a> {
    let mut best = Best::default();
    table.matching(graph, context, now, |entry| best.offer(entry, context));
    best.decide(SchemaRef::global(graph, context), context)
}

/// As [`resolve`], with the ids of the matching records that lost, best first.
#[must_use]
pub fn explain<'a>(table: &'a OverrideTable, graph: &'a str, context: &'a Context, now: Timestamp) -> Resolution<'a> {
    let mut best = Best::default();
    let mut entries = Vec::new();
    table.matching(graph, context, now, |entry| {
        best.offer(entry, context);
        entries.push(entry);
    });
    let mut found = best.decide(SchemaRef::global(graph, context), context);
    // A kept schema was not chosen among records: nobody lost.
    if let (Some(winner), true) = (found.override_id, found.reason != Reason::Current) {
        entries.sort_by(|a, b| a.rank().cmp(&b.rank()));
        found.losers =
            entries.iter().map(|entry| entry.record.override_id.as_str()).filter(|id| *id != winner).collect();
    }
    found
}

/// The records a decision can depend on, kept while the matching ones go by in any order.
#[derive(Default)]
struct Best<'a> {
    /// The winner over all.
    first: Option<&'a Entry>,
    /// The best session record of the context's run that automation or an operator routed by.
    of_run: Option<&'a Entry>,
}

impl<'a> Best<'a> {
    fn offer(&mut self, entry: &'a Entry, context: &Context) {
        let better = |held: Option<&Entry>| held.is_none_or(|held| entry.rank() < held.rank());
        if better(self.first) {
            self.first = Some(entry);
        }
        let of_run = entry.is_session() && !entry.is_command() && entry.record.run_id == context.run_id;
        if of_run && better(self.of_run) {
            self.of_run = Some(entry);
        }
    }

    fn decide(&self, global: SchemaRef<'a>, context: &'a Context) -> Resolution<'a> {
        match context.phase {
            Phase::Start => self.at_start(global, context),
            Phase::Resume => self.at_resume(global, context),
            Phase::Failed => self.at_failure(global, context),
        }
    }

    fn at_start(&self, global: SchemaRef<'a>, context: &Context) -> Resolution<'a> {
        match self.first {
            Some(winner) => follow(winner, global, context),
            None => Resolution::without_override(global, Route::Primary, Reason::Default),
        }
    }

    /// A run keeps the schema it has; a revert or a new override moves its session at the next start.
    fn at_resume(&self, global: SchemaRef<'a>, context: &'a Context) -> Resolution<'a> {
        let started = self.at_start(global, context);
        match context.current_schema_ref.as_deref() {
            None => started,
            Some(current) if started.schema_ref.is(current) => Resolution { reason: Reason::Current, ..started },
            Some(current) => keep(SchemaRef::Named(current), global),
        }
    }

    /// Only a record made for this very run names a node where it may go on.
    fn at_failure(&self, global: SchemaRef<'a>, context: &'a Context) -> Resolution<'a> {
        if let Some(winner) = self.first.filter(|winner| winner.record.mode == OverrideMode::Deny) {
            return follow(winner, global, context);
        }
        let Some(entry) = self.of_run else {
            return keep(context.current_schema_ref.as_deref().map_or(global, SchemaRef::Named), global);
        };
        Resolution {
            entry_point: entry.record.entry_point.as_deref(),
            kind: entry.record.kind.clone(),
            ..by(entry, schema_of(&entry.record, global), Route::Degraded, Reason::Session)
        }
    }
}

/// What the winner says for a run that starts.
fn follow<'a>(winner: &'a Entry, global: SchemaRef<'a>, context: &Context) -> Resolution<'a> {
    let record = &winner.record;
    let reason = match (&record.mode, &record.scope) {
        (OverrideMode::Deny, _) => return by(winner, global, Route::Primary, Reason::Deny),
        (OverrideMode::Force, _) => Reason::Force,
        (_, Scope::Session { .. }) => Reason::Session,
        (_, Scope::Cohort(_) | Scope::Unknown { .. }) => Reason::Cohort,
    };
    let degraded = by(winner, schema_of(record, global), Route::Degraded, reason);
    if record.kind == OverrideKind::Pause {
        return Resolution { kind: OverrideKind::Pause, ..degraded };
    }
    let percentage = record.trial_percentage.unwrap_or(0.0);
    if record.mode == OverrideMode::Trial && selected(Purpose::Trial, record, context, percentage) {
        return by(winner, candidate_of(record, global), Route::Trial, Reason::Trial);
    }
    Resolution { shadow_schema_ref: shadow_of(record, context), ..degraded }
}

/// The schema a run has already.
fn keep<'a>(current: SchemaRef<'a>, global: SchemaRef<'a>) -> Resolution<'a> {
    let route = if current == global { Route::Primary } else { Route::Degraded };
    Resolution::without_override(current, route, Reason::Current)
}

fn by<'a>(entry: &'a Entry, schema_ref: SchemaRef<'a>, route: Route, reason: Reason) -> Resolution<'a> {
    Resolution {
        override_id: Some(&entry.record.override_id),
        override_attempt: Some(entry.record.attempt),
        ..Resolution::without_override(schema_ref, route, reason)
    }
}

fn schema_of<'a>(record: &'a Override, global: SchemaRef<'a>) -> SchemaRef<'a> {
    record.schema_ref.as_deref().map_or(global, SchemaRef::Named)
}

fn candidate_of<'a>(record: &'a Override, global: SchemaRef<'a>) -> SchemaRef<'a> {
    record.candidate_schema_ref.as_deref().map_or(global, SchemaRef::Named)
}

/// The shadow beside a degraded run; what an operator forces runs alone.
fn shadow_of<'a>(record: &'a Override, context: &Context) -> Option<&'a str> {
    let shadow = record.shadow.as_ref().filter(|shadow| shadow.status == "active")?;
    let runs =
        record.mode != OverrideMode::Force && selected(Purpose::Shadow, record, context, shadow.probe_percentage);
    runs.then_some(shadow.schema_ref.as_str())
}

fn selected(purpose: Purpose, record: &Override, context: &Context, percentage: f64) -> bool {
    let salt = record.attempt_salt.as_deref().unwrap_or("");
    let session_id = context.session_id.as_deref().unwrap_or("");
    bucket::selected(purpose, &record.override_id, salt, session_id, percentage)
}
