//! What the verbs of operators read and write.
//!
//! - `scan`: whole topics.
//! - `once`: one transaction of its own.
//! - `orders`: commands and their answers.
//! - `redrive`: dead letters sent again.
//! - `registry_topic`: registry versions: read, pushed, activated.

pub(crate) mod once;
pub mod orders;
pub mod redrive;
pub mod registry_topic;
pub(crate) mod scan;
