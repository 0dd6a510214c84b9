//! Taking records until a commit is due, and what comes between.

use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;

use crate::engine::cluster::identity::{recreated, topic_ids};
use crate::engine::error::EngineError;
use crate::engine::failpoint;
use crate::engine::group::assignment::{resume, seek};
use crate::engine::group::membership::{outside, record};
use crate::engine::group::verdict::{Verdict, judge};
use crate::engine::task::Taken;
use crate::engine::task::place::{Input, Role, TaskId};
use crate::engine::worker::{Held, POLL_MAX, Worker};
use crate::record::time::Timestamp;

impl Worker {
    /// Takes records until a commit is due or none is there; whether there was one.
    pub(crate) fn poll(&mut self) -> Result<bool, EngineError> {
        let mut polled = false;
        loop {
            // One look at the clocks for all that is held: a quarter of a millisecond of work at most.
            let now = Instant::now();
            let wall = self.wall(now);
            if self.pending.is_none() {
                match self.take_held(wall, now)? {
                    Held::None => {}
                    Held::Taken => polled = true,
                    Held::Stop => return Ok(true),
                }
            }
            // After the first record only what is there already: what is due is looked at before waiting again.
            let wait = match self.due(self.commits.idle) {
                _ if polled || self.restoring.is_some() => Duration::ZERO,
                Some(due) => due.saturating_duration_since(now).min(POLL_MAX),
                None => POLL_MAX,
            };
            // Without partitions, or with a transaction that waits, nothing but the group can have news.
            let takes = !self.tasks.is_empty() && self.pending.is_none();
            let Some(inbox) = &mut self.inbox else { return Ok(polled) };
            match inbox.consumer().poll(if takes { Duration::ZERO } else { wait }) {
                None => {}
                Some(Ok(_)) => return Err(outside()),
                Some(Err(error)) => {
                    self.judge(&error)?;
                    return Ok(polled);
                }
            }
            let wait = if takes { wait } else { Duration::ZERO };
            if inbox.consumer().context().is_pending() || !takes && self.restoring.is_none() || inbox.fill(wait) == 0 {
                return Ok(polled);
            }
            failpoint::pass("after_poll");
        }
    }

    /// Takes what the inbox holds.
    pub(crate) fn take_held(&mut self, wall: Timestamp, now: Instant) -> Result<Held, EngineError> {
        let mut held = Held::None;
        loop {
            if self.tasks.is_full(self.search.inputs_max()) {
                // No more before a commit, which may begin in a moment.
                thread::sleep(self.commits.idle.saturating_duration_since(now));
                return Ok(Held::Stop);
            }
            let Some(inbox) = &mut self.inbox else { return Ok(held) };
            let Some(received) = inbox.next() else { return Ok(held) };
            let received = match received {
                Ok(received) => received,
                Err(error) => {
                    self.judge(&error)?;
                    return Ok(Held::Stop);
                }
            };
            // It would be skipped; at its next start the process reads it again.
            if self.restoring.is_some() {
                let words = "a record of a paused partition".into();
                return Err(EngineError::Kafka { doing: "restoring", words });
            }
            held = Held::Taken;
            let Some(record) = record(received, &self.tasks.shared.names) else { continue };
            let place = (record.input, record.offset);
            let taken = self.tasks.take(record, wall, now, &mut self.counters)?;
            if taken == Taken::Unpublishable {
                self.refuse(place)?;
                return Ok(Held::Stop);
            }
            if place.0.role() == Role::Commands {
                failpoint::pass("after_command");
            }
            self.read_activated()?;
            if self.due(self.commits.busy).is_some_and(|due| due <= now) {
                return Ok(Held::Stop);
            }
        }
    }

    /// What the input leads to cannot be published: its task goes back, and takes it as a dead letter.
    pub(crate) fn refuse(&mut self, (input, offset): (Input, i64)) -> Result<(), EngineError> {
        tracing::warn!(task = %input.task(), offset, "what an input leads to is larger than a topic takes: it is refused");
        self.tasks.refuse(input, offset)?;
        self.rewind([input.task()])
    }

    /// Takes tasks back to their last commit, and their readers with them.
    pub(crate) fn rewind(&mut self, tasks: impl IntoIterator<Item = TaskId>) -> Result<(), EngineError> {
        self.tasks.rollback(tasks);
        let Some(inbox) = &mut self.inbox else { return Ok(()) };
        inbox.discard();
        seek(inbox, &self.tasks.places(), &self.tasks.shared.names)
    }

    /// Lets the records of tasks be read that have a registry now.
    pub(crate) fn read_activated(&mut self) -> Result<(), EngineError> {
        let activated = self.tasks.take_activated();
        match &self.inbox {
            Some(inbox) if !activated.is_empty() => {
                let records = activated.into_iter().map(|task| task.input(Role::Records));
                resume(inbox, records, &self.tasks.shared.names)
            }
            _ => Ok(()),
        }
    }

    /// Acts on an error of a poll.
    pub(crate) fn judge(&mut self, error: &KafkaError) -> Result<(), EngineError> {
        let verdict = judge(error, &self.config).map_err(|error| match error {
            // Not only its records may be gone.
            EngineError::OffsetLost(words) => {
                let (now, _) = topic_ids(&self.config);
                let known = self.tasks.topic_ids();
                recreated(&now, &known, &self.config.group).unwrap_or(EngineError::OffsetLost(words))
            }
            other => other,
        });
        match verdict? {
            Verdict::Passing => Ok(()),
            Verdict::Lost => {
                self.give_up();
                Ok(())
            }
            Verdict::Fenced => self.join_again(),
        }
    }
}
