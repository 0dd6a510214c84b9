//! Decisions of people on a fleet task. Each command is carried out or refused once, and either is an audit line.

use std::sync::Arc;

use crate::fleet::{Effects, Fleet};
use crate::record::command::{Command, Verb};
use crate::record::position::{Evidence, Position};
use crate::registry::Registry;

impl Fleet {
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
        let outcome = match command.verb {
            Verb::Freeze | Verb::Unfreeze => {
                self.freeze(command, &cause, effects);
                Ok(())
            }
            Verb::Activate => self.decide_by(command, registry, &cause, effects),
            Verb::Force | Verb::Deny => self.order(command, &cause, effects),
            Verb::Lift => self.lift(command, &cause, effects),
            Verb::Approve | Verb::Reject => Err("no_such_proposal"),
        };
        match outcome {
            Ok(()) => self.counts.commands += 1,
            Err(_) => self.counts.commands_refused += 1,
        }
        effects.outputs.push(self.chain.answered(self.now, command, outcome, cause));
        effects.urgent = true;
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
