//! `reflex resolve GRAPH` and `--cases FILE`: what a runtime computes. Makers of clients hold their own resolution against
//! it: any case in, one line of the answer out.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::cli::decide::operator;
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::lines::{open, read_line};
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::cli::table::{Table, clean, few};
use crate::engine::clock;
use crate::engine::operator::orders::text;
use crate::engine::operator::scan::scan;
use crate::record::time::Timestamp;
use crate::resolve::precedence::Unusable;
use crate::resolve::{Applied, Context, OverrideTable, Resolution, explain};

/// Longest line of cases; over: exit 65.
const CASE_BYTES_MAX: u64 = 64 << 20;
/// Names of `--context`; attributes beside them.
const NAMES: [&str; 8] =
    ["session_id", "run_id", "phase", "current_schema_ref", "tenant", "region", "app_version", "graph_version"];
const ATTRIBUTE: &str = "attributes.";

/// Arguments of `reflex resolve`.
#[derive(Debug, clap::Args)]
#[allow(clippy::doc_markdown, reason = "these comments are shown to users as they are")]
pub struct Args {
    /// The graph as a runtime names it; overrides are those on the topic
    #[arg(required_unless_present = "cases", conflicts_with = "cases")]
    graph: Option<String>,
    /// Who asks: session_id, run_id, phase, current_schema_ref, tenant, region, app_version, graph_version,
    /// attributes.NAME
    #[arg(long, value_name = "NAME=VALUE", num_args = 1.., conflicts_with = "cases")]
    context: Vec<String>,
    /// The time to resolve at, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// Cases, one JSON object a line, and no broker: {"graph","context","now","overrides":[{"key","value"}]}; an
    /// override may stand there without its key; `-` is standard input
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
}

/// Resolves, and prints what a runtime would be told.
///
/// # Errors
/// Exit 64 for an unknown name in `--context`, 65 for a line that is no case, 66 for a missing file; 69 without broker or
/// topic.
pub fn run(args: &Args, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    if let Some(path) = &args.cases {
        return cases(path, args.now, out);
    }
    let context = context(&args.context)?;
    let graph = args.graph.as_deref().unwrap_or_default();
    if context.graph_version.is_none() {
        eprintln!("no graph_version in the context: the global schema is named without its version");
    }
    let table = standing(resolved)?;
    let found = explain(&table, graph, &context, args.now.unwrap_or_else(clock::local));
    show(&found, resolved.settings.output, out)?;
    Ok(Exit::Done)
}

/// The overrides on the topic, as a runtime holds them.
fn standing(resolved: &Resolved) -> Result<OverrideTable, Failure> {
    let config = operator(resolved)?;
    let mut table = OverrideTable::new();
    // By key, while its last record is such a one.
    let mut unused: BTreeMap<String, &'static str> = BTreeMap::new();
    scan(&config, &config.topics.overrides, &mut |record| {
        let key = String::from_utf8_lossy(&record.key.unwrap_or_default()).into_owned();
        let value = record.value.map(|bytes| text(&config, &bytes).map_or(bytes, String::into_bytes));
        let applied = table.apply_json(&key, value.as_deref());
        match why_unused(applied) {
            Some(why) => drop(unused.insert(key, why)),
            None => drop(unused.remove(&key)),
        }
    })?;
    if let Some(words) = told_unused(&unused) {
        eprintln!("{}: {words}", config.topics.overrides);
    }
    Ok(table)
}

/// Why no runtime uses a record.
fn why_unused(applied: Applied) -> Option<&'static str> {
    Some(match applied {
        Applied::Stored | Applied::Removed | Applied::Absent | Applied::Unchanged | Applied::Older => return None,
        Applied::Undecodable => "not an override",
        Applied::Conflict => "another one has its attempt and revision",
        Applied::Ignored(Unusable::Status) => "status is not active",
        Applied::Ignored(Unusable::Mode) => "unknown mode",
        Applied::Ignored(Unusable::Kind) => "unknown kind",
        Applied::Ignored(Unusable::Source) => "only an operator may force or deny",
        Applied::Ignored(Unusable::Schema) => "no schema",
        Applied::Ignored(Unusable::Copies) => "copies of one schema differ or are missing",
        Applied::Ignored(Unusable::Scope) => "unknown kind or dimension of scope",
    })
}

fn told_unused(unused: &BTreeMap<String, &'static str>) -> Option<String> {
    let named: Vec<String> = unused.iter().map(|(key, why)| format!("{why}: {key}")).collect();
    let records = if named.len() == 1 { "1 record" } else { &format!("{} records", named.len()) };
    (!named.is_empty())
        .then(|| format!("{records} that no runtime can use ({})", few(named.iter().map(String::as_str))))
}

