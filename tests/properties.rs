//! Properties of the stages over generated logs: what must hold in any order of events, decisions and time.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test")]

#[path = "properties/bounded.rs"]
mod bounded;
#[path = "properties/cases.rs"]
mod cases;
#[path = "properties/draft.rs"]
mod draft;
#[path = "properties/durable.rs"]
mod durable;
#[path = "properties/fleet.rs"]
mod fleet;
#[path = "properties/fleet_world.rs"]
mod fleet_world;
#[path = "properties/gates.rs"]
mod gates;
#[path = "properties/hostile.rs"]
mod hostile;
#[path = "properties/ledger.rs"]
mod ledger;
#[path = "properties/model.rs"]
mod model;
#[path = "properties/order.rs"]
mod order;
#[path = "properties/ordered.rs"]
mod ordered;
#[path = "properties/rows.rs"]
mod rows;
#[path = "properties/world.rs"]
mod world;

use std::collections::BTreeSet;

use proptest::prelude::*;
use reflex::session::Effects;

use world::{Act, Done, Step, World, bytes, play};

proptest! {
    #![proptest_config(draft::config(96))]

    #[test]
    fn every_log_gives_a_consistent_ledger(steps in draft::steps(120)) {
        ledger::read(&play(&world::high(), &steps));
    }

    #[test]
    fn limits_never_break_the_ledger(steps in draft::steps(120)) {
        let limits = [
            ("interventions_per_session_max", 2),
            ("interventions_per_minute_max", 6),
            ("session_overrides_live_max", 3),
            ("irreversible_runs_max", 1),
            ("sessions_tracked_max", 3),
            ("runs_per_session_max", 2),
            ("shapes_per_run_max", 2),
            ("evidence_events_max", 1),
            ("artifacts_per_run_max", 1),
            ("duplicate_ids_max", 1),
            ("command_ids_max", 1),
        ];
        ledger::read(&play(&world::registry(&limits), &steps));
    }

    #[test]
    fn the_same_log_gives_the_same_bytes(steps in draft::steps(80)) {
        let registry = world::high();
        let once = play(&registry, &steps);
        let twice = play(&registry, &steps);
        let all = |done: &[Done]| bytes(done.iter().flat_map(|done| &done.outputs));
        prop_assert_eq!(all(&once), all(&twice));
        let seen = |done: &[Done]| done.iter().flat_map(|done| done.observations.clone()).collect::<Vec<_>>();
        prop_assert_eq!(seen(&once), seen(&twice));
    }

    #[test]
    fn steps_gathered_into_batches_give_the_same_bytes(steps in draft::steps(80), cut in 0_usize..80) {
        let registry = world::high();
        let singly = play(&registry, &steps);
        let mut world = World::new(&registry);
        let (mut first, mut second) = (Effects::default(), Effects::default());
        let cut = cut.min(steps.len());
        steps[..cut].iter().for_each(|step| world.step_into(step, &mut first));
        steps[cut..].iter().for_each(|step| world.step_into(step, &mut second));
        let batched = bytes(first.outputs.iter().chain(&second.outputs));
        prop_assert_eq!(bytes(singly.iter().flat_map(|done| &done.outputs)), batched);
    }

    #[test]
    fn healthy_logs_publish_nothing_and_track_only_irreversible_runs(steps in draft::healthy(120)) {
        let done = play(&world::high(), &steps);
        prop_assert!(done.iter().all(|done| done.outputs.is_empty() && done.observations.is_empty()));
        let is_past = |step: &&Step| match &step.act {
            Act::Event(event) => event["type"] == "node_completed" && event.get("node").is_some_and(|n| n == "charge"),
            _ => false,
        };
        let past: BTreeSet<_> = steps.iter().filter(is_past).map(Step::whose).collect();
        prop_assert!(done.last().is_none_or(|done| done.in_use.0 == 0 && done.in_use.1 <= past.len()));
    }
}
