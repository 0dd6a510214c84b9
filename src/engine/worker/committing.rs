//! Committing what is due, and the search for what a broker does not take.

use std::sync::Arc;
use std::time::Instant;

use crate::engine::commit::pace::Pace;
use crate::engine::commit::transaction::Outcome;
use crate::engine::error::EngineError;
use crate::engine::failpoint;
use crate::engine::task::batch::Transaction;
use crate::engine::task::place::TaskId;
use crate::engine::worker::{NOT_MEMBER_PAUSE, OnProgress, Progress, Worker};

impl Worker {
    /// Commits what waits, else what is due, or everything.
    pub(crate) fn commit(&mut self, everything: bool, on_progress: OnProgress<'_>) -> Result<Outcome, EngineError> {
        let Some(inbox) = &self.inbox else { return Ok(Outcome::NotMember) };
        let started = Instant::now();
        failpoint::pass("after_decide");
        let transaction = match self.pending.take() {
            Some(pending) => pending,
            None if everything => Arc::new(self.tasks.close_all()?),
            None => Arc::new(self.tasks.close_due(&self.config, self.search.inputs_max(), started)?),
        };
        failpoint::pass("in_checkpoint_write");
        self.config.watch.vital.wait(true, started);
        let outcome = self.publisher.commit(inbox.consumer(), &transaction, &mut self.counters)?;
        self.config.watch.vital.wait(false, Instant::now());
        self.commits = Pace::after(started, self.config.commit_gap_min);
        match outcome {
            Outcome::Committed => {
                failpoint::pass("after_end_txn_before_store");
                self.counters.commits.add(started.elapsed());
                self.counters.transactions += 1;
                self.counters.published += transaction.outputs() as u64;
                self.counters.state_entries += transaction.state_entries() as u64;
                self.telemetry.committed(&transaction, &self.config.topics);
                let ends = self.publisher.reports().changelog_ends();
                self.tasks.committed(&transaction, &ends);
                self.tasks.mark(&transaction, &ends, &self.stores);
                self.search.committed(transaction.inputs());
                on_progress(Progress::Committed(&self.counters));
            }
            Outcome::NotMember => {
                self.commits = Pace::after(started, NOT_MEMBER_PAUSE);
                self.pending = Some(transaction);
            }
            Outcome::Refused => self.look_for_refused(&transaction)?,
        }
        Ok(outcome)
    }

    /// A broker does not take something in a transaction: smaller ones, until one input alone is to blame.
    pub(crate) fn look_for_refused(&mut self, transaction: &Transaction) -> Result<(), EngineError> {
        let tasks: Vec<TaskId> = transaction.shares.iter().map(|share| share.task).collect();
        if let Some(place) = transaction.only_input() {
            self.search.found();
            return self.refuse(place);
        }
        if !self.search.narrow(transaction.inputs()) {
            let words = "a broker does not take what a transaction without inputs publishes".into();
            return Err(EngineError::Unpublishable(words));
        }
        tracing::warn!(
            inputs = transaction.inputs(),
            "a broker does not take a record; looking for the input behind it"
        );
        self.rewind(tasks)
    }
}
