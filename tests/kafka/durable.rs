//! State survives: what a task knew before a crash, a stop or a move it knows afterwards.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use reflex::record::audit::Audit;
use serde_json::{Value, json};

use crate::harness::child;

use super::world::{PARTITIONS, Read1, Running, SOON, World, story, transactional};

/// Sessions of a run that is disturbed.
const SESSIONS: usize = 120;

/// Every task's audit records, from the first, without a gap, each with the hash of the one before.
fn assert_chains_whole(world: &World) {
    let mut heads: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for record in world.read(&world.topics().audit) {
        let audit: Audit = serde_json::from_value(record.json()).expect("an audit record");
        let (seq, previous_hash) = heads.entry(audit.task.clone()).or_default();
        assert!(audit.task.ends_with(&format!("/{}", record.partition)));
        assert_eq!((audit.seq, &audit.previous_hash), (*seq, &*previous_hash), "{}", audit.task);
        (*seq, *previous_hash) = (seq.wrapping_add(1), audit.hash());
    }
    assert!(!heads.is_empty());
}

/// Records by key, in order of each key.
fn by_key(records: Vec<Read1>) -> BTreeMap<Vec<u8>, Vec<Read1>> {
    let mut found: BTreeMap<Vec<u8>, Vec<Read1>> = BTreeMap::new();
    for record in records {
        found.entry(record.key.clone().expect("a key")).or_default().push(record);
    }
    found
}

/// Each key has one override, ended at last or not.
fn assert_overrides(world: &World, sessions: usize, is_ended: bool) {
    let overrides = by_key(world.read(&world.topics().overrides));
    assert_eq!(overrides.len(), sessions);
    for (key, records) in &overrides {
        let is_live: Vec<bool> = records.iter().map(|record| record.value.is_some()).collect();
        let expected: &[bool] = if is_ended { &[true, false] } else { &[true] };
        assert_eq!(is_live, expected, "{}", String::from_utf8_lossy(key));
    }
    assert_eq!(by_key(world.read(&world.topics().interventions)).len(), sessions);
}

fn event(session: &str, id: &str, more: &Value) -> Value {
    let mut event = json!({
        "event_id": format!("{session}-{id}"), "session_id": session, "graph": "refund_graph", "graph_version": "v1",
        "tenant": "t-7",
    });
    for (name, value) in more.as_object().expect("fields") {
        event[name] = value.clone();
    }
    event
}

fn ended(session: &str) -> Value {
    event(session, "end", &json!({"type": "session_ended"}))
}

/// A failure that exhausts nothing by itself: the third of a run trips.
fn failure(session: &str, attempt: u32) -> Value {
    event(
        session,
        &attempt.to_string(),
        &json!({
            "type": "node_failed", "run_id": "run-1", "node": "evaluate_evidence", "attempt": attempt,
            "error": { "class": "pydantic.ValidationError", "message": "no evidence" },
        }),
    )
}

pub fn names(sessions: usize) -> Vec<String> {
    (0..sessions).map(|number| format!("sess-{number}")).collect()
}

#[test]
fn a_crash_in_the_middle_breaks_no_chain_and_overrides_end_after_it() {
    let world = World::new("durable");
    let names = names(SESSIONS);
    let first = world.run(&[]);
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            for chunk in names.chunks(10) {
                let events: Vec<Value> = chunk.iter().flat_map(|name| story(name)).collect();
                world.send_events(&events);
                thread::sleep(Duration::from_millis(50));
            }
        });
        world.wait_for_records(&world.topics().overrides, SESSIONS / 6);
        first.kill9();
        let second = world.run(&[]);
        thread::sleep(Duration::from_millis(300));
        second.kill9();
        let third = world.run(&[]);
        sending.join().expect("all sent");
        world.wait_until_processed();
        third.kill9();
    });
    let fourth = world.run(&[]);
    assert_overrides(&world, SESSIONS, false);
    let ends: Vec<Value> = names.iter().map(|name| ended(name)).collect();
    world.send_events(&ends);
    world.wait_until_processed();
    fourth.stop();
    assert_overrides(&world, SESSIONS, true);
    assert_chains_whole(&world);
}

