//! Decisions over HTTP: once each, whoever repeats them; refused, silent and unknown outcomes.

use std::sync::atomic::Ordering;
use std::thread;

use reflex::engine::operator::orders::Owner;
use reflex::record::command::Verb;
use reflex::serve::Limits;
use serde_json::{Value, json};

use super::client::Answer;
use super::fakes::{Served, bearer};

fn decide(served: &Served, token: &str, key: &str, decision: &Value) -> Answer {
    let head = format!("{}Content-Type: application/json\r\nIdempotency-Key: {key}\r\n", bearer(token));
    served.ask("POST", "/v1/commands", &head, &decision.to_string())
}

fn sent(served: &Served) -> usize {
    served.orders.sent.lock().expect("a lock").len()
}

fn lift() -> Value {
    json!({ "verb": "lift", "target": "ovr_s", "reason": "fixed" })
}

#[test]
fn a_decision_goes_to_the_owner_of_its_record() {
    let served = Served::new();
    served.put_override("s", 1);
    let answer = decide(&served, "operator", "k", &lift());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let told = answer.json();
    assert_eq!(
        (&told["outcome"], &told["author"], &told["answers"][0]["task"]),
        (&json!("done"), &json!("operator"), &json!("session/0"))
    );
    let (owner, command) = served.orders.sent.lock().expect("a lock")[0].clone();
    assert_eq!((owner, command.verb, command.reason.as_str()), (Owner::Session("s".into()), Verb::Lift, "fixed"));
    assert_eq!(told["command_id"], command.command_id);
    assert_eq!(decide(&served, "operator", "f", &json!({ "verb": "freeze", "reason": "r" })).status, 200);
    let (owner, command) = served.orders.sent.lock().expect("a lock")[1].clone();
    assert_eq!((owner, command.target.as_str()), (Owner::Everybody, "*"));
}

#[test]
fn an_override_that_a_person_orders_goes_to_its_graph() {
    let served = Served::new();
    let order = json!({ "scope": { "kind": "cohort", "region": "eu" }, "schema_ref": "d:v1", "ttl_ms": 60_000 });
    let force = json!({ "verb": "force", "target": "g", "reason": "r", "override": order });
    assert_eq!(decide(&served, "operator", "k", &force).status, 200);
    let (owner, command) = served.orders.sent.lock().expect("a lock")[0].clone();
    assert_eq!(
        (owner, command.verb, command.order.map(|order| order.ttl_ms)),
        (Owner::Graph("g".into()), Verb::Force, Some(60_000))
    );
    assert_eq!(decide(&served, "approver", "k", &force).status, 403);
    let mut without = force.clone();
    without["override"] = Value::Null;
    assert_eq!(decide(&served, "operator", "k2", &without).status, 400);
    let mut lift = lift();
    lift["override"] = force["override"].clone();
    assert_eq!(decide(&served, "operator", "k3", &lift).status, 400);
}

#[test]
fn a_decision_sent_again_is_answered_the_same_and_taken_once() {
    let served = Served::new();
    served.put_override("s", 1);
    let first = decide(&served, "operator", "k", &lift());
    // What it was about is gone meanwhile.
    served.board.put_override("key-s", None);
    let second = decide(&served, "operator", "k", &lift());
    assert_eq!((second.status, second.body), (first.status, first.body));
    assert_eq!(sent(&served), 1);
    let other = decide(&served, "operator", "k", &json!({ "verb": "freeze", "reason": "r" }));
    assert_eq!((other.status, other.json()["code"].as_str()), (409, Some("conflict")));
    assert_eq!(decide(&served, "operator", "k2", &lift()).status, 404, "another key is another decision");
}

#[test]
fn fifty_approvals_at_once_are_one() {
    let served = Served::with(Limits { commands_max: 100, ..Limits::default() });
    served.put_intervention("s", "r", 1, "awaiting_approval");
    let approval = json!({ "verb": "approve", "target": "int_s_1", "content_hash": "h", "reason": "yes" });
    let answers: Vec<Answer> = thread::scope(|scope| {
        let asked: Vec<_> = (0..50).map(|_| scope.spawn(|| decide(&served, "approver", "k", &approval))).collect();
        asked.into_iter().map(|one| one.join().expect("an answer")).collect()
    });
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.body == answers[0].body), "{answers:?}");
    assert_eq!(sent(&served), 1);
    // Each with a key of its own is sent, one after the other; the task decides which counts.
    let statuses: Vec<u16> = thread::scope(|scope| {
        let asked: Vec<_> = (0..20)
            .map(|n| (n, &served, &approval))
            .map(|(n, served, approval)| {
                scope.spawn(move || decide(served, "approver", &format!("k{n}"), approval).status)
            })
            .collect();
        asked.into_iter().map(|one| one.join().expect("an answer")).collect()
    });
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    assert_eq!(sent(&served), 21);
}

