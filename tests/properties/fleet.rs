//! The fleet stage over generated records: sums, watermark, limits, and a task that was restored or rolled back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use reflex::fleet::{Change, Fleet, Restore};
use reflex::record::command::Verb;
use reflex::record::event::Route;
use reflex::record::fleet::{FleetRecord, Tally};
use reflex::record::output::Record;
use reflex::record::task::entry;
use reflex::record::time::Timestamp;
use reflex::registry::Registry;

use crate::draft;
use crate::fleet_world::{Step, Told, instant, new, row, rows, signature, steps, take};
use crate::world::{bytes, high, registry};

const HOUR_MS: i64 = 3_600_000;

type Compacted = BTreeMap<String, Vec<u8>>;

fn small() -> Arc<Registry> {
    registry(&[
        ("fleet_series_max", 4),
        ("fleet_signatures_max", 2),
        ("fleet_sessions_max", 3),
        ("fleet_sources_max", 2),
        ("command_ids_max", 2),
    ])
}

fn limits(are_few: bool) -> Arc<Registry> {
    if are_few { small() } else { high() }
}

/// Everything that can be told of a task from outside, behind a step.
fn told(fleet: &mut Fleet, step: &Step) -> String {
    let published = bytes(&take(fleet, step));
    let seen = (fleet.watermark(), fleet.next_deadline(), fleet.in_use(), fleet.is_lagging(), fleet.is_frozen());
    let totals = ["g", "h"].map(|graph| (fleet.exposure(graph, 300_000), fleet.exposed(graph, HOUR_MS)));
    let failing: Vec<_> =
        fleet.failing("g", 900_000).map(|(entry, sessions)| (entry.clone(), sessions.len())).collect();
    format!("{published}{seen:?}{totals:?}{failing:?}")
}

fn commit(fleet: &mut Fleet) -> Vec<Change> {
    let changes = fleet.take_changes();
    fleet.committed();
    changes
}

fn play(fleet: &mut Fleet, steps: &[Step], every: usize) -> Vec<(String, Vec<Change>)> {
    let step = |step: &Step| {
        let told = told(fleet, step);
        (told, if is_commit(step, every) { commit(fleet) } else { Vec::new() })
    };
    steps.iter().map(step).collect()
}

fn is_commit(step: &Step, every: usize) -> bool {
    usize::try_from(step.number).unwrap() % every == 0
}

fn compact(entries: &mut Compacted, changes: &[Change]) {
    for Change { key, value } in changes {
        match value {
            Some(value) => drop(entries.insert(key.clone(), value.clone())),
            None => assert!(entries.remove(key).is_some(), "a tombstone for what was never there: {key}"),
        }
    }
}

fn full_hash(entries: &Compacted) -> u128 {
    entries.iter().fold(0, |sum: u128, (key, value)| sum.wrapping_add(entry::hash(key.as_bytes(), value)))
}

fn from_log(registry: &Arc<Registry>, log: &[Change]) -> Fleet {
    let mut restore = Restore::new("fleet/0", Arc::clone(registry));
    for Change { key, value } in log {
        restore.apply(key.as_bytes(), value.as_deref()).unwrap();
    }
    restore.finish().unwrap()
}

