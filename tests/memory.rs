//! What a tracked session takes in memory, and what its entry takes in the changelog: printed, and held to a limit.
//!
//! `REFLEX_SESSIONS=1000000 cargo test --release --test memory -- --nocapture` measures with that many sessions, and how
//! long they take to be restored.
#![allow(clippy::disallowed_methods, reason = "a test reads files and a clock")]
#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;

use reflex::record::codec::json;
use reflex::record::position::Position;
use reflex::record::time::Timestamp;
use reflex::registry::{Registry, SourceFile, load};
use reflex::session::{Effects, Input, Restore, Session};

#[path = "bad_input/allocations.rs"]
mod allocations;

/// Sessions that failed between two commits.
const BATCH: i64 = 1_000;
/// Most bytes of a session that failed once, without a live override.
const BYTES_MAX: usize = 300;

fn registry() -> Arc<Registry> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/registry");
    let files = ["defaults.toml", "refund.toml", "shapes.toml"].map(|name| SourceFile {
        name: name.to_owned(),
        text: std::fs::read_to_string(folder.join(name)).expect("a shipped file"),
    });
    let registry = load::load(&files).expect("the shipped registry").registry;
    let limits = [("interventions_per_minute_max", 10_000_000), ("session_overrides_live_max", 10_000_000)];
    let settings = limits.iter().map(|(name, value)| (format!("limits.{name}"), value.to_string())).collect();
    Arc::new(registry.with_settings(&settings).expect("valid limits"))
}

/// A failure as runtimes report it; `node` and `attempt` decide what becomes of it.
fn failure(number: i64, node: &str, attempt: u32) -> String {
    format!(
        r#"{{"event_id":"01JDXK3V7Q8Z9W2M4N6P{number:06}","type":"node_failed","session_id":"sess_{number:08}","run_id":"run_{number:08}","graph":"refund_graph","graph_version":"v1","tenant":"t-{}","node":"{node}","attempt":{attempt},"max_attempts":3,"error":{{"class":"pydantic.ValidationError","code":"ast_decoder","message":"1 validation error for Evidence: field 'total' is not a number (got 30,5 EUR)"}},"artifact":{{"name":"evidence_analysis","present":false}}}}"#,
        number % 50,
    )
}

struct Held {
    bytes: usize,
    entry_bytes: usize,
    live: u32,
}

fn sessions() -> i64 {
    std::env::var("REFLEX_SESSIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// Bytes held for each of many sessions that failed, and bytes of their entries.
fn held(node: &str, attempt: u32) -> Held {
    let sessions = sessions();
    let registry = registry();
    let before = allocations::live();
    let mut session = Session::new("session/0", Arc::clone(&registry));
    let mut effects = Effects::default();
    let mut log = Vec::new();
    let mut log_bytes = 0;
    for number in 0..sessions {
        let text = failure(number, node, attempt);
        let event = json::event(&text, 1024).expect("an event");
        let now = Timestamp::from_millis(number / 10);
        let position = Position { topic: "reflex.events", partition: 0, offset: 1_000_000 + number };
        session.step(now, Input::Event { position, event: &event, received_at: now }, &mut effects);
        effects.clear();
        if number % BATCH == BATCH - 1 {
            let changes = session.take_changes();
            log_bytes += changes.iter().map(|c| c.key.len() + c.value.as_ref().map_or(0, Vec::len)).sum::<usize>();
            log.extend(changes);
            session.committed();
        }
    }
    let log_held = log.iter().map(|c| c.key.capacity() + c.value.as_ref().map_or(0, Vec::capacity)).sum::<usize>();
    let held = allocations::live() - before - log_held - log.capacity() * size_of_val(&log[0]);
    let (live, tracked) = session.in_use();
    assert_eq!(i64::try_from(tracked), Ok(sessions));
    let begun = std::time::Instant::now();
    let mut restore = Restore::new("session/0", registry);
    for change in &log {
        restore.apply(change.key.as_bytes(), change.value.as_deref()).expect("an entry");
    }
    let restored = restore.finish().expect("a state");
    println!("{sessions} sessions restored in {:.2} s", begun.elapsed().as_secs_f64());
    assert_eq!((restored.state_hash(), restored.in_use()), (session.state_hash(), session.in_use()));
    let each = |bytes: usize| bytes / usize::try_from(sessions).unwrap_or(1);
    Held { bytes: each(held), entry_bytes: each(log_bytes), live }
}

#[test]
fn a_tracked_session_takes_few_bytes() {
    let told = |what: &str, held: &Held| println!("{what}: {} B, entry {} B", held.bytes, held.entry_bytes);
    let unsigned = held("evaluate_evidence", 1);
    told("one failure, not signed", &unsigned);
    let signed = held("another_node", 3);
    told("one failure, signed, no signal", &signed);
    let overridden = held("evaluate_evidence", 3);
    told("one failure, signed, override live", &overridden);
    assert_eq!((unsigned.live, signed.live, i64::from(overridden.live)), (0, 0, sessions()));
    assert!(unsigned.bytes <= BYTES_MAX && signed.bytes <= BYTES_MAX);
}
