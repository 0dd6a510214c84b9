//! The event of a round trip: one failure that the active registry answers with an override, found by asking the session
//! stage itself, so that nothing is sent to a broker that is not known to work.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::record::codec::json::event_from_bytes;
use crate::record::output::Record;
use crate::record::position::Position;
use crate::record::time::Timestamp;
use crate::record::topic;
use crate::registry::{Glob, Graph, Mode, Registry, ShapePatterns, Signal};
use crate::session::{Effects, Input, Session};

/// What stands where a pattern leaves the choice, and in the dimensions of the probe.
pub const NAME: &str = "reflex-doctor";
/// What stands for an asterisk in a pattern.
const ANYTHING: &str = "ReflexDoctor";
/// Patterns of one list that are tried.
const PATTERNS_MAX: usize = 8;
/// Nodes of a graph that are tried where a signal names none.
const NODES_MAX: usize = 16;
/// Types that are tried where a rule names none.
const TYPES: [&str; 4] = ["node_failed", "tool_call_failed", "model_call_failed", "graph_failed"];

/// A failure that is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Code of the signal.
    pub signal: String,
    /// Name of the response.
    pub response: String,
    /// The graph.
    pub graph: String,
    fields: Map<String, Value>,
}

impl Probe {
    /// The failure, in this session.
    #[must_use]
    pub fn failure(&self, session_id: &str, at: Timestamp) -> Value {
        let mut event = self.fields.clone();
        for (name, value) in [("event_id", format!("{session_id}-1")), ("session_id", session_id.to_owned())] {
            event.insert(name.to_owned(), value.into());
        }
        event.insert("run_id".to_owned(), session_id.into());
        event.insert("occurred_at".to_owned(), at.to_string().into());
        event.into()
    }

    /// The end of the session, so that nothing of it is remembered.
    #[must_use]
    pub fn end(&self, session_id: &str, at: Timestamp) -> Value {
        json!({
            "event_id": format!("{session_id}-2"), "type": "session_ended", "session_id": session_id,
            "graph": self.graph, "tenant": self.fields.get("tenant"), "occurred_at": at,
        })
    }
}

/// The first signal in mode `act` whose session response can be reached by a single event; none: there is none.
/// `tenant`: the only one whose events are taken, where that is set.
#[must_use]
pub fn find(registry: &Arc<Registry>, tenant: Option<&str>) -> Option<Probe> {
    let acting = registry.signals.iter().filter(|signal| signal.mode == Mode::Act);
    acting.into_iter().find_map(|signal| {
        graphs(registry, signal).into_iter().find_map(|(name, graph)| {
            let nodes = nodes(signal, graph);
            errors(registry, signal).into_iter().find_map(|error| {
                nodes.iter().find_map(|node| {
                    artifacts(signal, graph, node.as_deref()).into_iter().find_map(|artifact| {
                        let version = graph.map(|graph| graph.version.as_str());
                        let fields = event(&name, version, node.as_deref(), &error, artifact, tenant);
                        let response = answer(registry, signal, &fields)?;
                        Some(Probe { signal: signal.code.clone(), response, graph: name.clone(), fields })
                    })
                })
            })
        })
    })
}

/// Graphs the signal speaks of: the active ones, or the one it names.
fn graphs<'a>(registry: &'a Registry, signal: &Signal) -> Vec<(String, Option<&'a Graph>)> {
    let speaks_of = |graph: &&Graph| signal.graph.as_ref().is_none_or(|glob| glob.matches(&graph.name));
    let active = registry.graphs.values().filter(|graph| graph.active).filter(speaks_of);
    let mut found: Vec<_> = active.map(|graph| (graph.name.clone(), Some(graph))).collect();
    match &signal.graph {
        Some(glob) => found.push((filled(glob.as_str()), None)),
        None => found.push((NAME.to_owned(), None)),
    }
    found
}

fn nodes(signal: &Signal, graph: Option<&Graph>) -> Vec<Option<String>> {
    let of_graph = graph.into_iter().flat_map(|graph| graph.nodes.keys());
    let Some(glob) = &signal.matches.node else {
        return of_graph.take(NODES_MAX).cloned().map(Some).chain([Some(NAME.to_owned()), None]).collect();
    };
    let matching = of_graph.filter(|name| glob.matches(name)).cloned();
    matching.take(NODES_MAX).chain([filled(glob.as_str())]).map(Some).collect()
}

/// What the event says of the artifact: nothing, or what the signal asks for.
fn artifacts(signal: &Signal, graph: Option<&Graph>, node: Option<&str>) -> Vec<Option<Value>> {
    let Some(present) = signal.matches.required_artifact_present else { return vec![None] };
    let name = graph.zip(node).and_then(|(graph, node)| graph.nodes.get(node)?.artifact.clone());
    vec![Some(json!({ "name": name, "present": present }))]
}

