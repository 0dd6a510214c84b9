//! Events of a fleet whose outcome is known: which sessions fail, which of them end, and what cannot be read.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use serde_json::{Value, json};

use super::world::World;

/// Every so many sessions one fails.
const FAILING_EVERY: usize = 8;
/// Of those that fail every so many end.
const ENDING_EVERY: usize = 3;
/// Every so many sessions a record comes that is no event.
const BAD_EVERY: usize = 50;
/// Sessions open at a time.
const OPEN: usize = 40;
const NODES: [&str; 4] = ["identify_order", "request_evidence", "evaluate_evidence", "check_eligibility"];
const FAILING_NODE: usize = 2;
const CHUNK: usize = 200;
const FULL_PAUSE: Duration = Duration::from_millis(20);
/// The broker may be away for a while.
const DELIVERED_WITHIN: Duration = Duration::from_mins(3);

/// Random numbers of a seed: the same seed injects the same faults at the same counts.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number of a range.
    pub fn within(&mut self, range: std::ops::Range<u64>) -> u64 {
        // SplitMix64 (Steele, Lea, Flood 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        range.start + z % (range.end - range.start)
    }
}

/// What is sent, and what must come of it.
#[derive(Debug)]
pub struct Load {
    /// Key and value, in order.
    pub records: Vec<(String, String)>,
    pause: Duration,
    /// Sessions that are to be overridden, once each.
    pub failing: BTreeSet<String>,
    /// Those of them that end: their override is removed.
    pub ending: BTreeSet<String>,
    /// Records that become dead letters.
    pub bad: usize,
    sent: AtomicUsize,
}

impl Load {
    /// So many events, sent over so long.
    pub fn new(events: usize, over: Duration) -> Self {
        let (mut records, mut failing, mut ending) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let (mut open, mut begun, mut bad): (Vec<Vec<Value>>, usize, usize) = (Vec::new(), 0, 0);
        while records.len() < events || !open.is_empty() {
            while open.len() < OPEN && records.len() < events {
                let session = format!("sess-{begun}");
                let fails = begun % FAILING_EVERY == 0;
                let ends = fails && (begun / FAILING_EVERY).is_multiple_of(ENDING_EVERY);
                if fails {
                    failing.insert(session.clone());
                }
                if ends {
                    ending.insert(session.clone());
                }
                if begun % BAD_EVERY == 0 {
                    bad += 1;
                    records.push((session.clone(), format!("bad {begun}")));
                }
                open.push(script(&session, fails, ends).into_iter().rev().collect());
                begun += 1;
            }
            for session in &mut open {
                let event = session.pop().expect("no session without events");
                records.push((event["session_id"].as_str().expect("an id").to_owned(), event.to_string()));
            }
            open.retain(|session| !session.is_empty());
        }
        let chunks = u32::try_from(records.len().div_ceil(CHUNK)).expect("a number of chunks");
        Self { records, pause: over / chunks, failing, ending, bad, sent: AtomicUsize::new(0) }
    }

    /// Sends everything, at its pace.
    pub fn send(&self, world: &World) {
        let producer = world.producer();
        let topic = world.topics().events;
        for chunk in self.records.chunks(CHUNK) {
            for (key, value) in chunk {
                let mut record = BaseRecord::to(&topic).key(key).payload(value);
                // Where the broker is away for long, the queue fills.
                while let Err((error, back)) = producer.send(record) {
                    assert_eq!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::QueueFull), "{error}");
                    record = back;
                    thread::sleep(FULL_PAUSE);
                }
            }
            self.sent.fetch_add(chunk.len(), Ordering::Relaxed);
            thread::sleep(self.pause);
        }
        producer.flush(DELIVERED_WITHIN).expect("delivered");
    }
}

fn script(session: &str, fails: bool, ends: bool) -> Vec<Value> {
    let mut events = vec![json!({ "type": "graph_started" })];
    for (at, node) in NODES.into_iter().enumerate() {
        let attempts = if fails && at == FAILING_NODE { 3 } else { 1 };
        for attempt in 1..=attempts {
            events.push(json!({ "type": "node_started", "node": node, "attempt": attempt }));
            events.push(if fails && at == FAILING_NODE {
                let error = json!({ "class": "pydantic.ValidationError", "message": "no evidence" });
                json!({ "type": "node_failed", "node": node, "attempt": attempt, "max_attempts": 3, "error": error })
            } else {
                json!({ "type": "node_completed", "node": node, "attempt": attempt, "latency_ms": 7 })
            });
        }
        if fails && at == FAILING_NODE {
            break;
        }
    }
    if !fails {
        events.push(json!({ "type": "graph_completed", "latency_ms": 900 }));
    } else if ends {
        events.push(json!({ "type": "session_ended" }));
    }
    for (number, event) in events.iter_mut().enumerate() {
        event["event_id"] = json!(format!("{session}-{number}"));
        event["session_id"] = json!(session);
        event["run_id"] = json!("run-1");
        event["graph"] = json!("refund_graph");
        event["graph_version"] = json!("v1");
        event["tenant"] = json!(format!("t-{}", session.len() % 3));
    }
    events
}
