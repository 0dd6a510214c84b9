//! Resolving, and the long poll of a runtime whose run has failed.

use std::time::{Duration, Instant};

use reflex::serve::Limits;
use reflex::serve::access::Access;
use reflex::serve::api::Input;
use serde_json::{Value, json};

use super::client::{Answer, rest};
use super::fakes::Served;

#[test]
fn a_question_is_answered_from_the_board_either_way_it_is_put() {
    let served = Served::new();
    let question = |phase: &str| json!({ "graph": "g", "context": { "session_id": "s", "run_id": "r", "phase": phase, "graph_version": "v1", "current_schema_ref": "g:v1" } });
    let ask = |question: &Value| served.post("/v1/resolve", "runtime", question).json();
    assert_eq!(ask(&question("start"))["schema_ref"], "g:v1");
    served.put_override("s", 1);
    let failed = ask(&question("failed"));
    assert_eq!(
        (&failed["schema_ref"], &failed["entry_point"], &failed["override_id"]),
        (&json!("d:v1"), &json!("n"), &json!("ovr_s"))
    );
    let by_query = "/v1/resolve?graph=g&session_id=s&run_id=r&phase=failed&graph_version=v1&current_schema_ref=g:v1&attributes[model]=m";
    assert_eq!(served.get(by_query).json(), failed);
    served.board.put_override("key-s", None);
    assert_eq!(ask(&question("failed"))["reason"], "current");
    assert_eq!(ask(&json!({ "graph": "g" }))["schema_ref"], "g:");
}

#[test]
fn questions_that_are_none_are_refused_without_their_values() {
    let served = Served::new();
    for (body, status) in [
        ("{}", 400),
        ("[]", 400),
        ("{\"graph\":7}", 400),
        ("hunter2", 400),
        ("{\"graph\":\"\"}", 400),
        ("{\"graph\":\"g\"} {}", 400),
    ] {
        let head = format!("{}Content-Type: application/json\r\n", super::fakes::bearer("runtime"));
        let answer = served.ask("POST", "/v1/resolve", &head, body);
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        assert!(!answer.body.contains("hunter2"));
    }
    let form = format!("{}Content-Type: application/x-www-form-urlencoded\r\n", super::fakes::bearer("runtime"));
    assert_eq!(served.ask("POST", "/v1/resolve", &form, "{\"graph\":\"g\"}").status, 415);
    for path in [
        "/v1/resolve",
        "/v1/resolve?graph=",
        "/v1/resolve?graph=g&grahp=h",
        "/v1/resolve?graph=g&graph=h",
        "/v1/resolve?graph=g&explain=1",
        "/v1/overrides?after=x&wait=soon",
        "/v1/overrides?wait=-1",
        "/v1/interventions",
    ] {
        assert_eq!(served.get(path).status, 400, "{path}");
    }
}

#[test]
fn nothing_is_answered_before_the_overrides_were_read() {
    let served = Served::bare(Limits::default(), Access::new("", false, true).expect("open"), Input::default());
    for path in ["/v1/resolve?graph=g", "/v1/overrides", "/v1/overrides/stream", "/v1/interventions?session_id=s"] {
        let answer = served.get(path);
        assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("not_ready")), "{path}");
    }
    assert_eq!(["/livez", "/readyz", "/startupz"].map(|path| served.get(path).status), [200, 503, 503]);
    assert_eq!(served.get("/readyz").json()["reason"], "reading overrides");
    served.board.load(&std::collections::BTreeMap::new());
    assert_eq!(["/livez", "/readyz", "/startupz"].map(|path| served.get(path).status), [200, 200, 200]);
}

/// Waits with a long poll; what is done meanwhile answers it well before its end.
fn answered(served: &Served, query: &str, meanwhile: impl FnOnce()) -> Value {
    let mut poll = served.begin(&format!("/v1/interventions?{query}&wait=25"), "");
    served.wait_for_waiting(1);
    let started = Instant::now();
    meanwhile();
    let answer = Answer::parse(&rest(&mut poll));
    assert!(started.elapsed() < Duration::from_secs(15), "not at its end");
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["interventions"].clone()
}

