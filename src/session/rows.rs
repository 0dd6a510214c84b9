//! The rows that a task counts in between two commits, found by what an event says without copying it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::FixedState;
use hashbrown::HashTable;

use crate::record::event::{Event, Route};
use crate::record::fleet::{OTHER, RowKey, Tally};
use crate::record::rows::{self, Rows};
use crate::record::time::Timestamp;

/// Where an event is counted.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The event.
    pub event: &'a Event<'a>,
    /// The override it is evidence of.
    pub override_id: Option<&'a str>,
    /// Whether it came late.
    pub late: bool,
    /// A longer value of a dimension is not told apart.
    pub value_bytes_max: usize,
}

impl Place<'_> {
    /// Value of a dimension.
    fn value(&self, name: &str) -> Option<Cow<'_, str>> {
        let value = self.event.dimension(name)?;
        Some(if value.len() > self.value_bytes_max { OTHER.into() } else { value })
    }

    fn attempt(&self) -> Option<u32> {
        self.override_id.and(self.event.override_attempt)
    }

    fn hash(&self, names: &[String]) -> u64 {
        let mut hasher = FixedState::with_seed(0).build_hasher();
        self.event.graph.hash(&mut hasher);
        self.event.schema_ref.as_deref().hash(&mut hasher);
        self.event.route().hash(&mut hasher);
        (self.override_id, self.attempt(), self.late).hash(&mut hasher);
        for name in names {
            self.value(name).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// One row.
#[derive(Clone, Debug)]
struct Counted {
    hash: u64,
    graph: Box<str>,
    /// As the event names it; none: what follows from graph and version.
    schema_ref: Option<Box<str>>,
    implied_schema: Option<Box<str>>,
    route: Route,
    override_id: Option<Box<str>>,
    override_attempt: Option<u32>,
    late: bool,
    /// By the table's names of dimensions.
    values: Box<[Option<Box<str>>]>,
    tally: Tally,
}

impl Counted {
    fn new(place: &Place<'_>, names: &[String], hash: u64) -> Self {
        let event = place.event;
        let implied = if event.schema_ref.is_none() { event.running_schema() } else { None };
        Self {
            hash,
            graph: event.graph.as_str().into(),
            schema_ref: event.schema_ref.as_deref().map(Into::into),
            implied_schema: implied.map(Into::into),
            route: event.route().clone(),
            override_id: place.override_id.map(Into::into),
            override_attempt: place.attempt(),
            late: place.late,
            values: names.iter().map(|name| place.value(name).map(Into::into)).collect(),
            tally: Tally::default(),
        }
    }

    fn is(&self, place: &Place<'_>, names: &[String]) -> bool {
        let event = place.event;
        *self.graph == *event.graph
            && self.schema_ref.as_deref() == event.schema_ref.as_deref()
            && self.route == *event.route()
            && self.override_id.as_deref() == place.override_id
            && self.override_attempt == place.attempt()
            && self.late == place.late
            && names.iter().zip(&self.values).all(|(name, value)| place.value(name).as_deref() == value.as_deref())
    }

    fn schema(&self) -> Option<&str> {
        self.schema_ref.as_deref().or(self.implied_schema.as_deref())
    }

    fn counted(&self) -> rows::Counted<'_> {
        rows::Counted {
            schema_ref: self.schema(),
            route: self.route.as_str(),
            override_id: self.override_id.as_deref(),
            override_attempt: self.override_attempt,
            late: self.late,
            values: &self.values,
            tally: &self.tally,
        }
    }

    fn weight(&self) -> u64 {
        let Tally { runs_started, runs_completed, runs_failed, .. } = self.tally;
        runs_started + runs_completed + runs_failed
    }

    fn key(&self, names: &[String]) -> RowKey {
        let dimensions = names.iter().zip(&self.values);
        RowKey {
            schema_ref: self.schema().map(ToOwned::to_owned),
            route: self.route.clone(),
            override_id: self.override_id.as_ref().map(ToString::to_string),
            override_attempt: self.override_attempt,
            late: self.late,
            dimensions: dimensions
                .filter_map(|(name, value)| Some((name.clone(), value.as_ref()?.to_string())))
                .collect(),
        }
    }

    /// The value of a column: a dimension, or what else may have many values. None: a known route, which is never folded.
    fn column(&self, at: usize) -> Option<Cow<'_, str>> {
        let value = match self.values.get(at) {
            Some(value) => value.as_deref(),
            None => match at - self.values.len() {
                0 => match (self.override_id.as_deref(), self.override_attempt) {
                    (Some(id), Some(attempt)) => return Some(format!("{id} {attempt}").into()),
                    (id, _) => id,
                },
                1 => self.schema(),
                2 => Some(&*self.graph),
                _ => match &self.route {
                    Route::Unknown(word) => Some(word.as_str()),
                    _ => return None,
                },
            },
        };
        // No value is a value too: it can be told from others.
        Some(value.unwrap_or_default().into())
    }

    fn fold(&mut self, at: usize) {
        let dimensions = self.values.len();
        match self.values.get_mut(at) {
            Some(value) => *value = Some(OTHER.into()),
            None => match at - dimensions {
                0 => (self.override_id, self.override_attempt) = (Some(OTHER.into()), None),
                1 => (self.schema_ref, self.implied_schema) = (Some(OTHER.into()), None),
                2 => self.graph = OTHER.into(),
                _ => self.route = Route::from(OTHER),
            },
        }
    }
}

/// Columns beside the dimensions that may be folded: override, schema, graph, routes nobody knows.
const OTHER_COLUMNS: usize = 4;

/// Rows that were counted under the same names of dimensions.
#[derive(Debug)]
struct Closed {
    bucket: Timestamp,
    names: Vec<String>,
    rows: Vec<Counted>,
}

