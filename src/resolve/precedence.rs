//! Which record wins: what is ignored, what a record's dimensions are, and the order of the rest.

use std::cmp::Reverse;

use crate::record::overrides::{Override, OverrideKind, OverrideMode, OverrideSource, OverrideStatus};
use crate::record::scope::Scope;
use crate::record::time::Timestamp;
use crate::resolve::context::Context;

/// A dimension of a cohort, in order of rank: the first is the highest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// `tenant`
    Tenant,
    /// `region`
    Region,
    /// `app_version`
    AppVersion,
    /// `graph_version`
    GraphVersion,
    /// `attributes.NAME`; among each other by name, as UTF-8 bytes.
    Attribute(String),
}

impl Dimension {
    /// From its name in a scope.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "tenant" => Some(Self::Tenant),
            "region" => Some(Self::Region),
            "app_version" => Some(Self::AppVersion),
            "graph_version" => Some(Self::GraphVersion),
            _ => name.strip_prefix("attributes.").map(|attribute| Self::Attribute(attribute.to_owned())),
        }
    }

    /// Its value in a context; a missing one is empty and matches an empty value only.
    #[must_use]
    pub fn value_in<'a>(&self, context: &'a Context) -> &'a str {
        let value = match self {
            Self::Tenant => context.tenant.as_ref(),
            Self::Region => context.region.as_ref(),
            Self::AppVersion => context.app_version.as_ref(),
            Self::GraphVersion => context.graph_version.as_ref(),
            Self::Attribute(name) => context.attributes.get(name),
        };
        value.map_or("", String::as_str)
    }
}

/// Why a record can match nobody, whatever the context and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Its status is not active.
    Status,
    /// Its mode is unknown.
    Mode,
    /// Its kind is unknown.
    Kind,
    /// Only an operator may force or deny.
    Source,
    /// A replacement without a schema.
    Schema,
    /// Copies of one schema differ, or one is missing.
    Copies,
    /// Its scope has a kind or a dimension this version does not know.
    Scope,
}

/// Says why a record can match nobody; an expired one may still match an earlier `now`.
#[must_use]
pub fn unusable(record: &Override) -> Option<Unusable> {
    let command = matches!(record.mode, OverrideMode::Force | OverrideMode::Deny);
    let needs_schema = record.mode != OverrideMode::Deny && record.kind != OverrideKind::Pause;
    if record.status != OverrideStatus::Active {
        Some(Unusable::Status)
    } else if matches!(record.mode, OverrideMode::Unknown(_)) {
        Some(Unusable::Mode)
    } else if matches!(record.kind, OverrideKind::Unknown(_)) {
        Some(Unusable::Kind)
    } else if command && record.source != OverrideSource::Operator {
        Some(Unusable::Source)
    } else if needs_schema && record.schema_ref.is_none() {
        Some(Unusable::Schema)
    } else if !copies_agree(record) {
        Some(Unusable::Copies)
    } else if dimensions(&record.scope).is_none() {
        Some(Unusable::Scope)
    } else {
        None
    }
}

fn copies_agree(record: &Override) -> bool {
    let shadow = record.shadow.as_ref().map(|shadow| &shadow.schema_ref);
    let shadows_agree = agree(shadow, record.shadow_schema_ref.as_ref());
    let candidate = record.candidate_schema_ref.as_ref();
    let trial_agrees = record.default_schema_ref == record.schema_ref
        && candidate.is_some()
        && agree(candidate, record.primary_schema_ref.as_ref());
    shadows_agree && (record.mode != OverrideMode::Trial || trial_agrees)
}

/// Two copies that are not both there cannot differ.
fn agree(one: Option<&String>, other: Option<&String>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// Dimensions and values, highest rank first; none for a session or a whole graph; `None` for an unknown scope.
fn dimensions(scope: &Scope) -> Option<Vec<(Dimension, &String)>> {
    let mut found = match scope {
        Scope::Session { .. } => Vec::new(),
        Scope::Cohort(values) => {
            let named = values.iter().map(|(name, value)| Dimension::from_name(name).map(|found| (found, value)));
            named.collect::<Option<Vec<_>>>()?
        }
        Scope::Unknown { .. } => return None,
    };
    found.sort();
    Some(found)
}

/// A usable record and what is asked of it again and again.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The topic's key.
    pub key: String,
    /// The record.
    pub record: Override,
    /// Dimensions of a cohort, highest rank first; none for a session or a whole graph.
    pub dimensions: Vec<Dimension>,
    /// Their values, in the same order.
    pub values: Vec<String>,
}

/// Order of entries, best first: deny, force or neither; session or cohort; more dimensions; higher dimensions; newer;
/// smaller id. The key stands last, so that two records of one id do not depend on the order of reading.
pub type Rank<'a> = (u8, bool, Reverse<usize>, &'a [Dimension], Reverse<Timestamp>, &'a str, &'a str);

impl Entry {
    /// A usable record.
    ///
    /// # Errors
    /// Why it is none, with the record.
    pub fn new(key: &str, record: Override) -> Result<Self, (Unusable, Box<Override>)> {
        if let Some(why) = unusable(&record) {
            return Err((why, Box::new(record)));
        }
        let named = dimensions(&record.scope).unwrap_or_default();
        let (dimensions, values) = named.into_iter().map(|(dimension, value)| (dimension, value.clone())).unzip();
        Ok(Self { key: key.to_owned(), record, dimensions, values })
    }

    /// Its place among matching entries: the smallest wins.
    #[must_use]
    pub fn rank(&self) -> Rank<'_> {
        let tier = match self.record.mode {
            OverrideMode::Deny => 0,
            OverrideMode::Force => 1,
            OverrideMode::Degraded | OverrideMode::Trial | OverrideMode::Unknown(_) => 2,
        };
        let record = &self.record;
        let more = Reverse(self.dimensions.len());
        let newer = Reverse(record.created_at);
        (tier, !self.is_session(), more, &self.dimensions, newer, &record.override_id, &self.key)
    }

    /// Whether it covers one session.
    #[must_use]
    pub fn is_session(&self) -> bool {
        matches!(self.record.scope, Scope::Session { .. })
    }

    /// Whether it is an operator's force or deny.
    #[must_use]
    pub fn is_command(&self) -> bool {
        matches!(self.record.mode, OverrideMode::Force | OverrideMode::Deny)
    }
}
