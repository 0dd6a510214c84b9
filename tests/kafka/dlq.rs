//! `reflex dlq`: dead letters are listed without their contents, and sent again once.

use rdkafka::message::OwnedHeaders;
use serde_json::Value;

use super::world::{Read1, World, header, story, text};

fn listed(world: &World, arguments: &[&str]) -> Vec<Value> {
    let output = world.output(&[&["dlq", "list", "-o", "json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn said(world: &World, arguments: &[&str], code: i32) -> String {
    let output = world.output(&[&["dlq"], arguments].concat());
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
    text(&output)
}

/// Events as they stand, without those that have no value.
fn events(world: &World) -> Vec<Read1> {
    world.read(&world.topics().events)
}

#[test]
fn letters_are_listed_masked_and_sent_again_once() {
    let world = World::new("dlq");
    let topics = world.topics();
    // What is a dead letter to a topic of one tenant is none to another.
    let running = world.run(&["--set", "input.tenant=t-8"]);
    world.send_events(&story("sess-1"));
    let headers = OwnedHeaders::new().insert(header("authorization", b"hunter2"));
    world.send(&topics.events, Some(b"sess-2"), Some(b"{ no json"), Some(headers));
    world.wait_for_records(&format!("{}.dlq", topics.events), 4);
    world.wait_until_processed();
    running.stop();

    assert_eq!(listed(&world, &[]).len(), 4);
    let wrong = listed(&world, &["--code", "wrong_tenant", "--topic", &topics.events, "--since", "1h"]);
    assert_eq!(wrong.len(), 3);
    assert_eq!(listed(&world, &["--limit", "2"]).len(), 2);
    assert_eq!(listed(&world, &["--since", "2999-01-01T00:00:00Z"]).len(), 0);
    let bad = &listed(&world, &["--code", "not_json"])[0];
    let place = bad["place"].as_str().expect("a place").to_owned();
    assert!(bad["origin"].as_str().expect("an origin").starts_with(&format!("{}/", topics.events)), "{bad}");
    let masked = said(&world, &["show", &place], 0);
    assert!(masked.contains("not_json") && !masked.contains("hunter2") && !masked.contains("no json"), "{masked}");
    let raw = said(&world, &["show", &place, "--raw"], 0);
    assert!(raw.contains("hunter2") && raw.contains("{ no json"), "{raw}");

    let redrive = ["redrive", "--code", "wrong_tenant"];
    assert!(said(&world, &redrive, 0).contains("nothing was sent: --execute does it"));
    assert_eq!(events(&world).len(), 4, "a dry run writes nothing");
    let first = said(&world, &[&redrive[..], &["--execute"]].concat(), 0);
    assert_eq!(first.matches("  sent").count(), 3, "{first}");
    let again = said(&world, &[&redrive[..], &["--execute"]].concat(), 0);
    assert_eq!(again.matches("not sent: it was sent again already").count(), 3, "{again}");
    let records = events(&world);
    assert_eq!(records.len(), 7, "each was sent again once");
    let back: Vec<&Read1> = records.iter().filter(|record| record.header("__reflex.redriven").is_some()).collect();
    assert_eq!(back.len(), 3);
    for record in back {
        assert_eq!(record.key.as_deref(), Some(&b"sess-1"[..]));
        assert_eq!(record.header("__reflex.errors.code"), None, "our headers stay behind");
        assert!(story("sess-1").contains(&record.json()), "the original, whole");
    }
    let left = listed(&world, &[]);
    assert_eq!(left.len(), 4, "marks are no letters");
    assert_eq!(left.iter().filter(|letter| letter["redriven"] == true).count(), 3);

    let running = world.run(&[]);
    world.wait_for_records(&topics.overrides, 1);
    running.stop();
}

#[test]
fn several_at_once_send_a_letter_once() {
    let world = World::new("dlq-race");
    let running = world.run(&["--set", "input.tenant=t-8"]);
    world.send_events(&story("sess-1"));
    world.wait_for_records(&format!("{}.dlq", world.topics().events), 3);
    running.stop();
    let racing: Vec<_> = (0..3)
        .map(|_| world.command(&["dlq", "redrive", "--all", "--execute"]).spawn().expect("the program starts"))
        .collect();
    let mut done = 0;
    for mut child in racing {
        let code = child.wait().expect("it ends").code();
        assert!(matches!(code, Some(0 | 75)), "{code:?}");
        done += usize::from(code == Some(0));
    }
    assert!(done >= 1, "who has the id last goes on");
    assert_eq!(events(&world).len(), 6, "three events and each once more");
}

#[test]
fn bad_input_has_its_exit_code() {
    let world = World::new("dlq-bad");
    assert!(said(&world, &["redrive", "--execute"], 64).contains("which letters?"));
    said(&world, &["list", "--since", "yesterday"], 64);
    assert!(said(&world, &["show", "no/such/place"], 66).contains("no such dead letter"));
    said(&world, &["redrive", "no/such/place", "--execute"], 66);
    said(&world, &["list"], 0);
    let bare = World::bare("dlq-bare");
    assert!(said(&bare, &["list"], 69).contains("does not exist"));
    let nobody = World::on("127.0.0.1:9", "dlq-nobody");
    said(&nobody, &["list", "--set", "broker_timeout_ms=2000"], 69);
}
