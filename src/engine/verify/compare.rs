//! What was decided again against what the tape says, in the words of a person who has to look into it.

use crate::engine::error::EngineError;
use crate::engine::task::batch::{Publication, Transaction};
use crate::engine::task::place::TaskId;
use crate::engine::task::tape::{TapeRecord, digest_of_output};
use crate::engine::verify::Difference;

/// Longest key shown, in characters.
const KEY_CHARS_MAX: usize = 120;

/// A transaction decided again.
pub struct Decided<'a> {
    record: TapeRecord,
    /// Records of the task, the tape's own and the engine's entry left out.
    pub published: &'a [Publication],
}

impl<'a> Decided<'a> {
    /// The parts of a transaction of one task.
    pub fn of(transaction: &'a Transaction) -> Result<Self, EngineError> {
        // The tape record comes first, the engine's own entry last.
        let [tape, published @ .., _] = transaction.publications.as_slice() else {
            return Err(EngineError::Undecided("a transaction without a tape record".into()));
        };
        let record = serde_json::from_slice(tape.value.as_deref().unwrap_or_default())
            .map_err(|error| EngineError::Undecided(format!("a tape record that cannot be read: {error}")))?;
        Ok(Self { record, published })
    }
}

/// The first difference.
pub fn differences(task: TaskId, tape: &TapeRecord, decided: &Decided<'_>) -> Option<String> {
    inputs(task, tape, &decided.record).or_else(|| outputs(tape, decided))
}

fn inputs(task: TaskId, tape: &TapeRecord, decided: &TapeRecord) -> Option<String> {
    let runs = |record: &TapeRecord| -> Vec<_> { record.steps.iter().flat_map(|step| step.runs.clone()).collect() };
    for (was, is) in runs(tape).iter().zip(runs(decided)) {
        if *was != is {
            let (input, first, last) = (task.input(was.input).topic, was.first, was.next - 1);
            let name = ["events", "session commands", "fleet records", "commands"][input];
            return Some(format!("{name} {task}, offsets {first} to {last}, are not the bytes that were consumed"));
        }
    }
    let skipped =
        |record: &TapeRecord| -> Vec<_> { record.steps.iter().flat_map(|step| step.skipped.clone()).collect() };
    let (was, is) = (skipped(tape), skipped(decided));
    if was != is {
        let first = was.iter().find(|one| !is.contains(one)).or_else(|| is.iter().find(|one| !was.contains(one)));
        let words = first.map_or_else(String::new, |one| {
            let side = if was.contains(one) { "on the tape only" } else { "decided again only" };
            format!("{} at offset {} of its {:?}, {side}", one.code, one.offset, one.input).to_lowercase()
        });
        return Some(format!(
            "dead letters differ: {words}; were input.tenant or avro.schema_ids others then? verify with those, or --from \
             a later transaction"
        ));
    }
    (tape.inputs != decided.inputs || tape.input_digest != decided.input_digest)
        .then(|| format!("{} inputs were consumed, {} are there", tape.inputs, decided.inputs))
}

fn outputs(tape: &TapeRecord, decided: &Decided<'_>) -> Option<String> {
    let was: Vec<&str> =
        tape.outputs.as_bytes().chunks(16).filter_map(|chunk| std::str::from_utf8(chunk).ok()).collect();
    for (number, publication) in decided.published.iter().enumerate() {
        let is = format!("{:016x}", digest_of_output(publication));
        if was.get(number) != Some(&is.as_str()) {
            let key = String::from_utf8_lossy(publication.key.as_deref().unwrap_or_default());
            let key: String = key.chars().filter(|c| !c.is_control()).take(KEY_CHARS_MAX).collect();
            return Some(format!(
                "record {number} of {} decided again, to {} with key {key}, is not what was published",
                decided.published.len(),
                publication.topic
            ));
        }
    }
    (was.len() != decided.published.len() || tape.output_digest != decided.record.output_digest)
        .then(|| format!("{} records were published, {} are decided again", was.len(), decided.published.len()))
}

/// Audit records against their topic: each is there, in order, byte for byte.
pub fn audit(decided: &[Vec<u8>], published: &[(u64, Vec<u8>)], seq: u64) -> Option<Difference> {
    let first = decided.first()?;
    let Some(start) = published.iter().position(|(_, value)| value == first) else {
        let words = "the first audit record decided again is not on the audit topic".into();
        return Some(Difference { seq, words });
    };
    for (number, value) in decided.iter().enumerate() {
        match published.get(start + number) {
            Some((_, there)) if there == value => {}
            Some((there, _)) => {
                return Some(Difference { seq, words: format!("audit record {there} is not what was decided") });
            }
            None => {
                return Some(Difference { seq, words: format!("audit ends {} records early", decided.len() - number) });
            }
        }
    }
    None
}
