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
fn approvals_at_once_in_two_processes_are_one() {
    let world = World::new("http-approve");
    let tokens = world.folder.path().join("tokens.toml");
    std::fs::write(
        &tokens,
        format!("[[token]]\nname = \"bob\"\nroles = [\"approver\"]\nblake3 = \"{}\"\n", blake3::hash(b"t")),
    )
    .expect("written");
    let set = format!("http_tokens={}", tokens.display());
    let running =
        world.run(&["--registry", &super::decisions::proposing(&world), "--http", "127.0.0.1:0", "--set", &set]);
    let (other, replica) = replica(&world, &["--set", &set]);
    let address = super::ops::address(&running);
    let bearer = "Authorization: Bearer t\r\n";
    world.send_events(&story("sess-1"));
    let path = "/v1/interventions?session_id=sess-1";
    let proposed = |at| {
        let found = ask(at, "GET", path, bearer, "").json()["interventions"][0]["intervention"].clone();
        (found["status"] == "awaiting_approval").then_some(found)
    };
    let proposal = child::wait_for("a proposal", SOON, || proposed(address).and(proposed(replica)));
    let approval = json!({ "verb": "approve", "target": proposal["intervention_id"], "content_hash": proposal["proposal"]["content_hash"], "reason": "yes" }).to_string();
    let decide = |at: SocketAddr, key: usize| {
        let head = format!("{bearer}Idempotency-Key: {key}\r\n");
        // Two processes may be in each other's way: the same key again.
        child::wait_for("a decision", SOON, || {
            Some(ask(at, "POST", "/v1/commands", &head, &approval)).filter(|answer| answer.status != 503)
        })
    };
    let answers: Vec<Answer> = thread::scope(|scope| {
        let decide = &decide;
        let asked: Vec<_> = (0..8).map(|n| scope.spawn(move || decide([address, replica][n % 2], n))).collect();
        asked.into_iter().map(|one| one.join().expect("an answer")).collect()
    });
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{answers:?}");
    assert!(statuses.iter().all(|status| [200, 409].contains(status)), "{answers:?}");
    world.wait_for_records(&world.topics().overrides, 1);
    running.stop();
    other.stop();
    assert_eq!(world.read(&world.topics().overrides).len(), 1);
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
