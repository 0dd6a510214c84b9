//! Manifests: graphs as the adapters of runtimes describe them, in JSON, with where everything was written.
//!
//! `{"graphs":[{"name","version","entry_points":[…],"nodes":[{"name",…}],"edges":[[FROM,TO],…],"channels":[…]}]}`, with
//! the fields of `[[graph]]` and of its nodes; unknown fields are refused.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::registry::check;
use crate::registry::load::not_utf8;
use crate::registry::origin::Origin;
use crate::registry::problem::{Place, Problem, Reporter, SourceFile};
use crate::registry::read::Written;
use crate::registry::settings::Graph;

/// Largest manifest; over: refused.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;
/// Most graphs of one import; over: refused.
pub const GRAPHS_MAX: usize = 1000;
/// Most nodes, channels and entry points of a graph, each; over: refused.
pub const NODES_MAX: usize = 5000;
/// Most edges of a graph; over: refused.
pub const EDGES_MAX: usize = 50_000;
/// Longest name; over: refused.
pub const NAME_BYTES_MAX: usize = 256;
/// Deepest value that a place is kept for: `nodes[0].depends_on[0]`; what lies deeper is no part of a manifest.
const DEPTH_MAX: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest<'a> {
    #[serde(borrow)]
    graphs: Vec<&'a RawValue>,
}

/// Reads all graphs of all manifests.
///
/// # Errors
/// Every problem, at least one for each broken graph, by file, line and column.
pub fn read(files: &[SourceFile]) -> Result<Vec<Written<Graph>>, Vec<Problem>> {
    let mut report = Reporter::new(files);
    not_utf8(files, &mut report);
    let mut graphs = Vec::new();
    for (file, source) in files.iter().enumerate() {
        let text = source.text.as_str();
        let place = |span| Place { file, span };
        if text.len() > MANIFEST_BYTES_MAX {
            let message = format_args!("{} bytes: a manifest has at most {MANIFEST_BYTES_MAX}", text.len());
            report.error(&place(0..0), "too_large", &message);
            continue;
        }
        // What is read by name could otherwise be written by position too.
        if let Some(at) = text.find(|c: char| !c.is_ascii_whitespace()).filter(|at| !text[*at..].starts_with('{')) {
            report.error(&place(at..at + 1), "invalid_type", &"a manifest is an object: {\"graphs\":[…]}");
            continue;
        }
        match serde_json::from_str::<Manifest<'_>>(text) {
            Ok(manifest) => {
                for (index, raw) in manifest.graphs.into_iter().enumerate() {
                    graphs.extend(graph(text, file, index, raw, &mut report));
                }
            }
            Err(error) => report.error(&place(span_of(text, &error)), code_of(&error), &told(&error)),
        }
    }
    if let Some(first) = graphs.get(GRAPHS_MAX) {
        let message = format_args!("{}: one import takes at most {GRAPHS_MAX} graphs", first.origin.path(""));
        report.error(&first.origin.place(""), "too_many", &message);
    }
    check::check_graphs(&graphs, &mut report);
    for graph in &graphs {
        check_graph(graph, &mut report);
    }
    if report.has_errors() { Err(report.into_problems()) } else { Ok(graphs) }
}

fn graph(text: &str, file: usize, index: usize, raw: &RawValue, report: &mut Reporter<'_>) -> Option<Written<Graph>> {
    let mut fields = BTreeMap::new();
    walk(text, raw, "", DEPTH_MAX, &mut fields);
    let mut origin = Origin::from_spans(file, format!("graphs[{index}]"), span(text, raw)?, fields);
    let nodes = (0..).map(|index| format!("nodes[{index}]")).take_while(|path| origin.wrote(path));
    let is_object = |path: &str| text[origin.place(path).span.start..].starts_with('{');
    if let Some(path) = [String::new()].into_iter().chain(nodes).find(|path| !is_object(path)) {
        let message = format_args!("{}: not an object", origin.path(&path));
        report.error(&origin.place(&path), "invalid_type", &message);
        return None;
    }
    let read = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(raw.get()));
    match read {
        Ok(value) => {
            let value: Graph = value;
            for (index, node) in value.nodes.iter().enumerate() {
                origin.alias(&format!("nodes[{index}]"), &format!("nodes.{}", node.name));
            }
            Some(Written { value, origin })
        }
        Err(error) => {
            let path = error.path().to_string();
            let path = if path == "." { "" } else { path.as_str() };
            let message = format!("{}: {}", origin.path(path), told(error.inner()));
            report.error(&origin.place(path), code_of(error.inner()), &message);
            None
        }
    }
}

