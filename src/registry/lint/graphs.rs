//! Graphs whose parts do not fit together.

use crate::registry::model::{Graph, Registry};
use crate::registry::origin::{Origin, Origins};
use crate::registry::problem::Reporter;

pub(super) fn lint(registry: &Registry, origins: &Origins, report: &mut Reporter<'_>) {
    for (schema_ref, graph) in &registry.graphs {
        let Some(origin) = origins.graphs.get(schema_ref) else { continue };
        lone_entry_points(schema_ref, graph, origin, report);
        for (name, node) in &graph.nodes {
            if let Some(artifact) = node.artifact.as_ref().filter(|it| node.required && !graph.channels.contains(it)) {
                let field = format!("nodes.{name}.artifact");
                let message = format_args!(
                    "{}: required artifact `{artifact}` is no channel of {schema_ref}",
                    origin.path(&field)
                );
                report.warning(&origin.place(&field), "artifact_not_a_channel", &message);
            }
            for needed in node.depends_on.iter().filter(|needed| !graph.nodes.contains_key(*needed)) {
                let field = format!("nodes.{name}.depends_on");
                let message = format_args!("{}: {schema_ref} has no node `{needed}`", origin.path(&field));
                report.warning(&origin.place(&field), "unknown_depends_on", &message);
            }
        }
    }
}

/// An entry point that neither an edge nor an entry of `nodes` knows: most likely a typing error, where the graph has
/// edges.
fn lone_entry_points(schema_ref: &str, graph: &Graph, origin: &Origin, report: &mut Reporter<'_>) {
    let is_linked = |name: &String| graph.edges.iter().any(|(from, to)| from == name || to == name);
    let is_lone = |name: &&String| !is_linked(name) && !origin.wrote(&format!("nodes.{name}"));
    if graph.edges.is_empty() {
        return;
    }
    for name in graph.entry_points.iter().filter(is_lone) {
        let path = origin.path("entry_points");
        let message = format_args!(
            "{path}: no edge of {schema_ref} names `{name}`; if it stands alone, give it an entry in `nodes`"
        );
        report.warning(&origin.place("entry_points"), "lone_entry_point", &message);
    }
}
