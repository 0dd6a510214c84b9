//! The Kafka shell around the stages: poll, step, one transaction.
//!
//! ```text
//!  client ── settings of the clients: what exactly-once needs is pinned
//!  home ──── the locked data directory and the process's name in the group
//!  preflight, admin, topics ── topics as they are and as they should be
//!  worker ── one thread: poll ─> stage ─> batch ─> transaction
//!              assignment      which partitions are owned
//!              changelog, part state of tasks: written with their effects, restored before they begin
//!              store           local stores: disposable copies of that state, for short restarts
//!              intake, stage   bytes to events and commands, tasks, effects
//!              native          records in batches through a private queue; the only unsafe code
//!              encode, dead_letter   effects and refusals as records
//!              telemetry       what the log says of it
//!              verdict         what an error of a poll means
//!              transaction, producer, classifier   all or nothing, and what an error means
//!  publish ── a feed of events, for `reflex publish`
//! ```
//!
//! State is in memory and in the changelog, `reflex.state.session`: what changed goes there in the transaction of the
//! effects, and a task is restored from there wherever it begins, after a restart and after a rebalance: from the local
//! store of this process as far as that goes, and the rest from the changelog.
//!
//! Limits of this release: a task decides by the registry of `run`, whatever it was written under. One worker a process.

pub mod admin;
mod assignment;
mod batch;
mod changelog;
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
mod part;
mod patience;
mod preflight;
mod producer;
pub mod publish;
mod stage;
pub mod store;
mod telemetry;
pub mod topics;
mod transaction;
mod verdict;
mod worker;

pub use config::{Cluster, Config, Encoding, TopicNames};
pub use counters::Counters;
pub use error::{EngineError, words};
pub(crate) use native::inbox::Inbox;
pub use worker::{OnProgress, Progress, run};
