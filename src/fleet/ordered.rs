//! Overrides that people order for a cohort or a whole graph: published, replaced, lifted, expired.
//!
//! One of a scope is live at a time; an order for the same scope replaces it under the same id. A freeze stops automation,
//! and a person's order is none: it goes on.
//!
//! Invariant: what is live here is what stands on the topic, and every change of it is an audit line
//! (`tests/properties/ordered.rs`).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::fleet::{Effects, Fleet};
use crate::record::command::{Command, Order, Verb};
use crate::record::id;
use crate::record::output::{Output, Record};
use crate::record::overrides::{Override, OverrideKind, OverrideMode, OverrideSource, OverrideStatus, key};
use crate::record::position::Evidence;
use crate::record::scope::{Scope, is_dimension};
use crate::record::task::chain::Transition;
use crate::record::task::shelf::Shelf;
use crate::record::time::Timestamp;
use crate::record::topic::Topic;

/// Most dimensions of a cohort; over: refused.
const DIMENSIONS_MAX: usize = 64;

/// The ordered overrides that are live, by their keys on the topic.
#[derive(Debug, Default)]
pub struct Ordered {
    pub(crate) shelf: Shelf<String, Override>,
    ends: BTreeSet<(Timestamp, String)>,
}

impl Ordered {
    /// When the first of them ends.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// Builds what follows from the entries.
    pub fn reindex(&mut self) {
        self.ends = self.shelf.iter().map(|(key, record)| (record.expires_at, key.clone())).collect();
    }

    fn put(&mut self, key: &str, record: Override) {
        self.ends.insert((record.expires_at, key.to_owned()));
        self.shelf.insert(key.to_owned(), record);
    }

    fn take(&mut self, key: &str) -> Option<Override> {
        let record = self.shelf.remove(&key.to_owned())?;
        self.ends.remove(&(record.expires_at, key.to_owned()));
        Some(record)
    }
}

/// Whether it is `NAME:VERSION`.
fn is_schema_ref(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(name, version)| !name.is_empty() && !version.is_empty())
}

/// What the id of an ordered override follows from.
#[derive(Serialize)]
struct Name<'a> {
    command_id: &'a str,
    key: &'a str,
}

/// Why something changes.
struct Why<'a> {
    reason: &'a str,
    author: Option<&'a str>,
    cause: Option<&'a Evidence>,
}

impl<'a> Why<'a> {
    fn of(command: &'a Command, cause: &'a Evidence) -> Self {
        Self { reason: &command.reason, author: Some(&command.author), cause: Some(cause) }
    }
}

