//! Decides again what the tape says was decided, with the inputs as they stand in their topics, and compares: every
//! input by its hash, every record published by its hash, the audit trail byte for byte.
//!
//! A span begins at a record that bears the hash of its state: the state is read back from the changelog up to there, or
//! is empty at the very first. From then on nothing but inputs and the tape is used.

mod compare;
mod replay;
mod source;

use std::collections::BTreeMap;
use std::fmt;

use crate::engine::cluster::admin::Admin;
use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::task::catalogue::Registries;
use crate::engine::task::place::{StageName, TaskId};
use crate::engine::task::tape::{CORE_VERSION, TapeRecord};
use crate::engine::verify::replay::Replay;
use crate::engine::verify::source::Source;
use crate::record::time::Timestamp;

/// One end of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Number of a transaction.
    Seq(u64),
    /// Wall time of a step.
    Time(Timestamp),
}

/// What is to be verified.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Names of tasks; none: all there are.
    pub tasks: Vec<String>,
    /// First transaction.
    pub from: Option<Bound>,
    /// Last transaction.
    pub to: Option<Bound>,
}

/// What was found of one task.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Verified {
    /// The task.
    pub task: String,
    /// First and last transaction decided again; none: the tape has none in the span.
    pub span: Option<(u64, u64)>,
    /// Inputs decided again.
    pub inputs: u64,
    /// Records compared.
    pub outputs: u64,
    /// Incarnations seen.
    pub incarnations: u64,
    /// The first difference.
    pub difference: Option<Difference>,
}

/// Where what was decided again differs first.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// Number of the transaction.
    pub seq: u64,
    /// What differs, and where.
    pub words: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {}: {}", self.seq, self.words)
    }
}

/// Verifies task after task; `on_task` is called for each.
///
/// # Errors
/// A task that does not exist, topics that cannot be read, a start state or inputs that are gone.
pub fn verify(
    config: &Config,
    registries: &Registries,
    request: &Request,
    on_task: &mut dyn FnMut(&Verified),
) -> Result<Vec<Verified>, EngineError> {
    let tasks = tasks(config, request)?;
    let mut all = Vec::new();
    for task in tasks {
        let verified = one(config, registries, request, task)?;
        on_task(&verified);
        all.push(verified);
    }
    Ok(all)
}

fn tasks(config: &Config, request: &Request) -> Result<Vec<TaskId>, EngineError> {
    let names = config.topics.tapes().map(str::to_owned);
    let topics = Admin::new(&config.cluster, config.broker_timeout)?.topics(&names)?;
    let mut there = Vec::new();
    for (stage, name) in StageName::ALL.into_iter().zip(&names) {
        let facts = topics.get(name).ok_or_else(|| EngineError::TopicMissing(name.clone()))?;
        let partitions = i32::try_from(facts.partitions).unwrap_or(i32::MAX);
        there.extend((0..partitions).map(|partition| TaskId { stage, partition }));
    }
    if request.tasks.is_empty() {
        return Ok(there);
    }
    let mut wanted = Vec::new();
    for name in &request.tasks {
        match TaskId::parse(name).filter(|task| there.contains(task)) {
            Some(task) => wanted.push(task),
            None => return Err(EngineError::NoSuchTask(name.clone())),
        }
    }
    Ok(wanted)
}

fn one(config: &Config, registries: &Registries, request: &Request, task: TaskId) -> Result<Verified, EngineError> {
    let source = Source::new(config, task);
    let whole = source.tape()?;
    let records = whole.len();
    let (tape, gap) = span(whole, request);
    let mut verified = Verified {
        task: task.to_string(),
        span: tape.first().zip(tape.last()).map(|(first, last)| (first.seq, last.seq)),
        inputs: 0,
        outputs: 0,
        incarnations: 0,
        difference: None,
    };
    let Some(first) = tape.first() else {
        if records > 0 && request.from.is_none() && request.to.is_none() {
            let words = format!("none of the {records} records left bears the hash of a state to begin with");
            verified.difference = Some(Difference { seq: 0, words });
        }
        return Ok(verified);
    };
    if let Some(other) = tape.iter().find(|record| record.core_version != CORE_VERSION) {
        return Err(EngineError::TapeVersion(other.core_version.clone()));
    }
    let mut replay = Replay::begin(config, registries, task, first, &source)?;
    for record in &tape {
        verified.inputs += record.inputs;
        verified.outputs += (record.outputs.len() / 16) as u64;
        if let Some(words) = replay.decide(record, &source)? {
            verified.difference = Some(Difference { seq: record.seq, words });
            break;
        }
    }
    verified.incarnations = replay.incarnations;
    if verified.difference.is_none() {
        verified.difference = gap.or(replay.audit_difference(&source)?);
    }
    if verified.difference.is_none() && request.to.is_none() {
        verified.difference = replay.surplus(&source, records)?;
    }
    Ok(verified)
}