proptest! {
    #![proptest_config(draft::config(48))]

    #[test]
    fn a_task_restored_at_any_commit_goes_on_alike(
        steps in steps(50),
        every in 1_usize..4,
        are_few in any::<bool>(),
    ) {
        let registry = limits(are_few);
        let mut fleet = new(&registry);
        let whole = play(&mut new(&registry), &steps, every);
        let (mut log, mut entries) = (Vec::new(), Compacted::new());
        for (at, step) in steps.iter().enumerate() {
            take(&mut fleet, step);
            if !is_commit(step, every) {
                continue;
            }
            let changes = commit(&mut fleet);
            compact(&mut entries, &changes);
            log.extend(changes);
            let hash = fleet.state_hash();
            prop_assert_eq!(full_hash(&entries), hash);
            let compacted = Fleet::restore("fleet/0", Arc::clone(&registry), &entries).unwrap();
            for mut restored in [from_log(&registry, &log), compacted] {
                prop_assert_eq!(restored.state_hash(), hash);
                prop_assert_eq!(restored.take_changes(), vec![]);
                prop_assert_eq!(restored.in_use(), fleet.in_use());
                prop_assert_eq!(&play(&mut restored, &steps[at + 1..], every)[..], &whole[at + 1..]);
            }
        }
    }

    #[test]
    fn what_is_rolled_back_never_was(
        steps in steps(50),
        detours in proptest::collection::vec((crate::fleet_world::steps(20), 0_usize..3), 1..8),
        every in 1_usize..6,
        are_few in any::<bool>(),
    ) {
        let registry = limits(are_few);
        let whole = play(&mut new(&registry), &steps, every);
        let (mut fleet, mut calm) = (new(&registry), new(&registry));
        let mut detours = detours.iter().cycle();
        for (at, step) in steps.iter().enumerate() {
            if at == 0 || is_commit(&steps[at - 1], every) {
                let (detour, takes) = detours.next().unwrap();
                detour.iter().chain(&steps[at..]).for_each(|step| drop(take(&mut fleet, step)));
                (0..*takes).for_each(|_| drop(fleet.take_changes()));
                fleet.rollback();
                prop_assert_eq!(fleet.take_changes(), vec![]);
                prop_assert_eq!(fleet.state_hash(), calm.state_hash());
                prop_assert_eq!(fleet.counts(), calm.counts());
            }
            let done = play(&mut fleet, std::slice::from_ref(step), every);
            play(&mut calm, std::slice::from_ref(step), every);
            prop_assert_eq!(&done[0], &whole[at]);
        }
    }

    #[test]
    fn commits_change_nothing_and_the_same_log_gives_the_same_bytes(steps in steps(100), every in 1_usize..4) {
        let (mut never, mut often, mut again) = (new(&high()), new(&high()), new(&high()));
        for step in &steps {
            prop_assert_eq!(told(&mut never, step), told(&mut often, step));
            take(&mut again, step);
            if is_commit(step, every) {
                commit(&mut often);
            }
        }
        prop_assert_eq!(never.take_changes(), again.take_changes());
        commit(&mut often);
        prop_assert_eq!(never.state_hash(), often.state_hash());
    }

    #[test]
    fn limits_hold_and_what_they_forget_is_counted(steps in steps(120)) {
        let registry = small();
        let mut fleet = new(&registry);
        for step in &steps {
            take(&mut fleet, step);
            let use_now = fleet.in_use();
            prop_assert!(use_now.series <= 4 && use_now.signatures <= 2 && use_now.sessions <= 3 && use_now.sources <= 2);
        }
        let mut all = new(&high());
        for step in &steps {
            drop(take(&mut all, step));
        }
        let counts = all.counts();
        prop_assert_eq!(counts.series_evicted + counts.signatures_evicted + counts.sessions_evicted, 0);
    }

    #[test]
    fn windows_hold_what_a_naive_reader_of_the_log_counts(steps in steps(100)) {
        let (mut fleet, mut model) = (new(&high()), Model::default());
        for step in &steps {
            take(&mut fleet, step);
            model.step(step);
            prop_assert_eq!(fleet.watermark(), model.watermark, "step {}", step.number);
            for (graph, window_ms) in [("g", 300_000), ("g", HOUR_MS), ("h", 900_000)] {
                prop_assert_eq!(fleet.exposed(graph, window_ms), model.exposed(graph, window_ms), "step {}", step.number);
            }
        }
    }

    #[test]
    fn bent_entries_are_refused_or_taken_but_never_a_panic(
        steps in steps(40),
        at in any::<prop::sample::Index>(),
        byte in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let (mut fleet, mut entries) = (new(&high()), Compacted::new());
        for step in &steps {
            drop(take(&mut fleet, step));
        }
        compact(&mut entries, &commit(&mut fleet));
        let key = at.get(&entries.keys().cloned().collect::<Vec<_>>()).clone();
        let value = entries.get_mut(&key).unwrap();
        let byte = byte.index(value.len());
        value[byte] ^= 1 << bit;
        if let Ok(mut fleet) = Fleet::restore("fleet/0", high(), &entries) {
            take(&mut fleet, &Step { number: 1_000, at: instant(0), told: Told::Tick });
        }
    }
}

