//! Foreign pages, rates, bodies without an end, clients that go away, and how errors look.

use std::io::Write;
use std::time::Duration;

use reflex::serve::Limits;
use reflex::serve::access::Access;
use reflex::serve::api::Input;

use super::client::{Answer, connect, rest};
use super::fakes::{Served, bearer};

#[test]
fn pages_of_other_origins_may_not_ask() {
    let served = Served::new();
    let ask = |head: &str| {
        served
            .ask("POST", "/v1/events", &format!("{}Content-Type: application/json\r\n{head}", bearer("runtime")), "{}")
            .status
    };
    // Nothing is accepted of it, but it is looked at.
    for fine in [
        "",
        "Origin: http://localhost\r\n",
        "Origin: https://LOCALHOST\r\n",
        "Sec-Fetch-Site: same-origin\r\n",
        "Sec-Fetch-Site: none\r\n",
    ] {
        assert_eq!(ask(fine), 400, "{fine}");
    }
    for foreign in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: http://localhost.evil.example\r\n",
        "Origin: http://localhost:1\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Origin: http://localhost\r\nOrigin: http://evil.example\r\n",
    ] {
        assert_eq!(ask(foreign), 403, "{foreign}");
    }
    assert_eq!(served.metric("reflex_http_refused_total{code=\"origin\"}"), 7);
}

/// Asks until the rate is over, however slow the machine is: all at once, and again. Who has no token that is known is
/// counted by address.
fn first_refused(served: &Served, head: &str) -> Answer {
    let request = format!("GET /v1/resolve?graph=g HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{head}\r\n");
    let all_at_once = || {
        let mut streams: Vec<_> = (0..50).map(|_| connect(served.server.address())).collect();
        for stream in &mut streams {
            stream.write_all(request.as_bytes()).expect("said");
        }
        let answers = streams.iter_mut().map(|stream| Answer::parse(&rest(stream)));
        answers.filter(|answer| answer.status == 429).last()
    };
    (0..20).find_map(|_| all_at_once()).expect("refused")
}

#[test]
fn a_client_over_its_rate_is_told_when_to_come_again_and_others_are_served() {
    let limits = Limits { rate_per_second_max: 3, ..Limits::default() };
    let served = Served::with(limits);
    let ask = |token: &str| served.ask("GET", "/v1/resolve?graph=g", &bearer(token), "");
    let refused = first_refused(&served, &bearer("runtime"));
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    assert_eq!(ask("viewer").status, 200, "another client");
    first_refused(&served, &bearer("wrong"));
    assert_eq!(served.ask("GET", "/livez", "", "").status, 200);
    assert!(served.reached("rate_per_second_max") >= 2);
}

#[test]
fn every_error_has_one_form() {
    let served = Served::bare(Limits::default(), Access::new("", false, true).expect("open"), Input::default());
    for (method, path, head, status) in [
        ("GET", "/nothing", "", 404),
        ("DELETE", "/v1/events", "", 405),
        ("GET", "/v1/overrides?after=%ff%", "", 503),
        ("POST", "/v1/resolve", "Content-Type: text/plain\r\n", 415),
        ("GET", "/livez", "Sec-Fetch-Site: cross-site\r\n", 403),
    ] {
        let answer = served.ask(method, path, head, "");
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        assert!(answer.head.contains("content-type: application/problem+json"), "{path}: {}", answer.head);
        assert_eq!(answer.json()["status"], status);
        for field in ["x-content-type-options: nosniff", "cache-control: no-store"] {
            assert!(answer.head.contains(field), "{path}: {}", answer.head);
        }
    }
}

/// The head of a request with events.
fn head(length: &str) -> String {
    format!(
        "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n{}{length}\r\n\r\n",
        bearer("runtime")
    )
}

#[test]
fn a_body_that_does_not_say_how_large_it_is_is_read_to_its_limit_only() {
    let served = Served::with(Limits { events_bytes_max: 100_000, ..Limits::default() });
    let mut stream = connect(served.server.address());
    stream.write_all(head("Transfer-Encoding: chunked").as_bytes()).expect("said");
    let chunk = format!("{:x}\r\n{}\r\n", 10_000, " ".repeat(10_000));
    // A hundred megabytes, or as much of it as is listened to.
    let written = (0..10_000).take_while(|_| stream.write_all(chunk.as_bytes()).is_ok()).count();
    assert!(written < 10_000, "all of it was taken");
    let answer = Answer::parse(&rest(&mut stream));
    assert!([0, 413].contains(&answer.status), "{answer:?}");
    assert_eq!(served.reached("body_bytes_max"), 1);
}

#[test]
fn a_body_that_never_ends_has_the_time_of_a_request() {
    let served = Served::with(Limits { request_timeout: Duration::from_secs(1), ..Limits::default() });
    let mut stream = connect(served.server.address());
    stream.write_all(head("Content-Length: 100").as_bytes()).expect("said");
    stream.write_all(b"{\"event_id\":").expect("said");
    assert_eq!(Answer::parse(&rest(&mut stream)).status, 408);
    assert_eq!(served.reached("request_timeout"), 1);
}

#[test]
fn who_goes_away_leaves_its_place() {
    let served = Served::new();
    let polls = ["/v1/interventions?session_id=s&wait=25", "/v1/overrides/stream"].map(|path| served.begin(path, ""));
    served.wait_for_waiting(2);
    drop(polls);
    served.wait_for_waiting(0);
}