fn context(pairs: &[String]) -> Result<Context, Failure> {
    let (mut fields, mut attributes) = (Map::new(), Map::new());
    for pair in pairs {
        let refuse = |what: &str| Failure::new(Exit::Usage, format_args!("--context {}: {what}", clean(pair)));
        let (name, value) = pair.split_once('=').ok_or_else(|| refuse("not NAME=VALUE"))?;
        if name == "phase" && !["start", "resume", "failed"].contains(&value) {
            return Err(refuse("a phase is start, resume or failed"));
        }
        let earlier = if NAMES.contains(&name) {
            fields.insert(name.to_owned(), value.into())
        } else if let Some(attribute) = name.strip_prefix(ATTRIBUTE).filter(|attribute| !attribute.is_empty()) {
            attributes.insert(attribute.to_owned(), value.into())
        } else {
            return Err(refuse(&format!("no such name; there are {}, {ATTRIBUTE}NAME", NAMES.join(", "))));
        };
        if earlier.is_some() {
            return Err(refuse("given twice"));
        }
    }
    fields.insert("attributes".to_owned(), attributes.into());
    serde_json::from_value(fields.into()).map_err(|error| Failure::new(Exit::Bug, error))
}

fn show(found: &Resolution<'_>, output: Output, out: &mut dyn Write) -> Result<(), Failure> {
    let bug = |error: serde_json::Error| Failure::new(Exit::Bug, error);
    let written = match output {
        Output::Ndjson => writeln!(out, "{}", serde_json::to_string(found).map_err(bug)?),
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(found).map_err(bug)?),
        Output::Table => {
            let mut table = Table::new(&["field", "value"]);
            let value = serde_json::to_value(found).map_err(bug)?;
            // In the order of the record, which a map does not keep.
            let names = ["schema_ref", "entry_point", "route", "shadow_schema_ref", "override_id", "override_attempt"];
            for name in names.into_iter().chain(["kind", "reason", "losers"]) {
                let cell = match &value[name] {
                    Value::Null => "-".to_owned(),
                    Value::String(text) => text.clone(),
                    Value::Array(ids) if ids.is_empty() => "-".to_owned(),
                    Value::Array(ids) => ids.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
                    other => other.to_string(),
                };
                table.row(&[name, &cell]);
            }
            table.write(out)
        }
    };
    written.map_err(unwritable)
}

// ------------------------------------------------------------------------------------------------------- cases

/// One case; other fields (a name, what is expected) are no error.
#[derive(Deserialize)]
struct Case<'a> {
    graph: String,
    #[serde(borrow)]
    context: &'a RawValue,
    now: Option<Timestamp>,
    #[serde(borrow, default)]
    overrides: Vec<&'a RawValue>,
}

/// A record with its key; null is a tombstone.
#[derive(Deserialize)]
struct Keyed<'a> {
    key: Option<String>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    override_id: Option<Value>,
}

fn cases(path: &Path, now: Option<Timestamp>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let (name, _, source) = open(path)?;
    let mut reader = BufReader::with_capacity(1 << 16, source);
    let mut line = Vec::new();
    for number in 1_u64.. {
        // Who asks one by one waits for each answer.
        if reader.buffer().is_empty() {
            out.flush().map_err(unwritable)?;
        }
        line.clear();
        let read = read_line(&mut reader, &mut line, CASE_BYTES_MAX)
            .map_err(|error| Failure::new(Exit::NoInput, format_args!("{name}: {error}")))?;
        if read == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = if line.len() as u64 > CASE_BYTES_MAX {
            Err(format!("longer than {CASE_BYTES_MAX} bytes"))
        } else {
            answer(&line, now)
        };
        let answer = answer.map_err(|what| Failure::new(Exit::BadInput, format_args!("{name}:{number}: {what}")))?;
        writeln!(out, "{answer}").map_err(unwritable)?;
    }
    Ok(Exit::Done)
}

/// The answer to one case as a line of JSON, or what is wrong with the line.
fn answer(line: &[u8], now: Option<Timestamp>) -> Result<String, String> {
    let line = std::str::from_utf8(line).map_err(|_| "not UTF-8")?;
    let case: Case<'_> = object(line.trim(), "")?;
    let context: Context = object(case.context.get(), "context")?;
    let mut table = OverrideTable::new();
    for (index, raw) in case.overrides.iter().enumerate() {
        let at = format!("overrides[{index}]");
        let keyed: Keyed<'_> = object(raw.get(), &at)?;
        let index = index.to_string();
        let (key, value) = match (&keyed.key, &keyed.override_id) {
            (Some(key), None) => (key, keyed.value),
            (None, Some(_)) => (&index, Some(*raw)),
            _ => return Err(format!("{at}: neither {{\"key\",\"value\"}} nor a record with an override_id")),
        };
        table.apply_json(key, value.map(|value| value.get().as_bytes()));
    }
    let now = case.now.or(now).unwrap_or_else(clock::local);
    serde_json::to_string(&explain(&table, &case.graph, &context, now)).map_err(|error| error.to_string())
}

