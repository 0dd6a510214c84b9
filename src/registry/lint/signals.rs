//! Signals that nobody owns, that nothing can trigger, or that nothing answers.

use crate::registry::glob::Glob;
use crate::registry::lint::{active_graphs, failing_graphs};
use crate::registry::model::{Graph, Mode, Registry, Signal, SignalMatch};
use crate::registry::origin::{Origin, Origins};
use crate::registry::problem::Reporter;

pub(super) fn lint(registry: &Registry, origins: &Origins, report: &mut Reporter<'_>) {
    for (index, (signal, origin)) in registry.signals.iter().zip(&origins.signals).enumerate() {
        words(signal, origin, report);
        orphan(registry, signal, origin, report);
        let mut earlier = registry.signals.iter().zip(&origins.signals).take(index);
        if let Some((first, place)) = earlier.find(|(first, _)| covers(first, signal)) {
            let at = report.at(&place.place("code"));
            let message = format_args!(
                "{}: can never match: `{}` at {at} names as many fields and takes everything that it would",
                origin.path("match"),
                first.code
            );
            report.warning(&origin.place("match"), "shadowed_signal", &message);
        }
        let answered = registry.responses.iter().any(|response| response.signal == signal.code);
        if !answered && matches!(signal.mode, Mode::Act | Mode::Propose) {
            let message = format_args!("{}: no [[response]] answers `{}`", origin.path("code"), signal.code);
            report.warning(&origin.place("code"), "signal_without_response", &message);
        }
    }
}

fn words(signal: &Signal, origin: &Origin, report: &mut Reporter<'_>) {
    if signal.owner.trim().is_empty() {
        let message = format_args!("{}: nobody answers for it: `owner` is missing", origin.path("owner"));
        report.warning(&origin.place("owner"), "missing_owner", &message);
    }
    let known = ["low", "medium", "high", "critical"];
    if let Some(word) = signal.severity.as_ref().filter(|word| !known.contains(&word.as_str())) {
        let path = origin.path("severity");
        let message = format_args!("{path}: unknown word `{word}`, expected one of {}", known.join(", "));
        report.warning(&origin.place("severity"), "unknown_severity", &message);
    }
    if signal.matches == SignalMatch::default() {
        let message =
            format_args!("{}: names nothing: every failure of its graphs is this signal", origin.path("match"));
        report.warning(&origin.place("match"), "signal_without_condition", &message);
    }
}

fn orphan(registry: &Registry, signal: &Signal, origin: &Origin, report: &mut Reporter<'_>) {
    if let Some(glob) = &signal.graph
        && active_graphs(registry, signal).is_empty()
    {
        let message = format_args!("{}: no active graph is named `{}`", origin.path("graph"), glob.as_str());
        report.warning(&origin.place("graph"), "orphan_signal", &message);
        return;
    }
    let graphs = failing_graphs(registry, signal);
    let Some(node) = signal.matches.node.as_ref().filter(|_| !graphs.is_empty()) else { return };
    let path = origin.path("match.node");
    let has_node = |graph: &&Graph| graph.nodes.keys().any(|name| node.matches(name));
    if !graphs.iter().any(has_node) {
        let names: Vec<_> = graphs.iter().map(|graph| graph.schema_ref()).collect();
        let of_old = |graph: &&Graph| !graph.active && graphs.iter().any(|active| active.name == graph.name);
        let before = registry.graphs.values().filter(of_old).find(has_node);
        let before = before.map_or_else(String::new, |graph| format!("; {} had one", graph.schema_ref()));
        let (node, names) = (node.as_str(), names.join(", "));
        let message = format_args!("{path}: no node of {names} is named `{node}`{before}");
        report.warning(&origin.place("match.node"), "orphan_signal", &message);
        return;
    }
    let mut facts = graphs.iter().flat_map(|graph| &graph.nodes).filter(|(name, _)| node.matches(name));
    if signal.matches.required_artifact_present.is_some() && !facts.any(|(_, facts)| facts.required) {
        let (path, node) = (origin.path("match.required_artifact_present"), node.as_str());
        let message = format_args!("{path}: can never match: no required artifact is registered for `{node}`");
        report.warning(&origin.place("match.required_artifact_present"), "artifact_not_required", &message);
    }
}

/// Whether `first`, which is written earlier, always wins over `signal`: the same fields, each at least as wide.
/// (With fewer fields it would lose, with more it could not match whenever the other does.)
fn covers(first: &Signal, signal: &Signal) -> bool {
    let globs =
        |signal: &Signal| [signal.graph.clone(), signal.matches.node.clone(), signal.matches.failure_shape.clone()];
    let wider = |(first, other): (Option<Glob>, Option<Glob>)| match (first, other) {
        (Some(first), Some(other)) => first.covers(&other),
        (first, other) => first.is_none() && other.is_none(),
    };
    let flags = |signal: &Signal| (signal.matches.retry_budget_exhausted, signal.matches.required_artifact_present);
    flags(first) == flags(signal) && globs(first).into_iter().zip(globs(signal)).all(wider)
}
