//! When a signature is given, told a second time: a slow reading of the rules over the whole list of what
//! happened in one run, held against the session stage.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use reflex::record::fleet::FleetRecord;
use reflex::record::output::Record;
use serde_json::{Map, json};

use crate::draft::{self, put};
use crate::world::{Act, Done, Step, high, play};

/// A node, where one is named.
type Node = Option<&'static str>;

/// A signature as it is given: node, shape, what spent the budget.
type Given = (Node, String, String);

/// One event of the run.
#[derive(Clone, Debug)]
struct Told {
    kind: &'static str,
    node: Option<&'static str>,
    class: Option<&'static str>,
    attempt: Option<u32>,
    max_attempts: Option<u32>,
    retry_state: Option<&'static str>,
}

const FAILED: [&str; 3] = ["node_failed", "tool_call_failed", "model_call_failed"];

impl Told {
    fn is_failure(&self) -> bool {
        FAILED.contains(&self.kind)
    }

    /// Says that the node failed, or that it gave up: a completion after it is none.
    fn reports(&self) -> bool {
        self.is_failure() || self.kind == "retries_exhausted"
    }

    fn event(&self) -> Act {
        let mut event = Map::new();
        event.insert(String::from("type"), self.kind.into());
        for (name, value) in [("session_id", "s"), ("run_id", "r"), ("graph", "order_graph"), ("graph_version", "v1")] {
            event.insert(name.to_owned(), value.into());
        }
        put(&mut event, "node", self.node);
        put(&mut event, "error", self.class.map(|class| json!({"class": class})));
        put(&mut event, "attempt", self.attempt);
        put(&mut event, "max_attempts", self.max_attempts);
        put(&mut event, "retry_state", self.retry_state);
        Act::Event(event)
    }
}

/// The shape of an event of a type with an error of a class, by the rules of the scenarios' registry.
fn shape(kind: &str, class: Option<&str>) -> String {
    match (kind, class) {
        (_, Some("ValidationError")) => String::from("model_output_validation_error"),
        ("tool_call_failed", class) => format!("tool_error:{}", class.unwrap_or(kind)),
        (kind, class) => format!("app_error:{}", class.unwrap_or(kind)),
    }
}

/// What was told of a run so far; signatures given stand beside the event that gave them.
#[derive(Default)]
struct Run {
    told: Vec<(Told, Option<(Node, String)>)>,
}

impl Run {
    /// Index from which a node counts: behind its last reset.
    fn since(&self, node: Option<&str>) -> usize {
        let mut reported = false;
        let mut since = 0;
        for (at, (told, _)) in self.told.iter().enumerate() {
            let of_node = told.node == node;
            match told.kind {
                "progress" | "artifact_produced" if of_node || told.node.is_none() => since = at + 1,
                "node_completed" if of_node => {
                    if !reported {
                        since = at + 1;
                    }
                    reported = false;
                }
                "node_started" if of_node => reported = false,
                // Exhaustion is a report of its own where no failure stood for it.
                "retries_exhausted" if of_node => reported |= self.shape_before(at, node, since).is_none(),
                _ if told.is_failure() && of_node => reported = true,
                _ => {}
            }
        }
        since
    }

    /// The report a node failed with last, between two places.
    fn report_before(&self, until: usize, node: Option<&str>, since: usize) -> Option<&Told> {
        let mut last = None;
        for (told, _) in self.told[since.min(until)..until].iter().filter(|(told, _)| told.node == node) {
            if told.is_failure() || (told.kind == "retries_exhausted" && last.is_none()) {
                last = Some(told);
            }
        }
        last
    }

    fn shape_before(&self, until: usize, node: Option<&str>, since: usize) -> Option<String> {
        self.report_before(until, node, since).map(|told| shape(told.kind, told.class))
    }

    /// Whether an event repeats the run's previous failure.
    fn repeats(&self, told: &Told) -> bool {
        let previous = self.told.iter().rposition(|(told, _)| told.is_failure());
        told.kind == "node_failed"
            && told.attempt.is_some()
            && previous.is_some_and(|at| {
                let before = &self.told[at].0;
                let same = before.node == told.node && before.attempt == told.attempt;
                same && shape(before.kind, before.class) == shape(told.kind, told.class) && at >= self.since(told.node)
            })
    }

    fn signed(&self, node: Option<&str>, of: Option<&str>) -> bool {
        self.told[self.since(node)..].iter().any(|(_, given)| {
            given.as_ref().is_some_and(|(of_node, shape)| *of_node == node && of.is_none_or(|of| of == shape))
        })
    }

    /// The node that reported last and was not reset since, with the event that says its shape.
    fn last_failing(&self) -> Option<Node> {
        let reported = |at: &usize| {
            let told = &self.told[*at].0;
            let first = told.is_failure() || self.shape_before(*at, told.node, self.since(told.node)).is_none();
            told.reports() && first && *at >= self.since(told.node)
        };
        (0..self.told.len()).rev().find(reported).map(|at| self.told[at].0.node)
    }

