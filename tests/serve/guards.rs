//! Foreign pages, rates, names, and how errors look.

use reflex::serve::Limits;
use reflex::serve::access::Access;
use reflex::serve::api::Input;

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

#[test]
fn a_client_over_its_rate_is_told_when_to_come_again_and_others_are_served() {
    let limits = Limits { rate_per_second_max: 3, ..Limits::default() };
    let served = Served::with(limits);
    let ask = |token: &str| served.ask("GET", "/v1/resolve?graph=g", &bearer(token), "");
    let answers: Vec<_> = (0..8).map(|_| ask("runtime")).collect();
    let refused = answers.iter().find(|answer| answer.status == 429).expect("refused");
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    assert_eq!(ask("viewer").status, 200, "another client");
    for _ in 0..8 {
        ask("wrong");
    }
    assert_eq!(ask("wrong").status, 429, "who has no token is counted by address");
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