/// The contract, read naively.
#[derive(Default)]
struct Model {
    now: Timestamp,
    watermark: Timestamp,
    sources: BTreeMap<String, (Timestamp, Timestamp)>,
    counted: Vec<(String, i64, Tally)>,
}

impl Model {
    fn step(&mut self, step: &Step) {
        if self.now == Timestamp::EPOCH {
            (self.now, self.watermark) = (Timestamp::MIN, Timestamp::MIN);
        }
        self.now = self.now.max(step.at);
        self.advance();
        if let Told::Record(record) = &step.told {
            self.record(record);
        }
        self.advance();
    }

    /// The least of sources heard of within 10 s; nobody: the clock.
    fn advance(&mut self) {
        let live = self.sources.values().filter(|(_, heard)| self.now.millis_since(*heard) < 10_000);
        let least = live.map(|(mark, _)| *mark).min().unwrap_or(self.now);
        self.watermark = self.watermark.max(least.min(self.now));
    }

    fn record(&mut self, record: &FleetRecord) {
        let (source, mark) = record.source();
        if let FleetRecord::Rows(rows) = record {
            let bucket = rows.bucket.min(self.now).as_millis() / 10_000;
            let floor = self.watermark.as_millis().max(self.now.as_millis() - HOUR_MS);
            for (key, tally) in rows.iter() {
                if bucket >= floor / 10_000 - 360 && key.route != Route::Shadow && !key.late {
                    self.counted.push((rows.graph.clone(), bucket, tally));
                }
            }
        }
        let known = self.sources.get(source).filter(|(_, heard)| self.now.millis_since(*heard) < HOUR_MS);
        let mark = known.map_or(mark, |(known, _)| mark.max(*known));
        self.sources.insert(source.to_owned(), (mark, self.now));
    }

    fn exposed(&self, graph: &str, window_ms: i64) -> Tally {
        let end = self.watermark.as_millis().div_euclid(10_000);
        let floor = self.watermark.as_millis().max(self.now.as_millis() - HOUR_MS).div_euclid(10_000) - 360;
        let window = (end - window_ms / 10_000).max(floor)..end;
        let mut sum = Tally::default();
        let of_graph = self.counted.iter().filter(|(of, bucket, _)| of == graph && window.contains(bucket));
        of_graph.for_each(|(_, _, tally)| sum.add(tally));
        sum
    }
}

fn at(number: i64, at_ms: i64, told: Told) -> Step {
    Step { number, at: instant(at_ms), told }
}

fn runs(source: &str, mark_ms: i64, runs: u64) -> Told {
    rows(source, "g", instant(mark_ms), instant(mark_ms), row(Route::Primary, None, false), runs)
}

#[test]
fn a_source_that_is_silent_for_ten_seconds_holds_nothing_back() {
    let mut fleet = new(&high());
    take(&mut fleet, &at(0, 400, runs("session/0", 500, 1)));
    assert_eq!(fleet.watermark(), instant(400), "it is never ahead of the clock");
    take(&mut fleet, &at(1, 1_000, runs("session/0", 500, 1)));
    take(&mut fleet, &at(2, 2_000, runs("session/1", 1_900, 1)));
    assert_eq!(fleet.watermark(), instant(500), "the least of both");
    take(&mut fleet, &at(2, 10_999, runs("session/1", 10_900, 1)));
    assert_eq!(fleet.watermark(), instant(500));
    take(&mut fleet, &at(3, 11_000, Told::Tick));
    assert_eq!(fleet.watermark(), instant(10_900), "session/0 is idle");
    assert_eq!(fleet.next_deadline(), Some(instant(20_999)));
    take(&mut fleet, &at(4, 30_000, Told::Tick));
    assert_eq!(fleet.watermark(), instant(30_000), "nobody is live: the clock");
    take(&mut fleet, &at(5, 30_100, runs("session/0", 600, 1)));
    assert_eq!(fleet.watermark(), instant(30_100), "it never goes back");
    assert_eq!(fleet.exposed("g", HOUR_MS).runs_started, 5, "what comes back counts");
}

