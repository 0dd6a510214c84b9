//! What the tasks of both stages share: effects, the audit chain, entries of state, ids seen, and tables that can go back
//! to the last commit.

pub mod chain;
pub mod effects;
pub mod entry;
pub mod seen;
pub mod shelf;

pub use effects::Effects;
pub use entry::{Change, RestoreError};
