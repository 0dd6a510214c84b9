//! A table of counts of runs, as a session task writes it at a commit: texts once, rows as numbers.
//!
//! A task of a wide fleet writes thousands of rows at each commit, which say a few hundred texts between them. So a row is a
//! list of numbers, and those of texts are places in a list of texts, from 1; 0 is none:
//!
//! | numbers | what |
//! |---|---|
//! | 1 | text: the schema that was running |
//! | 1 | text: the route |
//! | 1 | text: the override |
//! | 1 | that override's attempt and 1; 0 is none |
//! | 1 | 1: late |
//! | one a dimension | text: its value |
//! | 5 | runs started, completed, failed; artifacts present, missing |
//! | 2 each | latency: bucket and count, by bucket |
//!
//! Invariant: what was counted is what is read, in as many tables as it takes (`tests/properties/rows.rs`).

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::record::event::Route;
use crate::record::fleet::{ROWS_BYTES_MAX, RowKey, Tally};
use crate::record::sketch::Sketch;
use crate::record::time::Timestamp;

/// Numbers of a row before its dimensions.
const BEFORE: usize = 5;
/// Counts of a row.
const COUNTS: usize = 5;

/// A table of counts: what one task saw of one graph in (a part of) one bucket. Rows of several records add up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// The graph as given to `resolve`.
    pub graph: String,
    /// The task that counted, `session/PARTITION`.
    pub source: String,
    /// Start of the 10 s bucket of that task's clock.
    pub bucket: Timestamp,
    /// Clock of that task when it wrote this: it has nothing more to say of buckets that ended before.
    pub source_watermark: Timestamp,
    /// Names of the dimensions.
    pub dimension_names: Vec<String>,
    /// What rows refer to, in order.
    pub texts: Vec<String>,
    /// One row for each combination that was seen, in order.
    pub rows: Vec<Vec<u64>>,
}

/// One row, as it was counted.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields of RowKey")]
pub struct Counted<'a> {
    pub schema_ref: Option<&'a str>,
    pub route: &'a str,
    pub override_id: Option<&'a str>,
    pub override_attempt: Option<u32>,
    pub late: bool,
    /// By the table's dimensions.
    pub values: &'a [Option<Box<str>>],
    pub tally: &'a Tally,
}

impl<'a> Counted<'a> {
    fn texts(&self) -> impl Iterator<Item = &'a str> {
        let values = self.values.iter().filter_map(Option::as_deref);
        [self.schema_ref, Some(self.route), self.override_id].into_iter().flatten().chain(values)
    }

    /// What tells rows apart, texts by number.
    fn key(&self, number: impl Fn(&str) -> u64) -> Vec<u64> {
        let text = |text: Option<&str>| text.map_or(0, &number);
        let mut row = Vec::with_capacity(BEFORE + self.values.len() + COUNTS + 2);
        row.extend([text(self.schema_ref), number(self.route), text(self.override_id)]);
        row.extend([self.override_attempt.map_or(0, |attempt| u64::from(attempt) + 1), u64::from(self.late)]);
        row.extend(self.values.iter().map(|value| text(value.as_deref())));
        row
    }
}

impl Tally {
    fn counts(&self) -> [u64; COUNTS] {
        [self.runs_started, self.runs_completed, self.runs_failed, self.artifacts_present, self.artifacts_missing]
    }
}

