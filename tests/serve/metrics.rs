//! `/metrics`: readable by a scraper, complete, with few labels.

use std::time::Instant;

use reflex::engine::Counters;
use reflex::engine::shown::health::Phase;
use reflex::engine::shown::watch::{InputView, Snapshot, TaskView, wall};
use reflex::record::dead_letter::Code;
use reflex::serve::Limits;
use reflex::session::Counts;

use super::exposition::Exposition;
use super::service::Service;

/// Labels there may be: each has few values.
const LABELS: [&str; 18] = [
    "change",
    "class",
    "code",
    "core",
    "finding",
    "kind",
    "le",
    "librdkafka",
    "limit",
    "outcome",
    "partition",
    "reason",
    "state",
    "task",
    "topic",
    "type",
    "version",
    "worker",
];

/// A service whose worker has shown something of everything.
fn full() -> Service {
    let service = Service::new(Limits::default());
    let watch = &service.monitor.workers()[0];
    watch.vital.enter(Phase::Running, 1, Instant::now());
    let mut counters = Counters { inputs: 12, transactions: 3, fenced: 2, ..Counters::default() };
    counters.dead_letters.insert(Code::Oversized, 4);
    counters.commits.add(std::time::Duration::from_micros(700));
    counters.commits.add(std::time::Duration::from_secs(100));
    let task = TaskView {
        task: "session/0".into(),
        partition: 0,
        topics: ["reflex.events".into(), "reflex.session-commands".into()],
        watermark: Some(wall()),
        sessions_tracked: 5,
        overrides_live: 6,
        is_frozen: true,
        state_bytes: 7,
    };
    let input = InputView { topic: "reflex.events".into(), partition: 0, committed: Some(3), read_at: Some(wall()) };
    let session = Counts { events: 11, late: 8, ..Counts::default() };
    watch.show(Instant::now(), || Snapshot {
        counters,
        session,
        tasks: vec![task],
        inputs: vec![input],
        ..Snapshot::default()
    });
    watch.told(
        br#"{"topics":{"reflex.events":{"partitions":{"0":{"app_offset":4,"lo_offset":0,"hi_offset":9,"ls_offset":8}}}}}"#,
    );
    service.monitor.tend(Instant::now());
    service
}

pub fn scrape() -> Exposition {
    let answer = full().get("/metrics");
    assert_eq!(answer.status, 200);
    Exposition::parse(&answer.body).unwrap_or_else(|problem| panic!("{problem}\n{}", answer.body))
}

#[test]
fn the_text_is_well_formed_and_says_what_the_worker_shows() {
    let read = scrape();
    for (key, value) in [
        ("reflex_inputs_total", 12.0),
        ("reflex_events_total", 11.0),
        (r#"reflex_event_findings_total{finding="late"}"#, 8.0),
        (r#"reflex_dead_letters_total{code="oversized"}"#, 4.0),
        (r#"reflex_limit_reached_total{limit="event_bytes_max"}"#, 4.0),
        (r#"reflex_limit_reached_total{limit="lateness_ms_max"}"#, 8.0),
        (r#"reflex_transactions_total{outcome="committed"}"#, 3.0),
        ("reflex_fencings_total", 2.0),
        ("reflex_sessions_tracked", 5.0),
        ("reflex_overrides_live", 6.0),
        ("reflex_state_bytes", 7.0),
        ("reflex_tasks_frozen", 1.0),
        (r#"reflex_lag_records{topic="reflex.events",partition="0"}"#, 4.0),
        ("reflex_commit_seconds_count", 2.0),
        (r#"reflex_commit_seconds_bucket{le="0.000512"}"#, 0.0),
        (r#"reflex_commit_seconds_bucket{le="0.001024"}"#, 1.0),
        (r#"reflex_commit_seconds_bucket{le="67.108864"}"#, 1.0),
        (r#"reflex_commit_seconds_bucket{le="+Inf"}"#, 2.0),
        ("reflex_commit_seconds_sum", 100.0007),
        (r#"reflex_tasks{worker="0"}"#, 1.0),
        ("reflex_live", 1.0),
        ("reflex_ready", 1.0),
    ] {
        assert_eq!(read.get(key), Some(value), "{key} in {:#?}", read.values);
    }
    assert!(read.get("process_resident_memory_bytes").is_some_and(|bytes| bytes > 1e6));
    assert_eq!(read.values.keys().filter(|key| key.starts_with("reflex_build_info{version=")).count(), 1);
}

#[test]
fn names_are_ours_and_labels_have_few_values() {
    let read = scrape();
    for name in read.types.keys() {
        let ours = name.starts_with("reflex_") || name.starts_with("process_");
        assert!(ours && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        assert!(!name.ends_with("_ms") && !name.contains("_us"), "{name}: seconds");
    }
    let foreign: Vec<String> = read.labels().into_iter().filter(|label| !LABELS.contains(&label.as_str())).collect();
    assert_eq!(foreign, Vec::<String>::new());
}

#[test]
fn a_service_without_a_worker_that_showed_anything_can_be_scraped() {
    let service = Service::new(Limits::default());
    let read = Exposition::parse(&service.get("/metrics").body).expect("well formed");
    assert_eq!(read.get("reflex_inputs_total"), Some(0.0));
    assert_eq!(read.get("reflex_ready"), Some(0.0));
    assert_eq!(read.names(), scrape().names(), "the same metrics at any time");
}
