//! State of tasks: restored from local stores and changelogs before they begin.
//!
//! - [`changelog`]: the reading.
//! - [`part`]: one task on the way.
//! - [`restore`]: entries to a task.
//! - [`store`]: local stores.

pub mod changelog;
pub mod part;
pub mod restore;
pub mod store;
