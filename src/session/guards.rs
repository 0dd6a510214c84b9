//! Guards: how much automation a task allows, and how much of it one tenant may take.

use std::collections::{BTreeMap, VecDeque};

use crate::record::time::Timestamp;

/// Span of the rate guard.
const MINUTE_MS: i64 = 60_000;

/// Name of a guard that is exhausted: stands in `limit:NAME`.
pub type Limit = &'static str;

/// Use of one limit, in all and by tenant.
#[derive(Debug, Default)]
pub struct Usage {
    total: u32,
    by_tenant: BTreeMap<Box<str>, u32>,
}

impl Usage {
    /// Whether one more fits. Once a limit is half used, no tenant takes more than 20 % of it (at least one); events
    /// without a tenant are not a tenant.
    #[must_use]
    pub fn admits(&self, limit: u32, tenant: Option<&str>) -> bool {
        if self.total >= limit {
            return false;
        }
        let half_used = self.total >= limit.div_ceil(2);
        let share = (limit / 5).max(1);
        !half_used || tenant.is_none_or(|tenant| self.by_tenant.get(tenant).copied().unwrap_or(0) < share)
    }

    /// One more.
    pub fn add(&mut self, tenant: Option<&str>) {
        self.total += 1;
        if let Some(tenant) = tenant {
            match self.by_tenant.get_mut(tenant) {
                Some(count) => *count += 1,
                None => drop(self.by_tenant.insert(tenant.into(), 1)),
            }
        }
    }

    /// `count` fewer.
    pub fn subtract(&mut self, tenant: Option<&str>, count: u32) {
        self.total = self.total.saturating_sub(count);
        if let Some(tenant) = tenant
            && let Some(used) = self.by_tenant.get_mut(tenant)
        {
            *used = used.saturating_sub(count);
            if *used == 0 {
                self.by_tenant.remove(tenant);
            }
        }
    }

    /// How many are in use.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.total
    }
}

/// Use of a limit within any 60 s of the task's clock, in steps of a second.
#[derive(Debug, Default)]
pub struct Rate {
    usage: Usage,
    seconds: VecDeque<(i64, Option<Box<str>>, u32)>,
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
        match self.seconds.back_mut() {
            Some((last, of, count)) if *last == second && of.as_deref() == tenant => *count += 1,
            _ => self.seconds.push_back((second, tenant.map(Into::into), 1)),
        }
    }

    fn forget(&mut self, now: Timestamp) {
        let oldest = (now.as_millis() - MINUTE_MS).div_euclid(1000);
        while self.seconds.front().is_some_and(|(second, ..)| *second <= oldest) {
            if let Some((_, tenant, count)) = self.seconds.pop_front() {
                self.usage.subtract(tenant.as_deref(), count);
            }
        }
    }
}

/// Every guard of a task.
#[derive(Debug, Default)]
pub struct Guards {
    /// `interventions_per_minute_max`.
    pub interventions: Rate,
    /// `session_overrides_live_max`.
    pub overrides_live: Usage,
    /// `irreversible_runs_max`: runs past an irreversible node.
    pub irreversible_runs: u32,
    /// Until when runs may be missing from the above because the limit was reached.
    pub irreversible_unknown_until: Option<Timestamp>,
}

impl Guards {
    /// Whether some run past an irreversible node may not be known.
    #[must_use]
    pub fn irreversible_unknown(&self, now: Timestamp) -> bool {
        self.irreversible_unknown_until.is_some_and(|until| now <= until)
    }
}

#[cfg(test)]
mod tests {
    use super::{Rate, Usage};
    use crate::record::time::Timestamp;

    #[test]
    fn a_tenant_takes_a_fifth_once_half_is_used() {
        let mut usage = Usage::default();
        for _ in 0..5 {
            assert!(usage.admits(10, Some("loud")));
            usage.add(Some("loud"));
        }
        assert!(!usage.admits(10, Some("loud")), "half is used and it has more than a fifth");
        assert!(usage.admits(10, Some("quiet")));
        usage.add(Some("quiet"));
        usage.add(Some("quiet"));
        assert!(!usage.admits(10, Some("quiet")), "two of ten is its fifth");
        assert!(usage.admits(10, None));
        usage.subtract(Some("loud"), 4);
        assert!(usage.admits(10, Some("loud")));
    }

    #[test]
    fn a_rate_forgets_after_a_minute() {
        let mut rate = Rate::default();
        rate.add(Timestamp::from_millis(500), None);
        assert!(!rate.admits(Timestamp::from_millis(59_999), 1, None));
        assert!(rate.admits(Timestamp::from_millis(60_999), 1, None));
    }
}
