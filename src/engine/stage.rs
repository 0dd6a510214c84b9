//! The session stage of one worker: a task per partition, records in, publications out. No Kafka calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::assignment::Committed;
use crate::engine::batch::{Batch, Input};
use crate::engine::changelog::Restored;
use crate::engine::config::Config;
use crate::engine::counters::Counters;
use crate::engine::dead_letter::letter;
use crate::engine::encode::Outlets;
use crate::engine::intake::{Intake, Raw};
use crate::record::dead_letter::Rejection;
use crate::record::position::Position;
use crate::record::time::Timestamp;
use crate::registry::Registry;
use crate::session::{Effects, Input as StepInput, Session};

/// A task whose deadline has passed gets a tick when it has had no input for this long: what is still on its way to it
/// goes first. The tick's time is behind the wall clock by as much.
pub const TICK_GRACE: Duration = Duration::from_secs(1);

/// One input record.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// Which input: 0 events, 1 commands.
    pub input: usize,
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
    /// Append time.
    pub at: Timestamp,
    /// Key, value, headers.
    pub raw: Raw<'a>,
}

struct Task {
    session: Session,
    last_input: Instant,
}

/// The tasks of one worker.
pub struct Stage {
    registry: Arc<Registry>,
    intake: Intake,
    outlets: Outlets,
    names: [Arc<str>; 2],
    tasks: BTreeMap<i32, Task>,
    committed: Committed,
    effects: Effects,
}

impl Stage {
    /// A stage without tasks.
    pub fn new(config: &Config, registry: Arc<Registry>, outlets: Outlets) -> Self {
        Self {
            intake: Intake::new(&registry.limits, config.tenant.clone(), config.schemas.clone()),
            registry,
            outlets,
            names: config.topics.inputs().map(Arc::from),
            tasks: BTreeMap::new(),
            committed: Committed::new(),
            effects: Effects::default(),
        }
    }

    /// Names of the inputs: events, commands.
    pub fn names(&self) -> &[Arc<str>; 2] {
        &self.names
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Signatures that came too late to act on, in all tasks.
    pub fn stale(&self) -> u64 {
        self.tasks.values().map(|task| task.session.counts().stale).sum()
    }

    /// Hash of a task's state, as last taken.
    pub fn state_hash(&self, partition: i32) -> Option<u128> {
        self.tasks.get(&partition).map(|task| task.session.state_hash())
    }

    /// What tasks decide by.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Begins the tasks of these partitions.
    pub fn begin(&mut self, Restored { committed, sessions }: Restored, now: Instant) {
        self.tasks =
            sessions.into_iter().map(|(partition, session)| (partition, Task { session, last_input: now })).collect();
        self.committed = committed;
    }

    /// Tells the hash of each state, for whoever compares it with what is restored later.
    pub fn tell(&self) {
        for (partition, task) in &self.tasks {
            tracing::debug!("left session/{partition} with state hash {:032x}", task.session.state_hash());
        }
    }

    /// Ends all tasks; what they know is forgotten.
    pub fn end(&mut self) {
        self.tasks.clear();
        self.committed.clear();
    }

    /// Puts what changed in the tasks into the batch, which is to be committed before anything else is taken.
    pub fn changes(&mut self, batch: &mut Batch) {
        for (partition, task) in &mut self.tasks {
            for change in task.session.take_changes() {
                batch.publications.push(self.outlets.change(change, *partition));
                batch.state_entries += 1;
            }
        }
    }

    /// Notes that a batch, with all changes of the tasks, was committed.
    pub fn committed(&mut self, batch: &Batch) {
        self.tasks.values_mut().for_each(|task| task.session.committed());
        for (input, span) in &batch.spans {
            if let Some(offset) = self.committed.get_mut(input) {
                *offset = Some(span.next);
            }
        }
    }

    /// Takes one record: its effects, or its dead letter, go into the batch with its offset.
    pub fn take(
        &mut self,
        record: Record<'_>,
        wall: Timestamp,
        now: Instant,
        batch: &mut Batch,
        counters: &mut Counters,
    ) {
        let input = Input { topic: record.input, partition: record.partition };
        let Some(previous) = self.committed.get(&input).copied() else {
            // A record of a partition that was given up in the meantime: its new owner reads it again.
            return;
        };
        let Some(task) = self.tasks.get_mut(&record.partition) else { return };
        task.last_input = now;
        let position =
            Position { topic: &self.names[record.input], partition: record.partition, offset: record.offset };
        self.effects.clear();
        let taken = match record.input {
            0 => self.intake.text(record.raw).and_then(|text| {
                let event = self.intake.event(&text, record.raw.key)?;
                let input = StepInput::Event { position, event: &event, received_at: wall };
                task.session.step(record.at, input, &mut self.effects);
                Ok(())
            }),
            _ => self.intake.command(record.raw).map(|command| {
                task.session.step(record.at, StepInput::Command { position, command: &command }, &mut self.effects);
            }),
        };
        let published = taken.and_then(|()| publish(&mut self.effects, &self.outlets, record.partition, batch));
        if let Err(rejection) = published {
            let (topic, bytes_max) = self.outlets.dead_letters(record.input);
            batch.publications.push(letter(topic, record.raw, position, record.at, &rejection, bytes_max));
            *counters.dead_letters.entry(rejection.code.clone()).or_default() += 1;
            tracing::debug!(topic = position.topic, partition = position.partition, offset = position.offset, %rejection, "dead letter");
        }
        counters.inputs += 1;
        batch.consumed(input, record.offset, previous);
        batch.touch(now);
    }

    /// Lets time pass for tasks that wait for nothing else.
    pub fn tick(&mut self, wall: Timestamp, now: Instant, batch: &mut Batch) {
        let grace = i64::try_from(TICK_GRACE.as_micros()).unwrap_or(i64::MAX);
        let at = Timestamp::from_micros(wall.as_micros().saturating_sub(grace));
        for (partition, task) in &mut self.tasks {
            let idle = now.duration_since(task.last_input) >= TICK_GRACE;
            if !idle || task.session.next_deadline().is_none_or(|deadline| deadline > at) {
                continue;
            }
            self.effects.clear();
            task.session.step(at, StepInput::Tick, &mut self.effects);
            if let Err(rejection) = publish(&mut self.effects, &self.outlets, *partition, batch) {
                tracing::error!(partition, %rejection, "what a deadline published was lost");
            }
            let events = Input::events(*partition);
            if let Some(Some(offset)) = self.committed.get(&events) {
                batch.standing(events, *offset);
            }
            batch.touch(now);
        }
    }
}

/// Moves the effects of one step into the batch: all, or, where one is too large for its topic, none. Then the task is
/// ahead of the log: the dead letter and the gap in its audit chain tell.
fn publish(effects: &mut Effects, outlets: &Outlets, partition: i32, batch: &mut Batch) -> Result<(), Rejection> {
    let before = batch.publications.len();
    for output in &effects.outputs {
        match outlets.publication(output, partition) {
            Ok(publication) => batch.publications.push(publication),
            Err(rejection) => {
                batch.publications.truncate(before);
                effects.clear();
                return Err(rejection);
            }
        }
    }
    batch.urgent |= effects.urgent;
    effects.clear();
    Ok(())
}
