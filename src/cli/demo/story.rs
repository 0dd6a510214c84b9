//! What the demo tells: the timeline of the story's session, its override, the healthy sessions, totals.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::demo::runtime::{Runtime, Seen};
use crate::cli::demo::session::{Phase, Sample};
use crate::engine::{Cluster, Counters};
use crate::record::overrides::Override;
use crate::record::topic::Topic;

/// The totals of a demo.
#[derive(Debug, Serialize)]
pub struct Outcome {
    sessions: usize,
    failing: usize,
    saved: usize,
    gave_up: usize,
    healthy: usize,
    healthy_finished: usize,
    healthy_touched: usize,
    overrides_left: usize,
    events: u64,
    transactions: u64,
    resumed_ms_p50: i64,
    resumed_ms_max: i64,
}

impl Outcome {
    /// Counts what the runtime saw.
    pub fn of(runtime: &Runtime, counters: &Counters) -> Self {
        let of = |fails: bool| runtime.sessions.iter().filter(move |session| session.fails == fails);
        let finished = |session: &&Sample| session.phase == Phase::Finished;
        let mut took: Vec<i64> =
            runtime.saved.values().map(|saved| saved.resumed_at.millis_since(saved.failed_at)).collect();
        took.sort_unstable();
        Self {
            sessions: runtime.sessions.len(),
            failing: of(true).count(),
            saved: of(true).filter(finished).filter(|session| session.under.is_some()).count(),
            gave_up: of(true).filter(|session| session.phase == Phase::GaveUp).count(),
            healthy: of(false).count(),
            healthy_finished: of(false).filter(finished).filter(|session| session.under.is_none()).count(),
            healthy_touched: of(false).filter(|session| runtime.seen.contains_key(&session.session_id)).count(),
            overrides_left: runtime.seen.values().filter(|seen| is_left(seen)).count(),
            events: runtime.events,
            transactions: counters.transactions,
            resumed_ms_p50: took.get(took.len() / 2).copied().unwrap_or(0),
            resumed_ms_max: took.last().copied().unwrap_or(0),
        }
    }

    /// Whether every failing session was saved, no healthy one touched, and no override left.
    pub fn is_good(&self) -> bool {
        self.saved == self.failing
            && self.healthy_finished == self.healthy
            && self.healthy_touched == 0
            && self.overrides_left == 0
    }
}

/// Whether the last record of the override topic is a live one.
fn is_left(seen: &[Seen]) -> bool {
    let last = seen.iter().rev().find(|seen| seen.topic == Topic::Overrides.name());
    last.is_some_and(|seen| seen.value.is_some())
}

/// Tells it to a person, or as JSON.
pub struct Teller<'a> {
    /// Where to.
    pub out: &'a mut dyn Write,
    /// Whether the reader is a terminal that shows colours.
    pub colours: bool,
}

