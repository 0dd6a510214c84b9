//! Every record that is published or read has its Avro schema in `schemas/`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::assert_none;
use crate::source;
use crate::tree::{self, File};

/// Modules of `src/record/` whose type is a record of a topic, with the name of its schema. `override` is a reserved
/// word of Rust, hence the plural of the module.
const RECORDS: [(&str, &str); 8] = [
    ("event", "event"),
    ("command", "command"),
    ("intervention", "intervention"),
    ("overrides", "override"),
    ("escalation", "escalation"),
    ("audit", "audit"),
    ("fleet", "fleet"),
    ("dead_letter", "dead_letter"),
];

/// Modules whose types are parts of records, or travel inside the program only, with what they are.
const PARTS: [(&str, &str); 12] = [
    ("object", "one JSON object as bytes: part of an event"),
    ("observation", "what the replay report counts; never on a topic"),
    ("open_enum", "words that may grow"),
    ("output", "a record on its way out"),
    ("position", "topic, partition, offset: part of evidence"),
    ("rows", "part of records for the fleet stage"),
    ("scope", "part of interventions and overrides"),
    ("signature", "part of interventions"),
    ("sketch", "part of rows for the fleet stage"),
    ("task", "entries of state travel on changelogs, for the engine alone"),
    ("text", "text of an event"),
    ("time", "a time"),
];

/// The module of a file under `src/record/`, where it serialises a public struct.
fn serialised(file: &File) -> Option<&str> {
    let rest = file.path.strip_prefix("src/record/").filter(|rest| !rest.starts_with("codec"))?;
    let module = rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs");
    let code = file.product_code();
    let tokens = source::tokens(&code);
    let public = tokens.windows(2).any(|pair| pair[0].text == "pub" && pair[1].text == "struct");
    (public && tokens.iter().any(|token| token.text == "Serialize")).then_some(module)
}

fn unlisted(files: &[File]) -> BTreeSet<&str> {
    let listed: Vec<&str> = RECORDS.iter().chain(&PARTS).map(|(module, _)| *module).collect();
    files.iter().filter_map(serialised).filter(|module| !listed.contains(module)).collect()
}

/// What is wrong with the schema of a record, given its text.
fn schema_problem(name: &str, text: &str) -> Option<String> {
    let Ok(schema) = serde_json::from_str::<Value>(text) else { return Some(String::from("is not JSON")) };
    let fields = schema["fields"].as_array().map_or(&[][..], Vec::as_slice);
    let undocumented = fields.iter().find(|field| !field["doc"].is_string()).map(|field| field["name"].to_string());
    match (schema["type"].as_str(), schema["name"].as_str()) {
        (Some("record"), Some(found)) if found.replace('_', "").eq_ignore_ascii_case(&name.replace('_', "")) => {
            undocumented.map(|field| format!("field {field} has no doc"))
        }
        (Some("record"), found) => Some(format!("is named {found:?}")),
        (kind, _) => Some(format!("is of type {kind:?}, not a record")),
    }
}

#[test]
fn records_have_schemas() {
    let files = tree::files();
    let mut found = Vec::new();
    for module in unlisted(&files) {
        found.push(format!("src/record/{module}.rs: neither a record with a schema nor a part of one: list it here"));
    }
    for (_, name) in RECORDS {
        let path = format!("schemas/{name}.avsc");
        match files.iter().find(|file| file.path == path) {
            None => found.push(format!("{path}: missing")),
            Some(file) => found.extend(schema_problem(name, &file.text).map(|problem| format!("{path}: {problem}"))),
        }
    }
    for file in files.iter().filter(|file| file.has_extension("avsc")) {
        let name = file.path.trim_start_matches("schemas/").trim_end_matches(".avsc");
        if !RECORDS.iter().any(|(_, record)| *record == name) {
            found.push(format!("{}: the schema of no record", file.path));
        }
    }
    assert_none("Every record of a topic has schemas/NAME.avsc with the same name.", &found);
}

#[test]
fn planted_records_are_found() {
    let record = "#[derive(Serialize)]\npub struct Breaker { pub state: u8 }";
    assert_eq!(unlisted(&[File::planted("src/record/breaker.rs", record)]).len(), 1);
    assert_eq!(unlisted(&[File::planted("src/record/audit.rs", record)]).len(), 0);
    let schema = r#"{"type":"record","name":"DeadLetter","fields":[{"name":"a","doc":"b","type":"string"}]}"#;
    assert_eq!(schema_problem("dead_letter", schema), None);
    assert!(schema_problem("audit", schema).is_some());
    assert!(schema_problem("dead_letter", &schema.replace("doc", "comment")).is_some());
    assert!(schema_problem("dead_letter", &schema.replace(":\"record", ":\"enum")).is_some());
    assert!(schema_problem("dead_letter", "{").is_some());
}
