//! Live session overrides of a task: published, replaced, ended.

use crate::record::event::Event;
use crate::record::intervention::Intervention;
use crate::record::output::{Output, Record};
use crate::record::overrides::{Override, OverrideMode, OverrideSource, OverrideStatus};
use crate::record::topic::Topic;
use crate::session::chain::Transition;
use crate::session::effects::Effects;
use crate::session::intervention::Why;
use crate::session::response::Plan;
use crate::session::table::{Due, Serial};
use crate::session::{Session, ids};

impl Session {
    /// Publishes the override of an intervention and gives its id; `replaces` keeps the id of a live one, with its
    /// attempt + 1 and a new life.
    pub(crate) fn publish_override(
        &mut self,
        serial: Serial,
        intervention: &Intervention,
        plan: &Plan,
        replaces: Option<&str>,
        why: &Why<'_>,
        effects: &mut Effects,
    ) -> String {
        let former = replaces.and_then(|id| self.take_override(serial, id));
        let from = former.as_ref().map(|_| "active");
        let record = self.override_record(intervention, plan, former);
        let id = record.override_id.clone();
        self.guards.overrides_live.add(record.tenant.as_deref());
        self.owners.insert(id.clone(), serial);
        self.table.schedule(record.expires_at, serial, Due::Override(id.clone()));
        if let Some(tracked) = self.table.get_mut(serial) {
            tracked.overrides.push(record.clone());
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

    fn override_record(&self, intervention: &Intervention, plan: &Plan, replaced: Option<Override>) -> Override {
        let action = &plan.action;
        let (override_id, created_at, attempt, revision) = match replaced {
            Some(live) => (live.override_id, live.created_at, live.attempt + 1, live.revision + 1),
            None => (ids::of_intervention(&intervention.intervention_id), self.now, 0, 1),
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
        id: &str,
        reason: &str,
        why: &Why<'_>,
        effects: &mut Effects,
    ) {
        let Some(live) = self.take_override(serial, id) else { return };
        effects.outputs.push(Output { at: self.now, topic: Topic::Overrides, key: live.key(), value: None });
        let transition = Transition {
            entity: "override",
            entity_id: id,
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

    fn take_override(&mut self, serial: Serial, id: &str) -> Option<Override> {
        let tracked = self.table.get_mut(serial)?;
        let index = tracked.overrides.iter().position(|live| live.override_id == id)?;
        let live = tracked.overrides.remove(index);
        self.owners.remove(id);
        self.table.cancel(live.expires_at, serial, Due::Override(id.to_owned()));
        self.guards.overrides_live.subtract(live.tenant.as_deref(), 1);
        Some(live)
    }

    /// The live override that ends with the run this event ends: the one whose own schema was running.
    pub(crate) fn override_ended_by(&self, serial: Serial, event: &Event<'_>) -> Option<String> {
        let live = self.table.get(serial)?.overrides.iter().find(|live| live.graph == event.graph.as_str())?;
        let schema = event.running_schema();
        let own = live.schema_ref.is_some() && live.schema_ref.as_deref() == schema.as_deref();
        own.then(|| live.override_id.clone())
    }
}
