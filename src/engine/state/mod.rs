//! State of tasks: restored from local stores and changelogs before they begin.
//!
//! - `changelog`: the reading.
//! - `reading`: what goes wrong meanwhile.
//! - `part`: one task on the way.
//! - `restore`: entries to a task.
//! - `store`: local stores.

pub(crate) mod changelog;
pub(crate) mod part;
mod reading;
pub(crate) mod restore;
pub mod store;
