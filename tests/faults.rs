//! Faults injected into the program `reflex` on a real Kafka, and exactly-once after each of them.
//!
//! `cargo test --features failpoints --test faults` injects each fault once; `.ci/faults` the whole matrix. A test target
//! with a runner of its own, because a fault that was not injected is a failure here, and the result is a table.
//!
//! ```text
//!  runner ── which cases, which seeds, the table
//!  rig ───── topics, processes and failpoints of one case     load ── events whose outcome is known
//!  kills, zombies, members, brokers, foreign ── the cases
//!  oracle ── what must hold after each: chain, tape, outputs  reading ── topics with offsets   watch ── offsets meanwhile
//! ```
#![allow(clippy::expect_used, reason = "a broken expectation is a failed case")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "real processes need the real clock")]

use std::process::ExitCode;

mod harness;

mod faults {
    #[allow(dead_code, reason = "shared with the tests of the program")]
    #[path = "../kafka/world.rs"]
    pub mod world;

    #[allow(dead_code, reason = "shared with the tests of the program")]
    #[path = "../kafka/proxy.rs"]
    pub mod proxy;

    pub mod load;
    pub mod oracle;
    pub mod reading;
    pub mod rig;
    pub mod runner;
    pub mod watch;

    pub mod brokers;
    pub mod foreign;
    pub mod kills;
    pub mod members;
    pub mod zombies;
}

fn main() -> ExitCode {
    faults::runner::main()
}
