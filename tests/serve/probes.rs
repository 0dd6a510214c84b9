//! `/livez`, `/readyz`, `/startupz`: what they say in each phase of a worker's life.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use reflex::engine::shown::health::Phase;
use reflex::serve::Limits;
use serde_json::json;

use super::service::Service;

#[test]
fn a_worker_is_live_all_the_time_and_ready_with_its_tasks() {
    let service = Service::new(Limits::default());
    let vital = &service.monitor.workers()[0].vital;
    let probes = || ["/livez", "/readyz", "/startupz"].map(|path| service.get(path).status);
    assert_eq!(probes(), [200, 503, 503], "starting");
    vital.enter(Phase::Joining, 0, Instant::now());
    assert_eq!(probes(), [200, 503, 503], "joining");
    vital.enter(Phase::Restoring, 0, Instant::now());
    vital.restored(1234);
    assert_eq!(probes(), [200, 503, 503], "restoring");
    let restoring = service.get("/readyz").json();
    assert_eq!(restoring["reason"], "restoring state");
    assert_eq!(restoring["workers"][0]["restored_entries"], 1234);
    vital.enter(Phase::Running, 3, Instant::now());
    assert_eq!(probes(), [200, 200, 200], "running");
    let ready = service.get("/readyz").json();
    assert_eq!((&ready["ok"], &ready["reason"]), (&json!(true), &json!(null)));
    assert_eq!((&ready["workers"][0]["phase"], &ready["workers"][0]["tasks"]), (&json!("running"), &json!(3)));
    vital.enter(Phase::Joining, 0, Instant::now());
    assert_eq!(probes(), [200, 503, 200], "its tasks were taken away: it has started, and is not ready");
}

#[test]
fn an_outage_is_told_as_the_reason() {
    let service = Service::new(Limits::default());
    let watch = &service.monitor.workers()[0];
    watch.vital.enter(Phase::Running, 3, Instant::now());
    let tell = |state: &str, ago: u64| {
        watch.told(format!(r#"{{"brokers":{{"127.0.0.1:9092/1":{{"state":"{state}"}}}}}}"#).as_bytes());
        service.monitor.tend(Instant::now());
        service.monitor.health(Instant::now() + Duration::from_secs(ago)).unready()
    };
    assert_eq!(tell("UP", 5), None);
    assert_eq!(tell("DOWN", 0), None, "it may be connecting again");
    assert_eq!(tell("DOWN", 5), Some("no broker answers: commits wait for one"));
    watch.vital.enter(Phase::Joining, 0, Instant::now());
    assert_eq!(tell("DOWN", 5), Some("no broker answers: its tasks are given up until one does"));
    assert!(service.monitor.health(Instant::now() + Duration::from_secs(5)).is_live());
    assert_eq!(tell("UP", 5), Some("has no tasks yet"));
}

#[test]
fn a_stop_ends_readiness_at_once_and_a_failure_ends_life() {
    let service = Service::new(Limits::default());
    let vital = &service.monitor.workers()[0].vital;
    vital.enter(Phase::Running, 3, Instant::now());
    assert_eq!(service.get("/readyz").status, 200);
    service.stop.store(true, Ordering::Relaxed);
    let stopping = service.get("/readyz");
    assert_eq!((stopping.status, &stopping.json()["reason"]), (503, &json!("stopping")));
    assert_eq!(service.get("/livez").status, 200, "it is not to be killed while it commits");
    vital.enter(Phase::Failed, 0, Instant::now());
    let failed = service.get("/readyz");
    assert_eq!((failed.status, &failed.json()["reason"]), (503, &json!("failed")));
    assert_eq!(service.get("/livez").status, 503);
}

#[test]
fn a_worker_that_does_not_come_round_is_not_alive() {
    let service = Service::new(Limits::default());
    let vital = &service.monitor.workers()[0].vital;
    vital.enter(Phase::Running, 3, Instant::now());
    let later = |seconds| service.monitor.health(Instant::now() + Duration::from_secs(seconds));
    assert!(later(59).is_live());
    assert!(!later(61).is_live());
    assert_eq!(later(20).unready(), Some("stands still"));
}

#[test]
fn answers_are_not_kept_and_not_guessed_at() {
    let service = Service::new(Limits::default());
    for path in ["/livez", "/readyz", "/metrics", "/nothing"] {
        let head = service.get(path).head;
        for field in
            ["x-content-type-options: nosniff", "cache-control: no-store", "content-security-policy: default-src"]
        {
            assert!(head.contains(field), "{path}: {head}");
        }
    }
    assert_eq!(service.get("/nothing").status, 404);
    assert_eq!(service.get("/metrics").head.matches("application/openmetrics-text").count(), 1);
}

#[test]
fn only_reading_is_possible() {
    let service = Service::new(Limits::default());
    let ask = |method: &str| {
        service.say(&format!(
            "{method} /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        ))
    };
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
        let answer = ask(method);
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.head.contains("allow: get,head"), "{method}: {}", answer.head);
    }
    let head = ask("HEAD");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}
