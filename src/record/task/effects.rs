//! What a step wants done outside: records to publish, observations, urgency. State is changed directly, never here.

use crate::record::observation::Observation;
use crate::record::output::Output;

/// Effects of one or more steps, in order.
#[derive(Debug, Default)]
pub struct Effects {
    /// Records and tombstones to publish, in order.
    pub outputs: Vec<Output>,
    /// What was seen.
    pub observations: Vec<Observation>,
    /// Whether a runtime waits for these outputs: commit at once.
    pub urgent: bool,
}

impl Effects {
    /// Whether there is nothing to publish.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.observations.is_empty()
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.outputs.clear();
        self.observations.clear();
        self.urgent = false;
    }
}
