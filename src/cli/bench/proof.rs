//! What was decided, decided again from the tape: `--verify`.

use serde_json::{Value, json};

use crate::cli::exit::Failure;
use crate::engine::verify::{Request, verify};
use crate::engine::{Config, Registries};

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    tasks: usize,
    inputs: u64,
    records: u64,
    differences: Vec<String>,
}

impl Proof {
    /// Verifies every task of the run.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn of(config: &Config) -> Result<Self, Failure> {
        let mut proof = Self::default();
        verify(config, &Registries::in_band(config), &Request::default(), &mut |verified| {
            proof.tasks += usize::from(verified.span.is_some());
            proof.inputs += verified.inputs;
            proof.records += verified.outputs;
            let difference = verified.difference.iter().map(|difference| format!("{} at {difference}", verified.task));
            proof.differences.extend(difference);
        })?;
        Ok(proof)
    }

    /// Whether everything was decided again, byte for byte.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.differences.is_empty() && self.tasks > 0
    }

    /// As a line of a table.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { tasks, inputs, records, differences } = self;
        let verdict = if differences.is_empty() { "identical".to_owned() } else { differences.join("; ") };
        format!("{tasks} tasks, {inputs} inputs and {records} records decided again: {verdict}")
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let Self { tasks, inputs, records, differences } = self;
        json!({ "tasks": tasks, "inputs": inputs, "records": records, "differences": differences })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_told_and_nothing_verified_is_nothing_proved() {
        let good = Proof { tasks: 2, inputs: 7, records: 9, differences: Vec::new() };
        assert!(good.is_good() && good.line().ends_with("identical"));
        let bad = Proof { differences: vec!["session/0 at transaction 3: x".into()], ..good };
        assert!(!bad.is_good() && bad.line().ends_with("transaction 3: x"));
        assert_eq!(bad.json()["differences"][0], "session/0 at transaction 3: x");
        assert!(!Proof::default().is_good());
    }
}
