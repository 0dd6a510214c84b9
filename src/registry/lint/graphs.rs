//! Graphs whose parts do not fit together.

use crate::registry::model::Registry;
use crate::registry::origin::Origins;
use crate::registry::problem::Reporter;

pub(super) fn lint(registry: &Registry, origins: &Origins, report: &mut Reporter<'_>) {
    for (schema_ref, graph) in &registry.graphs {
        let Some(origin) = origins.graphs.get(schema_ref) else { continue };
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
