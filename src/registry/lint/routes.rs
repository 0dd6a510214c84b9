//! The degraded route of a response: does it exist, does it still hold what fails, can a run re-enter it?

use crate::record::overrides::Resume;
use crate::registry::lint::{failing_graphs, named_nodes, signal};
use crate::registry::model::{Graph, Registry, Response};
use crate::registry::origin::{Origin, Origins};
use crate::registry::problem::Reporter;

pub(super) fn lint(registry: &Registry, origins: &Origins, report: &mut Reporter<'_>) {
    for (response, origin) in registry.responses.iter().zip(&origins.responses) {
        let degraded = response
            .schema_ref
            .as_ref()
            .and_then(|schema_ref| registered(registry, schema_ref, "schema_ref", origin, report));
        if let Some(degraded) = degraded {
            entry_point(response, degraded, origin, report);
            failing_nodes(registry, response, degraded, origin, report);
        }
        replaced(registry, response, origin, report);
        if let Some(resume) = &response.resume {
            for (index, schema_ref) in resume.compatible_from.iter().enumerate() {
                registered(registry, schema_ref, &format!("resume.compatible_from[{index}]"), origin, report);
            }
            before(registry, response, resume, origin, report);
            if let Some(degraded) = degraded {
                channels(resume, degraded, origin, report);
            }
        }
    }
}

/// The graph of a schema reference, or a warning that it cannot be judged.
pub(super) fn registered<'a>(
    registry: &'a Registry,
    schema_ref: &str,
    field: &str,
    origin: &Origin,
    report: &mut Reporter<'_>,
) -> Option<&'a Graph> {
    let graph = registry.graphs.get(schema_ref);
    if graph.is_none() {
        let message = format_args!("{}: no [[graph]] is `{schema_ref}`: it cannot be checked", origin.path(field));
        report.warning(&origin.place(field), "schema_not_registered", &message);
    }
    graph
}

fn entry_point(response: &Response, degraded: &Graph, origin: &Origin, report: &mut Reporter<'_>) {
    let Some(entry_point) = &response.entry_point else { return };
    if !degraded.entry_points.contains(entry_point) {
        let (path, schema_ref) = (origin.path("entry_point"), degraded.schema_ref());
        let known = degraded.entry_points.join(", ");
        let message = format_args!("{path}: `{entry_point}` is no entry point of {schema_ref} ({known})");
        report.error(&origin.place("entry_point"), "unknown_entry_point", &message);
    }
}

/// The nodes that the signal names and those that the response replaces must not be in the degraded graph. A node
/// that a wider pattern names counts only if it is also one of those that may fail: elsewhere it is another node.
fn failing_nodes(
    registry: &Registry,
    response: &Response,
    degraded: &Graph,
    origin: &Origin,
    report: &mut Reporter<'_>,
) {
    let schema_ref = degraded.schema_ref();
    for node in response.replaces.iter().filter(|node| degraded.nodes.contains_key(*node)) {
        let message = format_args!("{}: `{node}` is still in {schema_ref}", origin.path("replaces"));
        report.error(&origin.place("replaces"), "failing_node_in_degraded", &message);
    }
    let Some(signal) = signal(registry, &response.signal) else { return };
    let Some(pattern) = &signal.matches.node else { return };
    let failing = failing_graphs(registry, signal);
    let originals: Vec<_> = failing.iter().filter(|graph| graph.schema_ref() != schema_ref).collect();
    let is_in_original = |node: &str| originals.iter().any(|graph| graph.nodes.contains_key(node));
    let may_fail = |node: &str| pattern.is_literal() || originals.is_empty() || is_in_original(node);
    for node in named_nodes(degraded, pattern).filter(|node| may_fail(node)) {
        if !response.replaces.iter().any(|replaced| replaced == node) {
            let message = format_args!(
                "{}: {schema_ref} still contains `{node}`, which `{}` names as failing",
                origin.path("schema_ref"),
                signal.code
            );
            report.error(&origin.place("schema_ref"), "failing_node_in_degraded", &message);
        }
    }
}

fn replaced(registry: &Registry, response: &Response, origin: &Origin, report: &mut Reporter<'_>) {
    let Some(signal) = signal(registry, &response.signal) else { return };
    let graphs = failing_graphs(registry, signal);
    if graphs.is_empty() {
        return;
    }
    for node in response.replaces.iter().filter(|node| !graphs.iter().any(|graph| graph.nodes.contains_key(*node))) {
        let message = format_args!("{}: no graph of `{}` has a node `{node}`", origin.path("replaces"), signal.code);
        report.warning(&origin.place("replaces"), "unknown_replaced_node", &message);
    }
}

/// What `resume` asks of the run that failed: the node it is past and the channels it carries. Runs come from the
/// schemas of `compatible_from`, and then each must have them; else from those in which the signal may fail, and then
/// one must.
fn before(registry: &Registry, response: &Response, resume: &Resume, origin: &Origin, report: &mut Reporter<'_>) {
    let mut from: Vec<_> = resume.compatible_from.iter().filter_map(|it| registry.graphs.get(it)).collect();
    let is_named = !from.is_empty();
    if let (false, Some(signal)) = (is_named, signal(registry, &response.signal)) {
        from = failing_graphs(registry, signal);
    }
    let mut lack = |field: &str, code, what: &dyn std::fmt::Display, has: &dyn Fn(&Graph) -> bool| {
        let lacking: Vec<_> = from.iter().filter(|graph| !has(graph)).map(|graph| graph.schema_ref()).collect();
        if !lacking.is_empty() && (is_named || lacking.len() == from.len()) {
            let message = format_args!("{}: {what} of {}", origin.path(field), lacking.join(", "));
            report.warning(&origin.place(field), code, &message);
        }
    };
    if let Some(after) = &resume.after {
        let what = format!("`{after}` is no node");
        lack("resume.after", "unknown_resume_after", &what, &|graph| graph.nodes.contains_key(after));
    }
    for (index, channel) in resume.requires_channels.iter().enumerate() {
        let what = format!("no run has it: `{channel}` is no channel");
        let field = format!("resume.requires_channels[{index}]");
        lack(&field, "missing_channel", &what, &|graph| graph.channels.contains(channel));
    }
}

fn channels(resume: &Resume, degraded: &Graph, origin: &Origin, report: &mut Reporter<'_>) {
    for (list, names) in [("requires_channels", &resume.requires_channels), ("reset_channels", &resume.reset_channels)]
    {
        for (index, channel) in names.iter().enumerate().filter(|(_, channel)| !degraded.channels.contains(channel)) {
            let field = format!("resume.{list}[{index}]");
            let (path, schema_ref) = (origin.path(&field), degraded.schema_ref());
            let message = format_args!("{path}: {schema_ref} has no channel `{channel}`: its state would be lost");
            report.warning(&origin.place(&field), "missing_channel", &message);
        }
    }
}
