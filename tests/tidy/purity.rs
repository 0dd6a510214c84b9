//! Purity of the core: `record .. fleet` see no clock, IO, thread, randomness, environment or hash order.
//!
//! `clippy.toml` bans calls by what they resolve to; this check bans the names, features that are off included.

use crate::assert_none;
use crate::source;
use crate::tree::{self, File};

const CORE: [&str; 5] = ["record", "registry", "resolve", "session", "fleet"];

const IO: &str = "the core does no IO: bytes come in and go out as values";
const CLOCK: &str = "the clock of a task is the append time of what it has read";
const CHANCE: &str = "the same log must give the same bytes: no randomness";
const ORDER: &str = "its seed is random: BTreeMap, or hashbrown with a fixed hasher and no iteration";
const WAIT: &str = "the core never waits: `step` returns everything in one call";
const SHELL: &str = "a crate of the shell: the core builds without it";

/// Paths that the core does not name, with the reason.
const PATHS: [(&str, &str); 22] = [
    ("std::fs", IO),
    ("std::net", IO),
    ("std::process", IO),
    ("std::io::stdin", IO),
    ("std::io::stdout", IO),
    ("std::io::stderr", IO),
    ("std::thread", "the core has no threads"),
    ("std::sync::mpsc", "the core has no threads"),
    ("std::env", "what changes a decision is in the log, not in the environment"),
    ("std::time::SystemTime", CLOCK),
    ("std::time::Instant", CLOCK),
    ("jiff::Timestamp::now", CLOCK),
    ("jiff::Zoned::now", CLOCK),
    ("rand", CHANCE),
    ("getrandom", CHANCE),
    ("fastrand", CHANCE),
    ("std::collections::HashMap", ORDER),
    ("std::collections::HashSet", ORDER),
    ("std::collections::hash_map", ORDER),
    ("tokio", WAIT),
    ("futures", WAIT),
    ("rdkafka", SHELL),
];

/// Words that the core does not use, with the reason.
const WORDS: [(&str, &str); 7] = [
    ("async", WAIT),
    ("await", WAIT),
    ("print", IO),
    ("println", IO),
    ("eprint", IO),
    ("eprintln", IO),
    ("thread_local", ORDER),
];

fn violations(file: &File) -> Vec<String> {
    if !file.room().is_some_and(|room| CORE.contains(&room)) || !file.has_extension("rs") {
        return Vec::new();
    }
    let code = file.product_code();
    let mut found = Vec::new();
    for (line, path) in source::paths(&code) {
        let banned = PATHS.iter().find(|(ban, _)| names(&path, ban));
        found.extend(banned.map(|(ban, why)| format!("{}:{line}: `{path}` ({ban}): {why}", file.path)));
    }
    for token in source::tokens(&code) {
        let banned = WORDS.iter().find(|(word, _)| *word == token.text);
        found.extend(banned.map(|(word, why)| format!("{}:{}: `{word}`: {why}", file.path, token.line)));
    }
    found
}

/// Whether `path` names `ban`, something in it, or a module that lets it in unseen (`std::time`, `std::time::*`).
fn names(path: &str, ban: &str) -> bool {
    let path = path.trim_end_matches("::*").trim_end_matches("::self");
    let within =
        |inner: &str, outer: &str| inner == outer || inner.strip_prefix(outer).is_some_and(|r| r.starts_with("::"));
    within(path, ban) || (path.starts_with("std::") && within(ban, path) && path != "std::io")
}

#[test]
fn the_core_is_pure() {
    let found: Vec<String> = tree::rust_files().iter().flat_map(violations).collect();
    assert_none("The core is deterministic: it computes from its inputs alone.", &found);
}

#[test]
fn planted_impurities_are_found() {
    let found = |path: &str, text: &str| violations(&File::planted(path, text)).len();
    for (path, _) in PATHS {
        assert!(found("src/session/a.rs", &format!("fn a() {{ {path}::b(); }}")) > 0, "{path}");
        assert_eq!(found("src/engine/a.rs", &format!("fn a() {{ {path}::b(); }}")), 0, "{path}");
    }
    for (word, _) in WORDS {
        assert_eq!(found("src/record/a.rs", &format!("{word} b")), 1, "{word}");
    }
    assert_eq!(found("src/resolve/a.rs", "use std::{fmt, time::{Duration, Instant}};"), 1);
    assert!(found("src/resolve/a.rs", "use std::time;") > 0);
    assert!(found("src/resolve/a.rs", "use std::collections::*;") > 0);
    let fine = "use std::time::Duration; use std::fmt; use std::io::Write;\n// std::fs\n#[cfg(test)]\nmod tests { use std::fs; }";
    assert_eq!(found("src/registry/a.rs", fine), 0);
}
