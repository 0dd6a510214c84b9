//! What must hold beyond types: names, references, percentages, durations, limits. Reports everything at once.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::registry::origin::Origin;
use crate::registry::problem::Reporter;
use crate::registry::read::{Tables, Written};
use crate::registry::settings::{Graph, Kind, Node, Patterns, RecoveryPolicy, Response, Shape, Signal};
use crate::registry::{check_limits, model};

/// No override lives longer without being renewed.
const TTL_MAX: Duration = Duration::from_hours(7 * 24);

/// Checks all tables.
pub fn check(tables: &Tables, report: &mut Reporter<'_>) {
    tables.shapes.iter().for_each(|shape| check_shape(shape, report));
    tables.signals.iter().for_each(|signal| check_signal(signal, report));
    tables.responses.iter().for_each(|response| check_response(tables, response, report));
    tables.recovery_policies.iter().for_each(|policy| check_policy(policy, report));
    check_graphs(&tables.graphs, report);
    check_limits::check(tables, report);
    unique("signal", "code", tables.signals.iter().map(|it| (it.value.code.clone(), &it.origin)), report);
    unique("response", "name", tables.responses.iter().map(|it| (it.value.name.clone(), &it.origin)), report);
    let policies = tables.recovery_policies.iter().map(|it| (it.value.name.clone(), &it.origin));
    unique("recovery policy", "name", policies, report);
    one_active_version(&tables.graphs, report);
}

/// Checks graphs alone and against each other, but for which version of them is active.
pub fn check_graphs(graphs: &[Written<Graph>], report: &mut Reporter<'_>) {
    for graph in graphs {
        check_graph(graph, report);
    }
    let names = graphs.iter().map(|it| (format!("{}:{}", it.value.name, it.value.version), &it.origin));
    unique("graph", "version", names, report);
}

/// Reports every name after the first of its kind.
fn unique<'a>(kind: &str, field: &str, names: impl Iterator<Item = (String, &'a Origin)>, report: &mut Reporter<'_>) {
    let mut first: BTreeMap<String, &Origin> = BTreeMap::new();
    for (name, origin) in names {
        let Some(earlier) = first.get(&name) else {
            first.insert(name, origin);
            continue;
        };
        let path = origin.path(field);
        let at = report.at(&earlier.place(field));
        report.error(
            &origin.place(field),
            "duplicate",
            &format_args!("{path}: {kind} `{name}` is already written at {at}"),
        );
    }
}

fn one_active_version(graphs: &[Written<Graph>], report: &mut Reporter<'_>) {
    let mut active: BTreeMap<&str, &Written<Graph>> = BTreeMap::new();
    for graph in graphs.iter().filter(|graph| graph.value.active) {
        let name = graph.value.name.as_str();
        let Some(earlier) = active.get(name).filter(|earlier| earlier.value.version != graph.value.version) else {
            active.entry(name).or_insert(graph);
            continue;
        };
        let (path, other) = (graph.origin.path("active"), &earlier.value.version);
        let at = report.at(&earlier.origin.place("active"));
        let message = format_args!("{path}: version `{other}` of graph `{name}` is active already, at {at}");
        report.error(&graph.origin.place("active"), "two_active_versions", &message);
    }
}

/// Reports a name without characters, or with one that names cannot hold.
fn name(text: &str, field: &str, origin: &Origin, report: &mut Reporter<'_>) {
    if text.trim().is_empty() {
        report.error(&origin.place(field), "empty_name", &format_args!("{}: empty", origin.path(field)));
    }
}

fn check_shape(shape: &Written<Shape>, report: &mut Reporter<'_>) {
    let Written { value, origin } = shape;
    name(&value.name, "name", origin, report);
    if value.matches.is_none() && value.when.is_none() {
        let message = format_args!("{}: neither `match` nor `when`: it would match every failure", origin.path(""));
        report.error(&origin.place(""), "empty_shape_rule", &message);
    }
    for (field, patterns) in [("match", &value.matches), ("when", &value.when)] {
        if let Some(patterns) = patterns {
            check_patterns(patterns, field, origin, report);
        }
    }
}

