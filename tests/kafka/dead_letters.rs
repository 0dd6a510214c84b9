//! Inputs that cannot be used: kept whole, with their reason, while the partition goes on.

use rdkafka::message::OwnedHeaders;

use super::world::{World, header, story};

#[test]
fn a_dead_letter_keeps_key_bytes_and_headers_and_the_partition_goes_on() {
    let world = World::new("dead");
    let topics = world.topics();
    let running = world.run(&[]);
    let bytes = b"{\"event_id\":\xff";
    let headers = OwnedHeaders::new()
        .insert(header("traceparent", b"00-1"))
        .insert(header("traceparent", b"00-2"))
        .insert(header("binary", &[0, 159]));
    world.send(&topics.events, Some(b"sess-1"), Some(bytes), Some(headers));
    world.send_events(&story("sess-1"));
    world.wait_for_records(&topics.overrides, 1);
    world.wait_until_processed();
    let log = running.stop();

    let letters = world.read(&format!("{}.dlq", topics.events));
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (Some(&b"sess-1"[..]), Some(&bytes[..])));
    let originals: Vec<_> = letter.headers[..3].iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
    let expected: [(&str, Option<&[u8]>); 3] =
        [("traceparent", Some(b"00-1")), ("traceparent", Some(b"00-2")), ("binary", Some(&[0, 159]))];
    assert_eq!(originals, expected);
    let reason = |name: &str| letter.header(&format!("__reflex.errors.{name}"));
    assert_eq!(reason("stage").as_deref(), Some("session"));
    assert_eq!(reason("code").as_deref(), Some("not_json"));
    assert_eq!(reason("topic"), Some(topics.events.clone()));
    assert_eq!(reason("offset").as_deref(), Some("0"));
    assert!(reason("timestamp").is_some_and(|time| time.ends_with('Z')));
    assert!(log.contains("dead_letters.not_json=1"), "{log}");
}

#[test]
fn bad_keys_nulls_large_records_and_bad_commands_are_dead_letters_too() {
    let world = World::new("dead-kinds");
    let topics = world.topics();
    let running = world.run(&["--set", "limits.event_bytes_max=4000", "--set", "limits.field_bytes_max=500"]);
    let event = story("sess-1")[0].to_string();
    let large = vec![b'x'; 5000];
    world.send(&topics.events, Some(b"sess-1"), None, None);
    world.send(&topics.events, None, Some(event.as_bytes()), None);
    world.send(&topics.events, Some(b""), Some(event.as_bytes()), None);
    world.send(&topics.events, Some(b"sess-2"), Some(event.as_bytes()), None);
    world.send(&topics.events, Some(b"sess-1"), Some(&large), None);
    world.send(&topics.session_commands, Some(b"sess-1"), Some(b"{\"command_id\":\"c\"}"), None);
    let letters = world.wait_for_records(&format!("{}.dlq", topics.events), 5);
    let commands = world.wait_for_records(&format!("{}.dlq", topics.session_commands), 1);
    world.wait_until_processed();
    running.stop();
    let code = |record: &super::world::Read1| record.header("__reflex.errors.code").expect("a code");
    let mut codes: Vec<String> = letters.iter().map(code).collect();
    codes.sort();
    assert_eq!(codes, ["bad_key", "bad_key", "bad_key", "null_value", "oversized"]);
    assert!(letters.iter().any(|letter| letter.value.as_deref() == Some(&large)));
    assert_eq!(code(&commands[0]), "missing_field");
}

#[test]
fn a_record_of_the_largest_size_the_topic_takes_becomes_a_dead_letter_whole() {
    let world = World::new("dead-large");
    let topics = world.topics();
    let running = world.run(&[]);
    let large = vec![b'x'; 1_048_000];
    world.send(&topics.events, Some(b"sess-1"), Some(&large), None);
    let letters = world.wait_for_records(&format!("{}.dlq", topics.events), 1);
    running.stop();
    assert_eq!(letters[0].value.as_deref().map(<[u8]>::len), Some(large.len()));
}

#[test]
fn a_topic_of_one_tenant_refuses_events_of_others() {
    let world = World::new("tenant");
    let topics = world.topics();
    let running = world.run(&["--set", "input.tenant=t-8"]);
    world.send_events(&story("sess-1"));
    let letters = world.wait_for_records(&format!("{}.dlq", topics.events), 3);
    running.stop();
    assert!(letters.iter().all(|letter| letter.header("__reflex.errors.code").as_deref() == Some("wrong_tenant")));
    assert_eq!(world.decisions().len(), 0);
}
