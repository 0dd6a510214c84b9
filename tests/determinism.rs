//! Replay: the same input gives the same bytes, however it is cut into files; its report, its complaints, its backtest.
#![cfg(feature = "shell")]
#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "a test writes the files it replays")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reflex::cli::exit::{Exit, Failure};
use reflex::cli::replay::{Args, Shape, run};
use reflex::registry::{Registry, SourceFile, load};
use serde_json::Value;
use tempfile::TempDir;

/// Numbers that look random and are the same everywhere (splitmix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.next() % of.len() as u64).expect("an index")]
    }
}

const TYPES: [&str; 12] = [
    "node_failed",
    "node_failed",
    "node_failed",
    "tool_call_failed",
    "retries_exhausted",
    "graph_started",
    "graph_failed",
    "graph_completed",
    "node_started",
    "node_completed",
    "progress",
    "session_ended",
];

/// A recorded fleet: about a third of the lines without a time, some out of order, one malformed in a hundred.
fn recording(lines: usize) -> Vec<String> {
    let mut draw = Draw(7);
    let mut second = 0;
    (0..lines)
        .map(|number| {
            second += draw.next() % 40;
            let back = if draw.next().is_multiple_of(9) { draw.next() % 600 } else { 0 };
            let at = 1_000_000 + second - second.min(back);
            let time = match draw.next() % 3 {
                0 => String::new(),
                _ => format!(r#""occurred_at":"{}","#, reflex::record::time::Timestamp::from_millis(at.cast_signed() * 1_000)),
            };
            let session = draw.next() % 60;
            let kind = draw.one_of(&TYPES);
            let node = draw.one_of(&["score", "rank", "watch", "ask", "bare", "charge", "confirm"]);
            let class = draw.one_of(&["a.ValidationError", "E", "GraphRecursionError"]);
            let attempt = draw.next() % 3 + 1;
            if number % 100 == 99 {
                return format!(r#"{{"event_id":"e-{number}","type":"{kind}","session_id":"s-{session}"}}"#);
            }
            format!(
                r#"{{"event_id":"e-{number}",{time}"type":"{kind}","session_id":"s-{session}","graph":"order_graph","graph_version":"v1","node":"{node}","attempt":{attempt},"max_attempts":3,"error":{{"class":"{class}"}},"tenant":"t-{}"}}"#,
                session % 5
            )
        })
        .collect()
}

fn registry(change: impl Fn(String) -> String) -> Arc<Registry> {
    let text = change(include_str!("scenarios/registry/plain.toml").to_owned());
    let files = [SourceFile { name: String::from("plain.toml"), text }];
    let loaded = load::load(&files).expect("a valid registry");
    let off = BTreeMap::from([(String::from("limits.lateness_ms_max"), String::from("0"))]);
    Arc::new(loaded.registry.with_settings(&off).expect("a limit"))
}

fn plain() -> Arc<Registry> {
    registry(|text| text)
}

/// Files of a folder that is removed with the value.
struct Files {
    folder: TempDir,
    paths: Vec<PathBuf>,
}

impl Files {
    fn new(contents: &[String]) -> Self {
        let folder = TempDir::new().expect("a folder");
        let mut files = Self { folder, paths: Vec::new() };
        for (number, text) in contents.iter().enumerate() {
            // Names that sort the other way round: the order of the arguments decides.
            let path = files.folder.path().join(format!("{}.ndjson", contents.len() - number));
            std::fs::write(&path, text).expect("a file");
            files.paths.push(path);
        }
        files
    }

    fn pieces(lines: &[String], pieces: usize) -> Self {
        let size = lines.len().div_ceil(pieces);
        Self::new(&lines.chunks(size).map(|chunk| chunk.join("\n") + "\n").collect::<Vec<_>>())
    }

    fn replay(&self, registry: &Arc<Registry>, shape: Shape) -> String {
        let (outcome, written) = replay(&self.paths, registry, None, shape, false);
        assert_eq!(outcome.expect("a replay"), Exit::Done);
        written
    }
}

fn replay(
    files: &[PathBuf],
    registry: &Arc<Registry>,
    second: Option<&Arc<Registry>>,
    shape: Shape,
    strict: bool,
) -> (Result<Exit, Failure>, String) {
    let args = Args { files: files.to_vec(), diff: second.map(|_| PathBuf::from("second")), strict };
    let mut written = Vec::new();
    let outcome = run(&args, registry, second, shape, &mut written);
    (outcome, String::from_utf8(written).expect("text"))
}

/// A failing event of one session, as a line.
fn failed(session: &str, number: usize, fields: &str) -> String {
    format!(
        r#"{{"event_id":"{session}-{number}","type":"node_failed","session_id":"{session}","graph":"order_graph","graph_version":"v1","node":"rank"{fields}}}"#
    ) + "\n"
}

fn values(ndjson: &str) -> Vec<Value> {
    ndjson.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn the_same_recording_gives_the_same_bytes() {
    let files = Files::pieces(&recording(2_000), 1);
    for shape in [Shape::Ndjson, Shape::Json, Shape::Table] {
        let once = files.replay(&plain(), shape);
        assert_eq!(once, files.replay(&plain(), shape));
        assert!(once.lines().count() > 20, "something happened");
    }
}

#[test]
fn a_recording_cut_into_pieces_gives_the_same_bytes() {
    let lines = recording(2_000);
    let whole = Files::pieces(&lines, 1).replay(&plain(), Shape::Ndjson);
    for pieces in [2, 3, 7, 50] {
        let cut = Files::pieces(&lines, pieces).replay(&plain(), Shape::Ndjson);
        assert!(whole == cut, "cut into {pieces}");
    }
    let blank = lines.join("\n\n \t\r\n");
    assert!(whole == Files::new(&[blank]).replay(&plain(), Shape::Ndjson), "blank lines are skipped");
    let crossing = [lines[..7].join("\n"), String::new(), lines[7..].join("\r\n")];
    assert!(whole == Files::new(&crossing).replay(&plain(), Shape::Ndjson), "no newline at the end of a file");
}

#[test]
fn published_lines_have_four_fields_and_never_go_back() {
    let mut last = String::new();
    for line in values(&Files::pieces(&recording(2_000), 1).replay(&plain(), Shape::Ndjson)) {
        let keys: Vec<&str> = line.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys.iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from(["at", "key", "topic", "value"]));
        let at = line["at"].as_str().expect("a time").to_owned();
        assert!(last <= at, "{last} before {at}");
        last = at;
    }
}

#[test]
fn the_report_has_exactly_the_fields_of_the_contract() {
    let text = Files::pieces(&recording(500), 2).replay(&plain(), Shape::Json);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let sorted = |names: &str| {
        let mut names: Vec<String> = names.split(' ').map(str::to_owned).collect();
        names.sort();
        names
    };
    let report_keys = "events malformed sessions sessions_failing types signatures failures cohorts interventions overrides breakers stages";
    assert_eq!(keys(&report), sorted(report_keys));
    let signature = "graph node failure_shape retry_budget_exhausted required_artifact_present fingerprint sessions occurrences first_at last_at signal";
    assert_eq!(keys(&report["signatures"][0]), sorted(signature));
    assert_eq!(keys(&report["failures"][0]), sorted("graph node failure_shape sessions occurrences"));
    assert_eq!(keys(&report["malformed"][0]), sorted("file line code message"));
    assert_eq!((report["events"].as_u64(), report["malformed"].as_array().map(Vec::len)), (Some(495), Some(5)));
    assert_eq!(report["sessions"], 60);
    let order: Vec<_> = report["signatures"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let most_first = |name: &str| std::cmp::Reverse(row[name].as_u64());
            (most_first("sessions"), most_first("occurrences"), text("graph"), text("node"), text("failure_shape"))
        })
        .collect();
    assert!(order.is_sorted(), "most sessions first, then occurrences, graph, node, shape");
}

#[test]
fn malformed_lines_are_named_by_file_and_line() {
    let first = format!("{}\n{{\n[]\n", failed("s", 1, "").trim_end());
    let second = [
        r#"{"event_id":"e","type":"node_failed","session_id":"s"}"#,
        "",
        r#"{"event_id":"e","type":"node_failed","session_id":"s","graph":7}"#,
        r#"{"event_id":"e","type":"node_failed","session_id":"s","graph":"g","occurred_at":"noon"}"#,
        r#"{"event_id":"e","type":"node_failed","session_id":"s","graph":"g","appended_at":"noon"}"#,
    ];
    let files = Files::new(&[first, second.join("\n")]);
    let report: Value = serde_json::from_str(&files.replay(&plain(), Shape::Json)).expect("JSON");
    let named: Vec<(String, u64, String)> = report["malformed"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|bad| {
            let file = Path::new(bad["file"].as_str().expect("a file")).file_name().expect("a name");
            (
                file.to_string_lossy().into_owned(),
                bad["line"].as_u64().expect("a line"),
                bad["code"].as_str().expect("a code").to_owned(),
            )
        })
        .collect();
    let expected = [
        ("2.ndjson", 2, "not_json"),
        ("2.ndjson", 3, "not_object"),
        ("1.ndjson", 1, "missing_field"),
        ("1.ndjson", 3, "bad_field"),
        ("1.ndjson", 4, "bad_time"),
        ("1.ndjson", 5, "bad_time"),
    ];
    assert_eq!(named, expected.map(|(file, line, code)| (file.to_owned(), line, code.to_owned())));
    assert_eq!(report["events"], 1);
    let (outcome, written) = replay(&files.paths, &plain(), None, Shape::Json, true);
    assert_eq!(outcome.expect_err("strict").exit, Exit::BadInput);
    assert_eq!(serde_json::from_str::<Value>(&written).expect("the report all the same"), report);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let mut files = Files::new(&[failed("s", 1, "")]);
    files.paths.push(files.folder.path().join("absent.ndjson"));
    let (outcome, written) = replay(&files.paths, &plain(), None, Shape::Json, false);
    let failure = outcome.expect_err("no such file");
    assert_eq!(failure.exit, Exit::NoInput);
    assert!(failure.message.contains("absent.ndjson"), "{}", failure.message);
    assert!(written.is_empty());
}

#[test]
fn a_backtest_prints_only_what_changes() {
    let mut lines = String::new();
    for number in 1..=3 {
        lines += &failed("trips", number, "");
    }
    lines += &failed("gives-up", 1, r#","retry_state":"max_attempts""#);
    let files = Files::new(&[lines]);
    let stricter = registry(|text| {
        let rank = "match = { node = \"rank\", retry_budget_exhausted = true }";
        assert_eq!(text.matches(rank).count(), 1);
        text.replace(rank, &format!("{rank}\ntrip = {{ identical_failures = 4 }}"))
    });
    let (outcome, written) = replay(&files.paths, &plain(), Some(&stricter), Shape::Ndjson, false);
    assert_eq!(outcome.expect("a comparison"), Exit::Found);
    let [change] = &values(&written)[..] else { panic!("one session changes: {written}") };
    assert_eq!((&change["session_id"], &change["before"][0]["status"]), (&"trips".into(), &"applied".into()));
    assert_eq!(change["after"], Value::Array(Vec::new()));
    for shape in [Shape::Ndjson, Shape::Json, Shape::Table] {
        let (outcome, written) = replay(&files.paths, &plain(), Some(&plain()), shape, false);
        assert_eq!(outcome.expect("a comparison"), Exit::Done);
        assert!(!written.contains("trips"), "{written}");
    }
}

#[test]
fn a_given_append_time_tests_lateness() {
    let times = |occurred: &str, appended: &str| {
        format!(
            r#","retry_state":"timeout","occurred_at":"2026-11-30T{occurred}Z","appended_at":"2026-11-30T{appended}Z""#
        )
    };
    let late = failed("late", 1, &times("07:00:00", "07:02:00.001"));
    let in_time = failed("in-time", 1, &times("07:00:00", "07:02:00"));
    let text = include_str!("scenarios/registry/plain.toml").to_owned();
    let files = [SourceFile { name: String::from("plain.toml"), text }];
    let with_limit = Arc::new(load::load(&files).expect("a valid registry").registry);
    let published = Files::new(&[late, in_time]).replay(&with_limit, Shape::Ndjson);
    assert!(!published.contains("late") && published.contains("in-time"), "{published}");
    let first = &values(&published)[0];
    assert_eq!(first["at"], "2026-11-30T07:02:00.000Z", "the append time is the clock");
    assert_eq!(first["value"]["evidence"][0]["offset"], 0, "and the order of the log");
}

#[test]
fn missing_times_go_on_from_the_line_before_also_in_the_next_file() {
    let gives_up = r#","retry_state":"timeout""#;
    let timed = failed("a", 1, &format!(r#"{gives_up},"occurred_at":"2026-11-30T07:00:00Z""#));
    let files =
        Files::new(&[failed("first", 1, gives_up) + &timed, failed("b", 1, gives_up) + &failed("c", 1, gives_up)]);
    let published = values(&files.replay(&plain(), Shape::Ndjson));
    let pending = published.iter().filter(|line| line["value"]["status"] == "pending");
    let told: Vec<String> = pending
        .map(|line| {
            format!(
                "{} {}",
                line["value"]["scope"]["session_id"].as_str().unwrap_or_default(),
                line["at"].as_str().unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "first 1970-01-01T00:00:00.000Z",
            "a 2026-11-30T07:00:00.000Z",
            "b 2026-11-30T07:00:00.001Z",
            "c 2026-11-30T07:00:00.002Z",
        ]
    );
}

#[test]
fn deadlines_fire_before_an_event_of_the_same_time_at_their_own_time() {
    let mut lines = String::new();
    for (number, time) in ["07:00:00", "08:00:00", "10:30:00"].iter().enumerate() {
        let fields = format!(r#","retry_state":"timeout","run_id":"r-{number}","occurred_at":"2026-11-30T{time}Z""#);
        lines += &failed("s", number, &fields);
    }
    let published = values(&Files::new(&[lines]).replay(&plain(), Shape::Ndjson));
    let overrides = published.iter().filter(|line| line["topic"] == "reflex.overrides");
    let told: Vec<String> = overrides
        .map(|line| {
            let at = line["at"].as_str().unwrap_or_default();
            format!("{} {}", &at[11..16], if line["value"].is_null() { "removed" } else { "active" })
        })
        .collect();
    assert_eq!(told, ["07:00 active", "08:00 removed", "08:00 active", "09:00 removed", "10:30 active"]);
}
