//! HTTP over a real broker: an event posted, the override it makes, and everybody who waits for it.

use std::io::Write;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{self, Answer};
use super::world::{Running, SOON, World, story};
use crate::harness::child;

/// One request without a token, from this machine.
fn ask(address: SocketAddr, method: &str, path: &str, head: &str, body: &str) -> Answer {
    let length = body.len();
    client::say(
        address,
        &format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{head}\r\n{body}"
        ),
    )
}

fn resolved(address: SocketAddr, session: &str) -> Value {
    let context = json!({ "session_id": session, "run_id": "run-1", "phase": "failed", "tenant": "t-7", "graph_version": "v1", "current_schema_ref": "refund_graph:v1" });
    ask(address, "POST", "/v1/resolve", "", &json!({ "graph": "refund_graph", "context": context }).to_string()).json()
}

/// A second process that answers and decides nothing.
fn replica(world: &World, arguments: &[&str]) -> (Running, SocketAddr) {
    let running =
        Running::start(world.command(&[&["serve", "--http", "127.0.0.1:0"], arguments].concat()), world.folder.path());
    running.wait_for_log("overrides are read");
    let address = super::ops::address(&running);
    (running, address)
}

#[test]
fn an_event_posted_over_http_saves_its_session_and_wakes_who_waits() {
    let world = World::new("http");
    let running = world.run(&["--http", "127.0.0.1:0"]);
    let address = super::ops::address(&running);
    child::wait_for("ready", SOON, || (client::get(address, "/readyz").status == 200).then_some(()));
    let (other, replica) = replica(&world, &[]);
    assert_eq!(resolved(address, "sess-1")["schema_ref"], "refund_graph:v1");
    let cursor = client::get(replica, "/v1/overrides").json()["cursor"].clone();
    let polls: Vec<_> = [address, replica]
        .into_iter()
        .map(|at| thread::spawn(move || client::get(at, "/v1/interventions?session_id=sess-1&run_id=run-1&wait=25")))
        .collect();
    let posted = ask(address, "POST", "/v1/events", "", &Value::from(story("sess-1")).to_string());
    assert_eq!((posted.status, &posted.json()["accepted"]), (202, &json!(3)), "{}", posted.body);
    for poll in polls {
        let answer = poll.join().expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let told = &answer.json()["interventions"][0];
        assert_eq!(
            (&told["intervention"]["status"], &told["override"]["schema_ref"]),
            (&json!("applied"), &json!("degraded_refund_graph:v1"))
        );
    }
    let changes = client::get(replica, &format!("/v1/overrides?after={}&wait=25", cursor.as_str().expect("a cursor")));
    assert_eq!(changes.json()["overrides"].as_array().map(Vec::len), Some(1));
    for at in [address, replica] {
        let answer = resolved(at, "sess-1");
        assert_eq!(
            (&answer["schema_ref"], &answer["entry_point"], &answer["route"]),
            (&json!("degraded_refund_graph:v1"), &json!("log_refund_request"), &json!("degraded"))
        );
    }
    let bench =
        ["bench", "--requests", "50", "--seconds", "2", "--streams", "3", "-o", "json", "--http", &replica.to_string()];
    let measured = world.output(&bench);
    assert!(measured.status.success(), "{}", super::world::text(&measured));
    let measured: Value = serde_json::from_slice(&measured.stdout).expect("JSON");
    assert_eq!((&measured["streams"], &measured["resolve"]["failed"]), (&json!(3), &json!(0)), "{measured}");
    // It is the event that was posted, under the key that counts.
    let read = world.read(&world.topics().events);
    assert_eq!(read.iter().filter(|record| record.key.as_deref() == Some(b"sess-1")).count(), 3);
    running.stop();
    assert_eq!(resolved(replica, "sess-1")["route"], "degraded", "a replica answers also where nobody decides");
    other.stop();
}

#[test]
fn a_decision_over_http_is_the_tasks_and_its_author_is_who_bears_the_token() {
    let world = World::new("http-decide");
    let tokens = world.folder.path().join("tokens.toml");
    let made = world.output(&["token", "ann", "--role", "operator", "--role", "runtime", "-o", "json"]);
    let made: Value = serde_json::from_slice(&made.stdout).expect("JSON");
    let mut file = std::fs::File::create(&tokens).expect("a file");
    writeln!(file, "[[token]]\nname = \"ann\"\nroles = [\"operator\", \"runtime\"]\nblake3 = {}", made["blake3"])
        .expect("written");
    let set = format!("http_tokens={}", tokens.display());
    let running = world.run(&["--http", "127.0.0.1:0", "--set", &set]);
    let address = super::ops::address(&running);
    let bearer = format!("Authorization: Bearer {}\r\n", made["token"].as_str().expect("a token"));
    child::wait_for("ready", SOON, || (client::get(address, "/readyz").status == 200).then_some(()));
    assert_eq!(client::get(address, "/v1/overrides").status, 401);
    assert_eq!(ask(address, "POST", "/v1/events", &bearer, &Value::from(story("sess-1")).to_string()).status, 202);
    let found = ask(address, "GET", "/v1/interventions?session_id=sess-1&wait=25", &bearer, "").json();
    let id = found["interventions"][0]["override"]["override_id"].clone();
    let lift = json!({ "verb": "lift", "target": id, "reason": "fixed in 6.4.2" }).to_string();
    let decide = || ask(address, "POST", "/v1/commands", &format!("{bearer}Idempotency-Key: k\r\n"), &lift);
    let lifted = decide();
    assert_eq!((lifted.status, &lifted.json()["outcome"]), (200, &json!("done")), "{}", lifted.body);
    assert_eq!(decide().body, lifted.body);
    let tombstone = world.wait_for_records(&world.topics().overrides, 2);
    assert!(tombstone.iter().any(|record| record.value.is_none()));
    let audit = world.read(&world.topics().audit).into_iter().map(|record| record.json());
    let told: Vec<Value> = audit.filter(|line| line["entity_id"] == lifted.json()["command_id"]).collect();
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["author"], &told[0]["to"]), (&json!("ann"), &json!("done")));
    let log = running.stop();
    assert!(!log.contains(made["token"].as_str().expect("a token")), "{log}");
}

#[test]
fn a_broker_that_is_away_leaves_what_was_read_and_nothing_is_accepted() {
    let broker = crate::harness::broker();
    let world = World::on(broker.bootstrap(), "http-away");
    world.apply();
    let running = world.run(&["--http", "127.0.0.1:0"]);
    world.send_events(&story("sess-1"));
    world.wait_for_records(&world.topics().overrides, 1);
    running.stop();
    let (other, replica) = replica(&world, &[]);
    assert_eq!(resolved(replica, "sess-1")["route"], "degraded");
    broker.kill9();
    let posted = ask(replica, "POST", "/v1/events", "", &Value::from(story("sess-2")).to_string());
    assert_eq!((posted.status, &posted.json()["failed"]), (503, &json!(3)), "{}", posted.body);
    let started = Instant::now();
    assert_eq!(resolved(replica, "sess-1")["route"], "degraded");
    assert_eq!(client::get(replica, "/readyz").status, 200);
    assert!(started.elapsed() < Duration::from_secs(5), "from memory, without asking anybody");
    broker.restart();
    let again = child::wait_for("accepted", SOON, || {
        let posted = ask(replica, "POST", "/v1/events", "", &Value::from(story("sess-3")).to_string());
        (posted.status == 202).then_some(posted)
    });
    assert_eq!(again.json()["accepted"], 3);
    other.stop();
}
