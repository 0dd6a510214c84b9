//! The HTTP service in process, without a broker: what it answers, and what nobody can make it do.
#![cfg(feature = "shell")]
#![allow(clippy::expect_used, reason = "a broken expectation is a failed test")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "sockets need the real clock")]

mod serve {
    pub mod client;
    pub mod exposition;

    mod abuse;
    mod description;
    mod events;
    mod fakes;
    mod guards;
    mod metrics;
    mod orders;
    mod overrides;
    mod places;
    mod polls;
    mod probes;
    mod roles;
    mod rules;
    mod service;
    mod tls;
}
