//! What must hold once everything is committed: nothing lost, nothing twice, and the same decisions again.

use std::collections::{BTreeMap, BTreeSet};

use reflex::record::audit::Audit;
use reflex::record::time::Timestamp;
use serde_json::{Value, json};

use super::reading::{Reader, Record};
use super::rig::Rig;
use super::watch;
use super::world::{PARTITIONS, text};

/// Age of an event that still triggers: `limits.reaction_age_ms_max` of the registry.
const REACTION_AGE_MS_MAX: i64 = 60_000;
/// That, and what a commit may take after it.
const EMITTED_WITHIN_MS: i64 = REACTION_AGE_MS_MAX + 15_000;

/// The sessions that are to be overridden, and those of them whose override is removed. However slow the machine is, it
/// is known: the tape says when each failure was taken.
struct Expected {
    failing: BTreeSet<String>,
    over: BTreeSet<String>,
}

/// # Panics
/// With what does not hold.
pub fn judge(rig: &Rig) {
    let reader = Reader::committed(&rig.world);
    every_transaction_has_ended(rig, &reader);
    let topics = rig.world.topics();
    let events = reader.read(&topics.events);
    as_sent(rig, &events);
    let tape: Vec<Value> = topics.tapes().iter().flat_map(|tape| reader.read(tape)).map(|it| it.json()).collect();
    let expected = expected(rig, &events, &tape);
    let audit = reader.read(&topics.audit);
    let applied = interventions(&expected, &reader.read(&topics.interventions));
    overrides(&expected, &reader.read(&topics.overrides), &applied);
    chains(&expected, &audit);
    nothing_stale(rig, &audit, &events);
    incarnations(&tape);
    every_input_once(rig, &reader, &tape);
    let verified = rig.world.output(&["verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", text(&verified));
}

/// All that fail, but for those whose last failure was too old when it was taken.
fn expected(rig: &Rig, events: &[Record], tape: &[Value]) -> Expected {
    let mut taken: BTreeMap<(i32, i64), Timestamp> = BTreeMap::new();
    for record in tape {
        let task = record["task"].as_str().expect("a task");
        let Some(partition) = task.strip_prefix("session/") else { continue };
        let partition: i32 = partition.parse().expect("a partition");
        for step in record["steps"].as_array().into_iter().flatten() {
            let now: Timestamp = serde_json::from_value(step["now"].clone()).expect("a time");
            for run in step["runs"].as_array().into_iter().flatten().filter(|run| run["input"] == "records") {
                let bound = |name: &str| run[name].as_i64().expect("an offset");
                taken.extend((bound("first")..bound("next")).map(|offset| ((partition, offset), now)));
            }
        }
    }
    let is_stale = |event: &Record| {
        let now = taken.get(&(event.partition, event.offset)).expect("every event is taken");
        now.millis_since(Timestamp::from_millis(event.at_ms)) > REACTION_AGE_MS_MAX
    };
    let stale: BTreeSet<String> = events
        .iter()
        .filter(|event| event.value.as_deref().is_some_and(|value| value.starts_with(b"{")))
        .filter(|event| {
            let event = event.json();
            event["type"] == "node_failed" && event["attempt"] == event["max_attempts"]
        })
        .filter(|event| is_stale(event))
        .map(|event| event.json()["session_id"].as_str().expect("a session").to_owned())
        .collect();
    let failing: BTreeSet<String> = rig.load.failing.difference(&stale).cloned().collect();
    let over = rig.load.ending.union(&rig.lifted).filter(|session| failing.contains(*session)).cloned().collect();
    Expected { failing, over }
}

/// First of all: else later looks see something else.
fn every_transaction_has_ended(rig: &Rig, committed: &Reader) {
    let uncommitted = Reader::uncommitted(&rig.world);
    let topics = rig.world.topics();
    for topic in topics.outputs().iter().map(String::as_str).chain(topics.inputs()) {
        for partition in 0..PARTITIONS {
            let (stable, end) = (committed.end(topic, partition), uncommitted.end(topic, partition));
            assert_eq!(stable, end, "a transaction is open on {topic}/{partition}");
        }
    }
}

/// What was read is what was sent, in order of each session: else the sender is to blame, not who is tested.
fn as_sent(rig: &Rig, events: &[Record]) {
    let key = |record: &Record| String::from_utf8_lossy(record.key.as_deref().unwrap_or_default()).into_owned();
    let value = |record: &Record| String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned();
    let mut found: Vec<(String, String)> = events.iter().map(|event| (key(event), value(event))).collect();
    let mut sent = rig.load.records.clone();
    // Stable: the order of each session stays.
    found.sort_by(|left, right| left.0.cmp(&right.0));
    sent.sort_by(|left, right| left.0.cmp(&right.0));
    let first = found.iter().zip(&sent).find(|(found, sent)| found != sent);
    assert!(first.is_none() && found.len() == sent.len(), "{} of {}: {first:?}", found.len(), sent.len());
}

/// One intervention a failing session, from pending to applied; id by session.
fn interventions(expected: &Expected, records: &[Record]) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for record in records.iter().map(Record::json) {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        found.entry(session_of(&record)).or_default().push((text("intervention_id"), text("status")));
    }
    same_sessions("interventions", &found.keys().cloned().collect(), &expected.failing);
    let whole = |(session, records): (String, Vec<(String, String)>)| {
        let statuses: Vec<&str> = records.iter().map(|(_, status)| status.as_str()).collect();
        assert_eq!(statuses, ["pending", "provisioning", "applied"], "{session}");
        assert!(records.iter().all(|(id, _)| *id == records[0].0), "{session}: {records:?}");
        (session, records[0].0.clone())
    };
    found.into_iter().map(whole).collect()
}