#[test]
fn failures_limits_and_live_overrides_count_across_a_crash() {
    let world = World::new("durable-counts");
    let topics = world.topics();
    let arguments = ["--set", "limits.interventions_per_session_max=1"];
    let first = world.run(&arguments);
    world.send_events(&[failure("sess-1", 1), failure("sess-1", 2)]);
    world.wait_until_processed();
    assert_eq!(world.decisions().len(), 0);
    first.kill9();

    let second = world.run(&arguments);
    world.send_events(&[failure("sess-1", 3)]);
    let overrides = world.wait_for_records(&topics.overrides, 1);
    second.kill9();

    let third = world.run(&arguments);
    let override_id = overrides[0].json()["override_id"].as_str().expect("an id").to_owned();
    let lift = json!({
        "command_id": "c-1", "verb": "lift", "target": override_id, "reason": "tested", "author": "somebody",
    });
    world.send(&topics.session_commands, Some(b"sess-1"), Some(lift.to_string().as_bytes()), None);
    let overrides = world.wait_for_records(&topics.overrides, 2);
    assert_eq!((&overrides[1].key, &overrides[1].value), (&overrides[0].key, &None));
    third.kill9();

    let fourth = world.run(&arguments);
    let again = story("sess-1").into_iter().map(|mut event| {
        event["event_id"] = json!(format!("{}-again", event["event_id"].as_str().expect("an id")));
        event["run_id"] = json!("run-2");
        event
    });
    world.send_events(&again.collect::<Vec<_>>());
    world.wait_until_processed();
    fourth.stop();
    let last = world.read(&topics.interventions).last().expect("an intervention").json();
    assert_eq!((&last["status"], &last["reason"]), (&json!("failed"), &json!("limit:interventions_per_session_max")));
    assert_eq!(world.read(&topics.overrides).len(), 2);
    assert_chains_whole(&world);
}

#[test]
fn an_override_from_before_a_crash_expires_after_it() {
    let world = World::new("durable-ttl");
    let topics = world.topics();
    let registry = world.folder.path().join("registry");
    std::fs::create_dir(&registry).expect("a folder");
    for entry in std::fs::read_dir("config/registry").expect("the registry") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a file").replace("ttl = \"24h\"", "ttl = \"4s\"");
        std::fs::write(registry.join(path.file_name().expect("a name")), text).expect("written");
    }
    let registry = registry.display().to_string();
    let first = world.run(&["--registry", &registry]);
    world.send_events(&story("sess-1"));
    world.wait_for_records(&topics.overrides, 1);
    first.kill9();
    let second = world.run(&["--registry", &registry]);
    let overrides = world.wait_for_records(&topics.overrides, 2);
    second.stop();
    assert_eq!((&overrides[1].key, &overrides[1].value), (&overrides[0].key, &None));
    assert_chains_whole(&world);
}

#[test]
fn a_freeze_survives_a_crash() {
    let world = World::new("durable-freeze");
    let topics = world.topics();
    let command = |verb: &str| {
        let command = json!({
            "command_id": format!("c-{verb}"), "verb": verb, "target": "*", "reason": "tested", "author": "somebody",
        });
        world.send(&topics.session_commands, Some(b"sess-1"), Some(command.to_string().as_bytes()), None);
    };
    let first = world.run(&[]);
    command("freeze");
    world.wait_for_decisions(1);
    first.kill9();
    let second = world.run(&[]);
    world.send_events(&story("sess-1"));
    world.wait_until_processed();
    assert_eq!(world.read(&topics.overrides).len(), 0);
    second.kill9();
    let third = world.run(&[]);
    let frozen = world.decisions().len();
    command("unfreeze");
    world.wait_for_decisions(frozen + 1);
    let again = story("sess-1").into_iter().map(|mut event| {
        event["event_id"] = json!(format!("{}-again", event["event_id"].as_str().expect("an id")));
        event["run_id"] = json!("run-2");
        event
    });
    world.send_events(&again.collect::<Vec<_>>());
    world.wait_for_records(&topics.overrides, 1);
    third.stop();
    assert_chains_whole(&world);
}

#[test]
fn a_process_takes_tasks_over_with_their_state() {
    let world = World::new("durable-two");
    let names = names(SESSIONS / 4);
    let failures = |attempt: u32| names.iter().map(|name| failure(name, attempt)).collect::<Vec<_>>();
    let first = world.run(&[]);
    let mut command = world.command(&["run"]);
    command.env("REFLEX_DATA_DIR", world.folder.path().join("second"));
    let second = Running::start(command, world.folder.path());
    second.wait_for_log("assigned");
    world.send_events(&failures(1));
    world.send_events(&failures(2));
    world.wait_until_processed();
    first.kill9();
    world.send_events(&failures(3));
    world.wait_until_processed();
    assert_overrides(&world, names.len(), false);
    let ends: Vec<Value> = names.iter().map(|name| ended(name)).collect();
    world.send_events(&ends);
    world.wait_until_processed();
    second.stop();
    assert_overrides(&world, names.len(), true);
    assert_chains_whole(&world);
}