/// Facts of an error that a shape rule may look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Shaped {
    event_type: Option<String>,
    class: Option<String>,
    code: Option<String>,
}

/// Errors that may have the shape the signal asks for, each once, in the order of the rules.
fn errors(registry: &Registry, signal: &Signal) -> Vec<Shaped> {
    let wanted = signal.matches.failure_shape.as_ref();
    let mut found = Vec::new();
    let gives = |name: &str| {
        // `tool_error` takes a detail.
        wanted.is_none_or(|glob| glob.matches(name) || glob.as_str().starts_with(&format!("{name}:")))
    };
    for rule in registry.shapes.iter().filter(|rule| gives(&rule.name)) {
        let all = rule.all.as_ref().map_or_else(|| vec![Shaped::default()], every);
        let any = rule.any.as_ref().map_or_else(|| vec![Shaped::default()], one_each);
        for one in &any {
            found.extend(all.iter().map(|all| Shaped {
                event_type: one.event_type.clone().or_else(|| all.event_type.clone()),
                class: one.class.clone().or_else(|| all.class.clone()),
                code: one.code.clone().or_else(|| all.code.clone()),
            }));
        }
    }
    // Without a rule the shape is made of class and code.
    let plain = wanted.map_or(ANYTHING, |glob| glob.as_str().strip_prefix("app_error:").unwrap_or(ANYTHING));
    found.push(Shaped { class: Some(filled(plain)), ..Shaped::default() });
    let mut seen = BTreeSet::new();
    let typed = found.into_iter().flat_map(|error| match &error.event_type {
        Some(_) => vec![error],
        None => TYPES.map(|word| Shaped { event_type: Some(word.to_owned()), ..error.clone() }).to_vec(),
    });
    typed.filter(|error| seen.insert(error.clone())).collect()
}

/// One error for each pattern of any list.
fn one_each(patterns: &ShapePatterns) -> Vec<Shaped> {
    let texts = |globs: &[Glob]| globs.iter().take(PATTERNS_MAX).map(|glob| filled(glob.as_str())).collect::<Vec<_>>();
    let codes = texts(&patterns.code).into_iter().chain(patterns.http.iter().take(PATTERNS_MAX).map(status));
    let types = texts(&patterns.event_type).into_iter();
    let types = types.map(|word| Shaped { event_type: Some(word), ..Shaped::default() });
    let classes = texts(&patterns.class).into_iter().map(|class| Shaped { class: Some(class), ..Shaped::default() });
    types.chain(classes).chain(codes.map(|code| Shaped { code: Some(code), ..Shaped::default() })).collect()
}

/// Errors with one pattern of every list.
fn every(patterns: &ShapePatterns) -> Vec<Shaped> {
    let texts = |globs: &[Glob]| {
        let texts: Vec<_> = globs.iter().take(PATTERNS_MAX).map(|glob| Some(filled(glob.as_str()))).collect();
        if texts.is_empty() { vec![None] } else { texts }
    };
    let http: Vec<_> = patterns.http.iter().take(PATTERNS_MAX).map(|glob| Some(status(glob))).collect();
    let codes = if http.is_empty() { texts(&patterns.code) } else { http };
    let mut found = Vec::new();
    for event_type in texts(&patterns.event_type) {
        for class in texts(&patterns.class) {
            found.extend(codes.iter().map(|code| Shaped {
                event_type: event_type.clone(),
                class: class.clone(),
                code: code.clone(),
            }));
        }
    }
    found
}

/// `5xx` is met by 500.
fn status(glob: &Glob) -> String {
    glob.as_str().replace('x', "0")
}

fn filled(pattern: &str) -> String {
    if pattern == "*" { ANYTHING.to_owned() } else { pattern.replace('*', "").replace('?', "x") }
}

