//! What a replay found: the report, as JSON and for a person.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::replay::log::Malformed;
use crate::record::event::{Event, Route};
use crate::record::fleet::{FleetRecord, SignatureRow};
use crate::record::observation::{FailureRow, Observation};
use crate::record::output::{Output, Record};
use crate::record::signature::Signature;
use crate::record::time::Timestamp;
use crate::session::{Counts, Effects};

/// The report; its JSON is an interface that others script against.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Events of the log.
    pub events: usize,
    /// Lines that are no events.
    pub malformed: Vec<Malformed>,
    /// Distinct session ids, shadow runs and facts of whole runtimes not counted.
    pub sessions: usize,
    /// Of these: with at least one exhausted signature.
    pub sessions_failing: usize,
    /// Events by type.
    pub types: BTreeMap<String, u64>,
    /// Exhausted signatures, most sessions first.
    pub signatures: Vec<SignatureTotal>,
    /// Every failure, before any trip.
    pub failures: Vec<FailureTotal>,
    /// Cohorts: empty until the fleet stage is there.
    pub cohorts: Vec<Value>,
    /// Distinct interventions.
    pub interventions: usize,
    /// Distinct overrides.
    pub overrides: usize,
    /// Breakers: empty until the fleet stage is there.
    pub breakers: Vec<Value>,
    /// Counts of the stages.
    pub stages: Stages,
}

/// Counts of the stages.
#[derive(Debug, Serialize)]
pub struct Stages {
    /// Of the session stage.
    pub session: Counts,
    /// Published records by topic, tombstones included.
    pub published: BTreeMap<&'static str, u64>,
}

/// One distinct signature.
#[derive(Debug, Serialize)]
pub struct SignatureTotal {
    graph: String,
    node: Option<String>,
    failure_shape: String,
    retry_budget_exhausted: bool,
    required_artifact_present: Option<bool>,
    fingerprint: String,
    sessions: usize,
    occurrences: u64,
    first_at: Timestamp,
    last_at: Timestamp,
    signal: Option<String>,
}

/// One distinct (graph, node, shape) of failures.
#[derive(Debug, Serialize)]
pub struct FailureTotal {
    graph: String,
    node: Option<String>,
    failure_shape: String,
    sessions: usize,
    occurrences: u64,
}

#[derive(Default)]
struct Seen {
    sessions: BTreeSet<String>,
    occurrences: u64,
    first_at: Timestamp,
    last_at: Timestamp,
    signal: Option<String>,
    fingerprint: String,
}

impl Seen {
    fn note(&mut self, at: Timestamp, session_id: &str) {
        if self.occurrences == 0 {
            self.first_at = at;
        }
        self.last_at = at;
        self.occurrences += 1;
        if !self.sessions.contains(session_id) {
            self.sessions.insert(session_id.to_owned());
        }
    }
}

/// Gathers a report while a log is replayed.
#[derive(Default)]
pub struct Gather {
    events: usize,
    sessions: BTreeSet<String>,
    types: BTreeMap<String, u64>,
    signatures: BTreeMap<(String, Signature), Seen>,
    failures: BTreeMap<(String, Option<String>, String), Seen>,
    interventions: BTreeSet<String>,
    overrides: BTreeSet<String>,
    published: BTreeMap<&'static str, u64>,
}

impl Gather {
    /// Counts an event.
    pub fn event(&mut self, event: &Event<'_>) {
        self.events += 1;
        match self.types.get_mut(event.event_type.as_str()) {
            Some(count) => *count += 1,
            None => drop(self.types.insert(event.event_type.to_string(), 1)),
        }
        let counted = !event.is_runtime_level() && *event.route() != Route::Shadow;
        if counted && !self.sessions.contains(event.session_id.as_str()) {
            self.sessions.insert(event.session_id.to_string());
        }
    }

    /// Counts what a step at `at` did.
    pub fn effects(&mut self, at: Timestamp, effects: &Effects) {
        for observation in &effects.observations {
            match observation {
                Observation::Failure(row) if row.route != Route::Shadow => self.failure(at, row),
                Observation::Failure(_) => {}
            }
        }
        effects.outputs.iter().for_each(|output| self.output(at, output));
    }

    fn failure(&mut self, at: Timestamp, row: &FailureRow) {
        let key = (row.graph.clone(), row.node.clone(), row.failure_shape.clone());
        self.failures.entry(key).or_default().note(at, &row.session_id);
    }

    fn signature(&mut self, at: Timestamp, row: &SignatureRow) {
        if !row.signature.retry_budget_exhausted {
            return;
        }
        let seen = self.signatures.entry((row.graph.clone(), row.signature.clone())).or_default();
        seen.note(at, &row.session_id);
        seen.signal.clone_from(&row.signal);
        seen.fingerprint.clone_from(&row.fingerprint);
    }

