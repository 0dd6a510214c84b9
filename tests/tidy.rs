//! House rules as tests: what the layout promises (README "How to read the code") is checked here, not remembered.
//!
//! Each check is a test of its own that names every violation as `file:line: what`, and has a second test with a small
//! planted violation, so that a check that finds nothing any more is noticed.

#![allow(clippy::disallowed_methods, reason = "house-keeping reads files")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a check that cannot run must fail")]

#[path = "tidy/honesty.rs"]
mod honesty;
#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/layout.rs"]
mod layout;
#[path = "tidy/licences.rs"]
mod licences;
#[path = "tidy/purity.rs"]
mod purity;
#[path = "tidy/records.rs"]
mod records;
#[path = "tidy/settings.rs"]
mod settings;
#[path = "tidy/sizes.rs"]
mod sizes;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/tree.rs"]
mod tree;
#[path = "tidy/words.rs"]
mod words;

/// Fails with all violations at once.
fn assert_none(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}\n\n{} violations:\n{}\n", violations.len(), violations.join("\n"));
}
