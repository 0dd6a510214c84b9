//! One simulated session of the sample fleet: the events its runtime sends, step by step.

use std::time::Duration;

use serde_json::{Map, Value, json};

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Running `refund_graph:v1`.
    Primary,
    /// Its node failed for good; the runtime waits for an intervention.
    Waiting,
    /// Running the degraded graph.
    Degraded,
    /// Finished, on whichever graph.
    Finished,
    /// No intervention came within the budget: it exits as it would without Reflex.
    GaveUp,
}

/// The override a session runs under.
#[derive(Clone, Debug)]
pub struct Under {
    /// The schema it runs.
    pub schema_ref: String,
    /// The override.
    pub override_id: String,
    /// Its attempt.
    pub attempt: u32,
    /// The node it resumed at.
    pub entry_point: String,
}

/// One session.
#[derive(Debug)]
pub struct Sample {
    /// Its id.
    pub session_id: String,
    /// Its run.
    pub run_id: String,
    /// Its tenant.
    pub tenant: String,
    /// Its region.
    pub region: &'static str,
    /// Whether its evidence analysis never validates.
    pub fails: bool,
    /// Where it stands.
    pub phase: Phase,
    /// The override it runs under.
    pub under: Option<Under>,
    step: usize,
    sent: u32,
}

/// The graph of the sample fleet.
pub const GRAPH: &str = "refund_graph";
/// Its version.
pub const GRAPH_VERSION: &str = "v1";
/// Version of the sample application.
pub const APP_VERSION: &str = "6.4.1";
/// Nodes of the healthy path.
const NODES: [&str; 5] =
    ["identify_order", "request_evidence", "evaluate_evidence", "check_eligibility", "issue_refund"];
/// Attempts the runtime allows at a node.
const ATTEMPTS: u64 = 3;

impl Sample {
    /// The session of that number; number 0 is the story's.
    #[must_use]
    pub fn new(number: usize) -> Self {
        let story = number == 0;
        Self {
            session_id: if story { String::from("sess_1234") } else { format!("sess_{}", 2000 + number) },
            run_id: if story { String::from("run_77") } else { format!("run_{}", 100 + number) },
            tenant: if story { String::from("t-7") } else { format!("t-{}", number % 9) },
            region: if number.is_multiple_of(3) { "eu-west" } else { "us-east" },
            fails: number.is_multiple_of(10),
            phase: Phase::Primary,
            under: None,
            step: 0,
            sent: 0,
        }
    }

    /// The next event, and how long after it the one after comes; `None` where nothing is to be sent in this phase.
    pub fn next(&mut self) -> Option<(Value, Duration)> {
        let event = match self.phase {
            Phase::Primary => Some(self.primary()),
            Phase::Degraded => self.degraded(),
            Phase::Waiting | Phase::Finished | Phase::GaveUp => None,
        }?;
        self.step += 1;
        Some((event, Duration::from_millis(4)))
    }

    /// Moves the session to the degraded graph.
    pub fn resume(&mut self, under: Under) {
        self.under = Some(under);
        self.phase = Phase::Degraded;
        self.step = 0;
    }

    fn primary(&mut self) -> Value {
        match (self.step, self.fails) {
            (0, _) => self.event("graph_started", json!({})),
            (1 | 2, _) => self.node("node_completed", NODES[self.step - 1]),
            (3, _) => self.event("node_started", json!({"node": NODES[2], "attempt": 1})),
            (4..=6, true) => self.failure(self.step as u64 - 3),
            (_, true) => {
                self.phase = Phase::Waiting;
                self.event("graph_failed", json!({"error": error()}))
            }
            (4, false) => {
                let artifact = json!({"node": NODES[2], "artifact": {"name": "evidence_analysis", "present": true}});
                self.event("artifact_produced", artifact)
            }
            (5..=7, false) => self.node("node_completed", NODES[self.step - 3]),
            (_, false) => {
                self.phase = Phase::Finished;
                self.event("graph_completed", json!({"latency_ms": 812}))
            }
        }
    }

    fn failure(&mut self, attempt: u64) -> Value {
        let fields = json!({
            "node": NODES[2], "attempt": attempt, "max_attempts": ATTEMPTS, "error": error(),
            "artifact": {"name": "evidence_analysis", "present": false},
        });
        self.event("node_failed", fields)
    }

    fn degraded(&mut self) -> Option<Value> {
        let under = self.under.clone()?;
        let on = |fields: Value| {
            let mut all = json!({
                "route": "degraded", "schema_ref": under.schema_ref, "override_id": under.override_id,
                "override_attempt": under.attempt,
            });
            merge(&mut all, fields);
            all
        };
        match self.step {
            0 => Some(self.event("override_applied", on(json!({})))),
            1 => Some(self.event("node_completed", on(json!({"node": under.entry_point})))),
            _ => {
                self.phase = Phase::Finished;
                Some(self.event("graph_completed", on(json!({"latency_ms": 1900}))))
            }
        }
    }

    fn node(&mut self, event_type: &str, node: &str) -> Value {
        self.event(event_type, json!({"node": node}))
    }

    fn event(&mut self, event_type: &str, fields: Value) -> Value {
        self.sent += 1;
        let mut event = json!({
            "event_id": format!("{}-{}", self.session_id, self.sent), "type": event_type,
            "session_id": self.session_id, "run_id": self.run_id, "graph": GRAPH, "graph_version": GRAPH_VERSION,
            "tenant": self.tenant, "region": self.region, "app_version": APP_VERSION,
        });
        merge(&mut event, fields);
        event
    }
}

fn error() -> Value {
    json!({"class": "pydantic.ValidationError", "code": "ast_decoder", "message": "1 validation error for Evidence"})
}

fn merge(into: &mut Value, fields: Value) {
    if let (Value::Object(into), Value::Object(fields)) = (into, fields) {
        into.extend::<Map<String, Value>>(fields);
    }
}
