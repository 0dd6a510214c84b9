//! Somebody holds every place of connections: supervisors and scrapers are answered all the same.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use reflex::engine::shown::health::Phase;
use reflex::serve::Limits;

use super::client::{Answer, connect, rest};
use super::exposition::Exposition;
use super::fakes::{Served, bearer};
use super::service::Service;

/// A day: nobody is displaced, and nobody's time is over, while a test runs.
const NEVER: Duration = Duration::from_hours(24);

fn limits() -> Limits {
    Limits { connections_max: 12, spare_max: 3, head_patience: NEVER, header_timeout: NEVER, ..Limits::default() }
}

/// A ready service with a route that is never answered, one that reads a body, and one that is quick.
fn service(limits: Limits) -> Service {
    let further = Router::new()
        .route("/never", get(std::future::pending::<()>))
        .route("/body", post(|_: Bytes| async { "read" }))
        .route("/quick", get(|| async { "quick" }));
    let service = Service::with(limits, further);
    service.monitor.workers()[0].vital.enter(Phase::Running, 1, Instant::now());
    service
}

fn metric(service: &Service, name: &str) -> f64 {
    let metrics = service.get("/metrics");
    assert_eq!(metrics.status, 200, "{metrics:?}");
    Exposition::parse(&metrics.body).expect("well formed").get(name).expect("a metric")
}

fn reached(service: &Service, limit: &str) -> f64 {
    metric(service, &format!("reflex_http_limit_reached_total{{limit=\"{limit}\"}}"))
}

/// So many connections that say this and nothing more.
fn hold(service: &Service, count: usize, said: &str) -> Vec<TcpStream> {
    let held = (0..count).map(|_| {
        let mut stream = service.connect();
        stream.write_all(said.as_bytes()).expect("said");
        stream
    });
    held.collect()
}

#[test]
fn health_and_metrics_are_answered_whatever_holds_every_place() {
    for said in [
        "",
        "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nslow",
        "GET /never HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let service = service(limits());
        let _held = hold(&service, limits().connections_max, said);
        for path in ["/livez", "/readyz", "/startupz", "/metrics", "/livez", "/metrics"] {
            assert_eq!(service.get(path).status, 200, "{path} while {said:?}");
        }
        let other = service.get("/quick");
        assert_eq!((other.status, other.json()["code"].as_str()), (503, Some("busy")), "while {said:?}");
        assert!(other.head.contains("retry-after: 1") && other.head.contains("connection: close"), "{}", other.head);
        assert!(reached(&service, "connections_max") >= 7.0);
    }
}

#[test]
fn connections_are_bounded_and_the_oldest_spare_one_makes_room_for_a_probe() {
    let service = service(limits());
    let (all, beyond) = (limits().connections_max + limits().spare_max, 40);
    let _held = hold(&service, all, "");
    let mut more: Vec<TcpStream> = Vec::new();
    for _ in 0..beyond {
        more.extend(hold(&service, 1, "GET /livez HTTP/1.1\r\nX-Slow: "));
        assert_eq!(service.get("/readyz").status, 200);
    }
    assert!(metric(&service, "reflex_http_connections_open") <= f64::from(u8::try_from(all).expect("small")));
    assert!(reached(&service, "spare_max") >= 40.0);
    assert_eq!(rest(&mut more[0]), "", "closed for those after it");
}

#[test]
fn a_spare_place_is_held_for_a_bounded_time_and_for_one_request() {
    let service = service(Limits { header_timeout: Duration::from_millis(300), ..limits() });
    let _held = hold(&service, limits().connections_max, "GET /never HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut one = hold(&service, 1, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").remove(0);
    assert_eq!(Answer::parse(&rest(&mut one)).status, 200, "an answer, and then the end");
    let mut slow = hold(&service, 1, "POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n").remove(0);
    assert!([0, 408].contains(&Answer::parse(&rest(&mut slow)).status));
    assert!(reached(&service, "header_timeout") >= 1.0);
}

#[test]
fn who_is_longest_without_a_head_makes_room_for_any_request() {
    let patience = Duration::from_millis(200);
    let service = service(Limits { head_patience: patience, ..limits() });
    let mut asking = hold(&service, 1, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut half = hold(&service, limits().connections_max - 1, "GET /quick HTTP/1.1\r\nHost: local");
    let asked = Instant::now();
    // The listener may have taken them later than they were said.
    let answer = std::iter::repeat_with(|| service.get("/quick")).find(|answer| answer.status == 200);
    assert_eq!(answer.map(|answer| answer.body).as_deref(), Some("quick"));
    assert!(asked.elapsed() >= patience / 2, "the heads had time");
    assert_eq!(rest(&mut half[0]), "", "closed, the oldest of them");
    assert!(reached(&service, "head_patience") >= 1.0);
    // Neither who had a whole head nor the youngest lost a place.
    asking[0].write_all(b"GET /quick HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("said");
    assert!(rest(&mut asking[0]).ends_with("quick"));
    let last = half.last_mut().expect("one");
    last.write_all(b"host\r\nConnection: close\r\n\r\n").expect("said");
    assert!(rest(last).ends_with("quick"));
}

#[test]
fn one_client_leaves_room_among_those_who_wait() {
    let limits = Limits { waiting_max: 3, waiting_per_client_max: 2, ..Limits::default() };
    let served = Served::with(limits);
    let _held = [(); 2].map(|()| served.begin("/v1/overrides/stream", ""));
    served.wait_for_waiting(2);
    for path in ["/v1/overrides/stream", "/v1/interventions?session_id=s&wait=1"] {
        let refused = served.ask("GET", path, &bearer("runtime"), "");
        assert_eq!((refused.status, refused.json()["code"].as_str()), (429, Some("rate_limited")), "{path}");
        assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    }
    assert_eq!(served.reached("waiting_per_client_max"), 2);
    assert_eq!(served.get("/v1/interventions?session_id=s&wait=1").status, 204, "another token has room");
    let mut stream = connect(served.server.address());
    let head = format!("GET /v1/overrides/stream HTTP/1.1\r\nHost: localhost\r\n{}\r\n", bearer("operator"));
    stream.write_all(head.as_bytes()).expect("said");
    served.wait_for_waiting(3);
    assert_eq!(served.get("/v1/interventions?session_id=s&wait=1").status, 503, "all are held");
}
