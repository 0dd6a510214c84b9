//! Manifests into a registry: what a manifest says of a graph is taken from it, what it does not say stays as it was.
//!
//! Two things only a person undoes: a node that the registry calls mutating or irreversible stays so, and the version of
//! a graph that is active stays active unless a manifest says which one is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::registry::build;
use crate::registry::diff::{Change, diff};
use crate::registry::load::Loaded;
use crate::registry::model::{Graph, Node, Registry};
use crate::registry::origin::Origin;
use crate::registry::problem::{Problem, Reporter, SourceFile};
use crate::registry::read::Written;
use crate::registry::settings;

/// Facts of a node that stay true once they are.
const LASTING: [&str; 2] = ["mutating", "irreversible"];

/// A graph as it will be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The graph.
    pub graph: Graph,
    /// Stated traffic, runs an hour.
    pub expected_runs_per_hour: Option<f64>,
    /// Nodes of which the registry or the manifest says that they do not mutate: saying so means more than silence.
    pub denied: BTreeSet<String>,
}

/// What a person should know about a merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "note")]
pub enum Note {
    /// The manifest denies what the registry says, and the registry's word stays.
    Kept {
        /// `NAME:VERSION`.
        schema_ref: String,
        /// Its name.
        node: String,
        /// The fact.
        fact: String,
    },
    /// A node is gone, and with it what the registry said of it.
    Lost {
        /// `NAME:VERSION`.
        schema_ref: String,
        /// Its name.
        node: String,
        /// The facts.
        facts: Vec<String>,
    },
    /// Another version of the graph is active, so that this one is not.
    Inactive {
        /// `NAME:VERSION`.
        schema_ref: String,
        /// The active version.
        active: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept { schema_ref, node, fact } => {
                write!(f, "{schema_ref}: `{node}` stays {fact}, though the manifest says it is not")
            }
            Self::Lost { schema_ref, node, facts } => {
                write!(f, "{schema_ref}: `{node}` is gone, which was {}: has it another name?", facts.join(", "))
            }
            Self::Inactive { schema_ref, active } => {
                write!(f, "{schema_ref} is not active: {active} is; `active` in the file or in the manifest changes it")
            }
        }
    }
}

/// By `NAME:VERSION`, with what to tell.
pub type Merged = (BTreeMap<String, Imported>, Vec<Note>);

/// Merges the graphs of `manifests` into what `known` says of them.
///
/// # Errors
/// Two versions of a graph of which nobody says which is active.
pub fn merge(
    manifests: Vec<Written<settings::Graph>>,
    files: &[SourceFile],
    known: Option<&Loaded>,
) -> Result<Merged, Vec<Problem>> {
    let mut report = Reporter::new(files);
    let mut notes = Vec::new();
    let active = active(&manifests, known, &mut report);
    let mut merged = BTreeMap::new();
    for Written { value, origin } in manifests {
        let runs = value.expected_runs_per_hour;
        let mut graph = build::graph(value);
        let schema_ref = graph.schema_ref();
        let before = known.and_then(|known| Some((known, known.registry.graphs.get(&schema_ref)?)));
        let mut denied: BTreeSet<String> =
            graph.nodes.keys().filter(|node| wrote(&origin, node, "mutating")).cloned().collect();
        let mut expected_runs_per_hour = runs;
        if let Some((known, old)) = before {
            let written = known.origins.graphs.get(&schema_ref);
            denied
                .extend(old.nodes.keys().filter(|node| written.is_some_and(|it| wrote(it, node, "mutating"))).cloned());
            keep(&mut graph, &origin, old, &mut notes);
            expected_runs_per_hour = runs.or_else(|| known.origins.expected_runs_per_hour.get(&schema_ref).copied());
        }
        denied.retain(|node| graph.nodes.get(node).is_some_and(|facts| !facts.mutating));
        graph.active = active.get(&graph.name).is_none_or(|version| *version == graph.version);
        let other = active.get(&graph.name).filter(|version| !version.is_empty() && !origin.wrote("active"));
        if let (false, Some(version)) = (graph.active, other) {
            notes.push(Note::Inactive { schema_ref: schema_ref.clone(), active: format!("{}:{version}", graph.name) });
        }
        merged.insert(schema_ref, Imported { graph, expected_runs_per_hour, denied });
    }
    if report.has_errors() { Err(report.into_problems()) } else { Ok((merged, notes)) }
}

/// What `known` says of a graph otherwise than it would be written; none: it is the same, or not there.
#[must_use]
pub fn differences(imported: &Imported, known: &Loaded) -> Vec<Change> {
    let schema_ref = imported.graph.schema_ref();
    let Some(graph) = known.registry.graphs.get(&schema_ref) else { return Vec::new() };
    let alone =
        |graph: &Graph| Registry { graphs: [(schema_ref.clone(), graph.clone())].into(), ..Registry::default() };
    let mut changes = diff(Some(&alone(graph)), &alone(&imported.graph));
    let (from, to) = (known.origins.expected_runs_per_hour.get(&schema_ref).copied(), imported.expected_runs_per_hour);
    if from != to {
        let [from, to] = [from, to].map(|runs| runs.map(Value::from));
        let field = "expected_runs_per_hour".to_owned();
        changes.push(Change::Changed { table: "graph", name: schema_ref, field, from, to });
    }
    changes
}

