//! Cohort records of one dimension set: found by the values of a context with one map probe.

use std::hash::{Hash, Hasher};

use foldhash::fast::FixedState;
use hashbrown::{Equivalent, HashMap};

use crate::resolve::context::Context;
use crate::resolve::precedence::{Dimension, Entry};

/// Records with the same dimensions that all are, or all are not, for one tenant.
///
/// The tenant of a record is no dimension of its scope but narrows it: it stands in front of the values, so that many
/// tenants with a record each on the whole graph cost one probe too.
#[derive(Clone, Debug)]
pub(super) struct Group {
    for_tenant: bool,
    dimensions: Vec<Dimension>,
    slots: HashMap<Values, Vec<usize>, FixedState>,
}

/// The values of records: the tenant if they are for one, then one for each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Values(Vec<String>);

/// The same values as they stand in a context, not copied.
struct Asked<'a> {
    tenant: Option<&'a str>,
    dimensions: &'a [Dimension],
    context: &'a Context,
}

impl Hash for Values {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|value| value.hash(state));
    }
}

impl<'a> Asked<'a> {
    fn values(&self) -> impl Iterator<Item = &'a str> {
        let context = self.context;
        self.tenant.into_iter().chain(self.dimensions.iter().map(|dimension| dimension.value_in(context)))
    }
}

impl Hash for Asked<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values().for_each(|value| value.hash(state));
    }
}

impl Equivalent<Values> for Asked<'_> {
    fn equivalent(&self, values: &Values) -> bool {
        self.values().eq(values.0.iter().map(String::as_str))
    }
}

impl Group {
    /// The empty group an entry belongs to.
    pub(super) fn of(entry: &Entry) -> Self {
        let for_tenant = entry.record.tenant.is_some();
        Self { for_tenant, dimensions: entry.dimensions.clone(), slots: HashMap::default() }
    }

    pub(super) fn holds(&self, entry: &Entry) -> bool {
        self.for_tenant == entry.record.tenant.is_some() && self.dimensions == entry.dimensions
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn insert(&mut self, entry: &Entry, slot: usize) {
        self.slots.entry(Values::of(entry)).or_default().push(slot);
    }

    pub(super) fn remove(&mut self, entry: &Entry, slot: usize) {
        let values = Values::of(entry);
        if let Some(slots) = self.slots.get_mut(&values) {
            slots.retain(|held| *held != slot);
            if slots.is_empty() {
                self.slots.remove(&values);
            }
        }
    }

    /// The slots whose values are those of the context.
    pub(super) fn find(&self, context: &Context) -> Option<&[usize]> {
        let tenant = context.tenant.as_deref().filter(|_| self.for_tenant);
        if self.for_tenant && tenant.is_none() {
            return None;
        }
        self.slots.get(&Asked { tenant, dimensions: &self.dimensions, context }).map(Vec::as_slice)
    }
}

impl Values {
    fn of(entry: &Entry) -> Self {
        Self(entry.record.tenant.iter().chain(&entry.values).cloned().collect())
    }
}
