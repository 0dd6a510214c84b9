//! What `topics` and `run` say about the cluster itself: copies, transactions, ids, permissions.

use std::time::Duration;

use reflex::engine::Cluster;
use reflex::engine::cluster::admin::Admin;
use serde_json::Value;

use super::world::{SOON, World, text};
use crate::harness::{Broker, child};

#[test]
fn production_refuses_one_copy_and_says_how_a_single_broker_is_accepted() {
    let world = World::new("copies");
    let refused = world.output(&["run", "--set", "dev=false"]);
    let said = text(&refused);
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(said.contains(&format!("topic {} has 1 replicas instead of 3", world.topics().events)), "{said}");
    assert!(said.contains("--dev (dev = true)"), "{said}");
    assert!(said.contains("broker 1 has transaction.state.log.min.isr=1"), "{said}");
    let check = |dev: &str| world.output(&["topics", "check", "--set", dev]);
    assert_eq!(check("dev=true").status.code(), Some(0), "{}", text(&check("dev=true")));
    let production = check("dev=false");
    assert_eq!(production.status.code(), Some(1), "{}", text(&production));
    assert!(text(&production).contains("broker 1 has transaction.state.log.min.isr=1"), "{}", text(&production));
}

#[test]
fn replicas_that_cannot_be_in_sync_are_found_by_check_and_refused_by_run() {
    let world = World::new("in-sync");
    let audit = world.topics().audit;
    let entity = ["--alter", "--entity-type", "topics", "--entity-name", &audit, "--add-config"];
    let set = [&entity[..], &["min.insync.replicas=2"]].concat();
    Broker::shared().tool("kafka.admin.ConfigCommand", &set).expect("configured");
    let words = format!("topic {audit} has min.insync.replicas=2 and 1 replicas");
    // The broker takes a change over some time after it was accepted.
    let check = child::wait_for("the change is in force", SOON, || {
        let check = world.output(&["topics", "check", "-o", "ndjson"]);
        (check.status.code() == Some(1)).then_some(check)
    });
    let lines: Vec<Value> =
        String::from_utf8_lossy(&check.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().any(|line| line["place"] == format!("topic {audit}") && line["grave"] == true), "{lines:?}");
    let refused = world.output(&["run"]);
    assert_eq!(refused.status.code(), Some(78), "{}", text(&refused));
    assert!(text(&refused).contains(&words), "{}", text(&refused));
}

#[test]
fn a_topic_that_is_deleted_and_made_again_has_another_id() {
    let world = World::new("ids");
    let cluster = Cluster { bootstrap_servers: world.bootstrap.clone(), ..Cluster::default() };
    let admin = Admin::new(&cluster, Duration::from_secs(10)).expect("an admin");
    let topics = world.topics();
    let names = [topics.events.as_str(), &topics.audit, "no-such-topic"];
    let before = admin.topic_ids(&names).expect("ids");
    assert_eq!(before.len(), 2, "{before:?}");
    assert_eq!(admin.topic_ids(&names).expect("ids"), before, "ids are stable");
    let described = ["--describe", "--topic", topics.events.as_str()];
    let described = Broker::shared().tool("org.apache.kafka.tools.TopicCommand", &described).expect("described");
    assert!(described.contains(&format!("TopicId: {}", before[&topics.events])), "{described} {before:?}");

    admin.delete(&topics.events).expect("deleted");
    child::wait_for("the topic is gone", SOON, || {
        admin.existing(std::slice::from_ref(&topics.events)).expect("asked").is_empty().then_some(())
    });
    world.apply();
    let after = admin.topic_ids(&names).expect("ids");
    assert_eq!(after[&topics.audit], before[&topics.audit]);
    assert_ne!(after[&topics.events], before[&topics.events]);
}

#[test]
fn permissions_are_printed_without_a_broker() {
    let world = World::on("127.0.0.1:9", "acls");
    let printed = world.output(&["topics", "acls"]);
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed));
    let said = text(&printed);
    assert!(said.contains("--allow-principal User:reflex-engine"), "{said}");
    assert!(said.contains(&format!("--transactional-id {}/ --resource-pattern-type prefixed", world.name)), "{said}");
    let json = world.output(&["topics", "acls", "-o", "json", "--user-prefix", "prod"]);
    let acls: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(acls[0]["principal"], "User:prod-engine");
}

#[test]
fn without_a_broker_check_says_so() {
    let world = World::on("127.0.0.1:9", "check-nobody");
    let check = world.output(&["topics", "check", "--set", "broker_timeout_ms=2000"]);
    assert_eq!(check.status.code(), Some(69), "{}", text(&check));
}