/// Where a part of the text stands in it: the distance of the two beginnings.
fn span(text: &str, raw: &RawValue) -> Option<Range<usize>> {
    let raw = raw.get();
    let start = (raw.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    Some(start..start + raw.len())
}

fn walk(text: &str, raw: &RawValue, path: &str, depth: usize, fields: &mut BTreeMap<String, Range<usize>>) {
    let children: Vec<(String, &RawValue)> = match raw.get().as_bytes().first() {
        Some(b'{') => {
            let children: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
            let path = |key| if path.is_empty() { format!("{key}") } else { format!("{path}.{key}") };
            children.into_iter().map(|(key, value)| (path(key), value)).collect()
        }
        Some(b'[') => {
            let children: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
            children.into_iter().enumerate().map(|(index, value)| (format!("{path}[{index}]"), value)).collect()
        }
        _ => return,
    };
    for (path, value) in children {
        if depth > 1 {
            walk(text, value, &path, depth - 1, fields);
        }
        fields.extend(span(text, value).map(|span| (path, span)));
    }
}

/// Where reading stopped.
fn span_of(text: &str, error: &serde_json::Error) -> Range<usize> {
    let line_start: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let start = (line_start + error.column().saturating_sub(1)).min(text.len());
    start..(start + 1).min(text.len())
}

/// The words of an error without its place, which is that of a part.
fn told(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}

fn code_of(error: &serde_json::Error) -> &'static str {
    let text = error.to_string();
    let known = ["unknown_field", "missing_field", "duplicate_field", "invalid_type"];
    let found = known.into_iter().find(|code| text.starts_with(&code.replace('_', " ")));
    found.unwrap_or(if error.is_data() { "invalid_value" } else { "syntax" })
}

/// What a manifest is held to beyond a `[[graph]]` that a person writes: it is complete, and it is bounded.
fn check_graph(graph: &Written<Graph>, report: &mut Reporter<'_>) {
    let Written { value, origin } = graph;
    let counts = [
        ("nodes", value.nodes.len(), NODES_MAX),
        ("channels", value.channels.len(), NODES_MAX),
        ("entry_points", value.entry_points.len(), NODES_MAX),
        ("edges", value.edges.len(), EDGES_MAX),
    ];
    for (field, count, most) in counts.into_iter().filter(|(_, count, most)| count > most) {
        let message = format_args!("{}: {count} of them, at most {most}", origin.path(field));
        report.error(&origin.place(field), "too_many", &message);
    }
    for (field, name) in names(value) {
        let what = if name.len() > NAME_BYTES_MAX {
            format!("longer than {NAME_BYTES_MAX} bytes")
        } else if name.chars().any(char::is_control) {
            "holds control characters".to_owned()
        } else {
            continue;
        };
        report.error(&origin.place(&field), "bad_name", &format_args!("{}: {what}", origin.path(&field)));
    }
    if !origin.wrote("nodes") {
        return;
    }
    let known: BTreeSet<&str> = value.nodes.iter().map(|node| node.name.as_str()).collect();
    for (field, name) in references(value).filter(|(_, name)| !known.contains(name)) {
        let message = format_args!("{}: `{name}` is not one of `nodes`", origin.path(&field));
        report.error(&origin.place(&field), "unknown_node", &message);
    }
}

fn names(graph: &Graph) -> impl Iterator<Item = (String, &str)> {
    let own = [("name".to_owned(), graph.name.as_str()), ("version".to_owned(), graph.version.as_str())];
    let channels = graph.channels.iter().enumerate().map(|(index, name)| (format!("channels[{index}]"), name.as_str()));
    let nodes = graph.nodes.iter().enumerate();
    let nodes = nodes.map(|(index, node)| (format!("nodes[{index}].name"), node.name.as_str()));
    own.into_iter().chain(channels).chain(nodes).chain(references(graph))
}

/// Every place that names a node.
fn references(graph: &Graph) -> impl Iterator<Item = (String, &str)> {
    let entries = graph.entry_points.iter().enumerate();
    let entries = entries.map(|(index, name)| (format!("entry_points[{index}]"), name.as_str()));
    let edges = graph.edges.iter().enumerate().flat_map(|(index, edge)| {
        edge.iter().enumerate().map(move |(end, name)| (format!("edges[{index}][{end}]"), name.as_str()))
    });
    let needed = graph.nodes.iter().enumerate().flat_map(|(index, node)| {
        let names = node.depends_on.iter().enumerate();
        names.map(move |(at, name)| (format!("nodes[{index}].depends_on[{at}]"), name.as_str()))
    });
    entries.chain(edges).chain(needed)
}
