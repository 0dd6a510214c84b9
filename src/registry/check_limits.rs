//! Limits that make no sense alone or together.

use crate::registry::limits::Limits;
use crate::registry::problem::{Place, Reporter};
use crate::registry::read::Tables;

/// Checks `[limits]` as merged, defaults included.
pub fn check(tables: &Tables, report: &mut Reporter<'_>) {
    for name in zero_names(&tables.limits) {
        let message = format_args!("limits.{name}: 0 would stop everything; only an age or lateness of 0 means off");
        report.error(&place(tables, &[name]), "zero_limit", &message);
    }
    for (low, low_value, high, high_value, why) in relations(&tables.limits) {
        if low_value > high_value {
            let message = format_args!("limits.{low}: {low_value} is above `{high}` ({high_value}): {why}");
            // One of the two kept its default: the operator did not contradict himself.
            let both = [low, high].iter().all(|name| tables.keys.contains_key(&format!("limits.{name}")));
            let add = if both { Reporter::error } else { Reporter::warning };
            add(report, &place(tables, &[low, high]), "limit_relation", &message);
        }
    }
}

/// The first of the keys that was written: at least one was, because the defaults are in order.
fn place(tables: &Tables, names: &[&str]) -> Place {
    names
        .iter()
        .find_map(|name| tables.keys.get(&format!("limits.{name}")).map(|origin| origin.place(name)))
        .unwrap_or(Place { file: 0, span: 0..0 })
}

/// Every limit that is 0 and must not be. Taken apart without `..`, so that a new limit must be decided on here.
pub fn zero_names(limits: &Limits) -> Vec<&'static str> {
    let Limits {
        // 0 = off.
        reaction_age_ms_max: _,
        lateness_ms_max: _,
        interventions_per_session_max,
        interventions_per_minute_max,
        session_overrides_live_max,
        irreversible_runs_max,
        sessions_tracked_max,
        session_idle_ms_max,
        runs_per_session_max,
        shapes_per_run_max,
        artifacts_per_run_max,
        evidence_events_max,
        duplicate_ids_max,
        command_ids_max,
        field_bytes_max,
        event_bytes_max,
        approval_ms_max,
        fleet_rows_max,
        graphs_seen_max,
        fleet_series_max,
        fleet_signatures_max,
        fleet_sessions_max,
        fleet_sources_max,
        operator_overrides_live_max,
        operator_override_ms_max,
    } = *limits;
    let values = [
        ("interventions_per_session_max", u64::from(interventions_per_session_max)),
        ("interventions_per_minute_max", u64::from(interventions_per_minute_max)),
        ("session_overrides_live_max", u64::from(session_overrides_live_max)),
        ("irreversible_runs_max", u64::from(irreversible_runs_max)),
        ("sessions_tracked_max", u64::from(sessions_tracked_max)),
        ("session_idle_ms_max", session_idle_ms_max),
        ("runs_per_session_max", u64::from(runs_per_session_max)),
        ("shapes_per_run_max", u64::from(shapes_per_run_max)),
        ("artifacts_per_run_max", u64::from(artifacts_per_run_max)),
        ("evidence_events_max", u64::from(evidence_events_max)),
        ("duplicate_ids_max", u64::from(duplicate_ids_max)),
        ("command_ids_max", u64::from(command_ids_max)),
        ("field_bytes_max", u64::from(field_bytes_max)),
        ("event_bytes_max", u64::from(event_bytes_max)),
        ("approval_ms_max", approval_ms_max),
        ("fleet_rows_max", u64::from(fleet_rows_max)),
        ("graphs_seen_max", u64::from(graphs_seen_max)),
        ("fleet_series_max", u64::from(fleet_series_max)),
        ("fleet_signatures_max", u64::from(fleet_signatures_max)),
        ("fleet_sessions_max", u64::from(fleet_sessions_max)),
        ("fleet_sources_max", u64::from(fleet_sources_max)),
        ("operator_overrides_live_max", u64::from(operator_overrides_live_max)),
        ("operator_override_ms_max", operator_override_ms_max),
    ];
    values.into_iter().filter(|(_, value)| *value == 0).map(|(name, _)| name).collect()
}

type Relation = (&'static str, u64, &'static str, u64, &'static str);

/// Pairs of which the first must not be above the second, and why.
fn relations(limits: &Limits) -> [Relation; 4] {
    let live = u64::from(limits.session_overrides_live_max);
    let tracked = u64::from(limits.sessions_tracked_max);
    let (field, event) = (u64::from(limits.field_bytes_max), u64::from(limits.event_bytes_max));
    let idle = limits.session_idle_ms_max;
    [
        ("field_bytes_max", field, "event_bytes_max", event, "a field is part of its event"),
        (
            "session_overrides_live_max",
            live,
            "sessions_tracked_max",
            tracked,
            "a session with a live override is never forgotten",
        ),
        (
            "approval_ms_max",
            limits.approval_ms_max,
            "session_idle_ms_max",
            idle,
            "a session must not be forgotten while its proposal waits",
        ),
        (
            "reaction_age_ms_max",
            limits.reaction_age_ms_max,
            "session_idle_ms_max",
            idle,
            "a session must not be forgotten before its failure is too old to act on",
        ),
    ]
}