/// Adds the graphs of `kept` that were not imported, as they were; one whose name has another active version now is not
/// active any more.
pub fn complete(merged: &mut BTreeMap<String, Imported>, known: &Loaded, kept: &[String], notes: &mut Vec<Note>) {
    for schema_ref in kept {
        let Some(mut imported) = as_known(known, schema_ref).filter(|_| !merged.contains_key(schema_ref)) else {
            continue;
        };
        let graph = &mut imported.graph;
        let now = merged.values().map(|other| &other.graph).find(|other| other.active && other.name == graph.name);
        if let Some(now) = now.filter(|_| graph.active) {
            graph.active = false;
            notes.push(Note::Inactive { schema_ref: schema_ref.clone(), active: now.schema_ref() });
        }
        merged.insert(schema_ref.clone(), imported);
    }
}

/// A graph of the registry as it would be written again.
fn as_known(known: &Loaded, schema_ref: &str) -> Option<Imported> {
    let graph = known.registry.graphs.get(schema_ref)?.clone();
    let origin = known.origins.graphs.get(schema_ref)?;
    let is_denied = |(node, facts): &(&String, &Node)| !facts.mutating && wrote(origin, node, "mutating");
    let denied = graph.nodes.iter().filter(is_denied).map(|(node, _)| node.clone()).collect();
    let expected_runs_per_hour = known.origins.expected_runs_per_hour.get(schema_ref).copied();
    Some(Imported { graph, expected_runs_per_hour, denied })
}

fn wrote(origin: &Origin, node: &str, fact: &str) -> bool {
    origin.wrote(&format!("nodes.{node}.{fact}"))
}

/// The active version of each graph: the one a manifest says is, else the one that was, else the only one there is.
fn active(
    manifests: &[Written<settings::Graph>],
    known: Option<&Loaded>,
    report: &mut Reporter<'_>,
) -> BTreeMap<String, String> {
    let mut active = BTreeMap::new();
    let names: BTreeSet<&str> = manifests.iter().map(|graph| graph.value.name.as_str()).collect();
    for name in names {
        let versions: Vec<_> = manifests.iter().filter(|graph| graph.value.name == name).collect();
        let (said, open): (Vec<&Written<settings::Graph>>, Vec<_>) =
            versions.into_iter().partition(|graph| graph.origin.wrote("active"));
        // One that a manifest calls inactive is not the active one any more.
        let is_ended = |version: &str| said.iter().any(|graph| graph.value.version == version);
        let graphs = known.into_iter().flat_map(|known| known.registry.graphs.values());
        let before = graphs.filter(|graph| graph.name == name && graph.active).find(|graph| !is_ended(&graph.version));
        let said: Vec<_> = said.iter().copied().filter(|graph| graph.value.active).collect();
        let version = match (said.as_slice(), before, open.as_slice()) {
            ([one], ..) | ([], None, [one]) => one.value.version.clone(),
            ([], Some(before), _) => before.version.clone(),
            ([], None, []) => String::new(),
            ([_, second, ..], ..) | ([], None, [_, second, ..]) => {
                let field = if second.origin.wrote("active") { "active" } else { "version" };
                let message = format_args!(
                    "{}: one version of `{name}` is active: which? Write \"active\": true or false",
                    second.origin.path(field)
                );
                report.error(&second.origin.place(field), "two_active_versions", &message);
                continue;
            }
        };
        active.insert(name.to_owned(), version);
    }
    active
}

/// Fills in what the manifest does not say.
fn keep(graph: &mut Graph, manifest: &Origin, old: &Graph, notes: &mut Vec<Note>) {
    let schema_ref = graph.schema_ref();
    if !manifest.wrote("channels") {
        graph.channels.clone_from(&old.channels);
    }
    if !manifest.wrote("edges") {
        graph.edges.clone_from(&old.edges);
    }
    if !manifest.wrote("entry_points") {
        graph.entry_points.clone_from(&old.entry_points);
    }
    let implied: Vec<String> =
        graph.edges.iter().flat_map(|(from, to)| [from, to]).chain(&graph.entry_points).cloned().collect();
    for name in implied {
        graph.nodes.entry(name).or_default();
    }
    if !manifest.wrote("nodes") {
        for name in old.nodes.keys() {
            graph.nodes.entry(name.clone()).or_default();
        }
    }
    for (name, before) in &old.nodes {
        let Some(node) = graph.nodes.get_mut(name) else {
            let facts = facts(before);
            if !facts.is_empty() {
                notes.push(Note::Lost { schema_ref: schema_ref.clone(), node: name.clone(), facts });
            }
            continue;
        };
        for fact in keep_facts(node, before, &|fact| wrote(manifest, name, fact)) {
            notes.push(Note::Kept { schema_ref: schema_ref.clone(), node: name.clone(), fact });
        }
    }
}

/// What of the old node stays; the facts among it that the manifest denies.
fn keep_facts(node: &mut Node, old: &Node, is_said: &dyn Fn(&str) -> bool) -> Vec<String> {
    let value = |node: &Node| serde_json::to_value(node).unwrap_or_default();
    let (Value::Object(mut new), Value::Object(old)) = (value(node), value(old)) else { return Vec::new() };
    let mut denied = Vec::new();
    for (fact, before) in old {
        let lasts = LASTING.contains(&fact.as_str()) && before == Value::Bool(true);
        if is_said(&fact) && lasts && new.get(&fact) != Some(&before) {
            denied.push(fact.clone());
        }
        if lasts || !is_said(&fact) {
            new.insert(fact, before);
        }
    }
    // Its own fields: it cannot fail.
    *node = serde_json::from_value(Value::Object(new)).unwrap_or_else(|_| node.clone());
    denied
}

/// The facts of a node that are worth a word, by name.
fn facts(node: &Node) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(node) else { return Vec::new() };
    let is_said = |value: &Value| match value {
        Value::Bool(is) => *is,
        Value::Array(items) => !items.is_empty(),
        other => !other.is_null(),
    };
    fields.into_iter().filter(|(_, value)| is_said(value)).map(|(name, _)| name).collect()
}
