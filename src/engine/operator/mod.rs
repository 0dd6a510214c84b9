//! What the verbs of operators read and write.
//!
//! - `append`: one record, and when the broker appended it.
//! - `group`: the group, seen from outside.
//! - `scan`: whole topics.
//! - `once`: one transaction of its own.
//! - `orders`: commands and their answers.
//! - `redrive`: dead letters sent again.
//! - `registry_topic`: registry versions: read, pushed, activated.

pub mod append;
pub mod group;
pub(crate) mod once;
pub mod orders;
pub mod redrive;
pub mod registry_topic;
pub(crate) mod scan;