impl Teller<'_> {
    /// What is about to happen.
    pub fn opening(&mut self, cluster: &Cluster, sessions: u32) -> io::Result<()> {
        writeln!(
            self.out,
            "An embedded broker at {}, one processor, {sessions} sessions of the",
            cluster.bootstrap_servers
        )?;
        writeln!(self.out, "graph refund_graph:v1. In one of ten the evidence analysis never validates.\n")
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// The story.
    pub fn tell(&mut self, outcome: &Outcome, runtime: &Runtime) -> io::Result<()> {
        let Some(session) = runtime.sessions.first() else { return Ok(()) };
        let title = format!("Session {} of tenant {}", session.session_id, session.tenant);
        writeln!(self.out, "{}", self.painted("1", &title))?;
        self.timeline(runtime, session)?;
        let seen = runtime.seen.get(&session.session_id).map_or(&[][..], Vec::as_slice);
        let published = seen.iter().find(|seen| seen.topic == Topic::Overrides.name() && seen.value.is_some());
        if let Some(published) = published {
            writeln!(self.out, "\n{}", self.painted("1", "The override it was saved by (reflex.overrides)"))?;
            writeln!(self.out, "key   {}", published.key)?;
            // As a record, its fields stand in their order.
            let record = published.value.clone().and_then(|value| serde_json::from_value::<Override>(value).ok());
            let pretty = serde_json::to_string_pretty(&record).unwrap_or_default();
            writeln!(self.out, "value {pretty}")?;
        }
        self.totals(outcome)
    }

    fn timeline(&mut self, runtime: &Runtime, session: &Sample) -> io::Result<()> {
        let Some(saved) = runtime.saved.get(&session.session_id) else {
            return writeln!(self.out, "  was not saved");
        };
        let seen = runtime.seen.get(&session.session_id).map_or(&[][..], Vec::as_slice);
        let written = |topic: Topic, status: &str| {
            seen.iter().find(|seen| {
                seen.topic == topic.name() && seen.value.as_ref().is_some_and(|value| value["status"] == status)
            })
        };
        let signature = written(Topic::Interventions, "pending").and_then(|seen| seen.value.as_ref());
        let of = |pointer: &str| {
            let found = signature.and_then(|value| value.pointer(pointer)).and_then(Value::as_str);
            found.unwrap_or("-").to_owned()
        };
        self.moment(0, "failed", "evaluate_evidence, attempt 3 of 3")?;
        let steps = [
            ("signature", Topic::Interventions, "pending", of("/signature/failure_shape")),
            ("signal", Topic::Interventions, "pending", of("/signal")),
            (
                "pending",
                Topic::Interventions,
                "pending",
                String::from("intervention recorded, before anything is done"),
            ),
            ("provisioning", Topic::Interventions, "provisioning", String::from("activate_degraded_refund_route")),
            ("override", Topic::Overrides, "active", String::from("published, this session only")),
            ("applied", Topic::Interventions, "applied", String::from("all in one transaction, with the evidence")),
        ];
        for (name, topic, status, words) in steps {
            if let Some(seen) = written(topic, status) {
                self.moment(seen.written_at.millis_since(saved.failed_at), name, &words)?;
            }
        }
        let resumed = session.under.as_ref().map(|under| format!("on {} at {}", under.schema_ref, under.entry_point));
        let after = saved.resumed_at.millis_since(saved.failed_at);
        self.moment(after, "resumed", &resumed.unwrap_or_default())
    }

    fn moment(&mut self, after_ms: i64, name: &str, words: &str) -> io::Result<()> {
        let code = match name {
            "failed" => "31",
            "resumed" => "32",
            _ => "36",
        };
        // What is written in the same millisecond as the failure may carry a time rounded down.
        let after_ms = after_ms.max(0);
        writeln!(self.out, "  {after_ms:>5} ms  {}  {words}", self.painted(code, &format!("{name:<12}")))
    }

    fn totals(&mut self, outcome: &Outcome) -> io::Result<()> {
        writeln!(self.out, "\n{}", self.painted("1", "Everybody"))?;
        let Outcome { healthy, healthy_finished, healthy_touched, failing, saved, gave_up, .. } = outcome;
        writeln!(
            self.out,
            "  {healthy_finished} of {healthy} healthy sessions finished on refund_graph:v1, {healthy_touched} were touched"
        )?;
        writeln!(
            self.out,
            "  {saved} of {failing} failing sessions finished on the degraded graph, {gave_up} gave up"
        )?;
        writeln!(
            self.out,
            "  from failure to resumed: {} ms median, {} ms at most (a runtime waits 5 s)",
            outcome.resumed_ms_p50, outcome.resumed_ms_max
        )?;
        writeln!(
            self.out,
            "  {} events in, {} transactions, {} overrides left at the end",
            outcome.events, outcome.transactions, outcome.overrides_left
        )
    }

    /// The totals and the story's records, for programs.
    pub fn json(&mut self, outcome: &Outcome, runtime: &Runtime) -> io::Result<()> {
        let story = runtime.sessions.first().and_then(|session| runtime.seen.get(&session.session_id));
        let records: Vec<Value> = story
            .into_iter()
            .flatten()
            .map(|seen| json!({"topic": seen.topic, "key": seen.key, "value": seen.value}))
            .collect();
        serde_json::to_writer_pretty(&mut *self.out, &json!({"outcome": outcome, "records": records}))?;
        writeln!(self.out)
    }
}
