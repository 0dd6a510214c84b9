//! Who may do what.

use std::os::unix::fs::PermissionsExt;

use reflex::serve::access::Access;
use reflex::serve::api::Input;
use reflex::serve::{Limits, ServeError};
use serde_json::json;

use super::fakes::{ROLES, Served, bearer, tokens};

#[test]
fn every_role_may_read_and_nobody_without_a_token() {
    let served = Served::new();
    for path in ["/v1/resolve?graph=g", "/v1/overrides", "/v1/interventions?session_id=s"] {
        for role in ROLES {
            assert_eq!(served.ask("GET", path, &bearer(role), "").status, 200, "{role} {path}");
        }
        for head in [
            "",
            "Authorization: Bearer wrong\r\n",
            "Authorization: Basic dmlld2Vy\r\n",
            &(bearer("viewer") + &bearer("viewer")),
        ] {
            let answer = served.ask("GET", path, head, "");
            assert_eq!(answer.status, 401, "{head} {path}");
            assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
        }
    }
    for path in ["/livez", "/readyz", "/startupz", "/metrics", "/v1/openapi.json"] {
        assert_eq!(served.ask("GET", path, "", "").status, 200, "{path}");
    }
    assert!(served.metric("reflex_http_refused_total{code=\"token\"}") >= 12);
}

#[test]
fn what_changes_something_needs_its_role() {
    let served = Served::new();
    served.put_override("s", 1);
    served.put_intervention("s", "r", 1, "awaiting_approval");
    let event = json!({ "event_id": "e", "type": "progress", "session_id": "s", "graph": "g" });
    let decision = |verb: &str| {
        let target = match verb {
            "lift" => json!("ovr_s"),
            "approve" | "reject" => json!("int_s_1"),
            _ => json!("*"),
        };
        let mut decision = json!({ "verb": verb, "target": target, "reason": "r" });
        if verb == "approve" {
            decision["content_hash"] = json!("h");
        }
        decision
    };
    for role in ROLES {
        let published = served.post("/v1/events", role, &event).status;
        assert_eq!(published, if role == "runtime" { 202 } else { 403 }, "{role}");
        for verb in ["lift", "freeze", "unfreeze", "approve", "reject"] {
            let may = role == if matches!(verb, "approve" | "reject") { "approver" } else { "operator" };
            let head = format!("{}Content-Type: application/json\r\nIdempotency-Key: {verb}\r\n", bearer(role));
            let status = served.ask("POST", "/v1/commands", &head, &decision(verb).to_string()).status;
            assert_eq!(status, if may { 200 } else { 403 }, "{role} {verb}");
        }
    }
    let authors: Vec<String> =
        served.orders.sent.lock().expect("a lock").iter().map(|(_, command)| command.author.clone()).collect();
    assert_eq!(authors, ["operator", "operator", "operator", "approver", "approver"]);
}

#[test]
fn without_tokens_this_machine_may_read_and_publish_and_nobody_may_decide() {
    let open = Served::bare(Limits::default(), Access::new("", false, true).expect("open"), Input::default());
    open.board.load(&std::collections::BTreeMap::new());
    let json = "Content-Type: application/json\r\nIdempotency-Key: k\r\n";
    let event = r#"{"event_id":"e","type":"progress","session_id":"s","graph":"g"}"#;
    assert_eq!(open.ask("GET", "/v1/overrides", "", "").status, 200);
    assert_eq!(open.ask("POST", "/v1/events", json, event).status, 202);
    assert_eq!(open.ask("POST", "/v1/commands", json, r#"{"verb":"freeze","reason":"r"}"#).status, 401);
    let closed = Served::bare(Limits::default(), Access::new("", false, false).expect("closed"), Input::default());
    assert_eq!(closed.ask("GET", "/v1/overrides", "", "").status, 403);
    assert_eq!(closed.ask("GET", "/livez", "", "").status, 200);
    assert!(matches!(Access::new("", true, false), Ok(Access::Open)));
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = tokens(&folder);
    for mode in [0o620, 0o602, 0o666] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        assert!(matches!(Access::new(&path, false, true), Err(ServeError::Tokens { .. })), "{mode:o}");
    }
    assert!(matches!(Access::new("not/there", false, true), Err(ServeError::Tokens { .. })));
}

#[test]
fn a_file_that_changes_is_read_again_and_one_that_is_wrong_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = tokens(&folder);
    let access = Access::new(&path, false, true).expect("tokens");
    let served = Served::bare(Limits::default(), access, Input::default());
    served.board.load(&std::collections::BTreeMap::new());
    let ask = |token: &str| served.ask("GET", "/v1/overrides", &bearer(token), "").status;
    let wait_for = |token: &str, status: u16| {
        let started = std::time::Instant::now();
        while ask(token) != status {
            assert!(started.elapsed() < std::time::Duration::from_secs(20), "{token} is never {status}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    assert_eq!((ask("viewer"), ask("new")), (200, 401));
    let text = std::fs::read_to_string(&path).expect("text");
    let hash = |token: &str| blake3::hash(token.as_bytes()).to_string();
    std::fs::write(&path, text.replace(&hash("viewer"), &hash("new"))).expect("written");
    wait_for("new", 200);
    assert_eq!((ask("viewer"), ask("runtime")), (401, 200));
    std::fs::write(&path, "[[token]]\nname = 7\n").expect("written");
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!(ask("new"), 200);
    std::fs::remove_file(&path).expect("removed");
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!(ask("new"), 200);
}
