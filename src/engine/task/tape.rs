//! The tape: what a transaction of a task consumed, when it decided, and a hash of every record it published. From the
//! tape, the inputs and the changelog the same decisions can be made again: `reflex verify`.
//!
//! Steps stand in the order in which they were taken. Within a step all inputs were held against the same wall time,
//! which matters to the reaction-age gate alone: the clock of a task is the append time of what it reads.

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::engine::task::batch::Publication;
use crate::engine::task::place::{Role, TaskId};
use crate::record::dead_letter::Code;
use crate::record::time::Timestamp;

/// Version of the rules of the stages: what decides the same has the same.
pub const CORE_VERSION: &str = env!("CARGO_PKG_VERSION");
/// Header of a tape record: the transactional id of whoever wrote it, for those who have to end its transaction.
pub const WRITER_HEADER: &str = "writer";
/// Every so many transactions of a task its record carries the hash of the state it began with.
pub const STATE_HASH_EVERY: u64 = 64;

/// One transaction of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapeRecord {
    /// `session/3`.
    pub task: String,
    /// Number of the transaction, without gaps.
    pub seq: u64,
    /// Number of the ownership: one more each time the task is restored.
    pub incarnation: u64,
    /// Transactional id of the worker.
    pub writer: String,
    /// [`CORE_VERSION`].
    pub core_version: String,
    /// Version of the registry when the transaction began; empty: none yet.
    pub registry: String,
    /// What was taken, in order.
    pub steps: Vec<Step>,
    /// Number of inputs.
    pub inputs: u64,
    /// Hash over all inputs.
    pub input_digest: String,
    /// Hashes of the records published, dead letters and entries of state included, in order: 16 hex digits each.
    pub outputs: String,
    /// Hash over all of them.
    pub output_digest: String,
    /// The changelog up to here, as far as it was committed, is the state that the transaction began with.
    pub changelog_next: i64,
    /// Hash of that state: in the first record of an incarnation, and every [`STATE_HASH_EVERY`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_hash: Option<String>,
}

/// Inputs that were held against one wall time; a tick where there are none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Wall time, corrected; of a tick: the time it brought.
    pub now: Timestamp,
    /// Inputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
    /// Those of them that became dead letters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// Offsets of activations whose version there was not: later there may be one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_versions: Vec<i64>,
}

impl Step {
    /// A step that nothing was taken in yet.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { now, runs: Vec::new(), skipped: Vec::new(), unknown_versions: Vec::new() }
    }
}

/// Consecutive records of one input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Which input.
    pub input: Role,
    /// Offset of the first.
    pub first: i64,
    /// Offset behind the last.
    pub next: i64,
    /// Hash over their offsets, times, keys and values.
    #[serde(with = "hex")]
    pub digest: u64,
}

/// An input that became a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Which input.
    pub input: Role,
    /// Its offset.
    pub offset: i64,
    /// Why.
    pub code: Code,
}

/// What a task's next record will say.
#[derive(Debug, Default)]
pub struct Recorder {
    steps: Vec<Step>,
    inputs: u64,
}

impl Recorder {
    /// An input was taken.
    pub fn took(&mut self, now: Timestamp, role: Role, offset: i64, digest: u64) {
        self.inputs += 1;
        let step = match self.steps.last_mut() {
            Some(step) if step.now == now && !step.runs.is_empty() => step,
            _ => {
                self.steps.push(Step::at(now));
                let last = self.steps.len() - 1;
                &mut self.steps[last]
            }
        };
        match step.runs.last_mut() {
            Some(run) if run.input == role => {
                run.next = offset + 1;
                run.digest = fold(run.digest, digest);
            }
            _ => step.runs.push(Run { input: role, first: offset, next: offset + 1, digest: fold(0, digest) }),
        }
    }

    /// The input that was taken last became a dead letter.
    pub fn skipped(&mut self, role: Role, offset: i64, code: Code) {
        if let Some(step) = self.steps.last_mut() {
            step.skipped.push(Skipped { input: role, offset, code });
        }
    }

    /// The input that was taken last activates a version that there is not.
    pub fn unknown_version(&mut self, offset: i64) {
        if let Some(step) = self.steps.last_mut() {
            step.unknown_versions.push(offset);
        }
    }

    /// A tick brought this time.
    pub fn ticked(&mut self, now: Timestamp) {
        self.steps.push(Step::at(now));
    }

    /// What was taken since the last call: steps, number of inputs, hash over them.
    pub fn finish(&mut self) -> (Vec<Step>, u64, String) {
        let steps = std::mem::take(&mut self.steps);
        let digest = input_digest(&steps);
        (steps, std::mem::take(&mut self.inputs), digest)
    }
}

/// Hash over all inputs of some steps.
#[must_use]
pub fn input_digest(steps: &[Step]) -> String {
    let runs = steps.iter().flat_map(|step| &step.runs);
    hex_of(runs.fold(0, |digest, run| fold(digest, run.digest)))
}

