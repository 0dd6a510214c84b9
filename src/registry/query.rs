//! What the stages ask a registry.

use std::collections::BTreeSet;

use crate::record::event::Route;
use crate::record::signature::Signature;
use crate::registry::model::{Graph, Registry, Response, ResponseScope, Signal};

impl Registry {
    /// The signal that names this signature: most fields win, then registry order.
    #[must_use]
    pub fn signal_for(&self, graph: &str, signature: &Signature) -> Option<&Signal> {
        let matching = self.signals.iter().filter(|signal| signal.names(graph, signature));
        // `max_by_key` keeps the last of equals; reversed order makes that the first written.
        matching.rev().max_by_key(|signal| signal.specificity())
    }

    /// The registered session response for a signal on a route: one for exactly this route first, then one without
    /// `on_route`, which answers every route but degraded; registry order among equals.
    #[must_use]
    pub fn session_response(&self, signal: &str, route: &Route) -> Option<&Response> {
        let candidates = || {
            self.responses
                .iter()
                .filter(|response| response.scope == ResponseScope::Session && response.signal == signal)
        };
        candidates()
            .find(|response| response.on_route.as_ref() == Some(route))
            .or_else(|| candidates().find(|response| response.on_route.is_none() && *route != Route::Degraded))
    }

    /// The graph of a `NAME:VERSION`, else the active version of `graph`.
    #[must_use]
    pub fn graph(&self, schema_ref: Option<&str>, graph: &str) -> Option<&Graph> {
        schema_ref.and_then(|schema_ref| self.graphs.get(schema_ref)).or_else(|| self.active_graph(graph))
    }

    /// The active version of a graph.
    #[must_use]
    pub fn active_graph(&self, name: &str) -> Option<&Graph> {
        self.graphs.values().find(|graph| graph.name == name && graph.active)
    }
}

impl Signal {
    fn names(&self, graph: &str, signature: &Signature) -> bool {
        let matches = &self.matches;
        self.graph.as_ref().is_none_or(|glob| glob.matches(graph))
            && matches.node.as_ref().is_none_or(|glob| signature.node.as_deref().is_some_and(|node| glob.matches(node)))
            && matches.failure_shape.as_ref().is_none_or(|glob| glob.matches(&signature.failure_shape))
            && matches.retry_budget_exhausted.is_none_or(|wanted| wanted == signature.retry_budget_exhausted)
            && matches
                .required_artifact_present
                .is_none_or(|wanted| signature.required_artifact_present == Some(wanted))
    }

    /// How many fields of graph and signature it names.
    #[must_use]
    pub fn specificity(&self) -> usize {
        let matches = &self.matches;
        usize::from(self.graph.is_some())
            + usize::from(matches.node.is_some())
            + usize::from(matches.failure_shape.is_some())
            + usize::from(matches.retry_budget_exhausted.is_some())
            + usize::from(matches.required_artifact_present.is_some())
    }
}

impl Graph {
    /// `NAME:VERSION`.
    #[must_use]
    pub fn schema_ref(&self) -> String {
        format!("{}:{}", self.name, self.version)
    }

    /// Whether an edge leaves the node.
    #[must_use]
    pub fn has_successor(&self, node: &str) -> bool {
        self.edges.iter().any(|(from, _)| from == node)
    }

    /// Whether a path of at least one edge leads from an irreversible node to `node`.
    #[must_use]
    pub fn is_past_irreversible(&self, node: &str) -> bool {
        let irreversible = self.nodes.iter().filter(|(_, facts)| facts.irreversible).map(|(name, _)| name.as_str());
        irreversible.into_iter().any(|from| self.reaches(from, node))
    }

    /// Whether a path of at least one edge leads from one node to another.
    #[must_use]
    pub fn reaches(&self, from: &str, to: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            for (_, next) in self.edges.iter().filter(|(source, _)| source == node) {
                if next == to {
                    return true;
                }
                if seen.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        false
    }
}