#[test]
fn state_without_offsets_is_refused_and_goes_on_only_when_told() {
    let world = World::new("durable-lost");
    let topics = world.topics();
    let running = world.run(&[]);
    world.send_events(&story("sess-1"));
    world.wait_for_records(&topics.overrides, 1);
    world.wait_until_processed();
    running.stop();

    let other = format!("{}-other", world.name);
    let refused = world.output(&["run", "--group", &other]);
    let said = super::world::text(&refused);
    assert_eq!(refused.status.code(), Some(69), "{said}");
    for words in
        [&format!("has state on {}, but group {other} has no offsets", topics.state_session), "reset", "delete"]
    {
        assert!(said.contains(words), "{said}");
    }
    let running = world.run(&["--group", &other, "--set", "start_at_earliest=true"]);
    world.send_events(&story("sess-2"));
    world.wait_for_records(&topics.overrides, 2);
    running.stop();
    assert_overrides(&world, 2, false);
    assert_chains_whole(&world);
}

/// Makes the offsets of the group those of an earlier transaction, as a broker does that drops the end of a later one.
fn set_back(world: &World) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &world.bootstrap)
        .set("group.id", &world.name)
        .create()
        .expect("a consumer");
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        let topic = &world.topics().events;
        list.add_partition_offset(topic, partition, Offset::Offset(0)).expect("an offset");
        let mut element = list.find_partition(topic, partition).expect("just added");
        element.set_metadata("transaction 1 of somebody, incarnation 0");
    }
    // A member that was stopped is one until its session is over.
    child::wait_for("an empty group", SOON, || consumer.commit(&list, CommitMode::Sync).ok());
}

#[test]
fn a_task_goes_on_where_its_state_ends_whatever_its_offsets_say() {
    let world = World::new("durable-torn");
    let names = names(40);
    let send = |names: &[String]| {
        let events: Vec<Value> = names.iter().flat_map(|name| story(name)).collect();
        world.send_events(&events);
        world.wait_until_processed();
    };
    let first = world.run(&[]);
    send(&names[..20]);
    first.stop();
    set_back(&world);
    let second = world.run(&[]);
    send(&names[20..]);
    let log = second.stop();
    assert!(log.contains("the task goes on where its state ends"), "{log}");
    assert!(log.contains(&format!(" torn={PARTITIONS} ")), "{log}");
    assert_overrides(&world, 40, false);
    assert_chains_whole(&world);
    let verified = world.output(&["verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", super::world::text(&verified));
}

/// Partition and hash of the log's lines with these words.
pub fn hashes(log: &str, words: &str) -> Vec<String> {
    let found = log.lines().filter_map(|line| line.split_once(words)?.1.split(" entries").next());
    let mut found: Vec<String> = found.map(str::to_owned).collect();
    found.sort();
    found
}

#[test]
fn a_restore_ends_whatever_the_changelog_ends_with_and_equals_what_was_left() {
    let world = World::new("durable-ends");
    let topics = world.topics();
    let arguments = ["--set", "log.level=info,reflex::engine=debug"];
    let running = world.run(&arguments);
    let events: Vec<Value> = names(30).iter().flat_map(|name| story(name)).collect();
    world.send_events(&events);
    world.wait_until_processed();
    let log = running.stop();
    let left = hashes(&log, "left session/");
    assert_eq!(left.len(), 3, "{log}");

    // It ended with commit markers; now with an aborted transaction, and with an open one.
    let stranger = transactional(&world.bootstrap, &format!("{}-stranger", world.name));
    let write = || {
        stranger.begin_transaction().expect("begun");
        for partition in 0..PARTITIONS {
            let record = BaseRecord::to(&topics.state_session).partition(partition).key("task").payload("no state");
            stranger.send(record).map_err(|(error, _)| error).expect("queued");
        }
        stranger.flush(SOON).expect("delivered");
    };
    write();
    stranger.abort_transaction(SOON).expect("aborted");
    let running = world.run(&arguments);
    let log = running.stop();
    assert_eq!(hashes(&log, "restored session/"), left, "{log}");
    write();
    let waiting = Running::start(world.command(&[&["run"], &arguments[..]].concat()), world.folder.path());
    waiting.wait_for_log("waiting for the end of the open transaction");
    assert!(!waiting.log().contains("assigned"));
    stranger.abort_transaction(SOON).expect("aborted");
    waiting.wait_for_log("assigned");
    let log = waiting.stop();
    assert_eq!(hashes(&log, "restored session/"), left, "{log}");
    assert_eq!(hashes(&log, "left session/"), left, "{log}");
}