#[test]
fn a_poll_is_answered_once_the_intervention_is_applied_with_its_override() {
    let served = Served::new();
    let told = answered(&served, "session_id=s&graph=g&run_id=r", || {
        served.put_intervention("other", "r", 1, "failed");
        served.put_intervention("s", "another-run", 1, "failed");
        served.put_intervention("s", "r", 2, "pending");
        served.put_intervention("s", "r", 2, "provisioning");
        served.put_override("s", 1);
        served.put_intervention("s", "r", 2, "applied");
    });
    assert_eq!(told.as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&told[0]["intervention"]["status"], &told[0]["override"]["override_id"]),
        (&json!("applied"), &json!("ovr_s"))
    );
    let at_once = served.get("/v1/interventions?session_id=s&run_id=r&wait=25").json();
    assert_eq!(at_once["interventions"], told, "it is there already");
}

#[test]
fn the_override_may_come_after_the_intervention_or_not_at_all() {
    let served = Served::new();
    let told = answered(&served, "session_id=a", || {
        served.put_intervention("a", "r", 1, "applied");
        std::thread::sleep(Duration::from_millis(50));
        served.put_override("a", 1);
    });
    assert_eq!(told[0]["override"]["override_id"], "ovr_a");
    let told = answered(&served, "session_id=b", || served.put_intervention("b", "r", 1, "applied"));
    assert_eq!((&told[0]["override"], &told[0]["settled"]), (&Value::Null, &json!(true)));
}

#[test]
fn every_end_settles_and_a_proposal_does_not() {
    let served = Served::new();
    for status in ["failed", "rejected", "expired", "observed"] {
        let told =
            answered(&served, &format!("session_id={status}"), || served.put_intervention(status, "r", 1, status));
        assert_eq!((&told[0]["settled"], &told[0]["override"]), (&json!(true), &Value::Null), "{status}");
    }
    served.put_intervention("p", "r", 1, "awaiting_approval");
    assert_eq!(served.get("/v1/interventions?session_id=p&wait=0.05").status, 204);
    let listed = served.get("/v1/interventions?session_id=p").json();
    assert_eq!(listed["interventions"][0]["settled"], false);
    assert_eq!(served.get("/v1/interventions?session_id=nobody").json(), json!({ "interventions": [] }));
}

#[test]
fn a_run_that_fails_again_is_answered_by_a_newer_intervention_only() {
    let served = Served::new();
    served.put_override("s", 1);
    served.put_intervention("s", "r", 1, "applied");
    assert_eq!(served.get("/v1/interventions?session_id=s&after=int_s_1&wait=0.05").status, 204);
    let told = answered(&served, "session_id=s&after=int_s_1", || served.put_intervention("s", "r", 2, "failed"));
    assert_eq!(told[0]["intervention"]["intervention_id"], "int_s_2");
    assert_eq!(told.as_array().map(Vec::len), Some(1));
    let all = served.get("/v1/interventions?session_id=s").json();
    assert_eq!(all["interventions"][0]["intervention"]["intervention_id"], "int_s_2", "newest first: {all}");
}

#[test]
fn the_oldest_interventions_are_forgotten_over_the_limit() {
    let served = Served::with(Limits { interventions_kept_max: 2, ..Limits::default() });
    for number in 1..=3 {
        served.put_intervention("s", "r", number, "failed");
    }
    let kept = served.get("/v1/interventions?session_id=s").json();
    let ids: Vec<&Value> = kept["interventions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["intervention"]["intervention_id"])
        .collect();
    assert_eq!(ids, ["int_s_3", "int_s_2"]);
    assert_eq!(served.metric("reflex_board_interventions"), 2);
    assert_eq!(served.reached("interventions_kept_max"), 1);
}
