//! Stage 2: what concerns many sessions. Rows of counts and signatures of all session tasks, in windows of stream time.
//!
//! One door, as in the session stage: [`Fleet::step`] takes one input and appends to [`Effects`] everything that must be
//! published; [`Fleet::next_deadline`] says when a tick is due. State is changed directly.
//!
//! Invariant: the same inputs in the same order give the same effects and the same state, byte for byte, and a task that
//! was restored or rolled back goes on like one that never stopped (`tests/properties/fleet.rs`).

pub mod commands;
pub mod counts;
pub mod lru;
pub mod ordered;
pub mod signatures;
pub mod state;
pub mod watermark;
pub mod window;

pub use crate::record::task::{Change, Effects, RestoreError};
pub use counts::Counts;
pub use state::restore::Restore;

use std::sync::Arc;

use crate::fleet::ordered::Ordered;
use crate::fleet::signatures::{Evicted, SessionEntry, SignatureEntry, Signatures};
use crate::fleet::state::Marks;
use crate::fleet::watermark::Sources;
use crate::fleet::window::{SeriesEntry, WINDOW_MS_MAX, Windows, bucket_number, oldest_kept, window};
use crate::record::command::Command;
use crate::record::fleet::{FleetRecord, RowKey, SignatureRow, Tally};
use crate::record::position::Position;
use crate::record::rows::Rows;
use crate::record::task::chain::Chain;
use crate::record::task::seen::Seen;
use crate::record::time::Timestamp;
use crate::registry::Registry;

/// One input of a fleet task.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// What a session task tells.
    Observation {
        /// Where it stands in the log.
        position: Position<'a>,
        /// The record.
        record: &'a FleetRecord,
    },
    /// A decision on a cohort or a graph, or a freeze.
    Command {
        /// Where it stands in the log.
        position: Position<'a>,
        /// The command.
        command: &'a Command,
    },
    /// The activation of a registry version.
    Activation {
        /// Where it stands in the log.
        position: Position<'a>,
        /// The command.
        command: &'a Command,
        /// The version it names; none: there is no such version, it is refused.
        registry: Option<&'a Arc<Registry>>,
    },
    /// Time has passed.
    Tick,
}

/// The state of one fleet task (one partition).
#[derive(Debug)]
pub struct Fleet {
    task: String,
    now: Timestamp,
    watermark: Timestamp,
    registry: Arc<Registry>,
    frozen: bool,
    sources: Sources,
    windows: Windows,
    signatures: Signatures,
    ordered: Ordered,
    chain: Chain,
    seen: Seen,
    counts: Counts,
    marks: Marks,
}

impl Fleet {
    /// An empty task; `task` names it in the audit chain (`fleet/PARTITION`).
    #[must_use]
    pub fn new(task: &str, registry: Arc<Registry>) -> Self {
        Self {
            task: task.to_owned(),
            now: Timestamp::MIN,
            watermark: Timestamp::MIN,
            marks: Marks::new(&registry),
            registry,
            frozen: false,
            sources: Sources::default(),
            windows: Windows::default(),
            signatures: Signatures::default(),
            ordered: Ordered::default(),
            chain: Chain::new(task),
            seen: Seen::new('c'),
            counts: Counts::default(),
        }
    }

    /// Takes one input at `now`, the append time of the record (or of the tick), and appends what must be published.
    /// The clock of the task never goes back; deadlines up to `now` fire first, each at its own time.
    pub fn step(&mut self, now: Timestamp, input: Input<'_>, effects: &mut Effects) {
        self.fire_deadlines(now, effects);
        self.now = self.now.max(now);
        self.advance();
        match input {
            Input::Observation { record, .. } => self.observe(record),
            Input::Command { position, command } => self.command(position, command, None, effects),
            Input::Activation { position, command, registry } => self.command(position, command, registry, effects),
            Input::Tick => {}
        }
        self.advance();
    }

    /// Fires every deadline at or before `now`, each at its own time.
    fn fire_deadlines(&mut self, now: Timestamp, effects: &mut Effects) {
        while let Some(at) = self.next_deadline().filter(|at| *at <= now) {
            self.now = self.now.max(at);
            self.expire_ordered(effects);
            self.sources.pass(self.now);
            self.advance();
        }
    }

    /// Moves the watermark, and forgets what is older than the longest window.
    fn advance(&mut self) {
        let least = self.sources.least().unwrap_or(self.now).min(self.now);
        self.watermark = self.watermark.max(least);
        let floor = self.floor();
        self.windows.expire(floor);
        self.signatures.expire(floor, &mut self.windows);
    }

    /// Where the longest window that is kept ends: at the watermark, unless a source holds that back for longer than the
    /// window is.
    fn floor(&self) -> Timestamp {
        let behind = Timestamp::from_millis(self.now.as_millis().saturating_sub(WINDOW_MS_MAX));
        self.watermark.max(behind)
    }

