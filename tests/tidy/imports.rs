//! Import ranks: a file uses its own room and rooms of lower rank, named from the top of the crate.

use crate::assert_none;
use crate::source;
use crate::tree::{self, File};

/// Rooms with their rank. Rooms of equal rank do not know each other: `session` and `fleet` meet on a topic.
pub const RANKS: [(&str, u8); 9] = [
    ("record", 0),
    ("registry", 1),
    ("resolve", 2),
    ("session", 3),
    ("fleet", 3),
    ("engine", 4),
    ("serve", 5),
    ("cli", 6),
    ("main", 7),
];

fn rank(room: &str) -> Option<u8> {
    RANKS.iter().find(|(name, _)| *name == room).map(|(_, rank)| *rank)
}

fn violations(file: &File) -> Vec<String> {
    let Some(room) = file.room().filter(|room| *room != "lib") else { return Vec::new() };
    let Some(own) = rank(room) else {
        return vec![format!("{}:1: `{room}` is no room: give it a rank, or move the file", file.path)];
    };
    let code = file.product_code();
    let mut found = Vec::new();
    for (line, path) in source::paths(&code) {
        let mut segments = path.split("::");
        let problem = match (segments.next(), segments.next()) {
            (Some("super"), _) => Some(String::from("`super::` outside tests: name it from the top of the crate")),
            (Some("crate" | "reflex"), Some(used)) if used != room => crossing(room, own, used),
            _ => None,
        };
        found.extend(problem.map(|problem| format!("{}:{line}: {problem}", file.path)));
    }
    found.dedup();
    found
}

fn crossing(room: &str, own: u8, used: &str) -> Option<String> {
    match rank(used) {
        None => Some(format!("`{used}` is no room with a rank")),
        Some(other) if other < own => None,
        Some(other) if other == own => {
            Some(format!("`{room}` and `{used}` have the same rank and do not know each other"))
        }
        Some(_) => Some(format!("`{room}` imports `{used}`, which has a higher rank")),
    }
}

#[test]
fn imports_keep_the_ranks() {
    let found: Vec<String> = tree::rust_files().iter().flat_map(violations).collect();
    let rule = "Ranks: record < registry < resolve < session, fleet < engine < serve < cli < main.";
    assert_none(rule, &found);
}

#[test]
fn a_planted_import_is_found() {
    let found = |path: &str, text: &str| violations(&File::planted(path, text)).len();
    assert_eq!(found("src/record/event.rs", "use crate::session::Input;"), 1);
    assert_eq!(found("src/session/mod.rs", "use crate::{record::time, fleet};\nfn f() { crate::fleet::g(); }"), 2);
    assert_eq!(found("src/resolve.rs", "fn f() { super::g(); }"), 1);
    assert_eq!(found("src/cli/run.rs", "use crate::unknown::Thing;"), 1);
    assert_eq!(found("src/attic/mod.rs", ""), 1);
    let fine =
        "use crate::record::Time;\n// crate::cli\n#[cfg(test)]\nmod tests { use super::*; use crate::cli::Exit; }";
    assert_eq!(found("src/session/mod.rs", fine), 0);
    assert_eq!(found("src/main.rs", "use reflex::cli;"), 0);
}
