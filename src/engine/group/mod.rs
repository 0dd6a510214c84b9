//! Membership in the consumer group: joining, owning partitions, ending what dead owners left open.
//!
//! - `membership`: joining, leaving, records as they come.
//! - `assignment`: which partitions are owned, and from where.
//! - `sent`: what goes with a committed offset.
//! - `release`: ends open transactions of writers that are gone.
//! - `fencing`: how often an id was taken away.
//! - `verdict`: what an error of a poll means.

pub mod assignment;
pub mod fencing;
pub mod membership;
pub mod release;
pub mod sent;
pub mod verdict;
