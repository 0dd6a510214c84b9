//! A real Apache Kafka for tests: no Docker, no root, only JDK 17 or newer and Maven.
//!
//! ```text
//! mod harness;
//! let kafka = harness::Broker::shared();             // one per test process, or REFLEX_TEST_BOOTSTRAP_SERVERS
//! let kafka = harness::broker();                     // one's own: kill9(), restart(); ends with the value
//! let kafka = harness::Broker::start(&[("log.cleaner.min.cleanable.ratio", "0.01")])?;
//! kafka.bootstrap();                                 // 127.0.0.1:PORT
//! kafka.tool("org.apache.kafka.tools.TopicCommand", &["--list"])?;
//! ```
//!
//! `jars` installs, `ports` and `settings` prepare, `keeper` runs and cleans up, `probe` asks, `broker` puts it together;
//! `child` makes test processes to kill.
//! Tested by `harness_self.rs`.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of the harness")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "real processes need the real clock and locks")]
#![allow(clippy::expect_used, reason = "a broken harness is a failed test")]

mod broker;
pub mod child;
pub mod jars;
pub mod keeper;
pub mod ports;
mod probe;
pub mod settings;

pub use broker::Broker;

/// The setting that names a cluster to use instead of starting one.
pub const EXTERNAL: &str = "REFLEX_TEST_BOOTSTRAP_SERVERS";

/// A broker of one's own with the usual settings.
///
/// # Panics
/// With what to install, or why it did not start.
pub fn broker() -> Broker {
    Broker::start(&[]).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Runs a tool class of the distribution that needs no broker (log segments, storage); its standard output.
pub fn tool(class: &str, arguments: &[&str]) -> Result<String, String> {
    jars::Kafka::installed()?.tool(class, arguments)
}