#[test]
fn a_source_that_comes_back_far_behind_lags_until_it_is_near() {
    let mut fleet = new(&high());
    take(&mut fleet, &at(0, 100_000, runs("session/0", 100_000, 1)));
    take(&mut fleet, &at(1, 105_000, runs("session/0", 100_001, 1)));
    assert!(!fleet.is_lagging());
    take(&mut fleet, &at(2, 200_000, runs("session/0", 100_002, 1)));
    assert!(fleet.is_lagging(), "it was silent and is 100 s behind");
    take(&mut fleet, &at(3, 205_000, runs("session/0", 145_001, 1)));
    assert!(!fleet.is_lagging(), "less than 60 s behind");
}

#[test]
fn an_hour_later_nothing_is_left_but_the_task() {
    let (mut fleet, mut entries) = (new(&high()), Compacted::new());
    take(&mut fleet, &at(0, 0, runs("session/0", 0, 1)));
    take(&mut fleet, &at(1, 0, signature("session/0", "g", instant(0), "a", "s-1", Route::Primary)));
    compact(&mut entries, &commit(&mut fleet));
    assert_eq!(
        entries.len(),
        9,
        "source, graph, row, two cells of runs, signature, its cell, session, task: {entries:?}"
    );
    take(&mut fleet, &at(2, HOUR_MS + 9_999, Told::Tick));
    assert_eq!(fleet.in_use().series, 2);
    take(&mut fleet, &at(3, HOUR_MS + 10_000, Told::Tick));
    compact(&mut entries, &commit(&mut fleet));
    assert_eq!(entries.keys().collect::<Vec<_>>(), ["task"]);
    assert_eq!(fleet.next_deadline(), None);
}

#[test]
fn sessions_are_counted_once_and_shadows_apart() {
    let mut fleet = new(&high());
    let failures = [("s-1", Route::Primary), ("s-1", Route::Trial), ("s-2", Route::Primary), ("s-3", Route::Shadow)];
    for (number, (session, route)) in (0..).zip(failures) {
        take(&mut fleet, &at(number, 0, signature("session/0", "g", instant(0), "a", session, route)));
    }
    let failing: Vec<_> = fleet
        .failing("g", 300_000)
        .map(|(entry, sessions)| (entry.recurrence.is_some(), entry.occurrences, sessions.len()))
        .collect();
    assert_eq!(failing, [(false, 3, 2), (true, 1, 1)]);
}

#[test]
fn each_command_is_carried_out_or_refused_once_and_told() {
    let mut fleet = new(&high());
    let mut lines = Vec::new();
    let verbs = [Verb::Freeze, Verb::Lift, Verb::Unfreeze, Verb::Approve];
    for (number, verb) in (0..).zip(verbs) {
        let step = at(number, number, Told::Command(verb));
        lines.extend(take(&mut fleet, &step));
        assert_eq!(fleet.is_frozen(), number < 2);
        assert_eq!(take(&mut fleet, &step), [], "a command that comes twice changes nothing");
    }
    let audits: Vec<_> = lines
        .iter()
        .map(|output| match &output.value {
            Some(Record::Audit(audit)) => &**audit,
            other => panic!("no audit line: {other:?}"),
        })
        .collect();
    let told: Vec<_> = audits.iter().map(|audit| (audit.entity.as_str(), audit.to.as_str())).collect();
    let expected = [
        ("task", "frozen"),
        ("command", "done"),
        ("command", "refused"),
        ("task", "running"),
        ("command", "done"),
        ("command", "refused"),
    ];
    assert_eq!(told, expected);
    assert!(audits.windows(2).all(|pair| pair[1].previous_hash == pair[0].hash()), "one chain");
    let tasks: BTreeSet<_> = audits.iter().map(|audit| audit.task.as_str()).collect();
    assert_eq!(tasks, BTreeSet::from(["fleet/0"]));
}