fn check_patterns(patterns: &Patterns, field: &str, origin: &Origin, report: &mut Reporter<'_>) {
    let Patterns { event_type, class, code, http } = patterns;
    if [event_type, class, code, http].into_iter().all(Vec::is_empty) {
        let message = format_args!("{}: no pattern in it", origin.path(field));
        report.error(&origin.place(field), "empty_shape_rule", &message);
    }
    for (list, patterns) in [("type", event_type), ("class", class), ("code", code), ("http", http)] {
        for (index, pattern) in patterns.iter().enumerate() {
            name(pattern, &format!("{field}.{list}[{index}]"), origin, report);
        }
    }
    for (index, status) in http.iter().enumerate().filter(|(_, status)| !status.is_empty()) {
        let bytes = status.as_bytes();
        let digits = |range: &[u8]| range.iter().all(u8::is_ascii_digit);
        let right = bytes.len() == 3 && digits(&bytes[..1]) && (digits(&bytes[1..]) || &bytes[1..] == b"xx");
        if !right {
            let field = format!("{field}.http[{index}]");
            let message =
                format_args!("{}: `{status}` is neither a status (429) nor a class (5xx)", origin.path(&field));
            report.error(&origin.place(&field), "bad_http_status", &message);
        }
    }
}

fn check_signal(signal: &Written<Signal>, report: &mut Reporter<'_>) {
    let Written { value, origin } = signal;
    name(&value.code, "code", origin, report);
    let globs = [
        ("graph", &value.graph),
        ("match.node", &value.matches.node),
        ("match.failure_shape", &value.matches.failure_shape),
    ];
    for (field, glob) in globs {
        if let Some(glob) = glob {
            name(glob, field, origin, report);
        }
    }
    let Some(recurrence) = &value.recurrence else { return };
    for (field, count) in [("recurrence.sessions", recurrence.sessions), ("recurrence.tenants", recurrence.tenants)] {
        if count == 0 {
            report.error(
                &origin.place(field),
                "zero_count",
                &format_args!("{}: must be at least 1", origin.path(field)),
            );
        }
    }
    for (index, dimension) in recurrence.dimensions.iter().enumerate() {
        let own = ["graph_version", "app_version", "region", "tenant"].contains(&dimension.as_str());
        if !own && dimension.strip_prefix("attributes.").is_none_or(str::is_empty) {
            let field = format!("recurrence.dimensions[{index}]");
            let expected = "graph_version, app_version, region, tenant or attributes.NAME";
            let message = format_args!("{}: unknown dimension `{dimension}`, expected {expected}", origin.path(&field));
            report.error(&origin.place(&field), "unknown_dimension", &message);
        }
    }
}

