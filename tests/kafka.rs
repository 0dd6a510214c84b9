//! The program `reflex` against a real Kafka: exactly-once, dead letters, stops, topics, publishing.
//!
//! One broker for the whole binary (`harness`); every test has topics, a group and a data directory of its own.
#![cfg(feature = "shell")]
#![allow(clippy::expect_used, reason = "a broken expectation is a failed test")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "real processes need the real clock")]

mod harness;

mod kafka {
    #[path = "../serve/client.rs"]
    pub mod client;
    #[path = "../serve/exposition.rs"]
    pub mod exposition;
    pub mod proxy;
    pub mod world;

    mod bench;
    mod commands;
    mod commit;
    mod dead_letters;
    mod decisions;
    mod dlq;
    mod doctor;
    mod durable;
    mod faults;
    mod http;
    mod ops;
    mod ops_topics;
    mod recreated;
    mod refusals;
    mod registry;
    mod stores;
    mod story;
    mod tape;
}
