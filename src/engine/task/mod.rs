//! One task: records in, publications out, no Kafka calls. What it took is noted for the tape; a transaction closes with
//! its changed state and its tape record.
//!
//! Invariant: what a task publishes follows from its state at the beginning of the transaction, the registry versions and
//! what the tape says it took (`reflex verify`, `tests/kafka/tape.rs`).

pub mod batch;
pub mod catalogue;
pub mod core;
pub mod dead_letter;
pub mod encode;
pub mod intake;
pub mod place;
pub mod tape;
pub mod tasks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::message::{Header, OwnedHeaders};

use crate::engine::error::EngineError;
use crate::engine::task::batch::{Batch, Publication, Share, Span, Transaction};
use crate::engine::task::catalogue::Registries;
use crate::engine::task::core::Core;
use crate::engine::task::dead_letter::letter;
use crate::engine::task::encode::Outlets;
use crate::engine::task::intake::{Intake, Raw, decode_limits};
use crate::engine::task::place::{Input, Role, TaskId};
use crate::engine::task::tape::{
    CORE_VERSION, Progress, STATE_HASH_EVERY, TapeRecord, WRITER_HEADER, digest_of_input, digests_of_outputs, key_of,
};
use crate::record::codec::DecodeLimits;
use crate::record::command::Verb;
use crate::record::dead_letter::{Code, Rejection};

use crate::record::position::Position;
use crate::record::task::Effects;
use crate::record::task::entry::hash;
use crate::record::time::Timestamp;

/// A task whose deadline has passed gets a tick when it has had no input for this long: what is still on its way to it
/// goes first. The tick's time is behind the wall clock by as much.
pub const TICK_GRACE: Duration = Duration::from_secs(1);

/// One input record.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// Which input.
    pub input: Input,
    /// Offset.
    pub offset: i64,
    /// Append time.
    pub at: Timestamp,
    /// Key, value, headers.
    pub raw: Raw<'a>,
}

/// What all tasks of a worker share.
pub struct Shared {
    /// Bytes to inputs.
    pub intake: Intake,
    /// Effects to records.
    pub outlets: Outlets,
    /// Names of the inputs.
    pub names: [Arc<str>; 4],
    /// Transactional id of the worker.
    pub writer: String,
}

/// What is known of a record before it is taken: from the log it was refused in before, or from the tape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ruling {
    /// Its effects cannot be published: it becomes a dead letter.
    pub is_unpublishable: bool,
    /// It activates a version that there was not.
    pub is_version_unknown: bool,
}

/// How taking a record ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is in the batch.
    Yes,
    /// It is in the batch as a dead letter, for this reason.
    Refused(Code),
    /// Its effects cannot be published: the task is ahead of the log and has to be rolled back, the record refused.
    Unpublishable,
}

/// One task with its state.
pub struct Task {
    /// Its name.
    pub id: TaskId,
    /// What decides.
    pub core: Core,
    /// What is ready for the next transaction.
    pub batch: Batch,
    /// Offsets committed, by slot of the input; none: nothing ever.
    pub committed: [Option<i64>; 2],
    /// Numbers of its transactions, and the topics that offsets speak of.
    pub progress: Progress,
    /// The changelog up to here is its state, as committed.
    pub changelog_next: i64,
    /// Append times of the records read last, by slot of the input.
    pub read_at: [Option<Timestamp>; 2],
    limits: DecodeLimits,
    last_input: Instant,
    /// Transactions of this incarnation.
    since_begun: u64,
    /// Version of the registry at the last commit.
    registry: String,
    effects: Effects,
}

impl Task {
    /// A task that begins here.
    pub fn new(id: TaskId, core: Core, progress: Progress, committed: [Option<i64>; 2], changelog_next: i64) -> Self {
        let registry = core.registry().version.clone();
        Self {
            id,
            limits: decode_limits(&core.registry().limits),
            core,
            batch: Batch::default(),
            committed,
            progress,
            changelog_next,
            read_at: [None; 2],
            last_input: Instant::now(),
            since_begun: 0,
            registry,
            effects: Effects::default(),
        }
    }

    /// Whether it has a registry to decide by; without one it takes commands only.
    pub fn is_active(&self) -> bool {
        !self.core.registry().version.is_empty()
    }

    /// Where its reader goes on; none: at the earliest offset.
    pub fn position(&self, role: Role) -> Option<i64> {
        self.batch.next[role.slot()].or(self.committed[role.slot()])
    }

