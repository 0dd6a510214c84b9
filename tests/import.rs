//! Graph manifests into a registry: what is refused, what is taken, what stays, and that the result loads.
#![cfg(feature = "shell")]
#![allow(clippy::expect_used, reason = "a broken expectation is a failed test")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests read files and run programs")]

use std::fs;
use std::path::Path;
use std::process::Command;

use reflex::registry::import::{Note, complete, merge};
use reflex::registry::manifest::{self, EDGES_MAX, GRAPHS_MAX, MANIFEST_BYTES_MAX, NAME_BYTES_MAX, NODES_MAX};
use reflex::registry::{Loaded, Problem, Registry, SourceFile, load, write};
use serde_json::{Value, json};

fn file(name: &str, text: &str) -> SourceFile {
    SourceFile { name: name.to_owned(), text: text.to_owned() }
}

fn loaded(text: &str) -> Loaded {
    load(&[file("known.toml", text)]).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn places(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

fn refused(text: &str) -> Vec<String> {
    places(&manifest::read(&[file("m.json", text)]).expect_err("refused"))
}

/// The registry that a manifest makes, read from the file as written, and the notes.
fn imported(manifest: &Value, known: Option<&Loaded>) -> (Registry, String, Vec<Note>) {
    let files = [file("m.json", &manifest.to_string())];
    let graphs = manifest::read(&files).unwrap_or_else(|problems| panic!("{problems:?}"));
    let (merged, notes) = merge(graphs, &files, known).unwrap_or_else(|problems| panic!("{problems:?}"));
    let text = write::graphs(merged.values());
    (loaded(&text).registry, text, notes)
}

const PLAIN: &str = r#"
{"graphs": [
  {"name": "shop", "version": "v1", "entry_points": ["cart"], "channels": ["order"],
   "nodes": [{"name": "cart"}, {"name": "pay", "mutating": true}],
   "edges": [["cart", "pay"]]}
]}"#;

#[test]
fn a_manifest_becomes_the_tables_of_its_graphs() {
    let manifest = json!({ "graphs": [{
        "name": "shop", "version": "v1", "entry_points": ["cart"], "channels": ["order", "receipt"],
        "nodes": [
            { "name": "cart" },
            { "name": "pay \"later\"", "artifact": "receipt", "required": true, "mutating": true, "irreversible": true,
              "criticality": "blocking", "fallback": "skip", "idempotency_key": "pay\n{id}", "compensation": "refund",
              "depends_on": ["cart"] },
            { "name": "look", "mutating": false },
        ],
        "edges": [["cart", "pay \"later\""], ["cart", "look"]],
    }] });
    let (registry, text, notes) = imported(&manifest, None);
    assert_eq!(notes, []);
    let graph = &registry.graphs["shop:v1"];
    assert!(graph.active);
    assert_eq!((graph.entry_points.len(), graph.edges.len(), graph.channels.len(), graph.nodes.len()), (1, 2, 2, 3));
    let pay = &graph.nodes["pay \"later\""];
    assert_eq!(
        serde_json::to_value(pay).expect("JSON"),
        json!({
            "artifact": "receipt", "required": true, "mutating": true, "irreversible": true, "criticality": "blocking",
            "fallback": "skip", "idempotency_key": "pay\n{id}", "compensation": "refund", "depends_on": ["cart"],
        })
    );
    assert!(text.contains(r#"{ name = "look", mutating = false }"#), "what is denied stays said: {text}");
    assert!(text.contains(r#"{ name = "cart" }"#), "{text}");
}

#[test]
fn what_a_manifest_does_not_say_stays_and_what_it_says_is_taken() {
    let known = loaded(
        r#"
        [[graph]]
        name = "shop"
        version = "v1"
        expected_runs_per_hour = 70
        entry_points = ["cart", "log"]
        edges = [["cart", "judge"], ["judge", "pay"], ["pay", "mail"]]
        channels = ["order", "old"]
        nodes = [
          { name = "judge", artifact = "verdict", required = true },
          { name = "pay", mutating = true, irreversible = true, criticality = "blocking", compensation = "refund" },
          { name = "mail", mutating = false, criticality = "optional", fallback = "skip" },
        ]"#,
    );
    let manifest = json!({ "graphs": [{
        "name": "shop", "version": "v1", "entry_points": ["cart"], "channels": ["order", "new"],
        "nodes": [{ "name": "cart" }, { "name": "assess" }, { "name": "pay", "irreversible": false, "criticality": "degraded_ok" },
                  { "name": "mail", "mutating": true }],
        "edges": [["cart", "assess"], ["assess", "pay"]],
    }] });
    let (registry, text, notes) = imported(&manifest, Some(&known));
    let graph = &registry.graphs["shop:v1"];
    assert_eq!(graph.entry_points, ["cart"]);
    assert_eq!(graph.channels, ["new", "order"]);
    assert_eq!(graph.edges.len(), 2);
    assert!(text.contains("expected_runs_per_hour = 70"), "{text}");
    let pay = &graph.nodes["pay"];
    assert!(pay.mutating && pay.irreversible, "neither is taken back by a runtime");
    assert_eq!((pay.criticality.as_deref(), pay.compensation.as_deref()), (Some("degraded_ok"), Some("refund")));
    let mail = &graph.nodes["mail"];
    assert!(mail.mutating, "the manifest knows better than a person's no");
    assert_eq!(mail.fallback.as_deref(), Some("skip"));
    assert_eq!(graph.nodes.keys().collect::<Vec<_>>(), ["assess", "cart", "mail", "pay"]);
    let words: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "shop:v1: `judge` is gone, which was artifact, required: has it another name?",
            "shop:v1: `pay` stays irreversible, though the manifest says it is not",
        ]
    );
}

#[test]
fn a_list_that_is_left_out_stays_and_an_empty_one_does_not() {
    let known = loaded(
        "[[graph]]\nname = \"g\"\nversion = \"1\"\nentry_points = [\"a\"]\nedges = [[\"a\", \"b\"]]\nchannels = [\"c\"]\n",
    );
    let (registry, ..) = imported(&json!({ "graphs": [{ "name": "g", "version": "1" }] }), Some(&known));
    assert_eq!(registry.graphs["g:1"], known.registry.graphs["g:1"]);
    let empty = json!({ "graphs": [{ "name": "g", "version": "1", "channels": [], "edges": [], "entry_points": [] }] });
    let (registry, ..) = imported(&empty, Some(&known));
    let graph = &registry.graphs["g:1"];
    assert!(graph.channels.is_empty() && graph.edges.is_empty() && graph.entry_points.is_empty());
}

#[test]
fn the_active_version_changes_only_where_a_manifest_says_so() {
    let known =
        loaded("[[graph]]\nname = \"g\"\nversion = \"1\"\n[[graph]]\nname = \"g\"\nversion = \"0\"\nactive = false\n");
    let graph = |version: &str, active: Option<bool>| match active {
        Some(active) => json!({ "name": "g", "version": version, "active": active }),
        None => json!({ "name": "g", "version": version }),
    };
    let active = |graphs: &[Value]| {
        let files = [file("m.json", &json!({ "graphs": graphs }).to_string())];
        let read = manifest::read(&files).expect("in order");
        let (mut merged, mut notes) = merge(read, &files, Some(&known)).expect("one is active");
        complete(&mut merged, &known, &["g:0".into(), "g:1".into()], &mut notes);
        let all: Vec<_> = merged.into_iter().filter(|(_, it)| it.graph.active).map(|(name, _)| name).collect();
        (all, notes.len())
    };
    assert_eq!(active(&[graph("2", None)]), (vec!["g:1".into()], 1));
    assert_eq!(active(&[graph("2", Some(true))]), (vec!["g:2".into()], 1));
    assert_eq!(active(&[graph("2", None), graph("1", Some(false))]), (vec!["g:2".into()], 0));
    assert_eq!(active(&[graph("2", None), graph("1", None)]), (vec!["g:1".into()], 1));
    assert_eq!(active(&[graph("1", Some(false))]), (vec![], 0));
    for both in [
        json!({ "graphs": [{ "name": "h", "version": "1" }, { "name": "h", "version": "2" }] }),
        json!({ "graphs": [{ "name": "h", "version": "1", "active": true }, { "name": "h", "version": "2", "active": true }] }),
    ] {
        let files = [file("m.json", &both.to_string())];
        let read = manifest::read(&files).expect("in order, each by itself");
        let problems = places(&merge(read, &files, Some(&known)).expect_err("which?"));
        assert!(problems.len() == 1 && problems[0].contains("error[two_active_versions] graphs[1]."), "{problems:?}");
    }
}

#[test]
fn bad_manifests_are_refused_by_line_and_column() {
    assert!(manifest::read(&[file("m.json", PLAIN)]).is_ok());
    let mut wrong = Vec::new();
    let change = |from: &str, to: &str| {
        assert!(PLAIN.contains(from), "{from}");
        refused(&PLAIN.replacen(from, to, 1))
    };
    for (from, to, wanted) in [
        (
            r#""mutating": true"#,
            r#""mutatin": true"#,
            "m.json:4:59: error[unknown_field] graphs[0].nodes[1].mutatin: unknown field `mutatin`",
        ),
        (
            r#""mutating": true"#,
            r#""mutating": "yes""#,
            "m.json:4:60: error[invalid_type] graphs[0].nodes[1].mutating: invalid type: string \"yes\", expected a boolean",
        ),
        (r#""version": "v1", "#, "", "m.json:3:3: error[missing_field] graphs[0]: missing field `version`"),
        (r#""v1""#, r#""v:1""#, "m.json:3:31: error[bad_schema_ref] graphs[0].version"),
        (
            r#"["cart", "pay"]"#,
            r#"["cart", "pya"]"#,
            "m.json:5:23: error[unknown_node] graphs[0].edges[0][1]: `pya` is not one of `nodes`",
        ),
        (r#"["cart", "pay"]"#, r#"["cart"]"#, "m.json:5:14: error[bad_edge] graphs[0].edges[0]: an edge is [FROM, TO]"),
        (
            r#"["cart"], "ch"#,
            r#"["crat"], "ch"#,
            "m.json:3:54: error[unknown_node] graphs[0].entry_points[0]: `crat` is not",
        ),
        (r#"{"name": "cart"}"#, r#"{"name": ""}"#, "m.json:4:23: error[empty_name] graphs[0].nodes[0].name: empty"),
        (
            r#"{"name": "cart"}"#,
            r#"{"name": "pay"}"#,
            "error[duplicate] graphs[0].nodes[1].name: node `pay` is already written at m.json:4:23",
        ),
        (
            r#""name": "pay""#,
            r#""name": "pay\u0007""#,
            "error[bad_name] graphs[0].nodes[1].name: holds control characters",
        ),
        (
            r#""mutating": true"#,
            r#""criticality": "high""#,
            "error[unknown_word] graphs[0].nodes[1].criticality: unknown word `high`",
        ),
        (r#""edges": [["#, r#""edges": [[["#, "m.json:5:31: error[syntax] expected `,` or `]`"),
        ("\"graphs\"", "\"graph\"", "m.json:2:8: error[unknown_field] unknown field `graph`, expected `graphs`"),
    ] {
        let found = change(from, to);
        if !found.iter().any(|problem| problem.contains(wanted)) {
            wrong.push(format!("{wanted}\nnot in\n{}", found.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_broken_graph_is_named_whatever_the_manifest_looks_like() {
    assert!(refused("")[0].starts_with("m.json:1:1: error[syntax] EOF"), "{:?}", refused(""));
    assert!(
        refused("[]")[0].starts_with("m.json:1:1: error[invalid_type] a manifest is an object"),
        "{:?}",
        refused("[]")
    );
    for (positions, wanted) in [
        (r#"{"graphs":[["g","1"]]}"#, "m.json:1:12: error[invalid_type] graphs[0]: not an object"),
        (
            r#"{"graphs":[{"name":"g","version":"1","nodes":[["a"]]}]}"#,
            "m.json:1:47: error[invalid_type] graphs[0].nodes[0]: not",
        ),
    ] {
        assert!(refused(positions)[0].starts_with(wanted), "{:?}", refused(positions));
    }
    let twice = format!("{{\"graphs\":[{0},{0}]}}", r#"{"name":"g","version":"1"}"#);
    assert!(refused(&twice)[0].contains("graph `g:1` is already written at m.json:1:34"), "{:?}", refused(&twice));
    // One broken graph hides no other, and one line of 10 000 characters is not shown whole.
    let broken = r#"{"name":"g","version":1}"#;
    let long = format!("{{\"graphs\":[{}]}}", vec![broken; 400].join(","));
    let problems = manifest::read(&[file("m.json", &long)]).expect_err("broken");
    assert_eq!(problems.len(), 400);
    assert!(problems.iter().all(|problem| problem.snippet.chars().count() < 250));
}

type Items<'a> = &'a dyn Fn(usize) -> Value;

#[test]
fn limits_are_named_and_hold() {
    let graph = |field: &str, items: Value| json!({ "graphs": [{ "name": "g", "version": "1", field: items }] });
    let names = |count: usize| (0..count).map(|index| format!("n{index}")).collect::<Vec<_>>();
    let nodes = |count: usize| names(count).into_iter().map(|name| json!({ "name": name })).collect::<Value>();
    let edges = |count: usize| (0..count).map(|_| json!(["a", "b"])).collect::<Value>();
    let read = |manifest: &Value| manifest::read(&[file("m.json", &manifest.to_string())]).map(|graphs| graphs.len());
    let codes = |manifest: &Value| {
        let problems = read(manifest).expect_err("over the limit");
        problems.iter().map(|problem| problem.code).collect::<Vec<_>>()
    };
    let pairs: [(&str, Items<'_>, usize); 4] = [
        ("nodes", &nodes, NODES_MAX),
        ("channels", &|count| names(count).into(), NODES_MAX),
        ("entry_points", &|count| names(count).into(), NODES_MAX),
        ("edges", &edges, EDGES_MAX),
    ];
    for (field, items, most) in pairs {
        assert_eq!(read(&graph(field, items(most))).map_err(|it| places(&it)), Ok(1), "{field}");
        assert_eq!(codes(&graph(field, items(most + 1))), ["too_many"], "{field}");
    }
    let graphs = |count: usize| json!({ "graphs": names(count).iter().map(|name| json!({ "name": name, "version": "1" })).collect::<Vec<_>>() });
    assert_eq!(read(&graphs(GRAPHS_MAX)).map_err(|it| places(&it)), Ok(GRAPHS_MAX));
    assert_eq!(codes(&graphs(GRAPHS_MAX + 1)), ["too_many"]);
    let name = |length: usize| json!({ "graphs": [{ "name": "g".repeat(length), "version": "1" }] });
    assert_eq!(read(&name(NAME_BYTES_MAX)).map_err(|it| places(&it)), Ok(1));
    assert_eq!(codes(&name(NAME_BYTES_MAX + 1)), ["bad_name"]);
    let large = format!("{}{}", json!({ "graphs": [] }), " ".repeat(MANIFEST_BYTES_MAX));
    assert!(refused(&large)[0].contains("error[too_large]"));
}

// ------------------------------------------------------------------------------------------------- the program

struct Ended {
    code: Option<i32>,
    out: String,
    errors: String,
}

fn reflex(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
    command.args(arguments).env_clear().current_dir(folder);
    let ended = command.output().expect("a program");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ended { code: ended.status.code(), out: text(ended.stdout), errors: text(ended.stderr) }
}

#[test]
fn the_program_writes_a_file_that_the_folder_loads_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("registry")).expect("made");
    fs::write(at("m.json"), PLAIN).expect("written");
    fs::write(
        at("registry/shop.toml"),
        "[[signal]]\ncode = \"s\"\nowner = \"team\"\ngraph = \"shop\"\nmatch = { node = \"pay\" }\nmode = \"observe\"\n",
    )
    .expect("written");
    let import = ["--registry", "registry", "registry", "import", "m.json"];

    let shown = reflex(folder.path(), &import);
    assert_eq!(shown.code, Some(0), "{}", shown.errors);
    assert!(shown.out.contains("[[graph]]\nname = \"shop\""), "{}", shown.out);
    assert_eq!(shown.errors, "+ graph shop:v1\n");

    let out = [&import[..], &["--out", "registry/graphs.toml"]].concat();
    let first = reflex(folder.path(), &out);
    assert_eq!(first.code, Some(0), "{}", first.errors);
    assert_eq!(first.out, "1 graphs imported into registry/graphs.toml: shop:v1\n");
    let text = fs::read_to_string(at("registry/graphs.toml")).expect("written");
    assert_eq!(shown.out, text);
    let valid = reflex(folder.path(), &["--registry", "registry", "validate", "--deny-warnings"]);
    assert_eq!(valid.code, Some(0), "{}{}", valid.out, valid.errors);

    // What a person adds to the file stays, and what is not imported again stays too.
    fs::write(
        at("registry/graphs.toml"),
        text.replace("mutating = true", "mutating = true, criticality = \"blocking\""),
    )
    .expect("written");
    fs::write(at("other.json"), r#"{"graphs":[{"name":"other","version":"1"}]}"#).expect("written");
    for manifest in ["m.json", "other.json", "m.json"] {
        let again = reflex(
            folder.path(),
            &["--registry", "registry", "registry", "import", manifest, "--out", "registry/graphs.toml"],
        );
        assert_eq!(again.code, Some(0), "{}", again.errors);
    }
    let text = fs::read_to_string(at("registry/graphs.toml")).expect("written");
    assert!(text.contains("criticality = \"blocking\"") && text.contains("name = \"other\""), "{text}");
    let left: Vec<_> = fs::read_dir(at("registry")).expect("there").map(|it| it.expect("one").file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn the_program_says_what_stands_in_the_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("registry")).expect("made");
    fs::write(at("m.json"), PLAIN).expect("written");
    fs::write(at("bad.json"), "{\"graphs\":[{\"name\":\"g\"}]}").expect("written");
    let hand =
        "[[graph]]\nname = \"shop\"\nversion = \"v1\"\nnodes = [{ name = \"pay\", compensation = \"refund\" }]\n";
    fs::write(at("registry/hand.toml"), hand).expect("written");
    let import =
        |more: &[&str]| reflex(folder.path(), &[&["--registry", "registry", "registry", "import"], more].concat());

    let bad = import(&["m.json", "bad.json"]);
    assert_eq!(bad.code, Some(65));
    assert!(bad.errors.contains("missing field `version`") && bad.errors.contains("bad.json:1:12"), "{}", bad.errors);
    assert_eq!(import(&["none.json"]).code, Some(66));
    let hands_off = import(&["m.json", "--out", "registry/hand.toml"]);
    assert_eq!(hands_off.code, Some(64), "{}", hands_off.errors);
    assert_eq!(fs::read_to_string(at("registry/hand.toml")).expect("there"), hand);

    // The graph stands in a person's file and is another one: nothing is written, and what differs is told.
    let both = import(&["m.json", "--out", "registry/graphs.toml"]);
    assert_eq!((both.code, both.out.as_str()), (Some(65), ""), "{}", both.errors);
    for words in [
        "shop:v1 stands in registry/hand.toml already, and the manifest says otherwise:",
        "entry_points: [] -> [\"cart\"]",
        "nothing was written",
        "without --out",
    ] {
        assert!(both.errors.contains(words), "{words}: {}", both.errors);
    }
    assert!(!both.errors.contains("compensation"), "what the manifest does not say stays: {}", both.errors);
    assert!(!at("registry/graphs.toml").exists());
    // What this prints is put there: now they agree, again and again.
    let printed = import(&["m.json"]);
    assert!(printed.out.contains("compensation = \"refund\""), "{}", printed.out);
    fs::write(at("registry/hand.toml"), printed.out.split_once("[[graph]]").expect("a table").1)
        .and_then(|()| fs::read_to_string(at("registry/hand.toml")))
        .and_then(|text| fs::write(at("registry/hand.toml"), format!("[[graph]]{text}")))
        .expect("written");
    for _ in 0..2 {
        let same = import(&["m.json", "--out", "registry/graphs.toml"]);
        assert_eq!((same.code, same.out.as_str()), (Some(0), "unchanged: shop:v1 (registry/hand.toml)\n"));
        assert!(!at("registry/graphs.toml").exists());
    }
    // Another one beside it is imported, and the one there is left alone.
    fs::write(at("other.json"), r#"{"graphs":[{"name":"other","version":"1"}]}"#).expect("written");
    let some = import(&["m.json", "other.json", "--out", "registry/graphs.toml"]);
    let words = "1 graphs imported into registry/graphs.toml: other:1\nunchanged: shop:v1 (registry/hand.toml)\n";
    assert_eq!((some.code, some.out.as_str()), (Some(0), words), "{}", some.errors);
    assert!(!fs::read_to_string(at("registry/graphs.toml")).expect("written").contains("shop"));
    fs::write(at("registry/twice.toml"), hand).expect("written");
    let twice = import(&["m.json"]);
    assert_eq!(twice.code, Some(78), "the folder is not in order");
    assert!(twice.errors.contains("must be taken out of one of the two files"), "{}", twice.errors);
    fs::remove_file(at("registry/twice.toml")).expect("taken out");
    fs::remove_file(at("registry/hand.toml")).expect("taken out");
    assert_eq!(import(&["m.json", "--out", "registry/graphs.toml"]).code, Some(0));
    let json = import(&["m.json", "--out", "registry/graphs.toml", "-o", "json"]);
    assert_eq!(json.code, Some(0), "{}", json.errors);
    let report: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!((&report["graphs"], &report["changes"]), (&json!([]), &json!([])));
    assert_eq!(report["unchanged"], json!([{ "graph": "shop:v1", "file": "registry/graphs.toml" }]));
}
