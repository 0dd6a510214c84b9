//! One transaction, all or nothing: what it is made of, what an error means, when the next one may begin.
//!
//! - `transaction`: the call, and what is done where a step of it fails.
//! - `confirm`: whether what was acknowledged is there, after a connection was lost.
//! - `producer`: the transactional producer.
//! - `classifier`: what an error means.
//! - `search`: which input is to blame.
//! - `pace`: when the next commit may begin.

pub mod classifier;
mod confirm;
pub mod pace;
pub mod producer;
pub mod search;
pub mod transaction;