fn check_response(tables: &Tables, response: &Written<Response>, report: &mut Reporter<'_>) {
    let Written { value, origin } = response;
    name(&value.name, "name", origin, report);
    reference(tables, "signal", "signal", &value.signal, origin, report);
    if let Some(policy) = &value.recovery_policy {
        reference(tables, "recovery_policy", "recovery_policy", policy, origin, report);
    }
    if value.kind == Kind::Replace && value.schema_ref.is_none() {
        let message = format_args!("{}: kind `replace` needs `schema_ref`", origin.path(""));
        report.error(&origin.place(""), "missing_schema_ref", &message);
    }
    let refs = [("schema_ref", &value.schema_ref), ("shadow_schema_ref", &value.shadow_schema_ref)];
    for (field, schema_ref) in refs {
        if let Some(schema_ref) = schema_ref {
            check_schema_ref(schema_ref, field, origin, report);
        }
    }
    let compatible = value.resume.iter().flat_map(|resume| &resume.compatible_from).enumerate();
    for (index, schema_ref) in compatible {
        check_schema_ref(schema_ref, &format!("resume.compatible_from[{index}]"), origin, report);
    }
    if let Some(entry_point) = &value.entry_point {
        name(entry_point, "entry_point", origin, report);
    }
    for (index, node) in value.replaces.iter().enumerate() {
        name(node, &format!("replaces[{index}]"), origin, report);
    }
    if value.ttl < Duration::from_millis(1) || value.ttl > TTL_MAX {
        let message = format_args!("{}: must be above 0 and at most 7 days", origin.path("ttl"));
        report.error(&origin.place("ttl"), "bad_ttl", &message);
    }
    if let Some(radius) = &value.blast_radius {
        let (automatic, approval) = (radius.automatic_percentage, radius.approval_percentage);
        percentage(automatic, "blast_radius.automatic_percentage", origin, report);
        percentage(approval, "blast_radius.approval_percentage", origin, report);
        not_above(automatic, approval, "blast_radius.automatic_percentage", "approval_percentage", origin, report);
    }
}

fn reference(tables: &Tables, kind: &str, field: &str, to: &str, origin: &Origin, report: &mut Reporter<'_>) {
    // Where a part of a file could not be parsed nobody knows what it declares: better silent than wrong.
    if !tables.torn && !tables.declared.contains(&format!("{kind}/{to}")) {
        let message = format_args!("{}: no [[{kind}]] is named `{to}`", origin.path(field));
        report.error(&origin.place(field), "unknown_reference", &message);
    }
}

fn check_schema_ref(text: &str, field: &str, origin: &Origin, report: &mut Reporter<'_>) {
    let right = text
        .split_once(':')
        .is_some_and(|(name, version)| is_plain(name) && is_plain(version) && !version.contains(':'));
    if !right {
        let message = format_args!("{}: `{text}` is not NAME:VERSION", origin.path(field));
        report.error(&origin.place(field), "bad_schema_ref", &message);
    }
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace)
}

fn percentage(value: f64, field: &str, origin: &Origin, report: &mut Reporter<'_>) {
    // Not a number is in no range.
    if !(0.0..=100.0).contains(&value) {
        let message = format_args!("{}: {value} is not between 0 and 100", origin.path(field));
        report.error(&origin.place(field), "bad_percentage", &message);
    }
}

fn not_above(low: f64, high: f64, field: &str, other: &str, origin: &Origin, report: &mut Reporter<'_>) {
    if low > high {
        let message = format_args!("{}: {low} is above `{other}` ({high})", origin.path(field));
        report.error(&origin.place(field), "not_ascending", &message);
    }
}

fn check_policy(policy: &Written<RecoveryPolicy>, report: &mut Reporter<'_>) {
    let Written { value, origin } = policy;
    name(&value.name, "name", origin, report);
    let counts = [
        ("minimum_probes", value.minimum_probes.map(u64::from)),
        ("consecutive_healthy_windows", value.consecutive_healthy_windows.map(u64::from)),
        ("window_duration_minutes", value.window_duration_minutes.map(u64::from)),
        ("maximum_p95_latency_ms", value.maximum_p95_latency_ms),
        ("stable_after_runs", value.stable_after_runs.map(u64::from)),
    ];
    for (field, _) in counts.iter().filter(|(_, count)| *count == Some(0)) {
        report.error(&origin.place(field), "zero_count", &format_args!("{}: must be at least 1", origin.path(field)));
    }
    if let Some(model::FailureRate::Percentage(rate)) = value.maximum_failure_rate {
        percentage(rate, "maximum_failure_rate", origin, report);
    }
    let (probes, probes_max) = (value.probe_percentage.unwrap_or(5.0), value.probe_percentage_max.unwrap_or(25.0));
    percentage(probes, "probe_percentage", origin, report);
    percentage(probes_max, "probe_percentage_max", origin, report);
    not_above(probes, probes_max, "probe_percentage", "probe_percentage_max", origin, report);
    let Some(steps) = &value.trial_percentages else { return };
    if steps.is_empty() {
        let message = format_args!("{}: no step in it", origin.path("trial_percentages"));
        report.error(&origin.place("trial_percentages"), "not_ascending", &message);
    }
    for (index, step) in steps.iter().enumerate() {
        percentage(*step, &format!("trial_percentages[{index}]"), origin, report);
    }
    for (index, pair) in steps.windows(2).enumerate().filter(|(_, pair)| pair[0] >= pair[1]) {
        let field = format!("trial_percentages[{}]", index + 1);
        let message = format_args!("{}: {} does not rise above {}", origin.path(&field), pair[1], pair[0]);
        report.error(&origin.place(&field), "not_ascending", &message);
    }
}

