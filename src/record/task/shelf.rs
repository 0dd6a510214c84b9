//! A table of state: one entry a key, which knows what changed since its entries were last taken, and what was at the last
//! commit.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use serde::Serialize;

use crate::record::task::entry::{self, Change};

/// A value, with the hash of its entry when it was last taken.
#[derive(Clone, Debug)]
struct Item<V> {
    value: V,
    taken: Option<u128>,
}

/// Values by key, in order.
#[derive(Debug)]
pub struct Shelf<K, V> {
    items: BTreeMap<K, Item<V>>,
    /// Keys that may have changed since their entries were last taken, with the hash of their entry then.
    touched: BTreeMap<K, Option<u128>>,
    /// Keys that may have changed since the last commit, as they were then.
    before: BTreeMap<K, Option<Item<V>>>,
}

impl<K, V> Default for Shelf<K, V> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), touched: BTreeMap::new(), before: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, V: Clone + Serialize> Shelf<K, V> {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.items.get(key).map(|item| &item.value)
    }

    /// The value of a key, to change it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.touch(key);
        self.items.get_mut(key).map(|item| &mut item.value)
    }

    /// The value of a key, to change it; made where there is none.
    pub fn get_or_default(&mut self, key: &K) -> &mut V
    where
        V: Default,
    {
        self.touch(key);
        let new = || Item { value: V::default(), taken: None };
        &mut self.items.entry(key.clone()).or_insert_with(new).value
    }

    /// Puts a value in place.
    pub fn insert(&mut self, key: K, value: V) {
        self.touch(&key);
        let taken = self.items.get(&key).and_then(|item| item.taken);
        self.items.insert(key, Item { value, taken });
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        if !self.items.contains_key(key) {
            return None;
        }
        self.touch(key);
        self.items.remove(key).map(|item| item.value)
    }

    /// The first key.
    #[must_use]
    pub fn first(&self) -> Option<&K> {
        self.items.keys().next()
    }

    /// All values, in order of keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.items.iter().map(|(key, item)| (key, &item.value))
    }

    /// The values of a range of keys, in order.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.items.range(range).map(|(key, item)| (key, &item.value))
    }

    fn touch(&mut self, key: &K) {
        let known = self.items.get(key);
        if !self.touched.contains_key(key) {
            self.touched.insert(key.clone(), known.and_then(|item| item.taken));
        }
        if !self.before.contains_key(key) {
            self.before.insert(key.clone(), known.cloned());
        }
    }

    /// Appends the entries that changed since they were last taken, and keeps `sum` the hash of all.
    pub fn take_changes(&mut self, text: impl Fn(&K) -> String, sum: &mut u128, changes: &mut Vec<Change>) {
        for (key, before) in std::mem::take(&mut self.touched) {
            let item = self.items.get_mut(&key);
            let key = text(&key);
            let value = item.as_ref().map(|item| entry::encode(&item.value));
            let hash = value.as_ref().map(|value| entry::hash(key.as_bytes(), value));
            if let Some(item) = item {
                item.taken = hash;
            }
            if hash != before {
                *sum = sum.wrapping_sub(before.unwrap_or(0)).wrapping_add(hash.unwrap_or(0));
                changes.push(Change { key, value });
            }
        }
    }

    /// What was taken is committed.
    pub fn committed(&mut self) {
        self.before.clear();
    }

    /// Back to the last commit.
    pub fn rollback(&mut self) {
        self.touched.clear();
        for (key, before) in std::mem::take(&mut self.before) {
            match before {
                Some(item) => drop(self.items.insert(key, item)),
                None => drop(self.items.remove(&key)),
            }
        }
    }

    /// Puts the entry of a key in place, or takes it out. Gives the hash of the entry that was there before.
    pub fn restore(&mut self, key: K, entry: Option<(V, u128)>) -> Option<u128> {
        let before = match entry {
            Some((value, hash)) => self.items.insert(key, Item { value, taken: Some(hash) }),
            None => self.items.remove(&key),
        };
        before.and_then(|item| item.taken)
    }
}
