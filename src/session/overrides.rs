//! Live session overrides of a task: published, replaced, ended.

use serde::{Deserialize, Serialize};

use crate::record::event::Event;
use crate::record::intervention::Intervention;
use crate::record::output::{Output, Record};
use crate::record::overrides::{Override, OverrideMode, OverrideSource, OverrideStatus, key};
use crate::record::scope::Scope;
use crate::record::task::Effects;
use crate::record::task::chain::Transition;
use crate::record::time::Timestamp;
use crate::record::topic::Topic;
use crate::session::deadlines::Due;
use crate::session::intervention::Why;
use crate::session::response::Plan;
use crate::session::state::entry::{is_default, micros};
use crate::session::table::{Serial, Tracked};
use crate::session::{Session, ids};

/// What is kept of a live override: what decides over its end and its replacement. The record itself is on its topic.
/// In state entries its fields have one letter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// Its id.
    #[serde(rename = "i")]
    pub id: ids::Key,
    /// The graph as given to `resolve`.
    #[serde(rename = "g")]
    pub graph: Box<str>,
    /// The degraded route.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub schema_ref: Option<Box<str>>,
    /// When it was first published.
    #[serde(rename = "c", with = "micros")]
    pub created_at: Timestamp,
    /// When it ends.
    #[serde(rename = "e", with = "micros")]
    pub expires_at: Timestamp,
    /// Chained replacements so far.
    #[serde(rename = "a", default, skip_serializing_if = "is_default")]
    pub attempt: u32,
    /// Publications so far.
    #[serde(rename = "r", default, skip_serializing_if = "is_default")]
    pub revision: u32,
}

impl Live {
    /// Of a record that the engine made; `None` where its id is not one of the engine's.
    fn of(record: &Override) -> Option<Self> {
        Some(Self {
            id: ids::override_key(&record.override_id)?,
            graph: record.graph.as_str().into(),
            schema_ref: record.schema_ref.as_deref().map(Into::into),
            created_at: record.created_at,
            expires_at: record.expires_at,
            attempt: record.attempt,
            revision: record.revision,
        })
    }

    /// Key of its record on the topic.
    fn key(&self, of: &Tracked) -> String {
        key(&self.graph, &Scope::session(&of.session_id), &OverrideSource::Auto, of.tenant.as_deref())
    }
}

impl Session {
    /// Publishes the override of an intervention and gives its id; `replaces` keeps the id of a live one, with its
    /// attempt + 1 and a new life.
    pub(crate) fn publish_override(
        &mut self,
        serial: Serial,
        intervention: &Intervention,
        plan: &Plan,
        replaces: Option<ids::Key>,
        why: &Why<'_>,
        effects: &mut Effects,
    ) -> String {
        let former = replaces.and_then(|id| self.take_override(serial, id));
        let from = former.as_ref().map(|_| "active");
        let record = self.override_record(intervention, plan, former);
        let id = record.override_id.clone();
        self.guards.overrides_live.add(record.tenant.as_deref());
        if let Some(live) = Live::of(&record)
            && let Some(tracked) = self.table.get_mut(serial)
        {
            let (expires_at, due) = (live.expires_at, Due::Override(live.id));
            tracked.overrides.push(live);
            self.table.deadlines.schedule(expires_at, serial, due);
        }
        effects.outputs.push(Output {
            at: self.now,
            topic: Topic::Overrides,
            key: record.key(),
            value: Some(Record::Override(Box::new(record))),
        });
        let transition = Transition {
            entity: "override",
            entity_id: &id,
            from,
            to: "active",
            reason: Some(&intervention.signal),
            author: why.author,
            cause: why.cause.clone(),
        };
        effects.outputs.push(self.chain.record(self.now, transition));
        effects.urgent = true;
        self.counts.overrides_published += 1;
        id
    }

    fn override_record(&self, intervention: &Intervention, plan: &Plan, replaced: Option<Live>) -> Override {
        let action = &plan.action;
        let (override_id, created_at, attempt, revision) = match replaced {
            Some(live) => (ids::of_override(live.id), live.created_at, live.attempt + 1, live.revision + 1),
            None => (ids::override_of(&intervention.intervention_id), self.now, 0, 1),
        };
        Override {
            override_id,
            graph: intervention.graph.clone(),
            scope: intervention.scope.clone(),
            tenant: intervention.tenant.clone(),
            run_id: intervention.run_id.clone(),
            source: OverrideSource::Auto,
            kind: action.kind.clone(),
            schema_ref: action.schema_ref.clone(),
            entry_point: action.entry_point.clone(),
            resume: plan.resume.clone(),
            primary_schema_ref: None,
            shadow: None,
            shadow_schema_ref: None,
            default_schema_ref: None,
            candidate_schema_ref: None,
            trial_percentage: None,
            selection: None,
            attempt_salt: None,
            status: OverrideStatus::Active,
            mode: OverrideMode::Degraded,
            attempt,
            revision,
            intervention_id: Some(intervention.intervention_id.clone()),
            reason: intervention.signal.clone(),
            author: intervention.author.clone(),
            created_at,
            expires_at: self.now.plus(plan.ttl),
        }
    }

    /// Ends a live override: tombstone and audit line.
    pub(crate) fn end_override(
        &mut self,
        serial: Serial,
        id: ids::Key,
        reason: &str,
        why: &Why<'_>,
        effects: &mut Effects,
    ) {
        let Some(live) = self.take_override(serial, id) else { return };
        let Some(key) = self.table.get(serial).map(|tracked| live.key(tracked)) else { return };
        effects.outputs.push(Output { at: self.now, topic: Topic::Overrides, key, value: None });
        let transition = Transition {
            entity: "override",
            entity_id: &ids::of_override(id),
            from: Some("active"),
            to: "removed",
            reason: Some(reason),
            author: why.author,
            cause: why.cause.clone(),
        };
        effects.outputs.push(self.chain.record(self.now, transition));
        effects.urgent = true;
        self.counts.overrides_removed += 1;
        self.forget_if_empty(serial);
    }

    fn take_override(&mut self, serial: Serial, id: ids::Key) -> Option<Live> {
        let tracked = self.table.get_mut(serial)?;
        let index = tracked.overrides.iter().position(|live| live.id == id)?;
        let live = tracked.overrides.remove(index);
        self.guards.overrides_live.subtract(tracked.tenant.as_deref(), 1);
        self.table.deadlines.cancel(live.expires_at, serial, Due::Override(id));
        Some(live)
    }

    /// The live override that ends with the run this event ends: the one whose own schema was running.
    pub(crate) fn override_ended_by(&self, serial: Serial, event: &Event<'_>) -> Option<ids::Key> {
        let live = self.table.get(serial)?.overrides.iter().find(|live| *live.graph == *event.graph)?;
        let schema = event.running_schema();
        let own = live.schema_ref.is_some() && live.schema_ref.as_deref() == schema.as_deref();
        own.then_some(live.id)
    }
}
