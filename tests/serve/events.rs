//! Events over HTTP: every encoding, item by item, acknowledged or not.

use std::sync::atomic::Ordering;

use reflex::serve::Limits;
use reflex::serve::access::Access;
use reflex::serve::api::Input;
use serde_json::{Value, json};

use super::client::Answer;
use super::fakes::{Served, bearer};

fn event(id: &str, session: &str) -> Value {
    json!({ "event_id": id, "type": "progress", "session_id": session, "graph": "g" })
}

fn post(served: &Served, head: &str, body: &str) -> Answer {
    served.ask("POST", "/v1/events", &format!("{}{head}\r\n", bearer("runtime")), body)
}

fn published(served: &Served) -> Vec<(String, String)> {
    served.publisher.published.lock().expect("a lock").drain(..).collect()
}

#[test]
fn one_event_many_and_lines_are_published_in_order_under_their_sessions() {
    let served = Served::new();
    let (one, two) = (event("e1", "s1").to_string(), event("e2", "s2").to_string());
    for (kind, body, count) in [
        ("application/json", one.clone(), 1),
        ("Application/JSON; charset=utf-8", format!(" [{one}, {two}]"), 2),
        ("application/x-ndjson", format!("{one}\n\n{two}\r\n"), 2),
        ("application/octet-stream", one.clone(), 1),
    ] {
        let answer = post(&served, &format!("Content-Type: {kind}"), &body);
        assert_eq!((answer.status, answer.json()["accepted"].as_u64()), (202, Some(count)), "{kind}: {}", answer.body);
        let expected = [("s1", &one), ("s2", &two)].map(|(key, text)| (key.to_owned(), text.clone()));
        assert_eq!(published(&served), expected[..usize::try_from(count).expect("small")], "{kind}");
    }
}

#[test]
fn cloudevents_come_structured_in_batches_and_binary() {
    let served = Served::new();
    let cloud = |id: &str| json!({ "specversion": "1.0", "id": id, "source": "/a", "type": "reflex.progress", "partitionkey": "s", "data": { "graph": "g" } });
    let batch = json!([cloud("a"), cloud("b")]).to_string();
    assert_eq!(post(&served, "Content-Type: application/cloudevents+json", &cloud("a").to_string()).status, 202);
    assert_eq!(post(&served, "Content-Type: application/cloudevents-batch+json; charset=utf-8", &batch).status, 202);
    let binary = "Content-Type: application/json\r\nce-specversion: 1.0\r\nce-id: c\r\nce-source: /a\r\nce-type: reflex.progress\r\nce-partitionkey: s";
    assert_eq!(post(&served, binary, r#"{"graph":"g"}"#).status, 202);
    let ids: Vec<Value> = published(&served)
        .iter()
        .map(|(key, text)| {
            assert_eq!(key, "s");
            serde_json::from_str::<Value>(text).expect("JSON")["event_id"].clone()
        })
        .collect();
    assert_eq!(ids, ["a", "a", "b", "c"]);
}

#[test]
fn what_is_no_event_is_told_item_by_item_without_its_values() {
    let served = Served::new();
    let body = format!("{}\n{{\"event_id\":\"hunter2\"}}\nhunter2\n{}", event("e1", "s"), event("e2", "s"));
    let answer = post(&served, "Content-Type: application/x-ndjson", &body);
    assert_eq!(answer.status, 207);
    let told = answer.json();
    assert_eq!((&told["accepted"], &told["rejected"], &told["failed"]), (&json!(2), &json!(2), &json!(0)));
    let codes: Vec<(&Value, &Value)> =
        told["items"].as_array().expect("items").iter().map(|item| (&item["index"], &item["code"])).collect();
    assert_eq!(codes, [(&json!(1), &json!("missing_field")), (&json!(2), &json!("not_json"))]);
    assert!(!answer.body.contains("hunter2"), "{}", answer.body);
    assert_eq!(published(&served).len(), 2);
    let none = post(&served, "Content-Type: application/json", "{}");
    assert_eq!((none.status, none.json()["rejected"].as_u64()), (400, Some(1)));
    assert_eq!(post(&served, "Content-Type: application/json", "[1,").status, 400);
    assert_eq!(served.metric("reflex_http_events_total{outcome=\"rejected\"}"), 3);
}

#[test]
fn nothing_is_accepted_that_kafka_has_not_acknowledged() {
    let served = Served::new();
    served.publisher.fails.store(true, Ordering::Relaxed);
    let answer = post(&served, "Content-Type: application/json", &json!([event("e", "s"), {}]).to_string());
    assert_eq!(answer.status, 503);
    let told = answer.json();
    assert_eq!((&told["accepted"], &told["rejected"], &told["failed"]), (&json!(0), &json!(1), &json!(1)));
    assert_eq!(told["items"][0]["status"], "failed");
    assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
}

#[test]
fn too_many_events_and_too_large_ones_are_refused() {
    let limits = Limits { events_max: 2, ..Limits::default() };
    let event_bytes_max = reflex::registry::Limits::default().event_bytes_max as usize;
    assert!(limits.events_bytes_max > event_bytes_max, "the largest event has a place");
    let served = Served::with(limits);
    let three = json!([event("1", "s"), event("2", "s"), event("3", "s")]).to_string();
    assert_eq!(post(&served, "Content-Type: application/json", &three).status, 413);
    let mut large = event("e", "s");
    large["more"] = json!("x".repeat(event_bytes_max));
    let oversized = post(&served, "Content-Type: application/json", &large.to_string());
    assert_eq!((oversized.status, &oversized.json()["items"][0]["code"]), (400, &json!("oversized")));
    large["more"] = json!("x".repeat(limits.events_bytes_max));
    assert_eq!(post(&served, "Content-Type: application/json", &large.to_string()).status, 413);
    assert!(published(&served).is_empty());
    assert_eq!(served.reached("body_bytes_max"), 2);
}

#[test]
fn events_of_another_tenant_are_refused_where_the_topic_has_one() {
    let input = Input { tenant: Some("t".into()), ..Input::default() };
    let served = Served::bare(Limits::default(), Access::new("", false, true).expect("open"), input);
    let ask = |tenant: Value| {
        let mut event = event("e", "s");
        event["tenant"] = tenant;
        served.ask("POST", "/v1/events", "Content-Type: application/json\r\n", &event.to_string()).status
    };
    assert_eq!([ask(json!("t")), ask(json!("u")), ask(json!(null))], [202, 400, 400]);
}