fn check_graph(graph: &Written<Graph>, report: &mut Reporter<'_>) {
    let Written { value, origin } = graph;
    for (field, text) in [("name", &value.name), ("version", &value.version)] {
        name(text, field, origin, report);
        if text.contains(|c: char| c == ':' || c.is_whitespace()) {
            let message = format_args!("{}: `{text}` holds a colon or a blank", origin.path(field));
            report.error(&origin.place(field), "bad_schema_ref", &message);
        }
    }
    for (list, names) in [("entry_points", &value.entry_points), ("channels", &value.channels)] {
        for (index, text) in names.iter().enumerate() {
            name(text, &format!("{list}[{index}]"), origin, report);
        }
    }
    for (index, edge) in value.edges.iter().enumerate() {
        let field = format!("edges[{index}]");
        if edge.len() != 2 {
            let message = format_args!("{}: an edge is [FROM, TO]", origin.path(&field));
            report.error(&origin.place(&field), "bad_edge", &message);
        }
        for (end, text) in edge.iter().enumerate() {
            name(text, &format!("{field}[{end}]"), origin, report);
        }
    }
    if let Some(runs) = value.expected_runs_per_hour.filter(|runs| !(runs.is_finite() && *runs > 0.0)) {
        let field = "expected_runs_per_hour";
        report.error(&origin.place(field), "zero_count", &format_args!("{}: {runs} is no traffic", origin.path(field)));
    }
    let mut seen = BTreeMap::new();
    for (index, node) in value.nodes.iter().enumerate() {
        let field = format!("nodes[{index}]");
        check_node(node, &field, origin, report);
        if let Some(earlier) = seen.insert(node.name.as_str(), index) {
            let at = report.at(&origin.place(&format!("nodes[{earlier}].name")));
            let field = format!("{field}.name");
            let message = format_args!("{}: node `{}` is already written at {at}", origin.path(&field), node.name);
            report.error(&origin.place(&field), "duplicate", &message);
        }
    }
}

fn check_node(node: &Node, field: &str, origin: &Origin, report: &mut Reporter<'_>) {
    name(&node.name, &format!("{field}.name"), origin, report);
    if node.required && node.artifact.as_ref().is_none_or(String::is_empty) {
        let field = format!("{field}.required");
        let message = format_args!("{}: which artifact? `artifact` is missing", origin.path(&field));
        report.error(&origin.place(&field), "required_without_artifact", &message);
    }
    let words: [(&str, &Option<String>, &[&str]); 2] = [
        ("criticality", &node.criticality, &["blocking", "degraded_ok", "optional"]),
        ("fallback", &node.fallback, &["use_cache", "use_default", "skip", "delegate_to_human", "approximate"]),
    ];
    for (key, word, known) in words {
        if let Some(word) = word.as_ref().filter(|word| !known.contains(&word.as_str())) {
            let field = format!("{field}.{key}");
            let message =
                format_args!("{}: unknown word `{word}`, expected one of {}", origin.path(&field), known.join(", "));
            report.error(&origin.place(&field), "unknown_word", &message);
        }
    }
}