/// The records of a span, from one that bears a state hash on; and what is wrong with their numbers, if anything is.
fn span(tape: Vec<TapeRecord>, request: &Request) -> (Vec<TapeRecord>, Option<Difference>) {
    let at = |record: &TapeRecord| record.steps.last().map(|step| step.now);
    let begins = |record: &TapeRecord| match request.from {
        None => true,
        Some(Bound::Seq(seq)) => record.seq >= seq,
        Some(Bound::Time(time)) => at(record).is_some_and(|at| at >= time),
    };
    let ended = |record: &TapeRecord| match request.to {
        None => false,
        Some(Bound::Seq(seq)) => record.seq > seq,
        Some(Bound::Time(time)) => record.steps.first().is_some_and(|step| step.now > time),
    };
    let end = tape.iter().position(ended).unwrap_or(tape.len());
    let Some(wanted) = tape[..end].iter().position(begins) else { return (Vec::new(), None) };
    // Back to one whose state can be checked; without one the span begins where it can be.
    let start = tape[..=wanted]
        .iter()
        .rposition(|record| record.state_hash.is_some())
        .or_else(|| tape[..end].iter().position(|record| record.state_hash.is_some()));
    let Some(start) = start else { return (Vec::new(), None) };
    let records: Vec<TapeRecord> = tape.into_iter().take(end).skip(start).collect();
    let gap = records.windows(2).find(|pair| pair[1].seq != pair[0].seq + 1).map(|pair| Difference {
        seq: pair[1].seq,
        words: format!("the tape goes on here behind transaction {}", pair[0].seq),
    });
    (records, gap)
}

/// Entries of a state, by key.
type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::task::tape::Step;

    fn record(seq: u64, second: i64, state_hash: bool) -> TapeRecord {
        let step = Step::at(Timestamp::from_millis(second * 1000));
        TapeRecord {
            task: "session/0".into(),
            seq,
            incarnation: 0,
            writer: "w".into(),
            core_version: CORE_VERSION.into(),
            registry: String::new(),
            steps: vec![step],
            inputs: 0,
            input_digest: String::new(),
            outputs: String::new(),
            output_digest: String::new(),
            changelog_next: 0,
            state_hash: state_hash.then(String::new),
        }
    }

    fn seqs(request: &Request) -> Vec<u64> {
        let tape: Vec<TapeRecord> = (0..10).map(|seq| record(seq, seq.cast_signed(), seq % 4 == 0)).collect();
        span(tape, request).0.iter().map(|record| record.seq).collect()
    }

    #[test]
    fn a_span_begins_where_the_state_is_known() {
        let of = |from, to| seqs(&Request { from, to, ..Request::default() });
        assert_eq!(of(None, None), (0..10).collect::<Vec<_>>());
        assert_eq!(of(Some(Bound::Seq(5)), Some(Bound::Seq(6))), [4, 5, 6]);
        assert_eq!(of(Some(Bound::Time(Timestamp::from_millis(8000))), None), [8, 9]);
        assert_eq!(of(None, Some(Bound::Time(Timestamp::from_millis(1000)))), [0, 1]);
        assert!(of(Some(Bound::Seq(11)), None).is_empty());
    }

    #[test]
    fn a_missing_record_is_named() {
        let tape = vec![record(0, 0, true), record(2, 2, false)];
        assert_eq!(span(tape, &Request::default()).1.map(|gap| gap.seq), Some(2));
    }
}
