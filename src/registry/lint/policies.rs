//! Recovery policies that cannot be met.

use std::time::Duration;

use crate::registry::lint::{active_graphs, signal};
use crate::registry::model::{RecoveryPolicy, Registry, Response, ResponseScope};
use crate::registry::origin::{Origin, Origins};
use crate::registry::problem::Reporter;

/// Evidence that takes longer than this is given up as starved.
const EVIDENCE_MAX: Duration = Duration::from_hours(24);
/// A scope that does not give its probes in this many hours is thin: weaker evidence counts.
const THIN_HOURS: f64 = 6.0;

pub(super) fn lint(registry: &Registry, origins: &Origins, report: &mut Reporter<'_>) {
    for (policy, origin) in registry.recovery_policies.iter().zip(&origins.recovery_policies) {
        itself(policy, origin, report);
    }
    for (response, origin) in registry.responses.iter().zip(&origins.responses) {
        let named = response.recovery_policy.as_ref().filter(|_| response.scope == ResponseScope::Cohort);
        let policy = named.and_then(|name| registry.recovery_policies.iter().find(|policy| policy.name == *name));
        if let Some(policy) = policy {
            traffic(registry, origins, response, policy, origin, report);
        }
    }
}

fn itself(policy: &RecoveryPolicy, origin: &Origin, report: &mut Reporter<'_>) {
    let windows = policy.consecutive_healthy_windows;
    let needed = policy.window_duration.saturating_mul(windows);
    if needed > EVIDENCE_MAX {
        let (path, hours) = (origin.path("consecutive_healthy_windows"), needed.as_secs_f64() / 3600.0);
        let message =
            format_args!("{path}: cannot be met: {windows} windows take {hours:.1} h, evidence ends after 24 h");
        report.warning(&origin.place("consecutive_healthy_windows"), "policy_beyond_a_day", &message);
    }
    if let Some(last) = policy.trial_percentages.last().filter(|last| **last < 100.0) {
        let path = origin.path("trial_percentages");
        let message = format_args!("{path}: ends at {last} %: the scope would never be restored");
        report.warning(&origin.place("trial_percentages"), "trial_never_complete", &message);
    }
    if policy.probe_percentage_max <= 0.0 {
        let path = origin.path("probe_percentage_max");
        let message = format_args!("{path}: no session would ever run the shadow");
        report.warning(&origin.place("probe_percentage_max"), "policy_unreachable", &message);
    }
}

/// Expected time = windows x probes / (runs an hour x largest automatic scope x highest share of probes).
fn traffic(
    registry: &Registry,
    origins: &Origins,
    response: &Response,
    policy: &RecoveryPolicy,
    origin: &Origin,
    report: &mut Reporter<'_>,
) {
    let Some(signal) = signal(registry, &response.signal) else { return };
    let radius = response.blast_radius;
    let shares = [radius.map(|radius| radius.automatic_percentage), radius.map(|radius| radius.approval_percentage)];
    let scope = shares.into_iter().flatten().find(|share| *share > 0.0).unwrap_or(100.0);
    let (windows, probes) = (policy.consecutive_healthy_windows, policy.minimum_probes);
    let share = policy.probe_percentage_max;
    for graph in active_graphs(registry, signal) {
        let schema_ref = graph.schema_ref();
        let Some(runs) = origins.expected_runs_per_hour.get(&schema_ref) else { continue };
        let probes_per_hour = runs * scope / 100.0 * share / 100.0;
        let hours = f64::from(windows) * f64::from(probes) / probes_per_hour;
        if hours.is_finite() && hours > THIN_HOURS {
            let path = origin.path("recovery_policy");
            let message = format_args!(
                "{path}: {windows} x {probes} probes take about {hours:.1} h at {runs} runs an hour of {schema_ref}, \
                 {scope} % of them in scope, {share} % of those probed; beyond {THIN_HOURS} h the scope counts as thin"
            );
            report.warning(&origin.place("recovery_policy"), "policy_unreachable", &message);
        }
    }
}
