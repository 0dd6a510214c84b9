//! `reflex resolve --cases`: the program gives what the vectors say, whichever way their overrides are written.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run programs")]

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};

struct Ended {
    code: Option<i32>,
    answers: Vec<Value>,
    errors: String,
}

fn program(arguments: &[&str], input: String) -> Ended {
    let mut child = Command::new(env!("CARGO_BIN_EXE_reflex"))
        .args(arguments)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a program");
    let mut stdin = child.stdin.take().expect("an input");
    // Beside the reading: both pipes are shorter than the text. A program that gives up closes its end.
    let writing = thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let ended = child.wait_with_output().expect("an end");
    writing.join().expect("written");
    let text = String::from_utf8(ended.stdout).expect("text");
    Ended {
        code: ended.status.code(),
        answers: text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect(),
        errors: String::from_utf8(ended.stderr).expect("text"),
    }
}

fn cases() -> Vec<Value> {
    let vectors: Value = serde_json::from_str(include_str!("../../vectors/resolve.json")).expect("vectors");
    vectors["cases"].as_array().expect("cases").clone()
}

/// The overrides of a case as they stand on the topic: with keys, and one more that was removed again.
fn keyed(case: &Value) -> Value {
    let records = case["overrides"].as_array().expect("overrides");
    let gone = records.first().map(|record| {
        let mut record = record.clone();
        record["override_id"] = "ovr_gone".into();
        [json!({ "key": "gone", "value": record }), json!({ "key": "gone", "value": null })]
    });
    let records = records.iter().enumerate().map(|(slot, record)| json!({ "key": slot.to_string(), "value": record }));
    let log: Vec<Value> = gone.into_iter().flatten().chain(records).collect();
    json!({ "graph": case["graph"], "context": case["context"], "now": case["now"], "overrides": log })
}

#[test]
fn the_program_resolves_every_vector_in_order() {
    let cases = cases();
    assert!(cases.len() >= 400);
    for as_written in [true, false] {
        let lines = cases.iter().map(|case| format!("{}\n", if as_written { case.clone() } else { keyed(case) }));
        let ended = program(&["resolve", "--cases", "-"], lines.collect());
        assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""));
        assert_eq!(ended.answers.len(), cases.len());
        for (case, answer) in cases.iter().zip(&ended.answers) {
            assert_eq!(answer, &case["expected"], "{}", case["name"]);
        }
    }
}

#[test]
fn a_bad_line_is_named_after_the_answers_before_it() {
    let good = cases().swap_remove(0);
    let ended = program(&["resolve", "--cases", "-"], format!("{good}\n\n{good}\n{{\"graph\":\"g\"}}\n{good}\n"));
    assert_eq!(ended.code, Some(65), "{}", ended.errors);
    assert_eq!(ended.answers.len(), 2);
    assert_eq!(ended.errors, "error: -:4: missing field `context`\n");
}

#[test]
fn a_case_without_a_time_is_resolved_at_the_one_given() {
    let mut case = cases().into_iter().find(|case| case["expected"]["route"] == "degraded").expect("a degraded case");
    case.as_object_mut().expect("an object").remove("now");
    let route = |now: &str| {
        let ended = program(&["resolve", "--cases", "-", "--now", now], case.to_string());
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
        ended.answers[0]["route"].clone()
    };
    assert_eq!(route("2026-11-30T07:00:00Z"), "degraded");
    assert_eq!(route("9999-01-01T00:00:00Z"), "primary");
}

#[test]
fn a_graph_or_cases_and_nothing_else() {
    for wrong in [&["resolve"][..], &["resolve", "g", "--cases", "-"], &["resolve", "g", "--context", "tenent=t"]] {
        let ended = program(wrong, String::new());
        assert_eq!(ended.code, Some(64), "{wrong:?}: {}", ended.errors);
    }
    let ended = program(&["resolve", "--cases", "no/such/file"], String::new());
    assert_eq!(ended.code, Some(66), "{}", ended.errors);
}
