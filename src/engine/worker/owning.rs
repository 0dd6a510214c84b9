//! Partitions that come and go: taking them over, restoring their tasks, giving them up.

use std::thread;
use std::time::Instant;

use rdkafka::consumer::Consumer;

use crate::engine::commit::transaction::Outcome;
use crate::engine::error::EngineError;
use crate::engine::failpoint;
use crate::engine::group::assignment::{Rebalance, again, assign, resume, seek};
use crate::engine::group::membership::{join, leave};
use crate::engine::shown::health::Phase;
use crate::engine::state::changelog::Restoring;
use crate::engine::worker::{OnProgress, Progress, Worker};

impl Worker {
    pub(crate) fn rebalances(&mut self, on_progress: OnProgress<'_>) -> Result<(), EngineError> {
        loop {
            let Some(inbox) = &mut self.inbox else { return Ok(()) };
            let Some(rebalance) = inbox.consumer().context().next() else { return Ok(()) };
            match rebalance {
                Rebalance::Assign(wanted) => {
                    inbox.discard();
                    self.counters.assignments += 1;
                    self.config.watch.vital.wait(true, Instant::now());
                    let names = &self.tasks.shared.names;
                    let (publisher, counters) = (&mut self.publisher, &mut self.counters);
                    let mut end_own = || publisher.end_own(inbox.consumer(), &wanted, counters);
                    let assigned = assign(&self.config, inbox, &wanted, names, &self.stop, &mut end_own)?;
                    let Some(committed) = assigned else { continue };
                    let registries = self.tasks.registries();
                    self.restoring =
                        Some(Restoring::begin(&self.config, registries, committed, &self.stores, &self.stop)?);
                    self.config.watch.vital.enter(Phase::Restoring, 0, Instant::now());
                }
                Rebalance::Revoke { lost } => {
                    failpoint::pass("in_pre_rebalance");
                    self.counters.revocations += 1;
                    while !lost && (self.pending.is_some() || self.tasks.is_ready()) {
                        if self.commit(true, on_progress)? != Outcome::Committed {
                            break;
                        }
                    }
                    self.give_up();
                    if let Some(inbox) = &self.inbox {
                        inbox
                            .consumer()
                            .unassign()
                            .map_err(|error| EngineError::kafka("giving partitions up", &error))?;
                    }
                    tracing::info!(lost, "revoked");
                }
            }
        }
    }

    /// Restores for a moment; begins the tasks once all of them are there.
    pub(crate) fn restore(&mut self, on_progress: OnProgress<'_>) -> Result<(), EngineError> {
        let Some(restoring) = self.restoring.as_mut() else { return Ok(()) };
        let done = restoring.slice()?;
        let (tasks, entries, begun) = restoring.progress();
        self.config.watch.vital.restored(entries);
        if !done {
            if restoring.take_hidden()
                && let Some(inbox) = &self.inbox
                && let Ok(inputs) = inbox.consumer().assignment()
            {
                self.publisher.end_own(inbox.consumer(), &inputs, &mut self.counters)?;
            }
            return Ok(());
        }
        let (Some(mut restoring), Some(inbox)) = (self.restoring.take(), &self.inbox) else { return Ok(()) };
        let is_torn = restoring.is_torn();
        if is_torn {
            // Somebody who commits for these tasks now has fenced this member, or is about to: the next poll tells.
            match again(inbox, restoring.inputs(), &self.tasks.shared.names)? {
                Some(found) => restoring.found(found),
                None if inbox.consumer().client().fatal_error().is_some() => {
                    self.restoring = Some(restoring);
                    return Ok(());
                }
                None => {}
            }
        }
        self.counters.restores.add(begun.elapsed());
        self.counters.restored_entries += entries;
        let (restored, torn) = restoring.finish()?;
        self.counters.torn += torn;
        self.tasks.begin(restored);
        if self.config.start_at_earliest || is_torn {
            seek(inbox, &self.tasks.places(), &self.tasks.shared.names)?;
        }
        resume(inbox, self.tasks.reading(), &self.tasks.shared.names)?;
        self.config.watch.vital.enter(Phase::Running, tasks, Instant::now());
        self.config.watch.show_next();
        tracing::info!(tasks = self.tasks.len(), "assigned");
        on_progress(Progress::Assigned(self.tasks.len()));
        Ok(())
    }

    /// Drops tasks and what they wanted to publish: other tasks of other workers answer for their partitions now.
    pub(crate) fn give_up(&mut self) {
        if self.tasks.inputs() > 0 {
            let inputs = self.tasks.inputs();
            self.counters.dropped += inputs as u64;
            tracing::warn!(inputs, "partitions lost: their uncommitted effects are dropped");
        }
        self.pending = None;
        self.publisher.disown();
        self.restoring = None;
        self.tasks.end();
        self.stores.revoked();
        self.config.watch.vital.enter(Phase::Joining, 0, Instant::now());
        self.config.watch.show_next();
        if let Some(inbox) = &mut self.inbox {
            inbox.discard();
        }
    }

    /// Gives up what a fenced member had, and joins as a new one.
    pub(crate) fn join_again(&mut self) -> Result<(), EngineError> {
        self.counters.fenced += 1;
        self.give_up();
        self.inbox.take().into_iter().for_each(leave);
        let pause = self.fencings.note(&self.config.worker_id(), Instant::now())?;
        tracing::warn!(id = self.config.worker_id(), "fenced; joining again");
        thread::sleep(pause);
        self.config.watch.vital.wait(false, Instant::now());
        self.inbox = Some(join(&self.config)?);
        Ok(())
    }
}