impl Rows {
    /// What a table says beside its rows, with none.
    #[must_use]
    pub fn empty(graph: &str, source: &str, bucket: Timestamp, source_watermark: Timestamp) -> Self {
        let (graph, source) = (graph.to_owned(), source.to_owned());
        Self {
            graph,
            source,
            bucket,
            source_watermark,
            dimension_names: Vec::new(),
            texts: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// The table with these rows, in order; equal ones are added up. Several where it would be too large for one record.
    #[must_use]
    pub fn tables(self, dimensions: &[String], counted: &[Counted<'_>]) -> Vec<Self> {
        let texts: BTreeSet<&str> = counted.iter().flat_map(Counted::texts).collect();
        let numbers: HashMap<&str, u64, foldhash::quality::FixedState> = texts.iter().copied().zip(1..).collect();
        let texts: Vec<&str> = texts.into_iter().collect();
        let number = |text: &str| numbers.get(text).copied().unwrap_or(0);
        let mut rows: Vec<(Vec<u64>, &Tally)> = counted.iter().map(|row| (row.key(number), row.tally)).collect();
        rows.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut parts = Parts::new(Self { dimension_names: dimensions.to_vec(), ..self }, &texts);
        let mut rows = rows.into_iter().peekable();
        while let Some((mut row, tally)) = rows.next() {
            let mut sum = None;
            while let Some((_, more)) = rows.next_if(|(next, _)| *next == row) {
                sum.get_or_insert_with(|| tally.clone()).add(more);
            }
            let tally = sum.as_ref().unwrap_or(tally);
            row.extend(tally.counts());
            row.extend(tally.latency.buckets().iter().flat_map(|(bucket, count)| [u64::from(*bucket), *count]));
            parts.push(row);
        }
        parts.finish()
    }

    /// A table of these rows.
    #[must_use]
    pub fn of(self, rows: &[(RowKey, Tally)]) -> Vec<Self> {
        let names: BTreeSet<&String> = rows.iter().flat_map(|(key, _)| key.dimensions.keys()).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        let value = |key: &RowKey, name: &String| key.dimensions.get(name).map(|value| value.as_str().into());
        let values: Vec<Vec<Option<Box<str>>>> =
            rows.iter().map(|(key, _)| names.iter().map(|name| value(key, name)).collect()).collect();
        let counted = rows.iter().zip(&values).map(|((key, tally), values)| Counted {
            schema_ref: key.schema_ref.as_deref(),
            route: key.route.as_str(),
            override_id: key.override_id.as_deref(),
            override_attempt: key.override_attempt,
            late: key.late,
            values,
            tally,
        });
        let counted: Vec<Counted<'_>> = counted.collect();
        self.tables(&names, &counted)
    }

    /// The rows, in order; what is no row (see [`Rows::fault`]) is left out.
    pub fn iter(&self) -> impl Iterator<Item = (RowKey, Tally)> {
        self.rows.iter().filter_map(|row| self.row(row).ok())
    }

    /// What is wrong with the table, if anything is.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        self.rows.iter().find_map(|row| self.row(row).err())
    }

    /// The text of a number: none for 0, an error where there is no such text.
    fn text(&self, number: u64) -> Result<Option<&str>, &'static str> {
        let Some(at) = number.checked_sub(1) else { return Ok(None) };
        let text = usize::try_from(at).ok().and_then(|at| self.texts.get(at));
        text.map(|text| Some(text.as_str())).ok_or("a row with a text that there is not")
    }

    fn row(&self, row: &[u64]) -> Result<(RowKey, Tally), &'static str> {
        const SHORT: &str = "a row with too few numbers";
        let [schema_ref, route, override_id, attempt, late, rest @ ..] = row else { return Err(SHORT) };
        let (values, rest) = rest.split_at_checked(self.dimension_names.len()).ok_or(SHORT)?;
        let (counts, latency) = rest.split_first_chunk::<COUNTS>().ok_or(SHORT)?;
        let override_attempt = match attempt.checked_sub(1) {
            Some(attempt) => Some(u32::try_from(attempt).map_err(|_| "a row with an attempt that is too large")?),
            None => None,
        };
        if *late > 1 {
            return Err("a row that is late neither 0 nor 1");
        }
        let mut dimensions = BTreeMap::new();
        for (name, value) in self.dimension_names.iter().zip(values) {
            if let Some(value) = self.text(*value)? {
                dimensions.insert(name.clone(), value.to_owned());
            }
        }
        let key = RowKey {
            schema_ref: self.text(*schema_ref)?.map(str::to_owned),
            route: self.text(*route)?.map(Route::from).ok_or("a row without a route")?,
            override_id: self.text(*override_id)?.map(str::to_owned),
            override_attempt,
            late: *late == 1,
            dimensions,
        };
        let [runs_started, runs_completed, runs_failed, artifacts_present, artifacts_missing] = *counts;
        let latency = Sketch::of_numbers(latency).ok_or("a row with latencies that are no buckets of a sketch")?;
        let tally = Tally { runs_started, runs_completed, runs_failed, artifacts_present, artifacts_missing, latency };
        Ok((key, tally))
    }
}

/// Rows in as many tables as they need, each with the texts of its own rows.
struct Parts<'a> {
    /// Without texts and rows.
    head: Rows,
    frame: usize,
    /// All texts, by number.
    texts: &'a [&'a str],
    size: usize,
    /// Numbers of the texts of the current table.
    used: BTreeSet<u64>,
    rows: Vec<Vec<u64>>,
    done: Vec<Rows>,
}

impl<'a> Parts<'a> {
    fn new(head: Rows, texts: &'a [&'a str]) -> Self {
        let frame = bytes(&head) + r#""kind":"rows","#.len();
        Self { head, frame, texts, size: frame, used: BTreeSet::new(), rows: Vec::new(), done: Vec::new() }
    }

    /// The places of a row that are numbers of texts.
    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        (0..3).chain(BEFORE..BEFORE + self.head.dimension_names.len())
    }

    fn text(&self, number: u64) -> &'a str {
        let at = number.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.texts.get(at)).copied().unwrap_or_default()
    }

    fn push(&mut self, row: Vec<u64>) {
        let own: Vec<u64> = self.places().map(|place| row[place]).filter(|number| *number > 0).collect();
        let digits: usize = row.iter().map(|number| number.checked_ilog10().unwrap_or(0) as usize + 2).sum();
        let more = |used: &BTreeSet<u64>| {
            let new: BTreeSet<u64> = own.iter().filter(|number| !used.contains(number)).copied().collect();
            digits + 2 + new.into_iter().map(|number| bytes(&self.text(number)) + 1).sum::<usize>()
        };
        let mut size = self.size + more(&self.used);
        if size > ROWS_BYTES_MAX && !self.rows.is_empty() {
            let alone = more(&BTreeSet::new());
            self.cut();
            size = self.frame + alone;
        }
        self.size = size;
        self.used.extend(own);
        self.rows.push(row);
    }

    fn cut(&mut self) {
        let used = std::mem::take(&mut self.used);
        let numbers: BTreeMap<u64, u64> = used.iter().copied().zip(1..).collect();
        let mut rows = std::mem::take(&mut self.rows);
        if numbers.len() < self.texts.len() {
            let places: Vec<usize> = self.places().collect();
            for row in &mut rows {
                for place in &places {
                    row[*place] = numbers.get(&row[*place]).copied().unwrap_or(0);
                }
            }
        }
        let texts = used.into_iter().map(|number| self.text(number).to_owned()).collect();
        self.done.push(Rows { texts, rows, ..self.head.clone() });
    }

    fn finish(mut self) -> Vec<Rows> {
        if !self.rows.is_empty() {
            self.cut();
        }
        self.done
    }
}

/// Length of a value as JSON.
fn bytes<T: Serialize>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(0, |bytes| bytes.len())
}
