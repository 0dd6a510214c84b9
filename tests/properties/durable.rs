//! A task that was restored, or rolled back, goes on as if nothing had been.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use reflex::registry::Registry;
use reflex::session::state::entry;
use reflex::session::{Change, Effects, Restore, RestoreError, Session};

use crate::draft;
use crate::world::{Done, Step, World, bytes, high, registry};

type Compacted = BTreeMap<String, Vec<u8>>;

/// Everything that can be told of a step from outside.
fn told(done: &Done) -> (String, String) {
    (bytes(&done.outputs), format!("{:?} {:?} {:?}", done.observations, done.in_use, done.next_deadline))
}

/// Carries steps out, commits behind every `every`-th, and tells of each step with what its commit wrote.
fn play(world: &mut World, steps: &[Step], every: usize) -> Vec<(String, String, Vec<Change>)> {
    let step = |step: &Step| {
        let (mut published, seen) = told(&world.step(step));
        let mut changes = Vec::new();
        if is_commit(step, every) {
            let mut effects = Effects::default();
            world.session().flush(&mut effects);
            published.push_str(&bytes(&effects.outputs));
            changes = commit(world);
        }
        (published, seen, changes)
    };
    steps.iter().map(step).collect()
}

fn is_commit(step: &Step, every: usize) -> bool {
    usize::try_from(step.number).unwrap() % every == 0
}

fn commit(world: &mut World) -> Vec<Change> {
    // Whoever wants to see the rows takes them before.
    world.session().flush(&mut Effects::default());
    let changes = world.session().take_changes();
    world.session().committed();
    changes
}

fn compact(entries: &mut Compacted, changes: &[Change]) {
    for Change { key, value } in changes {
        match value {
            Some(value) => drop(entries.insert(key.clone(), value.clone())),
            None => assert!(entries.remove(key).is_some(), "a tombstone for what was never there: {key}"),
        }
    }
}