fn event(
    graph: &str,
    version: Option<&str>,
    node: Option<&str>,
    error: &Shaped,
    artifact: Option<Value>,
    tenant: Option<&str>,
) -> Map<String, Value> {
    let fields = [
        ("type", error.event_type.clone().map(Value::from)),
        ("graph", Some(graph.into())),
        ("graph_version", version.map(Value::from)),
        ("node", node.map(Value::from)),
        ("attempt", Some(1.into())),
        ("max_attempts", Some(1.into())),
        ("error", Some(json!({ "class": error.class, "code": error.code }))),
        ("artifact", artifact),
        // Of one tenant that nobody else is: probes alone never make a cohort.
        ("tenant", Some(tenant.unwrap_or(NAME).into())),
        ("app_version", Some(NAME.into())),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The response that the session stage answers the event with, where it is an override for this signal.
fn answer(registry: &Arc<Registry>, signal: &Signal, fields: &Map<String, Value>) -> Option<String> {
    let probe = Probe { signal: String::new(), response: String::new(), graph: String::new(), fields: fields.clone() };
    let at = Timestamp::EPOCH;
    let text = probe.failure(NAME, at).to_string();
    let event = event_from_bytes(text.as_bytes(), registry.limits.field_bytes_max as usize).ok()?;
    let mut session = Session::new("session/0", Arc::clone(registry));
    let mut effects = Effects::default();
    let position = Position { topic: topic::EVENTS, partition: 0, offset: 0 };
    session.step(at, Input::Event { position, event: &event, received_at: at }, &mut effects);
    let overridden = effects.outputs.iter().any(|output| matches!(&output.value, Some(Record::Override(_))));
    effects.outputs.iter().filter(|_| overridden).find_map(|output| match &output.value {
        Some(Record::Intervention(made)) if made.signal == signal.code => {
            made.response.as_ref().map(|response| response.action.clone())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{SourceFile, load};

    fn registry(text: &str) -> Arc<Registry> {
        let file = SourceFile { name: "a.toml".into(), text: text.into() };
        Arc::new(load(&[file]).unwrap_or_else(|problems| panic!("{problems:?}")).registry)
    }

    /// A registry with this signal and a response to it.
    fn with(signal: &str, more: &str) -> Arc<Registry> {
        registry(&format!(
            "[[signal]]\ncode = \"s\"\nowner = \"o\"\n{signal}\n[[response]]\nname = \"r\"\nsignal = \"s\"\n\
             scope = \"session\"\nschema_ref = \"d:1\"\nentry_point = \"a\"\n{more}"
        ))
    }

    #[test]
    fn signals_of_every_make_are_reached() {
        let shapes = r#"
            [[shape]]
            name = "bad_output"
            match = { type = ["model_output_validation_failed"], class = ["*ValidationError"] }
            [[shape]]
            name = "quota"
            match = { http = ["4xx"], code = ["insufficient_*"] }
            when = { type = ["model_call_failed"], class = ["openai.*", "azure.*"] }
            [[shape]]
            name = "tool_error"
            match = { type = ["tool_call_failed"] }
            [[graph]]
            name = "shop"
            version = "v1"
            edges = [["cart", "pay"], ["pay", "ship"]]
            nodes = [{ name = "pay", artifact = "receipt", required = true }]"#;
        for signal in [
            "match = { node = \"pay\" }\ngraph = \"shop\"",
            "match = { node = \"p*\", failure_shape = \"bad_output\" }\ngraph = \"sh*\"",
            "match = { failure_shape = \"quota\", retry_budget_exhausted = true }",
            "match = { failure_shape = \"tool_error:*\" }",
            "match = { failure_shape = \"app_error:KeyError\" }",
            "match = { failure_shape = \"*\", node = \"pay\", required_artifact_present = false }\ngraph = \"shop\"",
            "match = { required_artifact_present = true }\ngraph = \"shop\"",
            "graph = \"elsewhere\"",
            "",
        ] {
            let registry = with(signal, shapes);
            let probe = find(&registry, None).unwrap_or_else(|| panic!("not reached: {signal}"));
            assert_eq!((probe.signal.as_str(), probe.response.as_str()), ("s", "r"));
            let event = probe.failure("reflex-doctor-1", Timestamp::EPOCH);
            assert_eq!((&event["session_id"], &event["tenant"]), (&json!("reflex-doctor-1"), &json!(NAME)));
        }
        let own = find(&with("", shapes), Some("t-7")).expect("reached").failure("x", Timestamp::EPOCH);
        assert_eq!(own["tenant"], "t-7", "another tenant's events would be refused");
    }

    #[test]
    fn what_would_not_act_is_no_probe() {
        let irreversible = "[[graph]]\nname = \"g\"\nversion = \"1\"\nentry_points = [\"a\"]\nedges = [[\"a\", \"n\"]]\n\
                            nodes = [{ name = \"n\" }, { name = \"a\", irreversible = true }]\n";
        assert_eq!(find(&with("mode = \"observe\"", ""), None), None);
        assert_eq!(find(&with("mode = \"propose\"", ""), None), None);
        assert_eq!(find(&with("match = { retry_budget_exhausted = false }", ""), None), None);
        assert_eq!(find(&with("match = { failure_shape = \"tool_timeout\" }", ""), None), None, "no rule gives it");
        assert_eq!(find(&registry("[[signal]]\ncode = \"s\"\n"), None), None, "nothing answers it");
        let past = with("graph = \"g\"\nmatch = { node = \"n\" }", irreversible);
        assert!(find(&past, None).is_some(), "a run of one event is past nothing");
    }
}
