//! Crashes, stops, restarts: every input once, whatever happens.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::exposition::Exposition;
use super::proxy::{Lost, Proxy};
use super::world::{Running, World, story};
use crate::harness;

/// Sessions of a run that is disturbed.
const SESSIONS: usize = 400;

fn send_slowly(world: &World) {
    let producer_world = World {
        bootstrap: world.bootstrap.clone(),
        name: world.name.clone(),
        folder: tempfile::tempdir().expect("a folder"),
    };
    for chunk in (0..SESSIONS).collect::<Vec<_>>().chunks(20) {
        let mut events = Vec::new();
        for number in chunk {
            events.extend(story(&format!("sess-{number}")));
        }
        producer_world.send_events(&events);
        producer_world.send(&world.topics().events, Some(b"bad"), Some(format!("bad {}", chunk[0]).as_bytes()), None);
        thread::sleep(Duration::from_millis(50));
    }
}

/// Every session has its four audit records once, and every bad record its dead letter once.
fn assert_exactly_once(world: &World) {
    let topics = world.topics();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for record in world.decisions() {
        let record = record.json();
        *seen.entry(format!("{} {} {}", record["entity_id"], record["to"], record["cause"])).or_default() += 1;
    }
    let repeated: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
    assert!(repeated.is_empty(), "published twice: {repeated:?}");
    assert_eq!(seen.len(), SESSIONS * 4);
    assert_eq!(world.read(&topics.overrides).len(), SESSIONS);
    let letters = world.read(&format!("{}.dlq", topics.events));
    assert_eq!(letters.len(), SESSIONS / 20);
    for (committed, end) in world.offsets() {
        assert_eq!(committed, end);
    }
}

#[test]
fn kill_9_in_the_middle_loses_nothing_and_repeats_nothing() {
    let world = World::new("kill9");
    let first = world.run(&[]);
    thread::scope(|scope| {
        let sending = scope.spawn(|| send_slowly(&world));
        world.wait_for_records(&world.topics().overrides, SESSIONS / 8);
        first.kill9();
        let second = world.run(&[]);
        thread::sleep(Duration::from_millis(300));
        second.kill9();
        let third = world.run(&[]);
        sending.join().expect("all sent");
        world.wait_until_processed();
        third.stop();
    });
    assert_exactly_once(&world);
}

#[test]
fn two_processes_share_the_partitions_and_one_takes_over_from_the_other() {
    let world = World::new("two");
    let first = world.run(&[]);
    let data = world.folder.path().join("second");
    let mut command = world.command(&["run"]);
    command.env("REFLEX_DATA_DIR", &data);
    let second = Running::start(command, world.folder.path());
    second.wait_for_log("assigned");
    thread::scope(|scope| {
        let sending = scope.spawn(|| send_slowly(&world));
        world.wait_for_records(&world.topics().overrides, SESSIONS / 8);
        first.kill9();
        sending.join().expect("all sent");
    });
    // A static member that does not come back costs a session timeout.
    world.wait_until_processed();
    second.stop();
    assert_exactly_once(&world);
}

#[test]
fn the_broker_dies_and_comes_back_and_the_worker_goes_on() {
    let broker = harness::broker();
    let world = World::on(broker.bootstrap(), "broker");
    world.apply();
    let running = world.run(&[]);
    thread::scope(|scope| {
        let sending = scope.spawn(|| send_slowly(&world));
        world.wait_for_records(&world.topics().overrides, SESSIONS / 8);
        broker.kill9();
        thread::sleep(Duration::from_secs(2));
        broker.restart();
        sending.join().expect("all sent");
    });
    world.wait_until_processed();
    running.stop();
    assert_exactly_once(&world);
}

