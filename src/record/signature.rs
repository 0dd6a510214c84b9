//! The failure signature: compact, repeatable description of an incident in one run.

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use crate::record::canonical_json_of_sorted;

/// The five fields that make two failures the same failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Signature {
    /// The failing node; null where the graph failed as a whole.
    pub node: Option<String>,
    /// Normalised class of the error.
    pub failure_shape: String,
    /// Whether the runtime (or the trip) gave up on the node.
    pub retry_budget_exhausted: bool,
    /// Whether the node's required artifact exists; null where none is registered.
    pub required_artifact_present: Option<bool>,
    /// Always `session`: the scope a signature is computed in.
    pub scope: String,
}

impl Signature {
    /// Fingerprint: xxh3-128 (hex, 32 digits) of the canonical JSON of `graph` and the five fields. Version, schema and
    /// route are left out on purpose: the same failure is known again on the shadow and on the next version.
    #[must_use]
    pub fn fingerprint(&self, graph: &str) -> String {
        #[derive(Serialize)]
        struct Sorted<'a> {
            failure_shape: &'a str,
            graph: &'a str,
            node: Option<&'a str>,
            required_artifact_present: Option<bool>,
            retry_budget_exhausted: bool,
            scope: &'a str,
        }
        let bytes = canonical_json_of_sorted(&Sorted {
            failure_shape: &self.failure_shape,
            graph,
            node: self.node.as_deref(),
            required_artifact_present: self.required_artifact_present,
            retry_budget_exhausted: self.retry_budget_exhausted,
            scope: &self.scope,
        });
        format!("{:032x}", XxHash3_128::oneshot(&bytes))
    }
}
