//! What workers show to the outside: counters, log lines, health, lag.
//!
//! - `counters`: what a worker counts.
//! - `telemetry`: what the log says.
//! - `health`: where a worker is.
//! - `lag`: what waits.
//! - `watch`: snapshots for readers.

pub mod counters;
pub mod health;
pub mod lag;
pub(crate) mod telemetry;
pub mod watch;
