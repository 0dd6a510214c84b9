//! Order, duplicates, what is unknown, and other people's sessions: none of it changes what a session gets.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::draft::{self, FAILURES, INERT};
use crate::world::{Act, Done, Step, by_number, difference, high, play};

/// Whether an event's id is remembered: failures, and the two types that speak for them.
fn is_remembered(step: &Step) -> bool {
    let Act::Event(event) = &step.act else { return false };
    let kind = event["type"].as_str().unwrap_or_default();
    FAILURES.contains(&kind) || kind == "retries_exhausted" || kind == "graph_failed"
}

fn is_event_of(step: &Step, kind: &str) -> bool {
    matches!(&step.act, Act::Event(event) if event["type"] == kind)
}

/// The same event again, as an input of its own.
fn again(step: &Step, number: i64) -> Step {
    let mut copy = Step { number, ..step.clone() };
    if let Act::Event(event) = &mut copy.act {
        event.insert(String::from("event_id"), format!("e-{}", step.number).into());
    }
    copy
}

/// Keeps the order within each session and draws anew which session is next.
fn interleaved(steps: &[Step], draws: &[Index]) -> Vec<Step> {
    let mut queues: Vec<Vec<Step>> = Vec::new();
    for step in steps {
        match queues.iter_mut().find(|queue| queue[0].whose() == step.whose()) {
            Some(queue) => queue.push(step.clone()),
            None => queues.push(vec![step.clone()]),
        }
    }
    let mut order = Vec::new();
    let mut heads = vec![0; queues.len()];
    for draw in draws.iter().cycle().take(steps.len()) {
        let open: Vec<usize> = (0..queues.len()).filter(|&q| heads[q] < queues[q].len()).collect();
        let queue = *draw.get(&open);
        order.push(queues[queue][heads[queue]].clone());
        heads[queue] += 1;
    }
    order
}

/// Whether the id is remembered also where its session is not tracked yet: it opens the tracking.
fn is_remembered_anywhere(step: &Step) -> bool {
    let Act::Event(event) = &step.act else { return false };
    let says_something = event.get("error").is_some_and(|error| error["class"] != "GraphInterrupt");
    is_remembered(step) && (event["type"] != "graph_failed" || says_something)
}

/// Whether the session begins anew with this step: its remembered ids are forgotten.
fn forgets(step: &Step) -> bool {
    is_event_of(step, "graph_started") || is_event_of(step, "session_ended")
}

/// A copy of each remembered event at a drawn later place, before its session begins anew.
fn with_late_duplicates(steps: &[Step], draws: &[Index]) -> Vec<Step> {
    let mut after: Vec<Vec<Step>> = vec![Vec::new(); steps.len()];
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| is_remembered_anywhere(step)) {
        let mine = |other: &&Step| other.whose() == step.whose() && forgets(other);
        let until = steps[at + 1..].iter().position(|other| mine(&other)).map_or(steps.len(), |next| at + 1 + next);
        let place = at + draws[at % draws.len()].index(until - at);
        after[place].push(again(step, 10_000 + step.number));
    }
    steps.iter().zip(after).flat_map(|(step, copies)| std::iter::once(step.clone()).chain(copies)).collect()
}

proptest! {
    #![proptest_config(draft::config(96))]

    #[test]
    fn a_failure_repeated_at_once_changes_nothing(steps in draft::steps(80)) {
        let twice: Vec<Step> = steps
            .iter()
            .flat_map(|step| {
                let copy = is_remembered(step).then(|| again(step, 10_000 + step.number));
                std::iter::once(step.clone()).chain(copy)
            })
            .collect();
        prop_assert_eq!(difference(&by_number(&play(&high(), &steps)), &by_number(&play(&high(), &twice))), None);
    }

    #[test]
    fn a_failure_repeated_before_its_session_begins_anew_changes_nothing(
        steps in draft::steps_of_sessions(80),
        draws in proptest::collection::vec(any::<Index>(), 1..80),
    ) {
        let twice = with_late_duplicates(&steps, &draws);
        prop_assert_eq!(difference(&by_number(&play(&high(), &steps)), &by_number(&play(&high(), &twice))), None);
    }

    #[test]
    fn unknown_fields_and_types_change_nothing(
        steps in draft::steps(80),
        kinds in proptest::collection::vec(proptest::sample::select(INERT.to_vec()), 1..20),
    ) {
        let kinds = kinds.iter().cycle();
        let more: Vec<Step> = steps
            .iter()
            .zip(kinds)
            .flat_map(|(step, kind)| {
                let Act::Event(event) = &step.act else { return vec![step.clone()] };
                let mut known = event.clone();
                known.insert(String::from("x_new"), json!({"deep": [null, 1.5, {"type": "node_failed"}]}));
                let mut unknown = known.clone();
                unknown.insert(String::from("type"), Value::from(*kind));
                let known = Step { act: Act::Event(known), ..step.clone() };
                vec![Step { number: 10_000 + step.number, act: Act::Event(unknown), ..step.clone() }, known]
            })
            .collect();
        let (plain, more) = (play(&high(), &steps), play(&high(), &more));
        // A deadline fires with the first step that comes: with the added one, if that is there.
        let gathered = |done: &[Done]| {
            let mut all = BTreeMap::<i64, String>::new();
            for (number, text) in by_number(done) {
                all.entry(number % 10_000).or_default().insert_str(0, &text);
            }
            all
        };
        prop_assert_eq!(difference(&gathered(&plain), &gathered(&more)), None);
    }

    #[test]
    fn the_order_of_other_sessions_changes_nothing(
        steps in draft::steps_of_sessions(120),
        draws in proptest::collection::vec(any::<Index>(), 1..120),
    ) {
        let shuffled = interleaved(&steps, &draws);
        prop_assert_eq!(difference(&by_number(&play(&high(), &steps)), &by_number(&play(&high(), &shuffled))), None);
    }

    #[test]
    fn the_events_of_another_tenant_change_nothing(steps in draft::steps_of_sessions(120)) {
        let of_t1 = |step: &&Step| step.whose().is_none_or(|(tenant, _)| tenant.as_deref() == Some("t-1"));
        let alone: Vec<Step> = steps.iter().filter(of_t1).cloned().collect();
        let numbers: Vec<i64> = alone.iter().map(|step| step.number).collect();
        let mut together = by_number(&play(&high(), &steps));
        together.retain(|number, _| numbers.contains(number));
        prop_assert_eq!(difference(&by_number(&play(&high(), &alone)), &together), None);
    }

    #[test]
    fn what_happens_on_the_shadow_changes_nothing(steps in draft::steps_of_sessions(120)) {
        let is_shadow = |step: &Step| match &step.act {
            Act::Event(event) => event.get("route").is_some_and(|route| route == "shadow"),
            _ => false,
        };
        let without: Vec<Step> = steps.iter().filter(|step| !is_shadow(step)).cloned().collect();
        prop_assert_eq!(difference(&by_number(&play(&high(), &without)), &by_number(&play(&high(), &steps))), None);
    }
}