    fn observe(&mut self, record: &FleetRecord) {
        self.counts.records += 1;
        match record {
            FleetRecord::Rows(rows) => self.rows(rows),
            FleetRecord::Signature(row) => self.signature(row),
        }
        let (source, watermark) = record.source();
        let sources_max = self.registry.limits.fleet_sources_max as usize;
        self.counts.sources_evicted += self.sources.note(source, watermark, self.now, sources_max);
    }

    /// The bucket to count in; none where it is older than the longest window. Nothing is counted in the future.
    fn bucket(&mut self, at: Timestamp) -> Option<i64> {
        let bucket = bucket_number(at.min(self.now));
        let is_kept = bucket >= oldest_kept(self.floor());
        self.counts.too_old += u64::from(!is_kept);
        is_kept.then_some(bucket)
    }

    fn rows(&mut self, rows: &Rows) {
        let Some(bucket) = self.bucket(rows.bucket) else { return };
        let series_max = self.registry.limits.fleet_series_max as usize;
        let (number, evicted) = self.windows.add(rows, bucket, series_max);
        self.counts.rows += number;
        self.counts.series_evicted += evicted;
    }

    fn signature(&mut self, row: &SignatureRow) {
        let at = row.source_watermark.min(self.now);
        let Some(bucket) = self.bucket(at) else { return };
        let limits = &self.registry.limits;
        let limits = (limits.fleet_signatures_max as usize, limits.fleet_sessions_max as usize);
        let Evicted { signatures, sessions } =
            self.signatures.add(row.clone(), (at, bucket), &mut self.windows, limits);
        self.counts.signatures += 1;
        self.counts.signatures_evicted += signatures;
        self.counts.sessions_evicted += sessions;
    }

    /// When the next deadline is due; a tick at or after it fires it.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        // While a source holds the watermark back, its next record or its silence moves it.
        let expiry = self.sources.least().is_none().then(|| self.windows.next_deadline()).flatten();
        [self.sources.next_deadline(), expiry, self.ordered.next_deadline()].into_iter().flatten().min()
    }

    /// What was counted since the task began.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What it decides by; a registry without a version: none was ever activated.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The clock of the task; none: it took nothing yet.
    #[must_use]
    pub fn clock(&self) -> Option<Timestamp> {
        Some(self.now).filter(|now| *now > Timestamp::MIN)
    }

    /// How far the session tasks have read.
    #[must_use]
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// Whether a source came back far behind and is so still: nothing is to be widened automatically.
    #[must_use]
    pub fn is_lagging(&self) -> bool {
        self.sources.is_lagging()
    }

    /// Whether automation is stopped.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Use of limits now.
    #[must_use]
    pub fn in_use(&self) -> InUse {
        InUse {
            series: self.windows.series.len(),
            signatures: self.signatures.shelf.len(),
            sessions: self.signatures.sessions.len(),
            sources: self.sources.shelf.len(),
            sources_live: self.sources.live(),
            overrides_live: self.ordered.shelf.len(),
        }
    }

    /// Exposed runs of a graph (neither shadow nor late) in the whole buckets of a window that ends at the watermark.
    #[must_use]
    pub fn exposed(&self, graph: &str, window_ms: i64) -> Tally {
        let series = SeriesEntry { graph: graph.to_owned(), row: None };
        self.windows.tally(&series, self.watermark, window_ms)
    }

    /// The rows of a graph with their runs in such a window, in order; those without a run are left out.
    #[must_use]
    pub fn exposure(&self, graph: &str, window_ms: i64) -> Vec<(RowKey, Tally)> {
        let rows = self
            .windows
            .rows(graph)
            .filter_map(|series| Some((series.row.clone()?, self.windows.tally(series, self.watermark, window_ms))));
        rows.filter(|(_, tally)| *tally != Tally::default()).collect()
    }

    /// The signatures of a graph with the sessions that failed with each in such a window.
    pub fn failing(&self, graph: &str, window_ms: i64) -> impl Iterator<Item = (&SignatureEntry, Vec<&SessionEntry>)> {
        let window = window(self.watermark, window_ms);
        self.signatures.of(graph).map(move |(serial, entry)| {
            let sessions = self.signatures.sessions_of(serial);
            (entry, sessions.filter(|session| session.bucket >= window.start).collect())
        })
    }
}

/// Use of the limits of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// `fleet_series_max`.
    pub series: usize,
    /// `fleet_signatures_max`.
    pub signatures: usize,
    /// `fleet_sessions_max`.
    pub sessions: usize,
    /// `fleet_sources_max`.
    pub sources: usize,
    /// Sources that are live.
    pub sources_live: usize,
    /// `operator_overrides_live_max`.
    pub overrides_live: usize,
}