    /// The signature an event gives, if it gives one: node, shape, what spent the budget.
    fn gives(&self, told: &Told) -> Option<Given> {
        let own = shape(told.kind, told.class);
        match told.kind {
            "retries_exhausted" => {
                // Without a node: of the node that failed last.
                let node = if told.node.is_none() { self.last_failing().unwrap_or(None) } else { told.node };
                let shape = self.shape_before(self.told.len(), node, self.since(node)).unwrap_or(own);
                Some((node, shape, String::from("retries_exhausted")))
            }
            "graph_failed" => self.graph_gives(told),
            _ if told.is_failure() => {
                let by = self.spent(told, &own)?;
                Some((told.node, own, by))
            }
            _ => None,
        }
        .filter(|(node, shape, _)| !self.signed(*node, Some(shape)))
    }

    fn graph_gives(&self, told: &Told) -> Option<Given> {
        let by = String::from("graph_failed");
        let own = told.class.map(|_| (None, shape("graph_failed", told.class), by.clone()));
        let Some(node) = self.last_failing() else { return own };
        let last = self.report_before(self.told.len(), node, self.since(node))?;
        let failed_with = shape(last.kind, last.class);
        if shape(last.kind, told.class.or(last.class)) != failed_with {
            return own;
        }
        if self.signed(node, None) { None } else { Some((node, failed_with, by)) }
    }

    fn spent(&self, told: &Told, own: &str) -> Option<String> {
        match told.retry_state {
            Some(state @ ("max_attempts" | "non_retryable" | "timeout" | "no_policy")) => {
                return Some(state.to_owned());
            }
            None if told.max_attempts.is_some_and(|max| max > 0 && told.attempt.is_some_and(|at| at >= max)) => {
                return Some(String::from("max_attempts"));
            }
            _ => {}
        }
        if self.repeats(told) {
            return None;
        }
        // Only one signal here has a trip of its own.
        let acts = told.node == Some("score") && own == "model_output_validation_error";
        let mut before = Self::default();
        let mut count = 1;
        let since = self.since(told.node);
        for (at, (earlier, given)) in self.told.iter().enumerate() {
            let same = earlier.node == told.node && shape(earlier.kind, earlier.class) == own;
            count += usize::from(at >= since && earlier.is_failure() && same && !before.repeats(earlier));
            before.told.push((earlier.clone(), given.clone()));
        }
        (count >= if acts { 4 } else { 3 }).then(|| String::from("identical_failures"))
    }
}

fn told() -> impl Strategy<Value = Told> {
    let kind = prop_oneof![
        10 => select(FAILED.to_vec()),
        2 => Just("node_failed"),
        1 => Just("retries_exhausted"),
        1 => Just("graph_failed"),
        4 => select(vec!["node_started", "node_completed", "progress", "artifact_produced", "tool_call_completed"]),
    ];
    let node = option::weighted(0.9, select(vec!["score", "rank"]));
    let class = option::weighted(0.7, select(vec!["ValidationError", "E"]));
    let state = option::weighted(0.15, select(vec!["in_progress", "cancelled", "non_retryable", "no_policy"]));
    let max = option::weighted(0.2, 0_u32..4);
    (kind, node, class, option::weighted(0.6, 1_u32..3), max, state).prop_map(
        |(kind, node, class, attempt, max_attempts, retry_state)| {
            let class =
                class.filter(|_| FAILED.contains(&kind) || kind == "graph_failed" || kind == "retries_exhausted");
            Told { kind, node, class, attempt, max_attempts, retry_state }
        },
    )
}

/// What a step observed: node, shape and what spent the budget of an exhausted signature.
fn observed(done: &Done) -> Option<(Option<String>, String, String)> {
    done.outputs.iter().find_map(|output| {
        let Some(Record::Fleet(record)) = &output.value else { return None };
        let FleetRecord::Signature(row) = &**record else { return None };
        let by = row.exhausted_by.clone().unwrap_or_default();
        let signature = &row.signature;
        signature.retry_budget_exhausted.then(|| (signature.node.clone(), signature.failure_shape.clone(), by))
    })
}

proptest! {
    #![proptest_config(draft::config(400))]

    #[test]
    fn signatures_are_given_when_a_naive_reading_of_the_contract_says_so(list in vec(told(), 1..40)) {
        let steps: Vec<Step> =
            (0..).zip(&list).map(|(number, told)| Step { number, at_ms: 0, act: told.event() }).collect();
        let mut run = Run::default();
        for (told, done) in list.iter().zip(play(&high(), &steps)) {
            let given = run.gives(told);
            let named = given.clone().map(|(node, shape, by)| (node.map(str::to_owned), shape, by));
            prop_assert_eq!(observed(&done), named, "at step {}", done.number);
            let mut told = told.clone();
            if told.kind == "retries_exhausted" && told.node.is_none() {
                told.node = run.last_failing().unwrap_or(None);
            }
            run.told.push((told.clone(), given.map(|(node, shape, _)| (node, shape))));
            if told.kind == "graph_failed" {
                run = Run::default();
            }
        }
    }
}

#[test]
fn the_naive_reading_knows_the_plain_cases() {
    let failed = |attempt| Told {
        kind: "node_failed",
        node: Some("rank"),
        class: Some("E"),
        attempt,
        max_attempts: None,
        retry_state: None,
    };
    let mut run = Run::default();
    for attempt in [Some(1), Some(1), Some(2)] {
        assert_eq!(run.gives(&failed(attempt)), None);
        run.told.push((failed(attempt), None));
    }
    let tripped = (Some("rank"), String::from("app_error:E"), String::from("identical_failures"));
    assert_eq!(run.gives(&failed(Some(3))), Some(tripped));
}
