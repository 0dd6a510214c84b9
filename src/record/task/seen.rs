//! Ids seen, bounded, the oldest forgotten first: a command that comes twice changes nothing. One state entry per id.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::record::task::entry::{self, Change};

/// A part of the sequence of ids: from, up to but without.
type Span = (u64, u64);

/// The value of the entry of an id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdEntry<'a> {
    /// The id.
    pub id: Cow<'a, str>,
}

/// The last ids.
#[derive(Debug)]
pub struct Seen {
    /// What keys of entries begin with, before `/` and the number of the id.
    prefix: char,
    /// Oldest first; the first is number `first`.
    order: VecDeque<String>,
    ids: BTreeSet<String>,
    first: u64,
    /// What was there when entries were last taken.
    taken: Span,
    /// What was there at the last commit.
    before: Span,
    /// Ids with an entry that were forgotten since the last commit, oldest first, with their numbers.
    forgotten: Vec<(u64, String)>,
}

impl Seen {
    /// Nothing seen; keys of entries begin with `prefix`.
    #[must_use]
    pub fn new(prefix: char) -> Self {
        Self {
            prefix,
            order: VecDeque::new(),
            ids: BTreeSet::new(),
            first: 0,
            taken: (0, 0),
            before: (0, 0),
            forgotten: Vec::new(),
        }
    }

    /// Whether an id was seen and not forgotten.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Remembers an id; whether it is new.
    pub fn admit(&mut self, id: &str, max: usize) -> bool {
        if !self.ids.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > max
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
            if self.first < self.taken.1 {
                self.forgotten.push((self.first, oldest));
            }
            self.first += 1;
        }
        true
    }

    /// Number of the next id.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.first + self.order.len() as u64
    }

    /// Appends the entries that changed since they were last taken, and keeps `sum` the hash of all.
    pub fn take_changes(&mut self, sum: &mut u128, changes: &mut Vec<Change>) {
        for (sequence, id) in self.forgotten.iter().filter(|(sequence, _)| *sequence >= self.taken.0) {
            let (key, value) = self.entry_of(*sequence, id);
            *sum = sum.wrapping_sub(entry::hash(key.as_bytes(), &value));
            changes.push(Change { key, value: None });
        }
        for sequence in self.taken.1.max(self.first)..self.next() {
            let Some(id) = self.at(sequence) else { continue };
            let (key, value) = self.entry_of(sequence, id);
            *sum = sum.wrapping_add(entry::hash(key.as_bytes(), &value));
            changes.push(Change { key, value: Some(value) });
        }
        self.taken = (self.first, self.next());
    }

    fn entry_of(&self, sequence: u64, id: &str) -> (String, Vec<u8>) {
        (format!("{}/{sequence:016x}", self.prefix), entry::encode(&IdEntry { id: id.into() }))
    }

    fn at(&self, sequence: u64) -> Option<&String> {
        self.order.get(usize::try_from(sequence - self.first).ok()?)
    }

    /// What was taken is committed.
    pub fn committed(&mut self) {
        self.before = self.taken;
        self.forgotten.clear();
    }

    /// Back to the last commit.
    pub fn rollback(&mut self) {
        let (first, next) = self.before;
        while self.next() > next.max(self.first)
            && let Some(id) = self.order.pop_back()
        {
            self.ids.remove(&id);
        }
        for (_, id) in std::mem::take(&mut self.forgotten).into_iter().rev().filter(|(sequence, _)| *sequence < next) {
            self.ids.insert(id.clone());
            self.order.push_front(id);
        }
        self.first = first;
        self.taken = self.before;
    }

    /// Puts the ids of entries in place, oldest first; the last is number `next - 1`. Whether they are without a gap.
    pub fn restore(&mut self, ids: impl IntoIterator<Item = (u64, String)>, next: u64) -> bool {
        let (numbers, order): (Vec<u64>, VecDeque<String>) = ids.into_iter().unzip();
        self.first = next.saturating_sub(order.len() as u64);
        self.ids = order.iter().cloned().collect();
        let whole = self.ids.len() == order.len() && numbers.into_iter().eq(self.first..next);
        self.order = order;
        (self.taken, self.before) = ((self.first, next), (self.first, next));
        whole
    }
}