#[test]
fn outcomes_over_the_limit_are_forgotten_and_their_ids_stay_the_same() {
    let served = Served::with(Limits { outcomes_kept_max: 1, ..Limits::default() });
    let freeze = json!({ "verb": "freeze", "reason": "r" });
    let first = decide(&served, "operator", "a", &freeze).json();
    decide(&served, "operator", "b", &freeze);
    assert_eq!(served.reached("outcomes_kept_max"), 1);
    // It is sent again, under the id by which every task knows it.
    assert_eq!(decide(&served, "operator", "a", &freeze).json()["command_id"], first["command_id"]);
    let sent = served.orders.sent.lock().expect("a lock");
    assert_eq!((sent.len(), &sent[0].1.command_id), (3, &sent[2].1.command_id));
}

#[test]
fn over_the_limit_decisions_are_told_to_come_again() {
    let served = Served::with(Limits { commands_max: 1, ..Limits::default() });
    let freeze = json!({ "verb": "freeze", "reason": "r" });
    let statuses: Vec<u16> = thread::scope(|scope| {
        let asked: Vec<_> = (0..20)
            .map(|n| (n, &served, &freeze))
            .map(|(n, served, freeze)| scope.spawn(move || decide(served, "operator", &n.to_string(), freeze).status))
            .collect();
        asked.into_iter().map(|one| one.join().expect("an answer")).collect()
    });
    let busy = statuses.iter().filter(|status| **status == 503).count();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count() + busy, 20, "{statuses:?}");
    assert!(busy > 0 && busy < 20, "{statuses:?}");
    assert_eq!(sent(&served), 20 - busy);
}

#[test]
fn what_is_not_known_to_be_sent_is_said_so_and_may_be_repeated() {
    let served = Served::new();
    served.put_override("s", 1);
    served.orders.fails.store(true, Ordering::Relaxed);
    let unknown = decide(&served, "operator", "k", &lift());
    assert_eq!((unknown.status, unknown.json()["code"].as_str()), (503, Some("unavailable")));
    assert!(!unknown.body.contains("secret-host"), "{}", unknown.body);
    served.orders.fails.store(false, Ordering::Relaxed);
    assert_eq!(decide(&served, "operator", "k", &lift()).status, 200);
    served.orders.refuses.store(true, Ordering::Relaxed);
    let refused = decide(&served, "operator", "r", &lift());
    assert_eq!((refused.status, &refused.json()["answers"][0]["reason"]), (409, &json!("no_such_override")));
    served.orders.silent.store(true, Ordering::Relaxed);
    let silent = decide(&served, "operator", "t", &lift());
    assert_eq!((silent.status, silent.json()["outcome"].as_str()), (202, Some("sent")));
}

#[test]
fn decisions_that_are_none_are_refused_before_anything_is_sent() {
    let served = Served::new();
    served.put_override("s", 1);
    served.put_intervention("s", "r", 1, "applied");
    let change = |name: &str, value: Value| {
        let mut decision = lift();
        decision[name] = value;
        decision
    };
    for (decision, status) in [
        (change("reason", json!(" ")), 400),
        (change("reason", json!("a\u{1b}[0m")), 400),
        (change("reason", json!("x".repeat(1001))), 400),
        (change("target", json!("*")), 400),
        (change("target", json!("ovr_nobody")), 404),
        (change("content_hash", json!("h")), 400),
        (change("author", json!("root")), 400),
        (change("command_id", json!("c")), 400),
        (change("verb", json!("activate")), 400),
        (change("verb", json!("explode")), 400),
        (change("wait", json!(-1)), 400),
        (json!({ "verb": "freeze", "target": "ovr_s", "reason": "r" }), 400),
    ] {
        assert_eq!(decide(&served, "operator", "k", &decision).status, status, "{decision}");
    }
    for (decision, status) in [
        (json!({ "verb": "approve", "target": "int_s_1", "reason": "r" }), 400),
        (json!({ "verb": "approve", "target": "int_s_1", "content_hash": "h", "reason": "r" }), 409),
        (json!({ "verb": "reject", "target": "int_nobody", "reason": "r" }), 404),
    ] {
        assert_eq!(decide(&served, "approver", "a", &decision).status, status, "{decision}");
    }
    let keyless = served.post("/v1/commands", "operator", &lift());
    assert_eq!(keyless.status, 400);
    assert_eq!(decide(&served, "operator", &"k".repeat(201), &lift()).status, 400);
    assert_eq!(sent(&served), 0);
}
