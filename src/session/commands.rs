//! Decisions of people on one session, and what concerns the whole task: freeze, registry. Each command is carried out or refused once, and either
//! is an audit line.

use std::sync::Arc;

use crate::record::command::{Command, Verb};
use crate::record::intervention::{Intervention, InterventionStatus as Status};
use crate::record::position::{Evidence, Position};
use crate::record::task::Effects;
use crate::registry::Registry;
use crate::session::Session;
use crate::session::deadlines::Due;
use crate::session::intervention::{Waiting, Why};
use crate::session::table::Serial;

impl Session {
    /// Carries a command out, or refuses it with a reason. `registry`: the version an activation names.
    pub(crate) fn command(
        &mut self,
        position: Position<'_>,
        command: &Command,
        registry: Option<&Arc<Registry>>,
        effects: &mut Effects,
    ) {
        if !self.seen.admit(&command.command_id, self.registry.limits.command_ids_max as usize) {
            self.counts.duplicates += 1;
            return;
        }
        let cause = position.evidence(&command.command_id);
        let why = Why { reason: Some(&command.reason), author: Some(&command.author), cause: Some(cause.clone()) };
        let outcome = match command.verb {
            Verb::Lift => self.lift(command, &why, effects),
            Verb::Approve => self.approve(command, &why, effects),
            Verb::Reject => self.reject(command, &why, effects),
            Verb::Freeze | Verb::Unfreeze => {
                self.freeze(command, &cause, effects);
                Ok(())
            }
            Verb::Activate => self.decide_by(command, registry, &cause, effects),
            Verb::Force | Verb::Deny => Err("not_of_this_stage"),
        };
        match outcome {
            Ok(()) => self.counts.commands += 1,
            Err(_) => self.counts.commands_refused += 1,
        }
        effects.outputs.push(self.chain.answered(self.now, command, outcome, cause));
        effects.urgent = true;
    }

    fn lift(&mut self, command: &Command, why: &Why<'_>, effects: &mut Effects) -> Result<(), &'static str> {
        match self.table.owner(&command.target) {
            Some((serial, Due::Override(id))) => {
                self.end_override(serial, id, "lifted", why, effects);
                Ok(())
            }
            Some((_, Due::Proposal(_) | Due::Idle)) | None => Err("no_such_override"),
        }
    }

    /// Finds the proposal a command speaks of.
    fn proposed(&mut self, command: &Command) -> Result<(Serial, &Waiting), &'static str> {
        let (serial, _) = self.table.owner(&command.target).ok_or("no_such_proposal")?;
        let waiting = self.table.get(serial).and_then(|tracked| {
            tracked.waiting.iter().find(|waiting| waiting.intervention.intervention_id == command.target)
        });
        waiting.map(|waiting| (serial, waiting)).ok_or("no_such_proposal")
    }

    fn approve(&mut self, command: &Command, why: &Why<'_>, effects: &mut Effects) -> Result<(), &'static str> {
        let frozen = self.frozen;
        let (serial, waiting) = self.proposed(command)?;
        let hash = waiting.intervention.proposal.as_ref().map(|proposal| proposal.content_hash.as_str());
        if command.content_hash.as_deref() != hash {
            return Err("other_content_hash");
        }
        if frozen {
            return Err("frozen");
        }
        let Intervention { tenant, run_id, graph, .. } = waiting.intervention.clone();
        let replaces = waiting.replaces;
        let past_irreversible = self.table.get(serial).is_some_and(|tracked| {
            let run = tracked.run_index(&graph, run_id.as_deref(), false);
            run.is_some_and(|run| tracked.runs[run].irreversible)
        });
        let limit = self.registry.limits.session_overrides_live_max;
        let replaces_live = self
            .table
            .get(serial)
            .is_some_and(|tracked| tracked.overrides.iter().any(|live| Some(live.id) == replaces));
        let full = !replaces_live && !self.guards.overrides_live.admits(limit, tenant.as_deref());
        if full {
            return Err("limit:session_overrides_live_max");
        }
        let Some(waiting) = self.take_waiting(serial, &command.target) else { return Err("no_such_proposal") };
        if past_irreversible {
            // The run went on while the proposal waited, past a point from which nobody reroutes it.
            let why = Why { reason: Some("irreversible"), ..why.clone() };
            self.drop_waiting(waiting, Status::Failed, why, effects);
            return Err("irreversible");
        }
        let Waiting { intervention, plan, replaces } = waiting;
        self.apply(serial, intervention, &plan, replaces, &Why { reason: None, ..why.clone() }, effects);
        Ok(())
    }

    fn reject(&mut self, command: &Command, why: &Why<'_>, effects: &mut Effects) -> Result<(), &'static str> {
        let (serial, _) = self.proposed(command)?;
        let Some(waiting) = self.take_waiting(serial, &command.target) else { return Err("no_such_proposal") };
        self.drop_waiting(waiting, Status::Rejected, why.clone(), effects);
        self.forget_if_empty(serial);
        Ok(())
    }

    fn freeze(&mut self, command: &Command, cause: &Evidence, effects: &mut Effects) {
        let frozen = command.verb == Verb::Freeze;
        let words = |frozen: bool| if frozen { "frozen" } else { "running" };
        let from = words(std::mem::replace(&mut self.frozen, frozen));
        effects.outputs.push(self.chain.task_moved(self.now, "task", (from, words(frozen)), command, cause));
    }

    fn decide_by(
        &mut self,
        command: &Command,
        registry: Option<&Arc<Registry>>,
        cause: &Evidence,
        effects: &mut Effects,
    ) -> Result<(), &'static str> {
        let registry = registry.filter(|registry| registry.version == command.target).ok_or("no_such_registry")?;
        let from = self.registry.version.clone();
        self.activate(Arc::clone(registry));
        effects.outputs.push(self.chain.task_moved(self.now, "registry", (&from, &registry.version), command, cause));
        Ok(())
    }
}