/// What was decided: rows of counts come with commits, and `rows.rs` adds them up.
fn decided(published: &str) -> Vec<&str> {
    published.lines().filter(|line| !line.contains(r#""kind":"rows""#)).collect()
}

/// The hash of a state by its definition.
fn full_hash(entries: &Compacted) -> u128 {
    entries.iter().fold(0, |sum: u128, (key, value)| sum.wrapping_add(entry::hash(key.as_bytes(), value)))
}

fn from_log(registry: &Arc<Registry>, log: &[Change]) -> Session {
    let mut restore = Restore::new("session/0", Arc::clone(registry));
    for Change { key, value } in log {
        restore.apply(key.as_bytes(), value.as_deref()).unwrap();
    }
    restore.finish().unwrap()
}

fn small() -> Arc<Registry> {
    registry(&[
        ("interventions_per_session_max", 2),
        ("interventions_per_minute_max", 6),
        ("session_overrides_live_max", 3),
        ("irreversible_runs_max", 1),
        ("sessions_tracked_max", 3),
        ("runs_per_session_max", 2),
        ("shapes_per_run_max", 2),
        ("evidence_events_max", 2),
        ("duplicate_ids_max", 2),
        ("command_ids_max", 2),
    ])
}

fn limits(are_few: bool) -> Arc<Registry> {
    if are_few { small() } else { high() }
}

proptest! {
    #![proptest_config(draft::config(48))]

    #[test]
    fn a_task_restored_at_any_commit_goes_on_alike(
        steps in draft::steps(60),
        every in 1_usize..4,
        are_few in any::<bool>(),
    ) {
        let registry = limits(are_few);
        let mut world = World::new(&registry);
        let whole = play(&mut World::new(&registry), &steps, every);
        let (mut log, mut entries) = (Vec::new(), Compacted::new());
        for (at, step) in steps.iter().enumerate() {
            world.step(step);
            if !is_commit(step, every) {
                continue;
            }
            let changes = commit(&mut world);
            compact(&mut entries, &changes);
            log.extend(changes);
            let hash = world.session().state_hash();
            prop_assert_eq!(full_hash(&entries), hash);
            let compacted = Session::restore("session/0", Arc::clone(&registry), &entries).unwrap();
            for mut session in [from_log(&registry, &log), compacted] {
                prop_assert_eq!(session.state_hash(), hash);
                prop_assert_eq!(session.take_changes(), vec![]);
                prop_assert_eq!(session.in_use(), world.session().in_use());
                let mut restored = world.with(session);
                let rest = play(&mut restored, &steps[at + 1..], every);
                prop_assert_eq!(&rest[..], &whole[at + 1..]);
            }
        }
    }

    #[test]
    fn what_is_rolled_back_never_was(
        steps in draft::steps(60),
        detours in proptest::collection::vec((draft::steps(20), 0_usize..3), 1..8),
        every in 1_usize..6,
        are_few in any::<bool>(),
    ) {
        let registry = limits(are_few);
        let whole = play(&mut World::new(&registry), &steps, every);
        let (mut world, mut calm) = (World::new(&registry), World::new(&registry));
        let mut detours = detours.iter().cycle();
        for (at, step) in steps.iter().enumerate() {
            // At a commit, or before the first.
            if at == 0 || is_commit(&steps[at - 1], every) {
                let (detour, takes) = detours.next().unwrap();
                let ahead: Vec<Step> = detour.iter().chain(&steps[at..]).cloned().collect();
                world.detour(&ahead, |session| {
                    (0..*takes).for_each(|_| drop(session.take_changes()));
                    session.rollback();
                });
                prop_assert_eq!(world.session().take_changes(), vec![]);
                prop_assert_eq!(world.session().state_hash(), calm.session().state_hash());
                prop_assert_eq!(world.session().counts(), calm.session().counts());
            }
            let done = play(&mut world, std::slice::from_ref(step), every);
            play(&mut calm, std::slice::from_ref(step), every);
            prop_assert_eq!(&done[0], &whole[at]);
        }
    }

    #[test]
    fn commits_change_nothing(steps in draft::steps(120), every in 1_usize..4, are_few in any::<bool>()) {
        let registry = limits(are_few);
        let never: Vec<_> = crate::world::play(&registry, &steps).iter().map(told).collect();
        let often = play(&mut World::new(&registry), &steps, every);
        let often: Vec<(Vec<&str>, &String)> = often.iter().map(|(text, seen, _)| (decided(text), seen)).collect();
        let never: Vec<(Vec<&str>, &String)> = never.iter().map(|(text, seen)| (decided(text), seen)).collect();
        prop_assert_eq!(never, often);
    }

    #[test]
    fn taking_twice_in_one_transaction_is_taking_once(steps in draft::steps(60), are_few in any::<bool>()) {
        let registry = limits(are_few);
        let (mut once, mut twice) = (Compacted::new(), Compacted::new());
        let (mut patient, mut eager) = (World::new(&registry), World::new(&registry));
        for step in &steps {
            prop_assert_eq!(told(&patient.step(step)), told(&eager.step(step)));
            compact(&mut twice, &eager.session().take_changes());
            if is_commit(step, 7) {
                eager.session().committed();
                compact(&mut once, &commit(&mut patient));
                prop_assert_eq!(&once, &twice);
                prop_assert_eq!(patient.session().state_hash(), eager.session().state_hash());
            }
        }
    }

    #[test]
    fn bent_entries_are_refused_or_taken_but_never_a_panic(
        steps in draft::steps(40),
        at in any::<prop::sample::Index>(),
        byte in any::<prop::sample::Index>(),
        bit in 0_u8..8,
        cut in any::<bool>(),
    ) {
        let registry = high();
        let mut world = World::new(&registry);
        let mut entries = Compacted::new();
        for step in &steps {
            world.step(step);
            compact(&mut entries, &commit(&mut world));
        }
        let key = at.get(&entries.keys().cloned().collect::<Vec<_>>()).clone();
        let value = entries.get_mut(&key).unwrap();
        let byte = byte.index(value.len());
        if cut { value.truncate(byte) } else { value[byte] ^= 1 << bit }
        if let Ok(mut session) = Session::restore("session/0", registry, &entries) {
            let _ = session.take_changes();
        }
    }
}

fn entries_of_a_task() -> Compacted {
    let mut world = World::new(&high());
    let failed = crate::cases::event(&serde_json::json!({"session_id": "s", "type": "node_failed", "node": "rank"}));
    world.step(&Step { number: 0, at_ms: 0, act: failed });
    world.step(&Step { number: 1, at_ms: 1, act: crate::world::Act::Freeze });
    world.step(&Step { number: 2, at_ms: 2, act: crate::world::Act::Unfreeze });
    let mut entries = Compacted::new();
    compact(&mut entries, &commit(&mut world));
    entries
}

fn error_of(change: impl FnOnce(&mut Compacted)) -> String {
    let mut entries = entries_of_a_task();
    change(&mut entries);
    let restored: Result<Session, RestoreError> = Session::restore("session/0", high(), &entries);
    restored.expect_err("not a state").to_string()
}

#[test]
fn what_is_no_state_is_refused_in_words() {
    let other_format = rmp_serde::to_vec_named(&BTreeMap::from([("format", 7)])).unwrap();
    assert_eq!(
        error_of(|entries| drop(entries.insert(String::from("task"), other_format))),
        "state of format 7, this version reads format 1: restore with the version that wrote it"
    );
    assert_eq!(
        error_of(|entries| drop(entries.remove("task"))),
        "entries do not fit together: the entry `task` is missing"
    );
    let command = "c/0000000000000001";
    assert_eq!(
        error_of(|entries| drop(entries.remove(command).expect("a command"))),
        "entries do not fit together: a command is missing or newer than the task"
    );
    for key in ["", "x", "s/1", "s/000000000000000G", "S/0000000000000000", "task/", "s/00000000000000001"] {
        let error = error_of(|entries| drop(entries.insert(key.to_owned(), vec![0x80])));
        assert_eq!(error, format!("`{key}` is no key of a session task"));
    }
    let error = error_of(|entries| drop(entries.insert(command.to_owned(), b"{}".to_vec())));
    assert!(error.starts_with(&format!("entry `{command}`: ")), "{error}");
}

#[test]
fn entries_of_a_later_version_are_read_as_far_as_they_are_known() {
    let mut entries = entries_of_a_task();
    for value in entries.values_mut() {
        let mut fields: BTreeMap<String, serde_json::Value> = rmp_serde::from_slice(value).unwrap();
        fields.insert(String::from("a_new_field"), serde_json::json!({"more": [1, 2]}));
        *value = rmp_serde::to_vec_named(&fields).unwrap();
    }
    let mut session = Session::restore("session/0", high(), &entries).unwrap();
    assert_eq!((session.in_use(), session.state_hash()), ((0, 1), full_hash(&entries)));
    assert_eq!(session.take_changes(), vec![]);
}

#[test]
fn a_node_that_goes_on_is_reset_in_a_session_committed_since() {
    let event = |kind: &str, node: &Option<String>| {
        crate::cases::event(&serde_json::json!({"session_id": "s", "type": kind, "node": node}))
    };
    let nodes = (0..64).map(|number| Some(format!("node-{number}"))).chain([None]);
    for node in nodes {
        let kinds = ["node_failed", "node_failed", "node_completed", "node_completed", "node_failed"];
        let steps: Vec<Step> =
            (0..).zip(kinds).map(|(number, kind)| Step { number, at_ms: number, act: event(kind, &node) }).collect();
        let last = play(&mut World::new(&high()), &steps, 1).pop().unwrap();
        assert!(
            !last.0.contains(r#""retry_budget_exhausted":true"#),
            "{node:?} failed once since it went on: {}",
            last.0
        );
        let without: Vec<Step> = steps.iter().filter(|step| step.number != 3).cloned().collect();
        let last = play(&mut World::new(&high()), &without, 1).pop().unwrap();
        assert!(last.0.contains(r#""retry_budget_exhausted":true"#), "{node:?} failed three times: {}", last.0);
    }
}
