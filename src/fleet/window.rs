//! Counts of the last hour, in buckets of 10 s: by graph, by row, by signature.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fleet::lru::Lru;
use crate::record::event::Route;
use crate::record::fleet::{BUCKET_MS, RowKey, Tally};
use crate::record::rows::Rows;
use crate::record::task::entry::is_default;
use crate::record::task::shelf::Shelf;
use crate::record::time::Timestamp;

/// The longest window: what is older is forgotten.
pub const WINDOW_MS_MAX: i64 = 3_600_000;
/// Buckets of the longest window.
const BUCKETS: i64 = WINDOW_MS_MAX / BUCKET_MS;

/// Number of a series: in order of its first count, never used twice.
pub type Serial = u64;

/// Number of the bucket that holds an instant.
#[must_use]
pub fn bucket_number(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(BUCKET_MS)
}

/// The first bucket that is kept at a watermark.
#[must_use]
pub fn oldest_kept(watermark: Timestamp) -> i64 {
    bucket_number(watermark) - BUCKETS
}

/// When a bucket is older than the longest window.
#[must_use]
pub fn expires_at(bucket: i64) -> Timestamp {
    Timestamp::from_millis(bucket.saturating_add(BUCKETS + 1).saturating_mul(BUCKET_MS))
}

/// What a series counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeriesEntry {
    /// The graph.
    pub graph: String,
    /// What its runs have in common; none: all of the graph that are exposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<RowKey>,
}

/// Counts of one series in one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tally: Tally,
    /// Sightings of a signature.
    #[serde(default, skip_serializing_if = "is_default")]
    pub occurrences: u64,
}

/// Series of runs, and the cells of all series, those of signatures too.
#[derive(Debug, Default)]
pub struct Windows {
    pub(crate) series: Shelf<Serial, SeriesEntry>,
    pub(crate) cells: Shelf<(i64, Serial), Cell>,
    by_key: BTreeMap<SeriesEntry, Serial>,
    lru: Lru<Serial>,
    /// The number of the next series, of either kind.
    pub next: Serial,
}

/// Rank of rows and graphs among what is counted in one bucket: a graph outlives its rows.
fn rank(entry: &SeriesEntry) -> u8 {
    u8::from(entry.row.is_none())
}

impl Windows {
    /// Counts the runs of a table: of each row, and of its graph those that are exposed. Gives how many rows it had, and how
    /// many series were forgotten to make room.
    pub fn add(&mut self, rows: &Rows, bucket: i64, series_max: usize) -> (u64, u64) {
        let mut exposed = None;
        let (mut number, mut evicted) = (0, 0);
        for (row, tally) in rows.iter() {
            number += 1;
            let is_exposed = row.route != Route::Shadow && !row.late;
            if is_exposed {
                exposed.get_or_insert_with(Tally::default).add(&tally);
            }
            let series = SeriesEntry { graph: rows.graph.clone(), row: Some(row) };
            evicted += self.count(series, &tally, bucket, series_max);
        }
        if let Some(exposed) = exposed {
            let series = SeriesEntry { graph: rows.graph.clone(), row: None };
            evicted += self.count(series, &exposed, bucket, series_max);
        }
        (number, evicted)
    }

    fn count(&mut self, entry: SeriesEntry, tally: &Tally, bucket: i64, series_max: usize) -> u64 {
        let rank = rank(&entry);
        let (serial, evicted) = match self.by_key.get(&entry) {
            Some(serial) => (*serial, 0),
            None => self.open(entry, series_max),
        };
        self.cells.get_or_default(&(bucket, serial)).tally.add(tally);
        self.lru.touch(serial, rank, bucket);
        evicted
    }

    fn open(&mut self, entry: SeriesEntry, series_max: usize) -> (Serial, u64) {
        let mut evicted = 0;
        while self.series.len() >= series_max.max(1) {
            let Some((_, oldest)) = self.lru.oldest() else { break };
            self.forget(oldest);
            evicted += 1;
        }
        let serial = self.next_serial();
        self.by_key.insert(entry.clone(), serial);
        self.series.insert(serial, entry);
        (serial, evicted)
    }

    /// A number that was never used.
    pub fn next_serial(&mut self) -> Serial {
        self.next += 1;
        self.next - 1
    }

    fn forget(&mut self, serial: Serial) {
        if let Some(entry) = self.series.remove(&serial) {
            self.by_key.remove(&entry);
        }
        self.drop_cells(serial, self.lru.last(&serial));
        self.lru.remove(serial);
    }

    /// Forgets the cells of a series, given its last bucket.
    pub fn drop_cells(&mut self, serial: Serial, last: Option<i64>) {
        let Some(last) = last else { return };
        for bucket in last.saturating_sub(2 * BUCKETS)..=last {
            self.cells.remove(&(bucket, serial));
        }
    }

    /// Forgets what is older than the longest window.
    pub fn expire(&mut self, watermark: Timestamp) {
        let oldest = oldest_kept(watermark);
        while let Some(key) = self.cells.first().filter(|(bucket, _)| *bucket < oldest).copied() {
            self.cells.remove(&key);
        }
        while let Some((_, serial)) = self.lru.oldest().filter(|(last, _)| *last < oldest) {
            self.forget(serial);
        }
    }

    /// When the oldest bucket is older than the longest window, if the watermark is the clock.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let oldest = self.cells.first().map(|(bucket, _)| expires_at(*bucket));
        oldest.filter(|at| *at < Timestamp::MAX)
    }

    /// The runs of a graph, or of one of its rows, in the whole buckets of a window that ends at the watermark.
    #[must_use]
    pub fn tally(&self, entry: &SeriesEntry, watermark: Timestamp, window_ms: i64) -> Tally {
        let mut sum = Tally::default();
        if let Some(serial) = self.by_key.get(entry) {
            for bucket in window(watermark, window_ms) {
                if let Some(cell) = self.cells.get(&(bucket, *serial)) {
                    sum.add(&cell.tally);
                }
            }
        }
        sum
    }

    /// The rows of a graph, in order.
    pub fn rows<'a>(&'a self, graph: &str) -> impl Iterator<Item = &'a SeriesEntry> + use<'a> {
        let from = SeriesEntry { graph: graph.to_owned(), row: None };
        let graph = graph.to_owned();
        self.by_key.range(from..).map(|(entry, _)| entry).take_while(move |entry| entry.graph == graph)
    }

    /// Builds what follows from the entries; cells of no series here are those of signatures.
    pub fn reindex(&mut self) {
        self.by_key = self.series.iter().map(|(serial, entry)| (entry.clone(), *serial)).collect();
        self.lru.clear();
        for ((bucket, serial), _) in self.cells.iter() {
            if let Some(entry) = self.series.get(serial) {
                self.lru.touch(*serial, rank(entry), *bucket);
            }
        }
    }
}

/// The whole buckets of a window that ends at the watermark.
#[must_use]
pub fn window(watermark: Timestamp, window_ms: i64) -> std::ops::Range<i64> {
    let end = bucket_number(watermark);
    end - window_ms.clamp(0, WINDOW_MS_MAX) / BUCKET_MS..end
}