    /// Takes one record: its effects, or its dead letter, go into the batch with its offset.
    pub fn take(
        &mut self,
        record: Record<'_>,
        ruling: Ruling,
        wall: Timestamp,
        now: Instant,
        shared: &Shared,
        registries: &Registries,
    ) -> Result<Taken, EngineError> {
        let role = record.input.role();
        let Raw { key, value, .. } = record.raw;
        self.last_input = now;
        self.read_at[role.slot()] = Some(record.at);
        self.batch.touch(now);
        self.batch.recorder.took(wall, role, record.offset, digest_of_input(record.offset, record.at, key, value));
        self.batch.consumed(record.input, record.offset);
        let position = Position {
            topic: &shared.names[record.input.topic],
            partition: record.input.partition,
            offset: record.offset,
        };
        let taken = if ruling.is_unpublishable {
            Err(Rejection::new(Code::Unpublishable, "what it leads to is larger than a topic takes"))
        } else {
            self.step(record, position, wall, ruling, shared, registries)?
        };
        let Err(rejection) = taken.and_then(|()| self.publish(&shared.outlets)) else { return Ok(Taken::Yes) };
        if rejection.code == Code::Unpublishable && !ruling.is_unpublishable {
            return Ok(Taken::Unpublishable);
        }
        let (topic, bytes_max) = shared.outlets.dead_letters(record.input.topic);
        self.batch.publications.push(letter(
            topic,
            record.raw,
            position,
            self.id.stage.as_str(),
            record.at,
            &rejection,
            bytes_max,
        ));
        tracing::debug!(topic = position.topic, partition = position.partition, offset = position.offset, %rejection, "dead letter");
        let code = rejection.code.clone();
        self.batch.recorder.skipped(role, record.offset, code.clone());
        Ok(Taken::Refused(code))
    }

    /// One step of the core; the effects are in `self.effects`. The inner error is the record's, the outer the engine's.
    fn step(
        &mut self,
        record: Record<'_>,
        position: Position<'_>,
        wall: Timestamp,
        ruling: Ruling,
        shared: &Shared,
        registries: &Registries,
    ) -> Result<Result<(), Rejection>, EngineError> {
        self.effects.clear();
        if record.input.role() == Role::Records {
            return Ok(self.core.record(record, position, wall, &shared.intake, self.limits, &mut self.effects));
        }
        let command = match shared.intake.command(record.raw, self.limits) {
            Ok(command) => command,
            Err(rejection) => return Ok(Err(rejection)),
        };
        if command.verb == Verb::Activate {
            let registry = if ruling.is_version_unknown { None } else { registries.get(&command.target)? };
            if registry.is_none() {
                self.batch.recorder.unknown_version(record.offset);
            }
            self.core.activation(record.at, position, &command, registry.as_ref(), &mut self.effects);
            self.limits = decode_limits(&self.core.registry().limits);
        } else {
            self.core.command(record.at, position, &command, &mut self.effects);
            if matches!(command.verb, Verb::Freeze | Verb::Unfreeze) {
                tracing::warn!(task = %self.id, verb = command.verb.as_str(), author = command.author, "automation");
            }
        }
        Ok(Ok(()))
    }

    /// Moves the effects of one step into the batch: all, or, where one is too large for its topic, none.
    fn publish(&mut self, outlets: &Outlets) -> Result<(), Rejection> {
        let before = self.batch.publications.len();
        for output in &self.effects.outputs {
            match outlets.publication(output, self.id) {
                Ok(publication) => self.batch.publications.push(publication),
                Err(rejection) => {
                    self.batch.publications.truncate(before);
                    return Err(rejection);
                }
            }
        }
        self.batch.urgent |= self.effects.urgent;
        Ok(())
    }

    /// Lets time pass, where the task waits for nothing else; whether it did.
    pub fn tick(&mut self, wall: Timestamp, now: Instant, outlets: &Outlets) -> Result<bool, EngineError> {
        let grace = i64::try_from(TICK_GRACE.as_micros()).unwrap_or(i64::MAX);
        let at = Timestamp::from_micros(wall.as_micros().saturating_sub(grace));
        let idle = now.duration_since(self.last_input) >= TICK_GRACE;
        if !idle || self.core.next_deadline().is_none_or(|deadline| deadline > at) {
            return Ok(false);
        }
        self.let_pass(at, now, outlets)?;
        Ok(true)
    }

