//! What is valid and still wrong: rules that look across tables, each with a stable code.
//!
//! Errors would hurt sessions (a degraded schema that still fails, a shadow that acts, an entry point that is not
//! there); warnings say that something cannot work as written. A graph that is not registered cannot be judged: the
//! rules are silent about it, but for one warning.

mod graphs;
mod policies;
mod responses;
mod routes;
mod shadows;
mod shapes;
mod signals;

use crate::registry::glob::Glob;
use crate::registry::model::{Graph, Registry, Signal};
use crate::registry::origin::Origins;
use crate::registry::problem::{Problem, Reporter};

/// Every problem of a registry, by file, line and column. Empty where `origins` is not of this registry.
#[must_use]
pub fn lint(registry: &Registry, origins: &Origins) -> Vec<Problem> {
    let mut report = Reporter::new(&origins.files);
    shapes::lint(registry, origins, &mut report);
    signals::lint(registry, origins, &mut report);
    responses::lint(registry, origins, &mut report);
    routes::lint(registry, origins, &mut report);
    shadows::lint(registry, origins, &mut report);
    policies::lint(registry, origins, &mut report);
    graphs::lint(registry, origins, &mut report);
    report.into_problems()
}

/// The active graphs a signal speaks of.
fn active_graphs<'a>(registry: &'a Registry, signal: &Signal) -> Vec<&'a Graph> {
    let named = |graph: &&Graph| signal.graph.as_ref().is_none_or(|glob| glob.matches(&graph.name));
    registry.graphs.values().filter(|graph| graph.active).filter(named).collect()
}

/// The graphs in which a signal's node may fail: the active ones it speaks of, and the degraded schemas that sessions
/// of those graphs are sent to, because events of a degraded route carry the name of the original graph.
fn failing_graphs<'a>(registry: &'a Registry, signal: &Signal) -> Vec<&'a Graph> {
    let mut graphs = active_graphs(registry, signal);
    let names: Vec<&str> = graphs.iter().map(|graph| graph.name.as_str()).collect();
    let speaks_of_them = |code: &str| {
        registry
            .signals
            .iter()
            .filter(|other| other.code == code)
            .any(|other| other.graph.as_ref().is_none_or(|glob| names.iter().any(|name| glob.matches(name))))
    };
    let degraded = registry
        .responses
        .iter()
        .filter(|response| speaks_of_them(&response.signal))
        .filter_map(|response| registry.graphs.get(response.schema_ref.as_ref()?));
    for graph in degraded {
        if !graphs.iter().any(|known| std::ptr::eq(*known, graph)) {
            graphs.push(graph);
        }
    }
    graphs
}

/// The nodes of a graph that a pattern names. `*` alone names none in particular.
fn named_nodes<'a>(graph: &'a Graph, node: &'a Glob) -> impl Iterator<Item = &'a str> {
    graph.nodes.keys().map(String::as_str).filter(|name| node.as_str() != "*" && node.matches(name))
}

/// The signal of a code.
fn signal<'a>(registry: &'a Registry, code: &str) -> Option<&'a Signal> {
    registry.signals.iter().find(|signal| signal.code == code)
}
