//! `reflex run --http` on a real broker: what probes and metrics say while things happen.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use rdkafka::producer::{BaseRecord, Producer};
use serde_json::json;

use super::client::{Answer, get};
use super::exposition::Exposition;
use super::world::{PARTITIONS, Running, SOON, World, story, text, transactional};
use crate::harness::{self, child};

const HTTP: [&str; 2] = ["--http", "127.0.0.1:0"];

/// Where a process listens, from its log.
pub fn address(running: &Running) -> SocketAddr {
    running.wait_for_log("listening for HTTP");
    let log = running.log();
    let line = log.lines().find(|line| line.contains("listening for HTTP")).expect("told");
    let address = line.split("address=").nth(1).expect("an address").trim();
    // The log may be coloured.
    let plain: String = address.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
    plain.parse().expect("an address")
}

fn wait_for(address: SocketAddr, path: &str, status: u16) -> Answer {
    child::wait_for(&format!("{status} of {path}"), SOON, || Some(get(address, path)).filter(|a| a.status == status))
}

fn scrape(address: SocketAddr) -> Exposition {
    let answer = get(address, "/metrics");
    Exposition::parse(&answer.body).unwrap_or_else(|problem| panic!("{problem}\n{}", answer.body))
}

/// Waits until the metrics are like this.
pub fn wait_for_metrics(address: SocketAddr, what: &str, like: impl Fn(&Exposition) -> bool) -> Exposition {
    let mut last = None;
    let found = std::iter::repeat_with(|| std::thread::sleep(Duration::from_millis(100))).take(600).find_map(|()| {
        let read = scrape(address);
        let found = like(&read);
        last = Some(read);
        found.then(|| last.take()).flatten()
    });
    found.unwrap_or_else(|| panic!("{what}: {last:#?}"))
}

