//! An input topic that was deleted and made again: its old offsets mean nothing, so nothing is done by them.

use std::time::Duration;

use reflex::engine::Cluster;
use reflex::engine::cluster::admin::Admin;

use super::world::{SOON, World, story, text};
use crate::harness::child;

/// Deletes the events topic and waits until it is gone.
fn delete_events(world: &World) {
    let cluster = Cluster { bootstrap_servers: world.bootstrap.clone(), ..Cluster::default() };
    let admin = Admin::new(&cluster, Duration::from_secs(10)).expect("an admin");
    let events = world.topics().events;
    admin.delete(&events).expect("deleted");
    child::wait_for("the topic is gone", SOON, || {
        admin.existing(std::slice::from_ref(&events)).expect("asked").is_empty().then_some(())
    });
}

#[test]
fn a_topic_made_anew_while_nobody_looked_is_refused_until_told() {
    let world = World::new("recreated");
    let topics = world.topics();
    let running = world.run(&[]);
    world.send_events(&story("sess-1"));
    world.wait_for_decisions(4);
    world.wait_until_processed();
    running.stop();
    delete_events(&world);
    world.apply();
    // More than the group has read of the old one: no offset is out of range.
    for session in 0..5 {
        world.send_events(&story(&format!("new-{session}")));
    }
    let refused = world.output(&["run"]);
    assert_eq!(refused.status.code(), Some(78), "{}", text(&refused));
    let said = text(&refused);
    assert!(said.contains(&format!("topic {} is another one than before", topics.events)), "{said}");
    assert_eq!(world.read(&topics.overrides).len(), 1, "no override by offsets of another topic");

    let running = world.run(&["--set", "start_at_earliest=true"]);
    world.wait_for_records(&topics.overrides, 6);
    running.stop();
    // From now on the new topic is the one that is known.
    let running = world.run(&[]);
    world.send_events(&story("after"));
    world.wait_for_records(&topics.overrides, 7);
    running.stop();
}

#[test]
fn a_topic_deleted_under_a_running_process_ends_it_with_its_name() {
    let world = World::new("deleted");
    let running = world.run(&[]);
    world.send_events(&story("sess-1"));
    world.wait_for_decisions(4);
    delete_events(&world);
    world.apply();
    let (code, log) = running.wait(Duration::from_mins(1));
    assert!(matches!(code, Some(69 | 78)), "{code:?} {log}");
    assert!(log.contains(&world.topics().events), "{log}");
    assert_eq!(world.read(&world.topics().overrides).len(), 1);
}
