//! What is valid and still wrong.

use crate::registry::model::Registry;
use crate::registry::origin::Origins;
use crate::registry::problem::{Problem, Reporter};

/// Lints.
#[must_use]
pub fn lint(_registry: &Registry, origins: &Origins) -> Vec<Problem> {
    Reporter::new(&origins.files).into_problems()
}