impl Closed {
    /// The rows as tables, by graph.
    fn tables(self, source: &str, now: Timestamp) -> Vec<Rows> {
        let mut graphs = BTreeMap::<&str, Vec<rows::Counted<'_>>>::new();
        for row in &self.rows {
            graphs.entry(&row.graph).or_default().push(row.counted());
        }
        let tables = graphs
            .into_iter()
            .flat_map(|(graph, counted)| Rows::empty(graph, source, self.bucket, now).tables(&self.names, &counted));
        tables.collect()
    }
}

/// The rows of the current bucket, and those of buckets that ended since the last flush.
#[derive(Debug)]
pub struct RowTable {
    names: Vec<String>,
    bucket: Timestamp,
    open: Vec<Counted>,
    index: HashTable<u32>,
    closed: Vec<Closed>,
}

impl RowTable {
    /// No rows; dimensions by name.
    #[must_use]
    pub fn new(names: &[String]) -> Self {
        Self {
            names: names.to_vec(),
            bucket: Timestamp::MIN,
            open: Vec::new(),
            index: HashTable::new(),
            closed: Vec::new(),
        }
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.closed.is_empty()
    }

    /// Names the dimensions of rows to come; the table must be closed.
    pub fn name(&mut self, names: &[String]) {
        self.names = names.to_vec();
    }

    /// Where to count an event in a bucket, and how many rows were folded into others to make room for it.
    pub fn tally(&mut self, bucket: Timestamp, place: &Place<'_>, rows_max: usize) -> (&mut Tally, u64) {
        if bucket != self.bucket {
            self.close();
            self.bucket = bucket;
        }
        let hash = place.hash(&self.names);
        let found = self.index.find(hash, |at| self.open[*at as usize].is(place, &self.names)).copied();
        if let Some(at) = found {
            return (&mut self.open[at as usize].tally, 0);
        }
        let folded = if self.open.len() >= rows_max { self.fold(rows_max) } else { 0 };
        let at = self.open.len();
        self.open.push(Counted::new(place, &self.names, hash));
        let open = &self.open;
        self.index.insert_unique(hash, u32::try_from(at).unwrap_or(u32::MAX), |at| open[*at as usize].hash);
        (&mut self.open[at].tally, folded)
    }

    /// Folds the rarest half of the values of the widest column, again and again, until a quarter of the rows is free or
    /// nothing is left to fold: then only routes and lateness are told apart, which makes ten rows at most.
    fn fold(&mut self, rows_max: usize) -> u64 {
        let before = self.open.len();
        let wanted = (rows_max - rows_max / 4).min(rows_max.saturating_sub(1));
        while self.open.len() > wanted {
            let columns = 0..self.names.len() + OTHER_COLUMNS;
            let weights = columns.map(|at| (at, self.weights(at)));
            // The first of the widest.
            let widest = weights.rev().max_by_key(|(_, weights)| weights.len());
            let Some((at, weights)) = widest.filter(|(_, weights)| weights.len() > 1) else { break };
            let values = weights.into_iter().filter(|(value, _)| **value != *OTHER);
            let mut values: Vec<(u64, Box<str>)> = values.map(|(value, weight)| (weight, value)).collect();
            values.sort_unstable();
            values.truncate(values.len().div_ceil(2));
            let rare: BTreeSet<Box<str>> = values.into_iter().map(|(_, value)| value).collect();
            let is_rare = |row: &&mut Counted| row.column(at).is_some_and(|value| rare.contains(&*value));
            self.open.iter_mut().filter(is_rare).for_each(|row| row.fold(at));
            self.merge();
        }
        (before - self.open.len()) as u64
    }

    fn weights(&self, column: usize) -> BTreeMap<Box<str>, u64> {
        let mut weights = BTreeMap::<Box<str>, u64>::new();
        for row in &self.open {
            let Some(value) = row.column(column) else { continue };
            match weights.get_mut(&*value) {
                Some(weight) => *weight += row.weight(),
                None => drop(weights.insert(value.into(), row.weight())),
            }
        }
        weights
    }

    /// Adds up rows that became equal.
    fn merge(&mut self) {
        let mut places = BTreeMap::<(Box<str>, RowKey), usize>::new();
        let mut merged: Vec<Counted> = Vec::with_capacity(self.open.len());
        for row in self.open.drain(..) {
            let key = (row.graph.clone(), row.key(&self.names));
            if let Some(at) = places.get(&key) {
                merged[*at].tally.add(&row.tally);
            } else {
                places.insert(key, merged.len());
                merged.push(row);
            }
        }
        self.open = merged;
        // A folded row keeps a hash under which nothing finds it: what is folded later meets it in the next merge.
        let Self { open, index, .. } = self;
        index.clear();
        for (at, row) in (0..).zip(open.iter()) {
            index.insert_unique(row.hash, at, |at| open[*at as usize].hash);
        }
    }

    /// Ends the current bucket.
    pub fn close(&mut self) {
        if !self.open.is_empty() {
            let (bucket, names, rows) = (self.bucket, self.names.clone(), std::mem::take(&mut self.open));
            self.closed.push(Closed { bucket, names, rows });
            self.index.clear();
        }
    }

    /// Everything counted, as the tables of a task at an instant; nothing is left.
    pub fn take(&mut self, source: &str, now: Timestamp) -> Vec<Rows> {
        self.close();
        std::mem::take(&mut self.closed).into_iter().flat_map(|closed| closed.tables(source, now)).collect()
    }

    /// Forgets everything counted.
    pub fn clear(&mut self) {
        self.open.clear();
        self.index.clear();
        self.closed.clear();
    }
}