fn session_of(record: &Value) -> String {
    record["scope"]["session_id"].as_str().expect("a session").to_owned()
}

fn same_sessions(what: &str, found: &BTreeSet<String>, expected: &BTreeSet<String>) {
    let missing: Vec<&String> = expected.difference(found).take(5).collect();
    let foreign: Vec<&String> = found.difference(expected).take(5).collect();
    let counts = (found.len(), expected.len());
    assert!(found == expected, "{what}: {} of {}; missing {missing:?}, too many {foreign:?}", counts.0, counts.1);
}

/// One override a failing session, of its intervention; removed where the session ended or somebody lifted it.
fn overrides(expected: &Expected, records: &[Record], applied: &BTreeMap<String, String>) {
    let mut found: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for record in records {
        let key: Value = serde_json::from_slice(record.key.as_deref().expect("a key")).expect("JSON");
        found.entry(session_of(&key)).or_default().push(record);
    }
    same_sessions("overrides", &found.keys().cloned().collect(), &expected.failing);
    for (session, records) in found {
        let is_over = expected.over.contains(&session);
        let live: Vec<bool> = records.iter().map(|record| record.value.is_some()).collect();
        assert_eq!(live, if is_over { vec![true, false] } else { vec![true] }, "{session}");
        let first = records[0].json();
        assert_eq!((&first["revision"], &first["attempt"]), (&json!(1), &json!(0)), "{session}: {first}");
        assert_eq!(first["intervention_id"].as_str(), applied.get(&session).map(String::as_str), "{session}");
    }
}

/// Every task's records from the first, without a gap, none twice, each with the hash of the one before; and of every
/// intervention and override each transition once.
fn chains(expected: &Expected, audit: &[Record]) {
    let mut heads: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let mut transitions: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for record in audit {
        let audit: Audit = serde_json::from_value(record.json()).expect("an audit record");
        let (seq, previous_hash) = heads.entry(audit.task.clone()).or_default();
        assert_eq!((audit.seq, &audit.previous_hash), (*seq, &*previous_hash), "{}", audit.task);
        (*seq, *previous_hash) = (seq.wrapping_add(1), audit.hash());
        transitions.entry((audit.entity, audit.entity_id)).or_default().push(audit.to);
    }
    let of = |wanted: &str| -> Vec<&Vec<String>> {
        transitions.iter().filter(|((entity, _), _)| entity == wanted).map(|(_, to)| to).collect()
    };
    let (interventions, overrides) = (of("intervention"), of("override"));
    assert!(interventions.iter().all(|to| **to == ["pending", "provisioning", "applied"]));
    let failing = expected.failing.len();
    assert_eq!((interventions.len(), overrides.len()), (failing, failing));
    let transitions_of_overrides: usize = overrides.iter().map(|to| to.len()).sum();
    assert_eq!(transitions_of_overrides, failing + expected.over.len());
    assert!(overrides.iter().all(|to| to.len() <= 2));
}