    /// Brings the task to a time.
    pub fn let_pass(&mut self, at: Timestamp, now: Instant, outlets: &Outlets) -> Result<(), EngineError> {
        self.effects.clear();
        self.core.tick(at, &mut self.effects);
        self.batch.touch(now);
        self.batch.recorder.ticked(at);
        self.publish(outlets)
            .map_err(|rejection| EngineError::Unpublishable(format!("a deadline of {}: {rejection}", self.id)))
    }

    /// Closes what is ready and puts it into a transaction: outputs, changed state, the tape record, offsets. Nothing may
    /// be taken until that is committed or dropped.
    pub fn close(&mut self, shared: &Shared, transaction: &mut Transaction) -> Result<(), EngineError> {
        let state_hash = (self.since_begun == 0 || self.progress.seq.is_multiple_of(STATE_HASH_EVERY))
            .then(|| format!("{:032x}", self.core.state_hash()));
        self.effects.clear();
        self.core.flush(&mut self.effects);
        self.publish(&shared.outlets)
            .map_err(|rejection| EngineError::Unpublishable(format!("a total of {}: {rejection}", self.id)))?;
        let outputs = self.batch.publications.len();
        for change in self.core.take_changes() {
            self.batch.publications.push(shared.outlets.change(change, self.id));
        }
        let state_entries = self.batch.publications.len() - outputs;
        let (outputs_digests, output_digest) = digests_of_outputs(&self.batch.publications);
        let (steps, inputs, input_digest) = self.batch.recorder.finish();
        let record = TapeRecord {
            task: self.id.to_string(),
            seq: self.progress.seq,
            incarnation: self.progress.incarnation,
            writer: shared.writer.clone(),
            core_version: CORE_VERSION.to_owned(),
            registry: self.registry.clone(),
            steps,
            inputs,
            input_digest,
            outputs: outputs_digests,
            output_digest,
            changelog_next: self.changelog_next,
            state_hash,
        };
        // First of all: who has to end this transaction for its writer finds the writer's name.
        transaction.publications.push(self.tape(&record, shared));
        transaction.publications.append(&mut self.batch.publications);
        let progress = Progress {
            seq: self.progress.seq + 1,
            next: Some(Role::ALL.map(|role| self.position(role))),
            ..self.progress.clone()
        };
        transaction.publications.push(shared.outlets.progress(progress.encode(), self.id));
        for role in Role::ALL {
            let previous = self.committed[role.slot()];
            // An offset that does not move is sent as it is: a process that no longer owns the task cannot commit.
            if let Some(next) = self.position(role) {
                transaction.spans.insert(
                    self.id.input(role),
                    Span { previous, next, seq: progress.seq, incarnation: progress.incarnation },
                );
            }
        }
        transaction.shares.push(Share {
            task: self.id,
            outputs,
            state_entries: state_entries + 1,
            inputs: self.batch.inputs,
            last: self.batch.last,
        });
        Ok(())
    }

    fn tape(&self, record: &TapeRecord, shared: &Shared) -> Publication {
        Publication {
            topic: shared.outlets.tape(self.id.stage),
            partition: Some(self.id.partition),
            key: Some(key_of(self.id)),
            // Numbers and texts: this cannot fail.
            value: serde_json::to_vec(record).ok(),
            headers: Some(OwnedHeaders::new().insert(Header { key: WRITER_HEADER, value: Some(&shared.writer) })),
        }
    }

    /// Hash of all entries of its changelog, as last committed, the engine's own included.
    pub fn entries_hash(&self) -> u128 {
        self.core.state_hash().wrapping_add(hash(Progress::KEY, &self.progress.encode()))
    }

    /// What was closed is committed; the changelog ends here now.
    pub fn committed(&mut self, changelog_next: Option<i64>) {
        self.core.committed();
        for (committed, next) in self.committed.iter_mut().zip(self.batch.next) {
            *committed = next.or(*committed);
        }
        self.progress.seq += 1;
        self.progress.next = Some(self.committed);
        self.since_begun += 1;
        self.changelog_next = changelog_next.unwrap_or(self.changelog_next);
        self.registry.clone_from(&self.core.registry().version);
        self.batch = Batch::default();
    }

    /// Back to the last commit: what was taken since has to be read again.
    pub fn rollback(&mut self) {
        self.core.rollback();
        self.limits = decode_limits(&self.core.registry().limits);
        self.batch = Batch::default();
    }
}
