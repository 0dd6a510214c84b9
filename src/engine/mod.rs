//! The Kafka shell around the stages: poll, step, one transaction.
//!
//! ```text
//!  client ── settings of the clients: what exactly-once needs is pinned
//!  home ──── the locked data directory and the process's name in the group
//!  preflight, findings, admin, topics ── topics and brokers as they are and as they should be
//!  worker ── one thread: poll ─> stage ─> batch ─> transaction
//!              assignment      which partitions are owned
//!              changelog       state of tasks: written with their effects, restored before they begin
//!              intake, stage   bytes to events and commands, tasks, effects
//!              native          records in batches through a private queue; the only unsafe code
//!              encode, dead_letter   effects and refusals as records
//!              telemetry       what the log says of it
//!              health, lag, watch   what it shows to the outside
//!              verdict         what an error of a poll means
//!              transaction, producer, classifier   all or nothing, and what an error means
//!              failpoint       places where tests of faults end the process; nothing without its feature
//!  scan, once, orders, registry_topic, redrive, acls ── what verbs of operators read and write
//!  publish ── a feed of events, for `reflex publish`
//! ```
//!
//! State is in memory and in the changelog, `reflex.state.session`: what changed goes there in the transaction of the
//! effects, and a task is restored from there wherever it begins, after a restart and after a rebalance.
//!
//! Limits of this release: no local store, so every assignment reads the changelog of its tasks; a task decides by the
//! registry of `run`, whatever it was written under. One worker a process.

pub mod acls;
pub mod admin;
mod assignment;
mod batch;
mod catalogue;
mod changelog;
mod classifier;
pub mod client;
mod clock;
pub mod config;
mod core;
pub mod counters;
mod dead_letter;
pub mod embedded;
mod encode;
mod error;
mod failpoint;
mod fencing;
pub mod findings;
pub mod health;
pub mod home;
mod identity;
mod intake;
pub mod lag;
mod membership;
mod native;
mod once;
pub mod orders;
mod pace;
mod part;
mod patience;
mod place;
pub mod preflight;
mod producer;
pub mod publish;
pub mod redrive;
pub mod registry_topic;
mod release;
mod restore;
pub mod scan;
mod search;
pub mod store;
mod tape;
mod task;
mod tasks;
mod telemetry;
pub mod topics;
mod transaction;
mod verdict;
pub mod verify;
pub mod watch;
mod worker;

pub use catalogue::Registries;
pub use config::{Cluster, Config, Encoding, TopicNames};
pub use counters::Counters;
pub use error::{EngineError, words};
pub(crate) use native::inbox::Inbox;
pub use tape::CORE_VERSION;
pub use worker::{OnProgress, Progress, run};
