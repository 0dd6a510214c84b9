//! What was counted when: the order in which things are forgotten.

use std::collections::{BTreeMap, BTreeSet};

/// Numbers by when something of theirs was last counted; at one time lower ranks go first.
#[derive(Debug)]
pub struct Lru<K> {
    last: BTreeMap<K, (i64, u8)>,
    order: BTreeSet<(i64, u8, K)>,
}

impl<K> Default for Lru<K> {
    fn default() -> Self {
        Self { last: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Ord + Copy> Lru<K> {
    /// Notes that something was counted in a bucket; an earlier one changes nothing.
    pub fn touch(&mut self, key: K, rank: u8, bucket: i64) {
        if let Some((last, rank)) = self.last.get(&key).copied() {
            if bucket <= last {
                return;
            }
            self.order.remove(&(last, rank, key));
        }
        self.last.insert(key, (bucket, rank));
        self.order.insert((bucket, rank, key));
    }

    /// Forgets one.
    pub fn remove(&mut self, key: K) {
        if let Some((last, rank)) = self.last.remove(&key) {
            self.order.remove(&(last, rank, key));
        }
    }

    /// The one counted least recently, and its bucket.
    #[must_use]
    pub fn oldest(&self) -> Option<(i64, K)> {
        self.order.first().map(|(last, _, key)| (*last, *key))
    }

    /// The bucket it was last counted in.
    #[must_use]
    pub fn last(&self, key: &K) -> Option<i64> {
        self.last.get(key).map(|(last, _)| *last)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.last.clear();
        self.order.clear();
    }
}
