//! Resolution: the vectors of every language, the index against a scan over all records, selection over many sessions.

#![allow(clippy::expect_used, reason = "a test")]

#[path = "resolve/choices.rs"]
mod choices;
#[cfg(feature = "shell")]
#[path = "resolve/program.rs"]
mod program;
#[path = "resolve/scan.rs"]
mod scan;

use std::collections::BTreeMap;

use proptest::prelude::*;
use reflex::record::overrides::Override;
use reflex::record::time::Timestamp;
use reflex::resolve::bucket::{self, Purpose};
use reflex::resolve::{Applied, Context, OverrideTable, Reason, Resolution, explain, resolve};
use serde::Deserialize;
use serde_json::{Value, json};

// ---------------------------------------------------------------------------------------------------- vectors

#[derive(Deserialize)]
struct Vectors {
    hash: Vec<HashCase>,
    buckets: Vec<BucketCase>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct HashCase {
    text: String,
    seed: u32,
    hash: String,
}

#[derive(Deserialize)]
struct BucketCase {
    purpose: String,
    override_id: String,
    attempt_salt: String,
    session_id: String,
    hash: String,
    bucket: u32,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    now: Timestamp,
    graph: String,
    overrides: Vec<Value>,
    context: Context,
    expected: Value,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../vectors/resolve.json")).expect("vectors in their own form")
}

#[test]
fn hashes_and_buckets_are_those_of_every_language() {
    for case in vectors().hash {
        assert_eq!(
            format!("{:#010x}", bucket::murmur3_x86_32(case.text.as_bytes(), case.seed)),
            case.hash,
            "{}",
            case.text
        );
    }
    for case in vectors().buckets {
        let purpose = [Purpose::Shadow, Purpose::Trial].into_iter().find(|known| known.as_str() == case.purpose);
        let found =
            bucket::bucket(purpose.expect("a purpose"), &case.override_id, &case.attempt_salt, &case.session_id);
        let key = [case.purpose, case.override_id, case.attempt_salt, case.session_id].join("\u{1f}");
        assert_eq!(format!("{:#010x}", bucket::murmur3_x86_32(key.as_bytes(), 0)), case.hash, "{key}");
        assert_eq!(found, case.bucket, "{key}");
    }
}

#[test]
fn resolves_every_vector() {
    let cases = vectors().cases;
    assert!(cases.len() >= 400);
    let wrong: Vec<String> = cases.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

fn wrong(case: &Case) -> Option<String> {
    let mut table = OverrideTable::new();
    for (slot, value) in case.overrides.iter().enumerate() {
        table.apply_json(&slot.to_string(), Some(value.to_string().as_bytes()));
    }
    let found = explain(&table, &case.graph, &case.context, case.now);
    let short = resolve(&table, &case.graph, &case.context, case.now);
    assert_eq!(Resolution { losers: Vec::new(), ..found.clone() }, short, "{}", case.name);
    let found = serde_json::to_value(&found).expect("plain JSON");
    (found != case.expected).then(|| format!("{}:\n  found    {found}\n  expected {}", case.name, case.expected))
}

// ------------------------------------------------------------------------------------------------- properties

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The log has tombstones and overwritten keys; the index sees them all, the scan what is left.
    #[test]
    fn the_index_finds_what_a_scan_finds(
        log in prop::collection::vec((0..40_u8, any::<[u8; 14]>(), prop::bool::weighted(0.2)), 0..60),
        asked in prop::collection::vec(any::<[u8; 8]>(), 8),
        now in 0..3_i64,
    ) {
        let mut table = OverrideTable::new();
        let mut left = BTreeMap::new();
        for (id, (key, choice, tombstone)) in log.into_iter().enumerate() {
            let record = (!tombstone).then(|| choices::record(id, choice));
            table.apply(&key.to_string(), record.clone());
            left.insert(key, record);
        }
        let left: Vec<_> = left.into_values().flatten().collect();
        prop_assert_eq!(table.len(), left.len());
        for context in asked.into_iter().map(choices::context) {
            let now = Timestamp::from_millis(now);
            let found = explain(&table, "g", &context, now);
            prop_assert_eq!(serde_json::to_value(&found).expect("JSON"), scan::scan(&left, "g", &context, now));
            prop_assert_eq!(Resolution { losers: Vec::new(), ..found }, resolve(&table, "g", &context, now));
        }
    }
}

// -------------------------------------------------------------------------------------------------- selection

/// One cohort override in trial with a shadow, both at a percentage.
fn trial(percentage: f64) -> Override {
    let json = json!({"override_id": "ovr_1", "graph": "g", "scope": {"region": "eu"}, "tenant": null, "source": "auto",
        "schema_ref": "d:v1", "default_schema_ref": "d:v1", "candidate_schema_ref": "g:v1", "mode": "trial",
        "trial_percentage": percentage, "attempt": 0, "revision": 1, "status": "active", "reason": "slow",
        "created_at": "2026-11-30T05:00:00Z", "expires_at": "2026-12-01T05:00:00Z",
        "shadow": {"schema_ref": "s:v1", "status": "active", "probe_percentage": percentage,
            "selection": "deterministic", "side_effects": "disabled"}});
    serde_json::from_value(json).expect("an override")
}

fn now() -> Timestamp {
    "2026-11-30T07:00:00Z".parse().expect("a time")
}

fn of_session(session_id: &str) -> Context {
    let eu = json!({"session_id": session_id, "region": "eu", "graph_version": "v1"});
    serde_json::from_value(eu).expect("a context")
}

#[test]
fn a_growing_percentage_only_adds_sessions() {
    let steps = [0.0, 0.001, 0.5, 5.0, 10.0, 25.0, 33.3, 50.0, 99.999, 100.0];
    let mut shares = [0_u32; 10];
    for session in 0..200_000 {
        let session_id = format!("sess-{session:06}");
        let selected = steps.map(|step| bucket::selected(Purpose::Trial, "ovr_1", "", &session_id, step));
        assert!(selected.is_sorted(), "{session_id} leaves while the percentage grows: {selected:?}");
        shares.iter_mut().zip(selected).for_each(|(share, selected)| *share += u32::from(selected));
    }
    assert_eq!((shares[0], shares[9]), (0, 200_000));
    for (share, step) in shares.iter().zip(steps) {
        let percent = f64::from(*share) / 2000.0;
        assert!((percent - step).abs() < 0.5, "{step} % selects {percent} %");
    }
}

#[test]
fn shadow_and_trial_select_independently() {
    let both = (0..200_000).filter(|session| {
        let session_id = format!("sess-{session:06}");
        [Purpose::Shadow, Purpose::Trial]
            .iter()
            .all(|purpose| bucket::selected(*purpose, "ovr_1", "", &session_id, 5.0))
    });
    let percent = f64::from(u32::try_from(both.count()).expect("few")) / 2000.0;
    assert!((percent - 0.25).abs() <= 0.05, "5 % of 5 % are {percent} %");
}

#[test]
fn a_session_gets_one_schema_however_often_it_asks() {
    let mut table = OverrideTable::new();
    table.apply("k", Some(trial(50.0)));
    let mut trials = 0;
    for session in 0..100 {
        let context = of_session(&format!("sess-{session}"));
        let first = explain(&table, "g", &context, now());
        trials += u32::from(first.reason == Reason::Trial);
        assert!((0..1000).all(|_| resolve(&table, "g", &context, now()) == first));
    }
    assert!((30..70).contains(&trials), "{trials} of 100 in a trial of 50 %");
}

// ---------------------------------------------------------------------------------------------------- the log

fn published(id: &str, attempt: u32, revision: u32, schema_ref: &str) -> Override {
    let schema_ref = Some(schema_ref.to_owned());
    Override {
        override_id: id.to_owned(),
        attempt,
        revision,
        default_schema_ref: schema_ref.clone(),
        schema_ref,
        ..trial(0.0)
    }
}

/// What a session of the cohort runs after each record of one key.
fn replay(log: &[Option<Override>]) -> Vec<(Applied, String)> {
    let mut table = OverrideTable::new();
    let context = of_session("s");
    let mut step = |record: &Option<Override>| {
        let applied = table.apply("k", record.clone());
        (applied, resolve(&table, "g", &context, now()).schema_ref.to_string())
    };
    log.iter().map(&mut step).collect()
}

#[test]
fn the_later_record_of_a_key_wins_unless_it_is_an_older_or_unequal_copy() {
    let log = [
        Some(published("ovr_1", 1, 2, "d:v1")),
        Some(published("ovr_1", 1, 2, "d:v1")),
        Some(published("ovr_1", 1, 2, "d:v2")),
        Some(published("ovr_1", 1, 1, "d:v3")),
        Some(published("ovr_1", 0, 9, "d:v4")),
        Some(published("ovr_1", 1, 3, "d:v5")),
        Some(published("ovr_1", 2, 1, "d:v6")),
        Some(published("ovr_0", 0, 1, "d:v7")),
        None,
        None,
        Some(published("ovr_1", 0, 1, "d:v8")),
    ];
    let found = replay(&log);
    let expected = [
        (Applied::Stored, "d:v1"),
        (Applied::Unchanged, "d:v1"),
        (Applied::Conflict, "d:v1"),
        (Applied::Older, "d:v1"),
        (Applied::Older, "d:v1"),
        (Applied::Stored, "d:v5"),
        (Applied::Stored, "d:v6"),
        (Applied::Stored, "d:v7"),
        (Applied::Removed, "g:v1"),
        (Applied::Absent, "g:v1"),
        (Applied::Stored, "d:v8"),
    ];
    assert_eq!(found, expected.map(|(applied, schema)| (applied, schema.to_owned())));
}

#[test]
fn what_cannot_be_read_changes_nothing_and_what_cannot_match_replaces() {
    let mut table = OverrideTable::new();
    let context = of_session("s");
    let runs = |table: &OverrideTable| resolve(table, "g", &context, now()).schema_ref.to_string();
    table.apply("k", Some(published("ovr_1", 0, 1, "d:v1")));
    for garbage in ["", "{", "[]", "null", r#"{"override_id":"ovr_1"}"#] {
        assert_eq!(table.apply_json("k", Some(garbage.as_bytes())), Applied::Undecodable);
        assert_eq!(runs(&table), "d:v1");
    }
    let unknown = Override { mode: "canary".into(), ..published("ovr_1", 0, 2, "d:v1") };
    let json = serde_json::to_vec(&unknown).expect("JSON");
    assert!(matches!(table.apply_json("k", Some(&json)), Applied::Ignored(_)));
    assert_eq!((runs(&table), table.get("k")), ("g:v1".to_owned(), Some(&unknown)));
    assert_eq!(table.apply_json("k", None), Applied::Removed);
    assert!(table.is_empty());
}
