//! The Kafka shell around the stages: poll, step, one transaction.
//!
//! ```text
//!  cluster ── brokers and topics as they are and as they should be; settings of the clients, with what is pinned
//!  home ───── the locked data directory and the process's name in the group
//!  worker ─── one thread, one member of the group: poll ─> tasks ─> transaction
//!    group      which partitions are owned, and what dead owners left open
//!    native     records in batches through a private queue; the only unsafe code
//!    task       tasks ─> task ─> core: what is ready in all, in one, and the stage that decides; the tape
//!    commit     all or nothing, and what an error means; when to commit, and which input is to blame
//!    state      changelogs and local stores, from which tasks are restored before they begin
//!    clock, patience, failpoint   wall time; how long to try; where tests of faults end the process
//!  verify ─── decides again what the tape says
//!  shown ──── counters, log, health and lag, for the outside
//!  operator ─ what verbs of operators read and write
//!  publish ── a feed of events
//!  follow ─── compacted topics as tables
//! ```
//!
//! State is in memory and in changelogs: what changed goes there in the transaction of the effects, and a task is restored
//! from there wherever it begins: from the local store of this process as far as that goes, and the rest from the changelog.

pub mod clock;
pub mod cluster;
mod commit;
pub mod config;
mod error;
mod failpoint;
pub mod follow;
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