/// Reads an object, and nothing that only could be one: what has names may not be written by position.
fn object<'a, T: Deserialize<'a>>(text: &'a str, name: &str) -> Result<T, String> {
    let at = |path: &str, what: &str| match (name, path) {
        ("", "." | "") => what.to_owned(),
        ("", path) => format!("{path}: {what}"),
        (name, "." | "") => format!("{name}: {what}"),
        (name, path) => format!("{name}.{path}: {what}"),
    };
    if !text.starts_with('{') {
        return Err(at("", "not an object"));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| at(&error.path().to_string(), &told(error.inner())))?;
    json.end().map_err(|error| at("", &told(&error)))?;
    Ok(value)
}

/// An error without its place, which is that in a part of a line.
fn told(error: &serde_json::Error) -> String {
    let text = error.to_string();
    clean(text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        answer(line.as_bytes(), None).expect_err("refused")
    }

    #[test]
    fn a_line_that_is_no_case_says_where_and_why() {
        assert!(refused("{").contains("EOF while parsing"), "{}", refused("{"));
        assert!(refused(r#"{"context":{}}"#).contains("missing field `graph`"));
        assert!(refused(r#"{"graph":"g"}"#).contains("missing field `context`"));
        assert!(refused(r#"{"graph":"g","context":{"tenant":5}}"#).starts_with("context.tenant: invalid type"));
        assert!(refused(r#"{"graph":"g","context":{},"now":"soon"}"#).starts_with("now: not an RFC 3339 time"));
        assert!(refused(r#"{"graph":"g","context":{}} {}"#).contains("trailing characters"));
        let bare = refused(r#"{"graph":"g","context":{},"overrides":[{"key":"k","value":null},{"value":{}}]}"#);
        assert!(bare.starts_with("overrides[1]: neither"), "{bare}");
        let no_object = refused(r#"{"graph":"g","context":{},"overrides":[5]}"#);
        assert_eq!(no_object, "overrides[0]: not an object");
        assert_eq!(refused(r#"["g",{}]"#), "not an object");
        assert_eq!(refused(r#"{"graph":"g","context":["s"]}"#), "context: not an object");
    }

    #[test]
    fn overrides_are_a_log_with_tombstones_and_a_record_nobody_can_read_changes_nothing() {
        let record = r#"{"override_id":"o","graph":"g","scope":{"kind":"session","session_id":"s"},"source":"auto","kind":"replace","schema_ref":"d:v1","status":"active","mode":"degraded","attempt":0,"revision":1,"intervention_id":"i","reason":"r","created_at":"2026-01-01T00:00:00Z","expires_at":"2026-01-02T00:00:00Z"}"#;
        let route = |rest: &str| {
            let line = format!(
                r#"{{"graph":"g","context":{{"session_id":"s"}},"now":"2026-01-01T01:00:00Z","overrides":[{{"key":"k","value":{record}}}{rest}]}}"#
            );
            let answer: Value = serde_json::from_str(&answer(line.as_bytes(), None).expect("a case")).expect("JSON");
            answer["route"].as_str().expect("a route").to_owned()
        };
        assert_eq!(route(""), "degraded");
        assert_eq!(route(r#",{"key":"k","value":null}"#), "primary");
        assert_eq!(route(r#",{"key":"k","value":{"no":"record"}}"#), "degraded");
        assert_eq!(route(r#",{"key":"other","value":null}"#), "degraded");
    }

    #[test]
    fn contexts_are_made_of_pairs() {
        let pairs = |pairs: &[&str]| context(&pairs.iter().map(|pair| (*pair).to_owned()).collect::<Vec<_>>());
        let context = pairs(&["tenant=t=7", "phase=failed", "attributes.model=m"]).expect("a context");
        assert_eq!((context.tenant.as_deref(), context.attributes["model"].as_str()), (Some("t=7"), "m"));
        assert_eq!(context.phase, crate::resolve::Phase::Failed);
        for (bad, why) in [
            (&["tenant"][..], "not NAME=VALUE"),
            (&["tenent=x"], "no such name; there are session_id"),
            (&["attributes.=x"], "no such name"),
            (&["phase=begin"], "a phase is"),
            (&["tenant=a", "tenant=b"], "given twice"),
        ] {
            let failure = pairs(bad).expect_err("refused");
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.message.contains(why), "{}", failure.message);
        }
    }

    #[test]
    fn what_no_runtime_can_use_is_named_the_first_few_and_counted() {
        assert_eq!(told_unused(&BTreeMap::new()), None);
        let unused = |keys: &[&str]| -> String {
            let why = why_unused(Applied::Ignored(Unusable::Schema)).expect("of no use");
            told_unused(&keys.iter().map(|key| ((*key).to_owned(), why)).collect()).expect("some")
        };
        assert_eq!(unused(&["k\u{1b}1"]), "1 record that no runtime can use (no schema: k1)");
        assert_eq!(
            unused(&["a", "b", "c", "d", "e"]),
            "5 records that no runtime can use (no schema: a, no schema: b, no schema: c and 2 more)"
        );
        assert!(unused(&[&"x".repeat(5_000)]).len() < 300);
        for fine in [Applied::Stored, Applied::Removed, Applied::Absent, Applied::Unchanged, Applied::Older] {
            assert_eq!(why_unused(fine), None);
        }
    }
}
