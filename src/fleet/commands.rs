//! Decisions of people on a fleet task. Each command is carried out or refused once, and either is an audit line.

use crate::fleet::{Effects, Fleet};
use crate::record::command::{Command, Verb};
use crate::record::position::{Evidence, Position};
use crate::record::task::chain::Transition;

impl Fleet {
    /// Carries a command out, or refuses it with a reason.
    pub(crate) fn command(&mut self, position: Position<'_>, command: &Command, effects: &mut Effects) {
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
            Verb::Lift => Err("no_such_override"),
            Verb::Approve | Verb::Reject => Err("no_such_proposal"),
        };
        let (to, reason) = match outcome {
            Ok(()) => ("done", command.reason.as_str()),
            Err(refusal) => ("refused", refusal),
        };
        match outcome {
            Ok(()) => self.counts.commands += 1,
            Err(_) => self.counts.commands_refused += 1,
        }
        let transition = Transition {
            entity: "command",
            entity_id: &command.command_id,
            from: None,
            to,
            reason: Some(reason),
            author: Some(&command.author),
            cause: Some(cause),
        };
        effects.outputs.push(self.chain.record(self.now, transition));
        effects.urgent = true;
    }

    fn freeze(&mut self, command: &Command, cause: &Evidence, effects: &mut Effects) {
        let frozen = command.verb == Verb::Freeze;
        let words = |frozen: bool| if frozen { "frozen" } else { "running" };
        let from = words(std::mem::replace(&mut self.frozen, frozen));
        let transition = Transition {
            entity: "task",
            entity_id: &self.task,
            from: Some(from),
            to: words(frozen),
            reason: Some(&command.reason),
            author: Some(&command.author),
            cause: Some(cause.clone()),
        };
        effects.outputs.push(self.chain.record(self.now, transition));
    }
}
