//! Guards: how much automation a task allows, and how much of it one tenant may take.

use std::collections::BTreeMap;

use crate::record::time::Timestamp;
use crate::session::rate::Rate;
use crate::session::table::Tracked;

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
        self.add_some(tenant, 1);
    }

    /// `more` more.
    pub fn add_some(&mut self, tenant: Option<&str>, more: u32) {
        self.total += more;
        if let Some(tenant) = tenant {
            match self.by_tenant.get_mut(tenant) {
                Some(count) => *count += more,
                None => drop(self.by_tenant.insert(tenant.into(), more)),
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
    /// Adds what a session uses of limits on what there is at a time.
    pub fn count(&mut self, tracked: &Tracked) {
        tracked.overrides.iter().for_each(|_| self.overrides_live.add(tracked.tenant.as_deref()));
        self.irreversible_runs += irreversible_runs(tracked);
    }

    /// Takes it off again.
    pub fn uncount(&mut self, tracked: &Tracked) {
        tracked.overrides.iter().for_each(|_| self.overrides_live.subtract(tracked.tenant.as_deref(), 1));
        self.irreversible_runs = self.irreversible_runs.saturating_sub(irreversible_runs(tracked));
    }

    /// Whether some run past an irreversible node may not be known.
    #[must_use]
    pub fn irreversible_unknown(&self, now: Timestamp) -> bool {
        self.irreversible_unknown_until.is_some_and(|until| now <= until)
    }
}

/// Runs of a session past an irreversible node.
pub(crate) fn irreversible_runs(tracked: &Tracked) -> u32 {
    tracked.runs.iter().map(|run| u32::from(run.irreversible)).sum()
}

#[cfg(test)]
mod tests {
    use super::Usage;

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
}