/// Hash of one input.
#[must_use]
pub fn digest_of_input(offset: i64, at: Timestamp, key: Option<&[u8]>, value: Option<&[u8]>) -> u64 {
    let place = fold(offset.cast_unsigned(), at.as_micros().cast_unsigned());
    fold(fold(place, of_bytes(key)), of_bytes(value))
}

/// Hash of one record published: topic, key, value. Where it went follows from the key or from the task.
#[must_use]
pub fn digest_of_output(publication: &Publication) -> u64 {
    let topic = XxHash3_64::oneshot(publication.topic.as_bytes());
    fold(fold(topic, of_bytes(publication.key.as_deref())), of_bytes(publication.value.as_deref()))
}

/// The digests of outputs as they stand on the tape, and the hash over them.
#[must_use]
pub fn digests_of_outputs(publications: &[Publication]) -> (String, String) {
    use std::fmt::Write;
    let mut all = String::with_capacity(publications.len() * 16);
    let mut over = 0;
    for publication in publications {
        let digest = digest_of_output(publication);
        over = fold(over, digest);
        // Writing to a string cannot fail.
        let _ = write!(all, "{digest:016x}");
    }
    (all, hex_of(over))
}

/// A null and an empty value are different things.
fn of_bytes(bytes: Option<&[u8]>) -> u64 {
    bytes.map_or(1, XxHash3_64::oneshot)
}

/// Multiplies 64 bits by 64 bits and folds the halves: order matters, and zeros do not swallow what follows.
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left ^ 0x9e37_79b9_7f4a_7c15) * u128::from(right ^ 0xd6e8_feb8_6659_fd93);
    let [high, low] = [product >> 64, product & u128::from(u64::MAX)].map(|half| u64::try_from(half).unwrap_or(0));
    high ^ low
}

fn hex_of(number: u64) -> String {
    format!("{number:016x}")
}

/// 64 bits as 16 hex digits: JSON numbers lose some.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::engine::task::tape::hex_of;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex_of(*number))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(serde::de::Error::custom)
    }
}

/// A task's own entry in its changelog, beside those of its stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Number of the next transaction.
    pub seq: u64,
    /// Number of this ownership.
    pub incarnation: u64,
    /// Ids of the topics that its offsets speak of, by name.
    #[serde(default)]
    pub topic_ids: std::collections::BTreeMap<String, String>,
    /// Where its inputs go on, by slot; none: nothing was taken from one yet. State and places in one partition cannot be
    /// torn from each other, whatever becomes of the offsets of the group.
    #[serde(default)]
    pub next: Option<[Option<i64>; 2]>,
}

impl Progress {
    /// Its key.
    pub const KEY: &[u8] = b"engine";

    /// The bytes of its value.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Numbers and texts under texts: this cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Name of a task as it stands in tape and audit, and the key of its tape records.
#[must_use]
pub fn key_of(task: TaskId) -> Vec<u8> {
    task.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_holds_what_was_held_against_one_time_in_order() {
        let mut recorder = Recorder::default();
        let (first, second) = (Timestamp::from_millis(1), Timestamp::from_millis(2));
        for (now, role, offset) in [
            (first, Role::Records, 5),
            (first, Role::Records, 7),
            (first, Role::Commands, 0),
            (first, Role::Records, 8),
            (second, Role::Records, 9),
        ] {
            recorder.took(now, role, offset, 1);
        }
        recorder.skipped(Role::Records, 9, Code::NotJson);
        recorder.ticked(second);
        let (steps, inputs, _) = recorder.finish();
        assert_eq!((steps.len(), inputs), (3, 5));
        let runs: Vec<_> = steps[0].runs.iter().map(|run| (run.input, run.first, run.next)).collect();
        assert_eq!(runs, [(Role::Records, 5, 8), (Role::Commands, 0, 1), (Role::Records, 8, 9)]);
        assert_eq!(steps[1].skipped.len(), 1);
        assert!(steps[2].runs.is_empty());
        assert!(recorder.finish().0.is_empty());
        let text = serde_json::to_string(&steps).expect("JSON");
        assert_eq!(serde_json::from_str::<Vec<Step>>(&text).expect("the same"), steps);
    }

    #[test]
    fn digests_tell_bytes_places_and_order() {
        let at = Timestamp::from_millis(7);
        let digest = digest_of_input(1, at, Some(b"k"), Some(b"v"));
        for other in [
            digest_of_input(2, at, Some(b"k"), Some(b"v")),
            digest_of_input(1, Timestamp::from_millis(8), Some(b"k"), Some(b"v")),
            digest_of_input(1, at, Some(b"v"), Some(b"k")),
            digest_of_input(1, at, Some(b"k"), None),
            digest_of_input(1, at, None, Some(b"v")),
        ] {
            assert_ne!(digest, other);
        }
        assert_ne!(fold(fold(0, 1), 2), fold(fold(0, 2), 1));
        assert_ne!(digest_of_input(1, at, None, None), digest_of_input(1, at, None, Some(b"")));
    }
}
