//! Graphs as `[[graph]]` tables of a registry file.

use std::fmt::Write as _;

use toml::Value;

use crate::registry::import::Imported;
use crate::registry::model::Node;

/// The tables, in the order given; reading them gives the same graphs.
pub fn graphs<'a>(graphs: impl IntoIterator<Item = &'a Imported>) -> String {
    let mut text = String::new();
    for imported in graphs {
        // Writing to a string cannot fail.
        let _ = graph(imported, &mut text);
    }
    text
}

fn graph(imported: &Imported, text: &mut String) -> std::fmt::Result {
    let Imported { graph, expected_runs_per_hour, denied } = imported;
    writeln!(text, "\n[[graph]]\nname = {}\nversion = {}", string(&graph.name), string(&graph.version))?;
    writeln!(text, "active = {}", graph.active)?;
    if let Some(runs) = expected_runs_per_hour {
        writeln!(text, "expected_runs_per_hour = {}", Value::from(*runs))?;
    }
    writeln!(text, "entry_points = {}", strings(&graph.entry_points))?;
    let edges = graph.edges.iter().map(|(from, to)| format!("[{}, {}]", string(from), string(to)));
    list("edges", edges, text)?;
    writeln!(text, "channels = {}", strings(&graph.channels))?;
    let nodes = graph.nodes.iter().map(|(name, facts)| node(name, facts, denied.contains(name)));
    list("nodes", nodes, text)
}

fn list(name: &str, items: impl Iterator<Item = String>, text: &mut String) -> std::fmt::Result {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return writeln!(text, "{name} = []");
    }
    writeln!(text, "{name} = [")?;
    items.try_for_each(|item| writeln!(text, "  {item},"))?;
    writeln!(text, "]")
}

fn node(name: &str, facts: &Node, is_denied: bool) -> String {
    let Node {
        artifact,
        required,
        mutating,
        irreversible,
        criticality,
        fallback,
        idempotency_key,
        compensation,
        depends_on,
    } = facts;
    let text = |key: &str, value: &Option<String>| value.as_ref().map(|value| format!("{key} = {}", string(value)));
    let flag = |key: &str, is: bool| is.then(|| format!("{key} = true"));
    let fields = [
        Some(format!("name = {}", string(name))),
        text("artifact", artifact),
        flag("required", *required),
        if is_denied { Some("mutating = false".to_owned()) } else { flag("mutating", *mutating) },
        flag("irreversible", *irreversible),
        text("criticality", criticality),
        text("fallback", fallback),
        text("idempotency_key", idempotency_key),
        text("compensation", compensation),
        (!depends_on.is_empty()).then(|| format!("depends_on = {}", strings(depends_on))),
    ];
    format!("{{ {} }}", fields.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// As the file format quotes it.
fn string(text: &str) -> String {
    Value::from(text).to_string()
}

fn strings(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| string(item)).collect::<Vec<_>>().join(", "))
}