    fn output(&mut self, at: Timestamp, output: &Output) {
        if let Some(Record::Fleet(record)) = &output.value {
            // It stays within the stages.
            if let FleetRecord::Signature(row) = &**record
                && row.route != Route::Shadow
            {
                self.signature(at, row);
            }
            return;
        }
        *self.published.entry(output.topic.name()).or_default() += 1;
        match &output.value {
            Some(Record::Intervention(record)) => drop(self.interventions.insert(record.intervention_id.clone())),
            Some(Record::Override(record)) => drop(self.overrides.insert(record.override_id.clone())),
            Some(Record::Escalation(_) | Record::Audit(_) | Record::Fleet(_)) | None => {}
        }
    }

    /// The report.
    #[must_use]
    pub fn finish(self, malformed: Vec<Malformed>, counts: &Counts) -> Report {
        let failing: BTreeSet<&String> = self.signatures.values().flat_map(|seen| &seen.sessions).collect();
        let sessions_failing = failing.len();
        let mut signatures: Vec<SignatureTotal> = self
            .signatures
            .into_iter()
            .map(|((graph, signature), seen)| signature_total(graph, signature, seen))
            .collect();
        // Stable: equals stay in the order of graph, node, shape.
        signatures.sort_by_key(|total| std::cmp::Reverse((total.sessions, total.occurrences)));
        let mut failures: Vec<FailureTotal> = self.failures.into_iter().map(failure_total).collect();
        failures.sort_by_key(|total| std::cmp::Reverse((total.sessions, total.occurrences)));
        Report {
            events: self.events,
            malformed,
            sessions: self.sessions.len(),
            sessions_failing,
            types: self.types,
            signatures,
            failures,
            cohorts: Vec::new(),
            interventions: self.interventions.len(),
            overrides: self.overrides.len(),
            breakers: Vec::new(),
            stages: Stages { session: counts.clone(), published: self.published },
        }
    }
}

fn signature_total(graph: String, signature: Signature, seen: Seen) -> SignatureTotal {
    SignatureTotal {
        graph,
        node: signature.node,
        failure_shape: signature.failure_shape,
        retry_budget_exhausted: signature.retry_budget_exhausted,
        required_artifact_present: signature.required_artifact_present,
        fingerprint: seen.fingerprint,
        sessions: seen.sessions.len(),
        occurrences: seen.occurrences,
        first_at: seen.first_at,
        last_at: seen.last_at,
        signal: seen.signal,
    }
}

fn failure_total(((graph, node, failure_shape), seen): ((String, Option<String>, String), Seen)) -> FailureTotal {
    FailureTotal { graph, node, failure_shape, sessions: seen.sessions.len(), occurrences: seen.occurrences }
}

impl Report {
    /// The report for a person.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").unwrap_or_default();
        line(format_args!(
            "{} events, {} sessions, {} of them failing; {} interventions, {} overrides",
            self.events, self.sessions, self.sessions_failing, self.interventions, self.overrides
        ));
        if !self.signatures.is_empty() {
            line(format_args!(
                "\nSIGNATURES (retry budget exhausted)\n{:>8} {:>6}  {:<32} {:<24} {:<40} SHAPE",
                "SESSIONS", "TIMES", "SIGNAL", "GRAPH", "NODE"
            ));
        }
        for row in &self.signatures {
            line(format_args!(
                "{:>8} {:>6}  {:<32} {:<24} {:<40} {}",
                row.sessions,
                row.occurrences,
                row.signal.as_deref().unwrap_or("- (no signal)"),
                plain(&row.graph),
                plain(row.node.as_deref().unwrap_or("-")),
                plain(&row.failure_shape)
            ));
        }
        if !self.failures.is_empty() {
            line(format_args!(
                "\nFAILURES (before any trip)\n{:>8} {:>6}  {:<24} {:<40} SHAPE",
                "SESSIONS", "TIMES", "GRAPH", "NODE"
            ));
        }
        for row in &self.failures {
            line(format_args!(
                "{:>8} {:>6}  {:<24} {:<40} {}",
                row.sessions,
                row.occurrences,
                plain(&row.graph),
                plain(row.node.as_deref().unwrap_or("-")),
                plain(&row.failure_shape)
            ));
        }
        for (title, counts) in
            [("SESSION STAGE", counted(&self.stages.session)), ("PUBLISHED", counted(&self.stages.published))]
        {
            let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            line(format_args!("\n{title}: {}", counts.join(", ")));
        }
        for bad in &self.malformed {
            line(format_args!("malformed: {}:{}: {}: {}", plain(&bad.file), bad.line, bad.code, bad.message));
        }
        out
    }
}

/// Counters that are not zero.
fn counted<T: Serialize>(counts: &T) -> Map<String, Value> {
    match serde_json::to_value(counts) {
        Ok(Value::Object(map)) => map.into_iter().filter(|(_, count)| count.as_u64() != Some(0)).collect(),
        _ => Map::new(),
    }
}

/// Text from an event for a terminal: control characters cannot act on it.
pub fn plain(text: &str) -> String {
    // Marks of writing direction could show a name as another.
    let acts = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if acts(c) { '\u{fffd}' } else { c }).collect()
}
