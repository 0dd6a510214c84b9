//! Local stores: a start with one ends in the same state as a start without, whatever happened before.

use serde_json::Value;

use super::durable::{hashes, names};
use super::world::{Running, SOON, World, story};
use crate::harness::{Broker, child};

/// Partitions that were loaded from their local stores.
fn loaded(log: &str) -> usize {
    log.lines().filter(|line| line.contains("from its local store") && line.contains("loaded session/")).count()
}

fn events(names: &[String]) -> Vec<Value> {
    names.iter().flat_map(|name| story(name)).collect()
}

fn run(world: &World, store: &str) -> Running {
    world.run(&["--set", "log.level=info,reflex::engine=debug", "--set", &format!("store={store}")])
}

/// What a start without local stores finds: only the changelog, whole.
fn full(world: &World) -> Vec<String> {
    hashes(&run(world, "memory").stop(), "restored session/")
}

fn starts_alike(store: &str) {
    let world = World::new(&format!("stores-{store}"));
    let sessions = names(60);
    let first = run(&world, store);
    world.send_events(&events(&sessions[..20]));
    world.wait_until_processed();
    let left = hashes(&first.stop(), "left session/");
    assert_eq!(left.len(), 3);

    // A planned restart finds everything.
    let second = run(&world, store);
    let log = second.log();
    assert_eq!((loaded(&log), hashes(&log, "restored session/")), (3, left), "{log}");
    world.send_events(&events(&sessions[20..40]));
    world.wait_until_processed();
    second.kill9();

    // After a crash the store may be behind: the changelog has the rest.
    let third = run(&world, store);
    let log = third.stop();
    let found = hashes(&log, "restored session/");
    assert_eq!(loaded(&log), 3, "{log}");
    assert_eq!(found, full(&world), "{log}");

    // A process without stores went on in between.
    let fourth = run(&world, "memory");
    world.send_events(&events(&sessions[40..]));
    world.wait_until_processed();
    let left = hashes(&fourth.stop(), "left session/");
    let fifth = run(&world, store);
    let log = fifth.stop();
    assert_eq!((loaded(&log), hashes(&log, "restored session/")), (3, left.clone()), "{log}");

    // Damage: the store of one task is emptied, that of another belongs to a third.
    let stores = world.folder.path().join("data/store/session");
    std::fs::remove_dir_all(stores.join("0").join(store)).expect("removed");
    std::fs::create_dir(stores.join("0").join(store)).expect("made");
    std::fs::remove_dir_all(stores.join("1")).expect("removed");
    std::fs::rename(stores.join("2"), stores.join("1")).expect("moved");
    let sixth = run(&world, store);
    let log = sixth.stop();
    assert_eq!((loaded(&log), hashes(&log, "restored session/")), (0, left.clone()), "{log}");
    assert!(log.contains("the local store is set aside"), "{log}");

    // And all is well again.
    let seventh = run(&world, store);
    let log = seventh.stop();
    assert_eq!(hashes(&log, "restored session/"), left, "{log}");
}

#[test]
fn starts_with_sled_and_without_end_alike() {
    starts_alike("sled");
}

#[test]
fn starts_with_fjall_and_without_end_alike() {
    starts_alike("fjall");
}

#[test]
fn a_changelog_that_was_made_anew_is_noticed_by_its_id() {
    let world = World::new("stores-recreated");
    let sessions = names(60);
    let first = run(&world, "fjall");
    world.send_events(&events(&sessions[..6]));
    world.wait_until_processed();
    let log = first.stop();
    assert_eq!(hashes(&log, "left session/").len(), 3, "{log}");

    let tool = |arguments: &[&str]| {
        Broker::shared().tool("org.apache.kafka.tools.TopicCommand", arguments).expect("done");
    };
    tool(&["--delete", "--topic", &world.topics().state_session]);
    wait_until_gone(&world);
    world.apply();
    // Another registry: its activation is the first thing the empty tasks read.
    let second = world.run(&[
        "--set",
        "log.level=info,reflex::engine=debug",
        "--set",
        "store=memory",
        "--set",
        "limits.lateness_ms_max=0",
    ]);
    world.send_events(&events(&sessions[6..]));
    world.wait_until_processed();
    let left = hashes(&second.stop(), "left session/");

    // The stores end within the new changelog, so that nothing but its id tells.
    let third = run(&world, "fjall");
    let log = third.stop();
    assert_eq!((loaded(&log), hashes(&log, "restored session/")), (0, left.clone()), "{log}");
    assert!(log.contains("another topic of the same name"), "{log}");
    let fourth = run(&world, "fjall");
    let log = fourth.stop();
    assert_eq!((loaded(&log), hashes(&log, "restored session/")), (3, left), "{log}");
}

/// A topic that is being deleted is neither there nor gone for a moment.
fn wait_until_gone(world: &World) {
    child::wait_for("the changelog is gone", SOON, || {
        let listed = Broker::shared().tool("org.apache.kafka.tools.TopicCommand", &["--list"]).expect("listed");
        (!listed.lines().any(|topic| topic == world.topics().state_session)).then_some(())
    });
}
