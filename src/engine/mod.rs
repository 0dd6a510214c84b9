//! The Kafka shell around the stages: poll, step, one transaction.
//!
//! ```text
//!  client ── settings of the clients: what exactly-once needs is pinned
//!  home ──── the locked data directory and the process's name in the group
//!  preflight, admin, topics ── topics as they are and as they should be
//!  worker ── one thread: poll ─> stage ─> batch ─> transaction
//!              assignment      which partitions are owned
//!              intake, stage   bytes to events and commands, tasks, effects
//!              native          records in batches through a private queue; the only unsafe code
//!              encode, dead_letter   effects and refusals as records
//!              transaction, producer, classifier   all or nothing, and what an error means
//!  publish ── a feed of events, for `reflex publish`
//! ```
//!
//! Limits of this release: state is in memory only. A task begins empty at its group's committed offset (a new group's
//! at the earliest), so after a restart a live override is left to its own expiry and the audit chain of a task begins
//! anew at 0. One worker a process.

pub mod admin;
mod assignment;
mod batch;
mod classifier;
pub mod client;
pub mod config;
mod counters;
mod dead_letter;
pub mod embedded;
mod encode;
mod error;
mod fencing;
pub mod home;
mod intake;
mod native;
mod patience;
mod preflight;
mod producer;
pub mod publish;
mod stage;
pub mod topics;
mod transaction;
mod worker;

pub use config::{Cluster, Config, Encoding, TopicNames};
pub use counters::Counters;
pub use error::{EngineError, words};
pub(crate) use native::inbox::Inbox;
pub use worker::{OnProgress, Progress, run};
