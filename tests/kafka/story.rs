//! Events in, records out, together with their offsets.

use super::world::{World, story};

#[test]
fn three_failures_become_one_intervention_and_one_override() {
    let world = World::new("story");
    let topics = world.topics();
    let running = world.run(&[]);
    world.send_events(&story("sess-1"));
    let audit = world.wait_for_decisions(4);
    world.wait_until_processed();
    running.stop();

    let interventions: Vec<_> = world.read(&topics.interventions).iter().map(super::world::Read1::json).collect();
    let statuses: Vec<_> = interventions.iter().map(|record| record["status"].as_str().expect("a status")).collect();
    assert_eq!(statuses, ["pending", "provisioning", "applied"]);
    let evidence = interventions[2]["evidence"].as_array().expect("evidence");
    assert_eq!(evidence.len(), 3);
    assert_eq!(evidence[2]["topic"], topics.events.as_str());
    assert_eq!(evidence[2]["event_id"], "sess-1-3");

    let overrides = world.read(&topics.overrides);
    assert_eq!(overrides.len(), 1);
    let record = overrides[0].json();
    assert_eq!(record["schema_ref"], "degraded_refund_graph:v1");
    assert_eq!(record["intervention_id"], interventions[0]["intervention_id"]);
    let key: serde_json::Value = serde_json::from_slice(overrides[0].key.as_deref().expect("a key")).expect("JSON");
    assert_eq!(key["scope"]["session_id"], "sess-1");

    // The chain of a task stands in the task's own partition, in order.
    let input = evidence[2]["partition"].as_i64().expect("a partition");
    assert!(audit.iter().all(|record| i64::from(record.partition) == input));
    let sequence: Vec<_> = audit.iter().map(|record| record.json()["seq"].as_u64().expect("a number")).collect();
    // Behind the two of the activation of the registry.
    assert_eq!(sequence, [2, 3, 4, 5]);
}

#[test]
fn avro_outputs_are_single_object_encoded() {
    let world = World::new("avro");
    let running = world.run(&["--set", "encoding=avro"]);
    world.send_events(&story("sess-1"));
    let overrides = world.wait_for_records(&world.topics().overrides, 1);
    running.stop();
    assert_eq!(overrides[0].value.as_deref().map(|bytes| &bytes[..2]), Some(&[0xC3, 0x01][..]));
}

#[test]
fn a_command_of_an_operator_lifts_an_override() {
    let world = World::new("command");
    let topics = world.topics();
    let running = world.run(&[]);
    world.send_events(&story("sess-1"));
    let overrides = world.wait_for_records(&topics.overrides, 1);
    let override_id = overrides[0].json()["override_id"].as_str().expect("an id").to_owned();
    let command = serde_json::json!({
        "command_id": "c-1", "verb": "lift", "target": override_id, "reason": "tested", "author": "somebody",
    });
    let bytes = command.to_string();
    world.send(&topics.session_commands, Some(b"sess-1"), Some(bytes.as_bytes()), None);
    let overrides = world.wait_for_records(&topics.overrides, 2);
    running.stop();
    assert_eq!(overrides[1].value, None);
    assert_eq!(overrides[1].key, overrides[0].key);
}
