//! Responses by themselves: what is missing, what is never used, what would always be refused.

use std::collections::BTreeMap;

use crate::record::event::Route;
use crate::record::overrides::OverrideKind;
use crate::registry::lint::{active_graphs, named_nodes, signal};
use crate::registry::model::{Graph, Registry, Response, ResponseScope};
use crate::registry::origin::{Origin, Origins};
use crate::registry::problem::Reporter;

pub(super) fn lint(registry: &Registry, origins: &Origins, report: &mut Reporter<'_>) {
    let mut first: BTreeMap<(&str, bool, Option<&Route>), &Origin> = BTreeMap::new();
    for (response, origin) in registry.responses.iter().zip(&origins.responses) {
        match response.scope {
            ResponseScope::Session => session(registry, response, origin, report),
            ResponseScope::Cohort => cohort(response, origin, report),
        }
        let key = (response.signal.as_str(), response.scope == ResponseScope::Session, response.on_route.as_ref());
        if let Some(earlier) = first.get(&key) {
            let at = report.at(&earlier.place("name"));
            let path = origin.path("signal");
            let message = format_args!("{path}: never used: the response at {at} answers the same signal and scope");
            report.warning(&origin.place("signal"), "shadowed_response", &message);
        } else {
            first.insert(key, origin);
        }
    }
}

fn session(registry: &Registry, response: &Response, origin: &Origin, report: &mut Reporter<'_>) {
    for field in ["recovery_policy", "shadow_schema_ref", "blast_radius"] {
        if origin.wrote(field) {
            let message = format_args!("{}: has no effect on a response of scope `session`", origin.path(field));
            report.warning(&origin.place(field), "cohort_field_on_session", &message);
        }
    }
    if response.kind == OverrideKind::Replace && response.entry_point.is_none() {
        let message = format_args!("{}: no `entry_point`: a failed run cannot re-enter", origin.path(""));
        report.warning(&origin.place(""), "missing_entry_point", &message);
    }
    if let Some(node) = always_refused(registry, response) {
        let path = origin.path("signal");
        let message =
            format_args!("{path}: would always be refused: `{node}` is reached only past an irreversible node");
        report.warning(&origin.place("signal"), "always_refused", &message);
    }
}

fn cohort(response: &Response, origin: &Origin, report: &mut Reporter<'_>) {
    if response.recovery_policy.is_none() {
        let message = format_args!("{}: no `recovery_policy`: nothing would ever lift it early", origin.path(""));
        report.warning(&origin.place(""), "missing_recovery_policy", &message);
    }
}

/// A node the response's signal names, if every such node lies behind an irreversible one in every active graph that
/// has it.
fn always_refused(registry: &Registry, response: &Response) -> Option<String> {
    if response.on_route == Some(Route::Degraded) {
        return None;
    }
    let signal = signal(registry, &response.signal)?;
    let node = signal.matches.node.as_ref()?;
    let graphs = active_graphs(registry, signal);
    let mut named = graphs.iter().flat_map(|graph| named_nodes(graph, node).map(move |name| (graph, name))).peekable();
    let (_, first) = *named.peek()?;
    named.all(|(graph, name)| is_only_past_irreversible(graph, name)).then(|| first.to_owned())
}

/// Whether every path from an entry point to the node leads through an irreversible node, and one does.
fn is_only_past_irreversible(graph: &Graph, node: &str) -> bool {
    let is_irreversible = |name: &str| graph.nodes.get(name).is_some_and(|facts| facts.irreversible);
    let targets = || graph.edges.iter().map(|(_, to)| to.as_str());
    let mut open: Vec<&str> = if graph.entry_points.is_empty() {
        graph.nodes.keys().map(String::as_str).filter(|name| targets().all(|to| to != *name)).collect()
    } else {
        graph.entry_points.iter().map(String::as_str).collect()
    };
    let mut seen: std::collections::BTreeSet<&str> = open.iter().copied().collect();
    while let Some(name) = open.pop().filter(|_| !seen.contains(node)) {
        let next = graph.edges.iter().filter(|(from, _)| from == name && !is_irreversible(name));
        open.extend(next.map(|(_, to)| to.as_str()).filter(|to| seen.insert(to)));
    }
    !seen.contains(node) && graph.is_past_irreversible(node)
}
