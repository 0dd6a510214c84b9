//! Reflex: runtime recovery for agent fleets, an event-stream processor over Kafka.
//!
//! ```text
//!  runtimes ──> reflex.events ──────────┐
//!               (key: session_id)       v
//!  operators ─> reflex.session-commands ─> [session] ──> reflex.interventions   what is being done
//!                                            task = partition  ├─> reflex.overrides       what runtimes resolve against
//!                                                              ├─> reflex.escalations     packages for people
//!                                                              ├─> reflex.audit           every transition, hash-chained
//!                                                              └─> <input>.dlq            what could not be used
//!  runtimes <── [resolve] <── reflex.overrides
//! ```
//!
//! In dataflow order, which is also the import order (a module uses only those above it; `tests/tidy.rs`):
//! - [`record`]: what travels on topics, its keys, bytes to records and back.
//! - [`registry`]: what operators write, as one validated, versioned value.
//! - [`resolve`]: what runtimes compute from overrides.
//! - [`session`]: stage 1, from event to session override.
//! - [`fleet`]: stage 2, what concerns many sessions: counts and signatures of all session tasks, in windows.
//! - [`engine`]: the Kafka shell around the stages: poll, step, one transaction.
//! - [`serve`]: HTTP: what runtimes and people ask, health and metrics.
//! - [`cli`]: one file per verb of the program `reflex`.
//!
//! `record` to `fleet` are the core: no clock, IO, threads, randomness or async; they build with
//! `--no-default-features`.

pub mod fleet;
pub mod record;
pub mod registry;
pub mod resolve;
pub mod session;

#[cfg(feature = "shell")]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "clocks, threads and files belong to the shell")]
pub mod cli;
#[cfg(feature = "shell")]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "clocks, threads and files belong to the shell")]
pub mod engine;
#[cfg(feature = "shell")]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "clocks, threads and files belong to the shell")]
pub mod serve;
