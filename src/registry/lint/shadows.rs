//! Shadows: a copy of the original path that must not act, and must hold what failed.

use crate::registry::lint::routes::registered;
use crate::registry::lint::{active_graphs, named_nodes, signal};
use crate::registry::model::{Graph, Registry, Response, ResponseScope, Signal};
use crate::registry::origin::{Origin, Origins};
use crate::registry::problem::Reporter;

pub(super) fn lint(registry: &Registry, origins: &Origins, report: &mut Reporter<'_>) {
    for (response, origin) in registry.responses.iter().zip(&origins.responses) {
        let Some(schema_ref) = &response.shadow_schema_ref else { continue };
        let field = "shadow_schema_ref";
        let Some(shadow) = registered(registry, schema_ref, field, origin, report) else { continue };
        let Some(signal) = signal(registry, &response.signal) else { continue };
        mutating(registry, origins, signal, shadow, origin, report);
        if response.scope == ResponseScope::Cohort {
            evidence(response, signal, shadow, origin, report);
        }
    }
}

/// A node of a shadow mutates if the shadow says so, or if the original path says so of the node of that name and the
/// shadow's table does not write `mutating = false`: a copied edge must not bring an effect along.
fn mutating(
    registry: &Registry,
    origins: &Origins,
    signal: &Signal,
    shadow: &Graph,
    origin: &Origin,
    report: &mut Reporter<'_>,
) {
    let schema_ref = shadow.schema_ref();
    let originals = active_graphs(registry, signal);
    for (name, facts) in &shadow.nodes {
        let denied =
            origins.graphs.get(&schema_ref).is_some_and(|written| written.wrote(&format!("nodes.{name}.mutating")));
        let acts_there = originals
            .iter()
            .filter(|graph| !denied && graph.schema_ref() != schema_ref)
            .find(|graph| graph.nodes.get(name).is_some_and(|facts| facts.mutating || facts.irreversible));
        let path = origin.path("shadow_schema_ref");
        if facts.mutating || facts.irreversible {
            let message = format_args!("{path}: node `{name}` of {schema_ref} is mutating: a shadow must not act");
            report.error(&origin.place("shadow_schema_ref"), "mutating_node_in_shadow", &message);
        } else if let Some(original) = acts_there {
            let message = format_args!(
                "{path}: node `{name}` of {schema_ref} is mutating in {}; if it is not here, write `mutating = false`",
                original.schema_ref()
            );
            report.error(&origin.place("shadow_schema_ref"), "mutating_node_in_shadow", &message);
        }
    }
}

/// Runs that never execute the failing node prove nothing.
fn evidence(response: &Response, signal: &Signal, shadow: &Graph, origin: &Origin, report: &mut Reporter<'_>) {
    let Some(node) = signal.matches.node.as_ref().filter(|node| node.as_str() != "*") else { return };
    if named_nodes(shadow, node).next().is_none() && response.recovery_policy.is_some() {
        let (path, schema_ref) = (origin.path("shadow_schema_ref"), shadow.schema_ref());
        let node = node.as_str();
        let message = format_args!("{path}: {schema_ref} has no node `{node}`: it gives no evidence about it");
        report.warning(&origin.place("shadow_schema_ref"), "shadow_without_failing_node", &message);
    }
}
