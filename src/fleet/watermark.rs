//! How far the session tasks have read: the clock that windows slide on.
//!
//! The watermark is the least of those of live sources. A source that is silent for 10 s is idle and holds nothing back;
//! without a live source the watermark is the clock of the task. It never goes back, and is never ahead of that clock.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fleet::window::WINDOW_MS_MAX;
use crate::record::task::entry::{is_default, micros};
use crate::record::task::shelf::Shelf;
use crate::record::time::Timestamp;

/// A source is idle after so much silence.
const IDLE_AFTER: Duration = Duration::from_secs(10);
/// A source that comes back further behind than this lags until it is nearer.
const LAG_MS_MAX: i64 = 60_000;
/// A source is forgotten after so much silence.
#[allow(clippy::cast_sign_loss, reason = "a constant above 0")]
const FORGOTTEN_AFTER: Duration = Duration::from_millis(WINDOW_MS_MAX as u64);

/// What is known of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceEntry {
    /// How far it had read.
    #[serde(with = "micros")]
    pub watermark: Timestamp,
    /// When it last said so, by the clock of this task.
    #[serde(with = "micros")]
    pub seen_at: Timestamp,
    /// Whether it came back far behind and is so still.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lags: bool,
}

/// The sources of a task.
#[derive(Debug, Default)]
pub struct Sources {
    pub(crate) shelf: Shelf<String, SourceEntry>,
    /// Live ones, by watermark.
    live: BTreeSet<(Timestamp, String)>,
    /// Live ones, by when they were last heard of.
    heard: BTreeSet<(Timestamp, String)>,
    /// Idle ones, by when they were last heard of.
    idle: BTreeSet<(Timestamp, String)>,
    lagging: BTreeSet<String>,
}

impl Sources {
    /// A source said how far it has read. Gives how many others were forgotten to make room.
    pub fn note(&mut self, source: &str, watermark: Timestamp, now: Timestamp, sources_max: usize) -> u64 {
        let known = self.shelf.get(&source.to_owned()).cloned();
        let was_live = known.as_ref().is_some_and(|known| is_live(known, now));
        let evicted = if known.is_none() { self.make_room(sources_max) } else { 0 };
        if let Some(known) = &known {
            self.unfile(source, known);
        }
        let is_behind = now.millis_since(watermark) >= LAG_MS_MAX;
        let lags = is_behind && (!was_live || known.as_ref().is_some_and(|known| known.lags));
        let watermark = known.map_or(watermark, |known| known.watermark.max(watermark));
        let entry = SourceEntry { watermark, seen_at: now, lags };
        self.file(source, &entry, now);
        self.shelf.insert(source.to_owned(), entry);
        evicted
    }

    fn make_room(&mut self, sources_max: usize) -> u64 {
        let mut evicted = 0;
        while self.shelf.len() >= sources_max.max(1) {
            let Some((_, oldest)) = self.idle.first().or_else(|| self.heard.first()).cloned() else { break };
            self.forget(&oldest);
            evicted += 1;
        }
        evicted
    }

    fn file(&mut self, source: &str, entry: &SourceEntry, now: Timestamp) {
        if is_live(entry, now) {
            self.live.insert((entry.watermark, source.to_owned()));
            self.heard.insert((entry.seen_at, source.to_owned()));
        } else {
            self.idle.insert((entry.seen_at, source.to_owned()));
        }
        if entry.lags {
            self.lagging.insert(source.to_owned());
        }
    }

    fn unfile(&mut self, source: &str, entry: &SourceEntry) {
        self.live.remove(&(entry.watermark, source.to_owned()));
        self.heard.remove(&(entry.seen_at, source.to_owned()));
        self.idle.remove(&(entry.seen_at, source.to_owned()));
        self.lagging.remove(source);
    }

    fn forget(&mut self, source: &str) {
        if let Some(entry) = self.shelf.remove(&source.to_owned()) {
            self.unfile(source, &entry);
        }
    }

    /// When the next source becomes idle or is forgotten.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let idle = self.heard.first().map(|(seen_at, _)| seen_at.plus(IDLE_AFTER));
        let forgotten = self.idle.first().map(|(seen_at, _)| seen_at.plus(FORGOTTEN_AFTER));
        idle.into_iter().chain(forgotten).min()
    }

    /// Lets sources become idle, and forgets those that are for long.
    pub fn pass(&mut self, now: Timestamp) {
        while let Some((_, source)) = self.heard.first().filter(|(at, _)| at.plus(IDLE_AFTER) <= now).cloned() {
            let Some(entry) = self.shelf.get(&source).cloned() else { break };
            self.unfile(&source, &entry);
            self.file(&source, &entry, now);
        }
        while let Some((_, source)) = self.idle.first().filter(|(at, _)| at.plus(FORGOTTEN_AFTER) <= now).cloned() {
            self.forget(&source);
        }
    }

    /// The least watermark of a live source; none: nobody holds it back.
    #[must_use]
    pub fn least(&self) -> Option<Timestamp> {
        self.live.first().map(|(watermark, _)| *watermark)
    }

    /// Whether a source that came back far behind is so still: nothing is widened automatically.
    #[must_use]
    pub fn is_lagging(&self) -> bool {
        !self.lagging.is_empty()
    }

    /// Number of sources that are live.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Builds what follows from the entries.
    pub fn reindex(&mut self, now: Timestamp) {
        let entries = std::mem::take(&mut self.shelf);
        *self = Self::default();
        for (source, entry) in entries.iter() {
            self.file(source, entry, now);
        }
        self.shelf = entries;
    }
}

fn is_live(entry: &SourceEntry, now: Timestamp) -> bool {
    entry.seen_at.plus(IDLE_AFTER) > now
}
