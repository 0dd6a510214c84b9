//! Interventions of the last minute, by second: the guard of the rate. One state entry per second, so that a commit writes
//! what happened since the last one and not the whole minute again.

use std::collections::BTreeMap;

use crate::record::time::Timestamp;
use crate::session::guards::Usage;
use crate::session::state::entry::{self, Change, Key, RateEntry};

/// Span of the rate guard.
const MINUTE_MS: i64 = 60_000;

/// Use of a limit within any 60 s of the task's clock, in steps of a second.
#[derive(Debug, Default)]
pub struct Rate {
    usage: Usage,
    seconds: BTreeMap<i64, Second>,
    /// Seconds changed since their entries were last taken, each with the hash of its entry then.
    touched: BTreeMap<i64, Option<u128>>,
    /// Seconds changed since the last commit, as they were then.
    before: BTreeMap<i64, Option<Second>>,
}

/// What happened in one second.
#[derive(Clone, Debug, Default)]
struct Second {
    by_tenant: BTreeMap<Option<Box<str>>, u32>,
    taken: Option<u128>,
}

impl Rate {
    /// Whether one more fits now.
    #[must_use]
    pub fn admits(&mut self, now: Timestamp, limit: u32, tenant: Option<&str>) -> bool {
        self.forget(now);
        self.usage.admits(limit, tenant)
    }

    /// One more, now.
    pub fn add(&mut self, now: Timestamp, tenant: Option<&str>) {
        let second = now.as_millis().div_euclid(1000);
        self.usage.add(tenant);
        self.touch(second);
        let by_tenant = &mut self.seconds.entry(second).or_default().by_tenant;
        *by_tenant.entry(tenant.map(Into::into)).or_default() += 1;
    }

    fn forget(&mut self, now: Timestamp) {
        let oldest = (now.as_millis() - MINUTE_MS).div_euclid(1000);
        while let Some(&second) = self.seconds.keys().next().filter(|second| **second <= oldest) {
            self.touch(second);
            self.drop_second(second);
            if self.touched.get(&second) == Some(&None) && self.before.get(&second).is_some_and(Option::is_none) {
                // No entry of it was ever taken.
                self.touched.remove(&second);
                self.before.remove(&second);
            }
        }
    }

    fn touch(&mut self, second: i64) {
        let known = self.seconds.get(&second);
        self.touched.entry(second).or_insert_with(|| known.and_then(|known| known.taken));
        self.before.entry(second).or_insert_with(|| known.cloned());
    }

    fn drop_second(&mut self, second: i64) {
        for (tenant, count) in self.seconds.remove(&second).into_iter().flat_map(|second| second.by_tenant) {
            self.usage.subtract(tenant.as_deref(), count);
        }
    }

    fn set_second(&mut self, second: i64, known: Second) {
        for (tenant, count) in &known.by_tenant {
            self.usage.add_some(tenant.as_deref(), *count);
        }
        self.seconds.insert(second, known);
    }

    /// Appends the entries that changed since they were last taken, and keeps `sum` the hash of all.
    pub fn take_changes(&mut self, sum: &mut u128, changes: &mut Vec<Change>) {
        for (second, before) in std::mem::take(&mut self.touched) {
            let key = Key::Second(second).text();
            let known = self.seconds.get_mut(&second);
            let value = known.as_ref().map(|known| entry::encode(&known.entry()));
            let hash = value.as_ref().map(|value| entry::hash(key.as_bytes(), value));
            if let Some(known) = known {
                known.taken = hash;
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
        for (second, before) in std::mem::take(&mut self.before) {
            self.drop_second(second);
            if let Some(before) = before {
                self.set_second(second, before);
            }
        }
    }

    /// Puts the entry of a second in place, or takes it out. Gives the hash of the entry that was there before.
    pub fn restore(&mut self, second: i64, entry: Option<(RateEntry, u128)>) -> Option<u128> {
        let before = self.seconds.get(&second).and_then(|known| known.taken);
        self.drop_second(second);
        if let Some((entry, hash)) = entry {
            let by_tenant = entry.by_tenant.into_iter().collect();
            self.set_second(second, Second { by_tenant, taken: Some(hash) });
        }
        before
    }
}

impl Second {
    fn entry(&self) -> RateEntry {
        RateEntry { by_tenant: self.by_tenant.iter().map(|(tenant, count)| (tenant.clone(), *count)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::Rate;
    use crate::record::time::Timestamp;

    #[test]
    fn a_rate_forgets_after_a_minute() {
        let mut rate = Rate::default();
        rate.add(Timestamp::from_millis(500), None);
        assert!(!rate.admits(Timestamp::from_millis(59_999), 1, None));
        assert!(rate.admits(Timestamp::from_millis(60_999), 1, None));
    }
}
