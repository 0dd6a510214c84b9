//! Checked tables to the registry and where its parts were written. Cannot fail: `check` found nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::record::event::Route;
use crate::record::overrides::OverrideKind;
use crate::registry::Glob;
use crate::registry::model::{
    BlastRadius, Defaults, FailureRate, Graph, Node, RecoveryPolicy, Recurrence, Registry, Response, ResponseScope,
    ShapePatterns, ShapeRule, Signal, SignalMatch,
};
use crate::registry::origin::Origins;
use crate::registry::problem::SourceFile;
use crate::registry::read::{Tables, Written};
use crate::registry::settings::{self, Kind, OnRoute};

/// Builds the registry.
#[must_use]
pub fn build(tables: Tables, files: &[SourceFile]) -> (Registry, Origins) {
    let mut origins = Origins { files: files.to_vec(), ..Origins::default() };
    let mut policies = tables.recovery_policies;
    policies.sort_by(|a, b| a.value.name.cmp(&b.value.name));
    let mut graphs = BTreeMap::new();
    for Written { value, mut origin } in tables.graphs {
        for (index, node) in value.nodes.iter().enumerate() {
            origin.alias(&format!("nodes[{index}]"), &format!("nodes.{}", node.name));
        }
        let runs = value.expected_runs_per_hour;
        let graph = graph(value);
        let schema_ref = graph.schema_ref();
        origins.expected_runs_per_hour.extend(runs.map(|runs| (schema_ref.clone(), runs)));
        origins.graphs.insert(schema_ref.clone(), origin);
        graphs.insert(schema_ref, graph);
    }
    let registry = Registry {
        version: String::new(),
        shapes: apart(tables.shapes, &mut origins.shapes, shape),
        defaults: defaults(tables.defaults),
        limits: tables.limits,
        signals: apart(tables.signals, &mut origins.signals, signal),
        responses: apart(tables.responses, &mut origins.responses, response),
        recovery_policies: apart(policies, &mut origins.recovery_policies, policy),
        graphs,
    };
    (registry.with_version(), origins)
}

fn apart<T, U>(
    written: Vec<Written<T>>,
    origins: &mut Vec<crate::registry::origin::Origin>,
    convert: fn(T) -> U,
) -> Vec<U> {
    let convert = |Written { value, origin }| {
        origins.push(origin);
        convert(value)
    };
    written.into_iter().map(convert).collect()
}

/// Sorted and without repetition: order means nothing in what is only looked up.
fn set<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort();
    items.dedup();
    items
}

fn globs(patterns: &[String]) -> Vec<Glob> {
    set(patterns.iter().map(|pattern| Glob::new(pattern)).collect())
}

fn shape(shape: settings::Shape) -> ShapeRule {
    let patterns = |patterns: settings::Patterns| ShapePatterns {
        event_type: globs(&patterns.event_type),
        class: globs(&patterns.class),
        code: globs(&patterns.code),
        http: globs(&patterns.http),
    };
    ShapeRule { name: shape.name, any: shape.matches.map(patterns), all: shape.when.map(patterns) }
}

fn defaults(written: settings::Defaults) -> Defaults {
    let default = Defaults::default();
    Defaults {
        identical_failures: written.trip.map_or(default.identical_failures, |trip| trip.identical_failures),
        generic_classes: written.generic_classes.map_or(default.generic_classes, set),
        interrupt_classes: written.interrupt_classes.map_or(default.interrupt_classes, |classes| globs(&classes)),
    }
}

fn signal(signal: settings::Signal) -> Signal {
    let glob = |text: Option<String>| text.map(|text| Glob::new(&text));
    let settings::SignalMatch { node, failure_shape, retry_budget_exhausted, required_artifact_present, scope: _ } =
        signal.matches;
    Signal {
        code: signal.code,
        owner: signal.owner,
        graph: glob(signal.graph),
        severity: signal.severity,
        mode: signal.mode,
        matches: SignalMatch {
            node: glob(node),
            failure_shape: glob(failure_shape),
            retry_budget_exhausted,
            required_artifact_present,
        },
        identical_failures: signal.trip.map(|trip| trip.identical_failures),
        recurrence: signal.recurrence.map(|recurrence| Recurrence {
            sessions: recurrence.sessions,
            tenants: recurrence.tenants,
            dimensions: recurrence.dimensions,
        }),
    }
}