/// No override was published long after the event behind it was appended.
fn nothing_stale(rig: &Rig, audit: &[Record], events: &[Record]) {
    let appended: BTreeMap<(i32, i64), i64> =
        events.iter().map(|event| ((event.partition, event.offset), event.at_ms)).collect();
    let topic = rig.world.topics().events;
    for record in audit {
        let audit: Audit = serde_json::from_value(record.json()).expect("an audit record");
        let Some(cause) = audit.cause.filter(|cause| audit.entity == "override" && cause.topic == topic) else {
            continue;
        };
        let at = appended.get(&(cause.partition, cause.offset)).expect("the event behind a decision");
        let age = record.at_ms - at;
        assert!(age <= EMITTED_WITHIN_MS, "{} was published {age} ms after its event", audit.entity_id);
    }
}

/// Numbers of transactions without a gap; whoever took a task over is the only one who writes from then on.
fn incarnations(tape: &[Value]) {
    let mut last: BTreeMap<String, (u64, u64, String)> = BTreeMap::new();
    for record in tape {
        let task = record["task"].as_str().expect("a task").to_owned();
        let number = |name: &str| record[name].as_u64().expect("a number");
        let (seq, incarnation) = (number("seq"), number("incarnation"));
        let writer = record["writer"].as_str().expect("a writer").to_owned();
        if let Some((before, owner, owned_by)) = last.get(&task) {
            assert_eq!(seq, before + 1, "{task}");
            assert!(*owner <= incarnation, "{task}: transaction {seq} is of an owner that was replaced");
            assert!(*owner < incarnation || *owned_by == writer, "{task}: two writers at transaction {seq}");
        } else {
            assert_eq!(seq, 0, "{task}");
        }
        last.insert(task, (seq, incarnation, writer));
    }
    assert_eq!(last.keys().filter(|task| task.starts_with("session/")).count(), 3, "{last:?}");
}

/// Every record of an input below the committed offset is in exactly one run of the tape, none at or above it; those that
/// were refused are dead letters, once each.
fn every_input_once(rig: &Rig, reader: &Reader, tape: &[Value]) {
    let topics = rig.world.topics();
    let committed = watch::committed(&watch::committed_reader(&rig.world), &rig.world).expect("offsets");
    let mut letters = 0;
    for (slot, topic) in topics.inputs().into_iter().enumerate() {
        let (stage, role) = ([("session"), ("fleet")][slot / 2], ["records", "commands"][slot % 2]);
        let (mut taken, mut refused) = (BTreeSet::new(), BTreeSet::new());
        for record in tape {
            let Some((_, partition)) =
                record["task"].as_str().and_then(|task| task.split_once('/')).filter(|(of, _)| *of == stage)
            else {
                continue;
            };
            let partition: i32 = partition.parse().expect("a partition");
            for step in record["steps"].as_array().into_iter().flatten() {
                for run in step["runs"].as_array().into_iter().flatten().filter(|run| run["input"] == role) {
                    let bound = |name: &str| run[name].as_i64().expect("an offset");
                    for offset in bound("first")..bound("next") {
                        let is_new = taken.insert((partition, offset));
                        assert!(is_new, "{topic}/{partition}: offset {offset} was taken twice");
                    }
                }
                for skipped in step["skipped"].as_array().into_iter().flatten().filter(|it| it["input"] == role) {
                    refused.insert((partition, skipped["offset"].as_i64().expect("an offset")));
                }
            }
        }
        for record in reader.read(topic) {
            let next = committed.get(&(topic.to_owned(), record.partition)).copied().unwrap_or(0);
            let is_taken = taken.contains(&(record.partition, record.offset));
            assert_eq!(is_taken, record.offset < next, "{topic}/{} offset {}", record.partition, record.offset);
        }
        letters += dead_letters(&reader.read(&format!("{topic}.dlq")), topic, &refused);
    }
    assert_eq!(letters, rig.load.bad);
}

fn dead_letters(letters: &[Record], topic: &str, refused: &BTreeSet<(i32, i64)>) -> usize {
    let number = |record: &Record, name: &str| record.header(&format!("__reflex.errors.{name}")).parse::<i64>();
    let mut found = BTreeSet::new();
    for letter in letters {
        let partition = number(letter, "partition").expect("a partition");
        let place = (i32::try_from(partition).expect("a partition"), number(letter, "offset").expect("an offset"));
        assert!(found.insert(place), "two dead letters of {topic} {place:?}");
    }
    assert_eq!(&found, refused, "dead letters of {topic}");
    found.len()
}
