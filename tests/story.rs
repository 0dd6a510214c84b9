//! The refund story three ways: scenario, demo and a real broker give the same records but for times, positions of the
//! evidence and the audit chain.
#![cfg(feature = "shell")]
#![allow(clippy::expect_used, reason = "a broken expectation is a failed test")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests read files and clocks")]

mod harness;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use reflex::cli::test::{records, scenario};
use reflex::cli::validate::load_folder;
use serde_json::{Value, json};

const INTERVENTIONS: &str = "reflex.interventions";
const OVERRIDES: &str = "reflex.overrides";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn the_scenario() -> scenario::Scenario {
    let text = std::fs::read_to_string(root().join("tests/scenarios/refund_story.txt")).expect("the story");
    scenario::parse(&text).expect("a scenario")
}

/// A record without times and positions.
fn plain(topic: &str, key: &str, value: Option<Value>) -> Value {
    let mut value = value.unwrap_or(Value::Null);
    for time in ["created_at", "updated_at", "expires_at"] {
        if let Some(time) = value.get_mut(time) {
            *time = json!("…");
        }
    }
    for evidence in value.get_mut("evidence").and_then(Value::as_array_mut).into_iter().flatten() {
        evidence["partition"] = json!("…");
        evidence["offset"] = json!("…");
    }
    json!({"topic": topic, "key": key, "value": value})
}

fn told_by_the_scenario() -> Vec<Value> {
    let registry = load_folder(&root().join("config/registry")).expect("the shipped registry").registry;
    let outputs = records(&the_scenario(), Arc::new(registry)).expect("the scenario plays");
    let told = outputs.iter().filter(|output| [INTERVENTIONS, OVERRIDES].contains(&output.topic.name()));
    told.map(|output| {
        let value = output.value.as_ref().map(|record| serde_json::to_value(record).expect("a record"));
        plain(output.topic.name(), &output.key, value)
    })
    .collect()
}

fn of(topic: &str, records: &[Value]) -> Vec<Value> {
    records.iter().filter(|record| record["topic"] == topic).cloned().collect()
}

/// Order holds within a topic; between topics a reader may see either first.
fn assert_same(told: &[Value], expected: &[Value]) {
    for topic in [INTERVENTIONS, OVERRIDES] {
        let (told, expected) = (of(topic, told), of(topic, expected));
        assert_eq!(told, expected, "{topic}");
    }
}

#[test]
fn the_scenario_tells_pending_provisioning_applied_and_one_override() {
    let told = told_by_the_scenario();
    let statuses: Vec<&Value> = told
        .iter()
        .filter(|record| record["topic"] == INTERVENTIONS)
        .map(|record| &record["value"]["status"])
        .collect();
    assert_eq!(statuses, ["pending", "provisioning", "applied"]);
    let published = of(OVERRIDES, &told);
    assert_eq!(published.len(), 2, "published, then removed");
    assert_eq!(published[0]["value"]["schema_ref"], "degraded_refund_graph:v1");
    assert_eq!(published[0]["value"]["entry_point"], "log_refund_request");
    assert_eq!(published[1]["value"], Value::Null);
}

#[test]
fn the_demo_tells_the_same() {
    let demo = Command::new(env!("CARGO_BIN_EXE_reflex"))
        .current_dir(root())
        .args(["demo", "-o", "json", "--sessions", "60"])
        .output()
        .expect("the program runs");
    assert!(demo.status.success(), "{}", String::from_utf8_lossy(&demo.stderr));
    let told: Value = serde_json::from_slice(&demo.stdout).expect("JSON");
    assert_eq!(told["outcome"]["saved"], told["outcome"]["failing"]);
    let records: Vec<Value> = told["records"]
        .as_array()
        .expect("records")
        .iter()
        .map(|record| {
            let text = |field: &str| record[field].as_str().expect("text").to_owned();
            plain(&text("topic"), &text("key"), Some(record["value"].clone()))
        })
        .collect();
    assert_same(&records, &told_by_the_scenario());
}

#[test]
fn a_real_broker_tells_the_same() {
    let broker = harness::broker();
    let folder = tempfile::tempdir().expect("a folder");
    let story = write_story(folder.path());
    let reflex = |verb: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        command.current_dir(root()).args(verb).args(["--bootstrap-servers", broker.bootstrap()]);
        command.env("REFLEX_DATA_DIR", folder.path().join("data"));
        command
    };
    let done = |verb: &[&str]| {
        let output = reflex(verb).output().expect("the program runs");
        assert!(output.status.success(), "{verb:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    done(&["topics", "apply", "--dev", "--partitions", "3"]);
    done(&["topics", "check", "--dev", "--partitions", "3"]);
    done(&["publish", &story.display().to_string()]);
    let mut run = reflex(&["run", "--dev"]).spawn().expect("the program runs");
    let expected = told_by_the_scenario();
    let told = read(broker.bootstrap(), expected.len());
    Command::new("kill").args(["-TERM", &run.id().to_string()]).status().expect("kill");
    assert!(run.wait().expect("it ends").success(), "a clean stop on SIGTERM");
    assert_same(&told, &expected);
}

/// The scenario's events as recorded events.
fn write_story(folder: &Path) -> PathBuf {
    let scenario = the_scenario();
    let id =
        told_by_the_scenario().iter().find_map(|record| record["value"]["override_id"].as_str().map(str::to_owned));
    let id = id.expect("an override");
    let events = scenario.steps.iter().filter_map(|(_, step)| match step {
        scenario::Step::Event(_, event) => Some(Value::Object(event.clone()).to_string().replace("$override_id", &id)),
        _ => None,
    });
    let file = folder.join("story.ndjson");
    std::fs::write(&file, events.collect::<Vec<_>>().join("\n")).expect("a file");
    file
}

/// Reads both topics with `read_committed` until `count` records came.
fn read(bootstrap: &str, count: usize) -> Vec<Value> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "story")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .create()
        .expect("a consumer");
    let mut wanted = TopicPartitionList::new();
    for topic in [INTERVENTIONS, OVERRIDES] {
        for partition in 0..3 {
            wanted.add_partition_offset(topic, partition, Offset::Beginning).expect("a partition");
        }
    }
    consumer.assign(&wanted).expect("assigned");
    let patience = Instant::now() + Duration::from_mins(2);
    let mut records = Vec::new();
    // A little longer than needed: one record too many must be seen.
    let mut settled = None;
    while settled.is_none_or(|at: Instant| at > Instant::now()) && Instant::now() < patience {
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        let key = String::from_utf8_lossy(message.key().unwrap_or_default()).into_owned();
        let value = message.payload().map(|bytes| serde_json::from_slice(bytes).expect("JSON"));
        records.push(plain(message.topic(), &key, value));
        if records.len() >= count {
            settled = Some(Instant::now() + Duration::from_secs(1));
        }
    }
    records
}