fn response(response: settings::Response) -> Response {
    let blast_radius = response
        .blast_radius
        .or_else(|| (response.scope == ResponseScope::Cohort).then(settings::BlastRadius::default));
    Response {
        name: response.name,
        signal: response.signal,
        owner: response.owner,
        approved_by: response.approved_by,
        scope: response.scope,
        kind: match response.kind {
            Kind::Replace => OverrideKind::Replace,
            Kind::Pause => OverrideKind::Pause,
        },
        on_route: response.on_route.map(|route| match route {
            OnRoute::Primary => Route::Primary,
            OnRoute::Degraded => Route::Degraded,
            OnRoute::Trial => Route::Trial,
        }),
        schema_ref: response.schema_ref,
        entry_point: response.entry_point,
        replaces: set(response.replaces),
        resume: response.resume,
        ttl: response.ttl,
        shadow_schema_ref: response.shadow_schema_ref,
        recovery_policy: response.recovery_policy,
        blast_radius: blast_radius.map(|radius| BlastRadius {
            automatic_percentage: radius.automatic_percentage,
            approval_percentage: radius.approval_percentage,
        }),
    }
}

/// The numbers of a policy that says nothing are those of the shipped example.
fn policy(policy: settings::RecoveryPolicy) -> RecoveryPolicy {
    let minutes = policy.window_duration_minutes.unwrap_or(10);
    RecoveryPolicy {
        name: policy.name,
        minimum_probes: policy.minimum_probes.unwrap_or(200),
        maximum_signal_recurrences: policy.maximum_signal_recurrences.unwrap_or(0),
        maximum_failure_rate: policy.maximum_failure_rate.unwrap_or(FailureRate::Baseline),
        strict: policy.strict.unwrap_or(false),
        consecutive_healthy_windows: policy.consecutive_healthy_windows.unwrap_or(3),
        window_duration: Duration::from_mins(u64::from(minutes)),
        required_artifact_present: policy.required_artifact_present.unwrap_or(true),
        maximum_p95_latency_ms: policy.maximum_p95_latency_ms.unwrap_or(4000),
        probe_percentage: policy.probe_percentage.unwrap_or(5.0),
        probe_percentage_max: policy.probe_percentage_max.unwrap_or(25.0),
        stable_after: policy.stable_after.unwrap_or(Duration::from_mins(5)),
        stable_after_runs: policy.stable_after_runs,
        trial_percentages: policy.trial_percentages.unwrap_or_else(|| vec![5.0, 10.0, 25.0, 50.0, 100.0]),
    }
}

/// A graph as written, with every node that an edge or an entry point implies.
pub fn graph(graph: settings::Graph) -> Graph {
    let edges: Vec<_> = graph
        .edges
        .into_iter()
        .filter_map(|edge| <[String; 2]>::try_from(edge).ok().map(|[from, to]| (from, to)))
        .collect();
    let mut nodes: BTreeMap<String, Node> = graph.nodes.into_iter().map(node).collect();
    let implied = edges.iter().flat_map(|(from, to)| [from, to]).chain(&graph.entry_points);
    for name in implied {
        nodes.entry(name.clone()).or_default();
    }
    Graph {
        name: graph.name,
        version: graph.version,
        active: graph.active,
        entry_points: set(graph.entry_points),
        edges: set(edges),
        channels: set(graph.channels),
        nodes,
    }
}

fn node(node: settings::Node) -> (String, Node) {
    let facts = Node {
        artifact: node.artifact,
        required: node.required,
        mutating: node.mutating,
        irreversible: node.irreversible,
        criticality: node.criticality,
        fallback: node.fallback,
        idempotency_key: node.idempotency_key,
        compensation: node.compensation,
        depends_on: set(node.depends_on),
    };
    (node.name, facts)
}