#[test]
fn the_broker_hangs_in_the_middle_of_commits_and_nothing_is_repeated() {
    let broker = harness::broker();
    let world = World::on(broker.bootstrap(), "hang");
    world.apply();
    let running = world.run(&[]);
    let signal = |signal: &str| {
        let sent = Command::new("kill").args([signal, &broker.pid().to_string()]).status().expect("kill");
        assert!(sent.success());
    };
    thread::scope(|scope| {
        let sending = scope.spawn(|| send_slowly(&world));
        world.wait_for_records(&world.topics().overrides, SESSIONS / 8);
        signal("-STOP");
        // Longer than a call may take: the outcome of the commit under way is unknown.
        thread::sleep(Duration::from_secs(10));
        signal("-CONT");
        sending.join().expect("all sent");
    });
    world.wait_until_processed();
    running.stop();
    assert_exactly_once(&world);
}

/// Loses the end of one transaction in the middle of the run.
fn lose(lost: Lost, name: &str) {
    let proxy = Proxy::listen(5, lost);
    let port = proxy.port;
    let broker = harness::Broker::start(&[
        ("listeners", "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},PROXY://127.0.0.1:{extra}"),
        ("advertised.listeners", &format!("PLAINTEXT://127.0.0.1:{{port}},PROXY://127.0.0.1:{port}")),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXY:PLAINTEXT"),
    ])
    .expect("a broker");
    proxy.forward(&broker.extra_address());
    let world = World::on(broker.bootstrap(), name);
    world.apply();
    let mut command = world.command(&["run"]);
    command.env("REFLEX_BOOTSTRAP_SERVERS", format!("127.0.0.1:{port}"));
    let running = Running::start(command, world.folder.path());
    running.wait_for_log("assigned");
    send_slowly(&world);
    world.wait_until_processed();
    let log = running.stop();
    assert!(proxy.ends() > 5, "{} ends only", proxy.ends());
    assert!(log.contains("rebuilt=1"), "the outcome was not unknown: {log}");
    assert!(log.contains(" dropped=0"), "{log}");
    assert_exactly_once(&world);
}

#[test]
fn a_commit_whose_answer_is_lost_is_known_by_its_offsets() {
    lose(Lost::Answer, "lost-answer");
}

#[test]
fn a_commit_whose_request_is_lost_is_sent_again() {
    lose(Lost::Request, "lost-request");
}

#[test]
fn sigterm_commits_what_was_taken_and_ends_with_zero() {
    let world = World::new("term");
    // Nothing urgent, and an interval longer than the test: only the stop commits.
    let running = world.run(&["--http", "127.0.0.1:0", "--set", "commit_interval_ms=30000"]);
    let healthy: Vec<_> = (0..50)
        .map(|number| {
            serde_json::json!({"event_id": format!("e{number}"), "type": "graph_completed", "session_id": format!("s{number}"), "graph": "refund_graph"})
        })
        .collect();
    world.send_events(&healthy);
    let taken = |read: &Exposition| read.get("reflex_events_total") == Some(50.0);
    super::ops::wait_for_metrics(super::ops::address(&running), "all taken", taken);
    assert!(world.offsets().iter().all(|(committed, _)| *committed == 0));
    running.stop();
    assert!(world.offsets().iter().all(|(committed, end)| committed == end));
}

#[test]
fn an_id_used_twice_ends_one_process_and_names_the_id() {
    let world = World::new("twice");
    let first = world.run(&["--instance", "pod-1"]);
    let mut command = world.command(&["run", "--instance", "pod-1"]);
    command.env("REFLEX_DATA_DIR", world.folder.path().join("second"));
    let second = Running::start(command, world.folder.path());
    second.wait_for_log("assigned");
    world.send_events(&story("sess-1"));
    let (code, log) = first.wait(Duration::from_secs(30));
    assert_eq!(code, Some(78), "{log}");
    assert!(log.contains(&format!("error: {}/pod-1/worker-0 is used by another process", world.name)), "{log}");
    world.wait_for_records(&world.topics().overrides, 1);
    second.stop();
}
