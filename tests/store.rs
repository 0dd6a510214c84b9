//! Local stores: whatever happens to one, what it gives and the tail of the changelog are the state of the whole changelog.
#![cfg(feature = "shell")]
#![allow(clippy::expect_used, reason = "a broken expectation is a failed test")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "files and threads need the real clock")]

mod harness;

mod store {
    pub mod log;

    mod campaign;
    mod crash;
    mod keeping;
}
