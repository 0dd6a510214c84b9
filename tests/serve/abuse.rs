//! Clients that want too much: half requests, foreign names, large bodies, many connections.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use reflex::engine::shown::health::Phase;
use reflex::serve::{Bound, Limits, ServeError};

use super::client::{Answer, rest};
use super::exposition::Exposition;
use super::service::Service;

/// Short enough to wait for.
fn impatient() -> Limits {
    Limits { header_timeout: Duration::from_secs(1), ..Limits::default() }
}

/// How often a limit was reached, by the metrics.
fn reached(metrics: &Answer, limit: &str) -> f64 {
    let read = Exposition::parse(&metrics.body).expect("well formed");
    read.get(&format!("reflex_http_limit_reached_total{{limit=\"{limit}\"}}")).expect("a limit")
}

#[test]
fn heads_that_never_end_are_cut_and_others_are_served_meanwhile() {
    let service = Service::new(impatient());
    service.monitor.workers()[0].vital.enter(Phase::Running, 1, Instant::now());
    let mut half: Vec<TcpStream> = (0..8).map(|_| service.connect()).collect();
    for (number, stream) in half.iter_mut().enumerate() {
        // Some say nothing at all.
        if number % 2 == 0 {
            stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").expect("said");
        }
    }
    assert_eq!(service.get("/readyz").status, 200);
    for stream in &mut half {
        let answer = Answer::parse(&rest(stream));
        assert!([0, 408].contains(&answer.status), "no answer, or that it took too long: {answer:?}");
    }
    assert!(reached(&service.get("/metrics"), "header_timeout") >= 8.0);
}

#[test]
fn a_connection_that_is_kept_and_not_used_is_closed() {
    let service = Service::new(impatient());
    let mut stream = service.connect();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("said");
    assert_eq!(Answer::parse(&rest(&mut stream)).status, 200, "an answer, and then the end");
}

#[test]
fn a_connection_ends_at_its_age_whatever_it_does() {
    let service = Service::new(Limits { connection_age_max: Duration::from_secs(1), ..Limits::default() });
    let mut stream = service.connect();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("said");
    assert_eq!(Answer::parse(&rest(&mut stream)).status, 200);
    assert!(reached(&service.get("/metrics"), "connection_age_max") >= 1.0);
}

#[test]
fn a_name_that_is_not_ours_is_refused() {
    let service = Service::new(Limits::default());
    let address = service.server.address();
    let ask = |head: &str| service.say(&format!("GET {head}\r\nConnection: close\r\n\r\n")).status;
    for host in ["localhost", "127.0.0.1", "localhost:1", "reflex.internal", "REFLEX.internal:8080", "[::1]:80"] {
        assert_eq!(ask(&format!("/livez HTTP/1.1\r\nHost: {host}")), 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "reflex.internal.evil.example:8080"] {
        assert_eq!(ask(&format!("/livez HTTP/1.1\r\nHost: {host}")), 421, "{host}");
        assert_eq!(ask(&format!("/metrics HTTP/1.1\r\nHost: {host}")), 421, "{host}");
        assert_eq!(ask(&format!("/nothing HTTP/1.1\r\nHost: {host}")), 421, "{host}");
    }
    for (what, head) in [
        ("none", "/livez HTTP/1.1".to_owned()),
        ("none, of old", "/livez HTTP/1.0".to_owned()),
        ("two", "/livez HTTP/1.1\r\nHost: localhost\r\nHost: evil.example".to_owned()),
        ("two that contradict", format!("http://evil.example/livez HTTP/1.1\r\nHost: {address}")),
        ("no name", "/livez HTTP/1.1\r\nHost: a b".to_owned()),
    ] {
        assert_eq!(ask(&head), 400, "{what}");
    }
    assert_eq!(ask("http://evil.example/livez HTTP/1.1\r\nHost: evil.example"), 421);
}

#[test]
fn large_bodies_and_heads_are_refused() {
    let service = Service::new(Limits::default());
    let large =
        service.say("GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 65537\r\n\r\n");
    assert_eq!(large.status, 413);
    let head = format!("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Large: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(service.say(&head).status, 431);
    let many = "X-Many: 1\r\n".repeat(100);
    assert_eq!(service.say(&format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{many}\r\n")).status, 431);
    let metrics = service.get("/metrics");
    assert!(reached(&metrics, "body_bytes_max") >= 1.0);
    assert!(reached(&metrics, "head_bytes_max") >= 2.0);
}

#[test]
fn an_address_that_cannot_be_had_is_told() {
    let service = Service::new(Limits::default());
    let bind = |address: &str| Bound::new(address, "", Limits::default()).map(|bound| bound.address());
    assert!(matches!(bind(&service.server.address().to_string()), Err(ServeError::InUse(_))));
    assert!(matches!(bind("here"), Err(ServeError::BadAddress { .. })));
    assert!(matches!(bind("192.0.2.1:80"), Err(ServeError::BadAddress { .. })), "no address of this machine");
    let named = Bound::new("127.0.0.1:0", "fine, http://not", Limits::default());
    assert!(matches!(named, Err(ServeError::BadHost(_))));
}

#[test]
fn the_end_of_the_service_waits_for_nobody_who_says_nothing() {
    let service = Service::new(Limits::default());
    let mut silent = service.connect();
    let address = service.server.address();
    drop(service);
    assert_eq!(rest(&mut silent), "");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn an_answer_that_takes_too_long_is_given_up_and_others_are_not_kept_waiting() {
    let slow = Router::new().route("/slow", get(std::future::pending::<()>));
    let service = Service::with(Limits { request_timeout: Duration::from_secs(1), ..Limits::default() }, slow);
    let mut waiting = service.connect();
    waiting.write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("said");
    assert_eq!(service.get("/livez").status, 200);
    assert_eq!(Answer::parse(&rest(&mut waiting)).status, 408);
    assert!(reached(&service.get("/metrics"), "request_timeout") >= 1.0);
}