#[test]
fn metrics_show_the_events_of_a_run() {
    let world = World::new("metrics");
    let topics = world.topics();
    let running = world.run(&HTTP);
    let address = address(&running);
    (0..5).for_each(|number| world.send_events(&story(&format!("sess-{number}"))));
    world.send(&topics.events, Some(b"bad"), Some(b"bad"), None);
    world.wait_until_processed();
    let read = wait_for_metrics(address, "all shown", |read| {
        read.get("reflex_inputs_total").is_some_and(|count| count >= 16.0)
            && read.get("reflex_overrides_live") == Some(5.0)
            && read.values.keys().filter(|key| key.starts_with("reflex_lag_records{")).count() >= 3
            && read.sum("reflex_lag_records") < 1.0
            && read.sum("reflex_stable_offset_stuck_seconds") < 0.001
    });
    for (key, value) in [
        ("reflex_events_total", 15.0),
        (r#"reflex_events_by_type_total{type="node_failed"}"#, 15.0),
        (r#"reflex_event_findings_total{finding="failure"}"#, 15.0),
        ("reflex_signatures_total", 5.0),
        ("reflex_interventions_total", 5.0),
        (r#"reflex_intervention_states_total{state="applied"}"#, 5.0),
        (r#"reflex_overrides_total{change="published"}"#, 5.0),
        (r#"reflex_dead_letters_total{code="not_json"}"#, 1.0),
        ("reflex_sessions_tracked", 5.0),
        ("reflex_fencings_total", 0.0),
        (r#"reflex_tasks{worker="0"}"#, f64::from(PARTITIONS * 2)),
        ("reflex_ready", 1.0),
        ("reflex_restore_seconds_count", 1.0),
    ] {
        assert_eq!(read.get(key), Some(value), "{key}: {:#?}", read.values);
    }
    assert!(read.get("reflex_state_bytes").is_some_and(|bytes| bytes > 100.0));
    let committed = read.get(r#"reflex_transactions_total{outcome="committed"}"#);
    assert!(committed.is_some_and(|count| count >= 1.0));
    assert_eq!(read.get("reflex_commit_seconds_count"), committed);
    assert_eq!(read.get("reflex_transaction_seconds_count"), committed);
    for secret in ["sess-", "t-7", "refund_graph"] {
        assert!(!read.values.keys().any(|key| key.contains(secret)), "{secret}");
    }
    running.stop();
}

#[test]
fn a_process_tells_others_whether_it_is_ready_and_keeps_its_address() {
    let world = World::new("ready");
    let running = world.run(&HTTP);
    let address = address(&running).to_string();
    wait_for(address.parse().expect("an address"), "/readyz", 200);
    let asked = world.output(&["ready", "--http", &address]);
    assert_eq!(asked.status.code(), Some(0), "{}", text(&asked));
    assert!(text(&asked).contains(r#""ok":true"#), "{}", text(&asked));
    assert_eq!(world.output(&["ready", "--live", "--http", &address]).status.code(), Some(0));

    let mut second = world.command(&["run", "--http", &address]);
    second.env("REFLEX_DATA_DIR", world.folder.path().join("second"));
    let refused = second.output().expect("the program starts");
    assert_eq!(refused.status.code(), Some(78), "{}", text(&refused));
    assert!(text(&refused).contains("the address is in use"), "{}", text(&refused));
    assert!(!text(&refused).contains("worker started"), "before it joins: {}", text(&refused));

    running.stop();
    assert_eq!(world.output(&["ready", "--http", &address]).status.code(), Some(69), "nobody answers");
    assert_eq!(world.output(&["ready", "--http", ""]).status.code(), Some(78));
}

#[test]
fn a_process_is_ready_once_its_state_is_restored() {
    let world = World::new("restoring");
    // Behind this open transaction the end of the changelog cannot be read.
    let other = transactional(&world.bootstrap, &format!("{}-other", world.name));
    other.begin_transaction().expect("begun");
    let state = world.topics().state_session;
    other.send(BaseRecord::to(&state).partition(0).key("k").payload("v")).map_err(|(error, _)| error).expect("queued");
    other.flush(SOON).expect("delivered");
    let running = Running::start(world.command(&[&["run"][..], &HTTP].concat()), world.folder.path());
    let address = address(&running);
    let restoring = child::wait_for("restoring", SOON, || {
        let answer = get(address, "/readyz");
        assert_eq!(answer.status, 503, "{}", answer.body);
        (answer.json()["reason"] == "restoring state").then_some(answer)
    });
    assert_eq!(restoring.json()["workers"][0]["phase"], "restoring");
    assert_eq!(get(address, "/startupz").status, 503);
    assert_eq!(get(address, "/livez").status, 200, "a start that takes long is no reason to end it");
    other.abort_transaction(SOON).expect("aborted");
    wait_for(address, "/readyz", 200);
    assert_eq!(get(address, "/startupz").status, 200);
    running.stop();
}

#[test]
fn a_broker_that_is_away_ends_readiness_and_not_life_and_a_stop_says_so_until_it_is_done() {
    let broker = harness::broker();
    let world = World::on(broker.bootstrap(), "away");
    world.apply();
    let running = world.run(&HTTP);
    let address = address(&running);
    wait_for(address, "/readyz", 200);
    broker.kill9();
    let away = wait_for(address, "/readyz", 503);
    assert_eq!(get(address, "/livez").status, 200, "{}", away.body);
    broker.restart();
    wait_for(address, "/readyz", 200);
    assert_eq!(get(address, "/livez").status, 200);

    // A broker that hangs makes the stop long enough to be looked at.
    let signal = |signal: &str| {
        let sent = Command::new("kill").args([signal, &broker.pid().to_string()]).status().expect("kill");
        assert!(sent.success());
    };
    signal("-STOP");
    running.terminate();
    let stopping = wait_for(address, "/readyz", 503);
    assert_eq!(stopping.json()["reason"], json!("stopping"));
    assert_eq!(get(address, "/livez").status, 200, "it is not to be killed while it closes");
    signal("-CONT");
    let (code, log) = running.wait(Duration::from_secs(30));
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn lag_is_what_waits_to_be_taken_committed_or_not() {
    let world = World::new("lag");
    // Nothing urgent, and an interval longer than the test: nothing is committed.
    let running = world.run(&[&HTTP[..], &["--set", "commit_interval_ms=30000"]].concat());
    let address = address(&running);
    let healthy: Vec<_> = (0..50)
        .map(|number| {
            let session = format!("s{number}");
            json!({"event_id": format!("e{number}"), "type": "progress", "session_id": session, "graph": "g"})
        })
        .collect();
    world.send_events(&healthy);
    wait_for_metrics(address, "all taken", |read| read.get("reflex_events_total") == Some(50.0));
    assert!(world.offsets().iter().all(|(committed, _)| *committed == 0));
    let topic = world.topics().events;
    let key = |name: &str, partition: i32| format!("{name}{{topic=\"{topic}\",partition=\"{partition}\"}}");
    // A record of an open transaction hides itself, and what comes behind it on its partition.
    let other = transactional(&world.bootstrap, &format!("{}-other", world.name));
    other.begin_transaction().expect("begun");
    other.send(BaseRecord::to(&topic).partition(1).key("k").payload("v")).map_err(|(error, _)| error).expect("queued");
    other.flush(SOON).expect("delivered");
    let stuck = wait_for_metrics(address, "stuck", |read| {
        read.get(&key("reflex_stable_offset_stuck_seconds", 1)).is_some_and(|seconds| seconds > 0.0)
    });
    for partition in 0..PARTITIONS {
        assert_eq!(stuck.get(&key("reflex_lag_records", partition)), Some(0.0), "{:#?}", stuck.values);
    }
    assert_eq!(stuck.get(&key("reflex_stable_offset_stuck_seconds", 0)), Some(0.0));
    assert_eq!(stuck.get("reflex_ready"), Some(1.0), "there is nothing it could take");
    other.abort_transaction(SOON).expect("aborted");
    wait_for_metrics(address, "no longer", |read| {
        read.get(&key("reflex_stable_offset_stuck_seconds", 1)) == Some(0.0) && read.sum("reflex_lag_records") < 1.0
    });
    running.stop();
}