impl Fleet {
    /// Publishes what a person orders: force or deny.
    pub(crate) fn order(
        &mut self,
        command: &Command,
        cause: &Evidence,
        effects: &mut Effects,
    ) -> Result<(), &'static str> {
        let order = command.order.as_ref().ok_or("no_override")?;
        let (mode, schema_ref) = self.admitted(command, order)?;
        let key = key(&command.target, &order.scope, &OverrideSource::Operator, None);
        let former = self.ordered.take(&key);
        if former.is_none() && self.ordered.shelf.len() >= self.registry.limits.operator_overrides_live_max as usize {
            return Err("limit:operator_overrides_live_max");
        }
        let ttl_ms = i64::try_from(order.ttl_ms).unwrap_or(i64::MAX);
        let (override_id, created_at, attempt, revision) = match &former {
            Some(record) => (record.override_id.clone(), record.created_at, record.attempt + 1, record.revision + 1),
            None => (id::override_id(&Name { command_id: &command.command_id, key: &key }), self.now, 0, 1),
        };
        let record = Override {
            override_id,
            graph: command.target.clone(),
            scope: order.scope.clone(),
            tenant: None,
            run_id: None,
            source: OverrideSource::Operator,
            kind: if mode == OverrideMode::Deny { OverrideKind::Replace } else { order.kind.clone() },
            schema_ref,
            entry_point: None,
            resume: None,
            primary_schema_ref: None,
            shadow: None,
            shadow_schema_ref: None,
            default_schema_ref: None,
            candidate_schema_ref: None,
            trial_percentage: None,
            selection: None,
            attempt_salt: None,
            status: OverrideStatus::Active,
            mode,
            attempt,
            revision,
            intervention_id: None,
            reason: command.reason.clone(),
            author: Some(command.author.clone()),
            created_at,
            expires_at: Timestamp::from_millis(self.now.as_millis().saturating_add(ttl_ms)),
        };
        let from = former.map(|_| "active");
        self.ordered.put(&key, record.clone());
        self.moved(&key, &record, (from, "active"), &Why::of(command, cause), effects);
        self.counts.overrides_published += 1;
        Ok(())
    }

    /// What an order asks for, where it can be done: mode and schema.
    fn admitted(&self, command: &Command, order: &Order) -> Result<(OverrideMode, Option<String>), &'static str> {
        let limits = &self.registry.limits;
        let bytes_max = limits.field_bytes_max as usize;
        let fits = |text: &String| (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control);
        let dimensions: &BTreeMap<String, String> = match &order.scope {
            Scope::Cohort(dimensions) => dimensions,
            Scope::Session { .. } | Scope::Unknown { .. } => return Err("not_a_cohort"),
        };
        let are_wrong = dimensions.iter().any(|(name, value)| !is_dimension(name) || !fits(name) || !fits(value));
        if dimensions.len() > DIMENSIONS_MAX || are_wrong {
            return Err("bad_scope");
        }
        // The key of the command is taken for the graph easily.
        if !fits(&command.target) || command.target.starts_with("graph/") {
            return Err("bad_graph");
        }
        if order.ttl_ms == 0 {
            return Err("no_time_to_live");
        }
        if order.ttl_ms > limits.operator_override_ms_max {
            return Err("limit:operator_override_ms_max");
        }
        match (command.verb, &order.kind, &order.schema_ref) {
            (Verb::Force, OverrideKind::Replace, Some(schema_ref)) if fits(schema_ref) && is_schema_ref(schema_ref) => {
                Ok((OverrideMode::Force, Some(schema_ref.clone())))
            }
            (Verb::Force, OverrideKind::Pause, None) => Ok((OverrideMode::Force, None)),
            (Verb::Deny, OverrideKind::Replace, None) => Ok((OverrideMode::Deny, None)),
            _ => Err("bad_schema_ref"),
        }
    }

    /// Ends an ordered override before its time.
    pub(crate) fn lift(
        &mut self,
        command: &Command,
        cause: &Evidence,
        effects: &mut Effects,
    ) -> Result<(), &'static str> {
        let found = self.ordered.shelf.iter().find(|(_, record)| record.override_id == command.target);
        let key = found.map(|(key, _)| key.clone()).ok_or("no_such_override")?;
        self.end_ordered(&key, "lifted", &Why::of(command, cause), effects);
        Ok(())
    }

    /// Ends what has lived its time by now.
    pub(crate) fn expire_ordered(&mut self, effects: &mut Effects) {
        while let Some((_, key)) = self.ordered.ends.first().filter(|(at, _)| *at <= self.now).cloned() {
            self.end_ordered(&key, "expired", &Why { reason: "ttl", author: None, cause: None }, effects);
        }
    }

    fn end_ordered(&mut self, key: &str, to: &str, why: &Why<'_>, effects: &mut Effects) {
        let Some(record) = self.ordered.take(key) else { return };
        self.moved(key, &record, (Some("active"), to), why, effects);
        self.counts.overrides_removed += 1;
    }

    /// The record on its topic, or its removal, and the audit line.
    fn moved(
        &mut self,
        key: &str,
        record: &Override,
        (from, to): (Option<&str>, &str),
        why: &Why<'_>,
        effects: &mut Effects,
    ) {
        let value = (to == "active").then(|| Record::Override(Box::new(record.clone())));
        effects.outputs.push(Output { at: self.now, topic: Topic::Overrides, key: key.to_owned(), value });
        let transition = Transition {
            entity: "override",
            entity_id: &record.override_id,
            from,
            to,
            reason: Some(why.reason),
            author: why.author,
            cause: why.cause.cloned(),
        };
        effects.outputs.push(self.chain.record(self.now, transition));
    }
}
