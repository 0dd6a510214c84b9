//! The Kafka shell around the stages: poll, step, one transaction.
//!
//! ```text
//!  client ── settings of the clients: what exactly-once needs is pinned
//!  home ──── the locked data directory and the process's name in the group
//!  preflight, findings, admin, topics ── topics and brokers as they are and as they should be
//!  worker ── one thread, one member of the group: poll ─> tasks ─> transaction
//!    membership, assignment, release   which partitions are owned, and what dead owners left open
//!    native                            records in batches through a private queue; the only unsafe code
//!    tasks ─> task ─> core             what is ready in all tasks; one task; the stage that decides in it
//!      place, batch, tape                which task and input; what a task has ready; what it took and when
//!      intake, encode, dead_letter       bytes to inputs; effects and refusals to records
//!      catalogue, registry_topic         registry versions by their hash
//!    transaction, producer, classifier all or nothing, and what an error means
//!    search, pace, clock, verdict      which input is to blame; when to commit; wall time; errors of a poll
//!    changelog ─> part ─> restore      state of tasks, restored before they begin
//!      store, identity                   local stores; which topics offsets speak of
//!    failpoint                         places where tests of faults end the process; nothing without its feature
//!  verify ── decides again what the tape says
//!  counters, telemetry, health, lag, watch ── what is shown to the outside
//!  scan, once, orders, redrive, acls ── what verbs of operators read and write
//!  publish, embedded ── a feed of events; the broker of the demo
//! ```
//!
//! State is in memory and in changelogs: what changed goes there in the transaction of the effects, and a task is restored
//! from there wherever it begins: from the local store of this process as far as that goes, and the rest from the changelog.

mod clock;
pub mod cluster;
mod commit;
pub mod config;
mod error;
mod failpoint;
mod group;
pub mod home;
mod native;
pub mod operator;
mod patience;
pub mod publish;
pub mod shown;
pub mod state;
mod task;
pub mod verify;
mod worker;

pub use config::{Cluster, Config, Encoding, TopicNames};
pub use error::{EngineError, words};
pub(crate) use native::inbox::Inbox;
pub use shown::counters::Counters;
pub use task::catalogue::Registries;
pub use task::tape::CORE_VERSION;
pub use worker::{OnProgress, Progress, run};
