//! Layout: what stands at the top, the map in `lib.rs`, and one opening sentence a module.

use crate::assert_none;
use crate::imports::RANKS;
use crate::tree::{self, File};

/// What may stand at the top of the repository; names that begin with a dot are of tools, `.ci` apart.
const TOP: [&str; 16] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "asyncapi.yaml",
    "benches",
    "clients",
    "clippy.toml",
    "config",
    "deploy",
    "docker-compose.yml",
    "examples",
    "rustfmt.toml",
    "schemas",
    "src",
    "tests",
];

/// Allowed too, and made when the first tenant moves in.
const TOP_LATER: [&str; 1] = ["vectors"];

/// What must be there.
const TOP_NEEDED: [&str; 8] =
    ["Cargo.lock", "Cargo.toml", "README.md", "config", "docker-compose.yml", "schemas", "src", "tests"];

fn top_problems(files: &[File]) -> Vec<String> {
    let top: Vec<&str> = files.iter().map(|file| file.path.split('/').next().unwrap_or_default()).collect();
    let allowed = |name: &&str| name.starts_with('.') || TOP.contains(name) || TOP_LATER.contains(name);
    let mut found: Vec<String> =
        top.iter().filter(|name| !allowed(name)).map(|name| format!("{name}: not at the top of the house")).collect();
    found.dedup();
    found.extend(TOP_NEEDED.iter().filter(|name| !top.contains(name)).map(|name| format!("{name}: missing")));
    found
}

/// Rooms that `lib.rs` declares without a line in its map, in the map without being declared, or out of order.
fn map_problems(lib: &str) -> Vec<String> {
    let strip = |line: &str, start: &str, end: &str| Some(line.strip_prefix(start)?.split_once(end)?.0.to_owned());
    let declared: Vec<String> = lib.lines().filter_map(|line| strip(line, "pub mod ", ";")).collect();
    let drawn: Vec<String> = lib.lines().filter_map(|line| strip(line, "//! - [`", "`]:")).collect();
    let order: Vec<&str> = RANKS.iter().map(|(room, _)| *room).filter(|room| drawn.iter().any(|d| d == room)).collect();
    let missing = declared.iter().filter(|room| !drawn.contains(room));
    let mut found: Vec<String> = missing.map(|room| format!("src/lib.rs: `{room}` is not in the list")).collect();
    let gone = drawn.iter().filter(|room| !declared.contains(room));
    found.extend(gone.map(|room| format!("src/lib.rs: `{room}` is in the list and is no module")));
    if drawn != order {
        found.push(format!("src/lib.rs: the list is not in dataflow order: {drawn:?}, not {order:?}"));
    }
    found
}

fn opening_problem(file: &File) -> Option<String> {
    let opens = file.text.starts_with("//! ");
    (file.has_extension("rs") && !opens).then(|| format!("{}:1: does not open with `//! ` and a sentence", file.path))
}

#[test]
fn the_top_of_the_house_is_as_agreed() {
    assert_none("Top level: a room is made when its first tenant moves in.", &top_problems(&tree::files()));
}

#[test]
fn the_map_lists_every_room() {
    let lib = tree::text("src/lib.rs");
    assert_none("lib.rs lists the modules in dataflow order, one sentence each.", &map_problems(&lib));
}

#[test]
fn modules_open_with_a_sentence() {
    let found: Vec<String> = tree::rust_files().iter().filter_map(opening_problem).collect();
    assert_none("Every Rust file says first what it is.", &found);
}

#[test]
fn planted_disorder_is_found() {
    let needed: Vec<File> = TOP_NEEDED.iter().map(|name| File::planted(name, "")).collect();
    assert_eq!(top_problems(&needed).len(), 0);
    assert_eq!(top_problems(&needed[1..]).len(), 1);
    let attic = [File::planted("attic/a.rs", ""), File::planted("attic/b.rs", "")];
    let all: Vec<File> = needed.into_iter().chain(attic).collect();
    assert_eq!(top_problems(&all).len(), 1);
    let fine = "//! - [`record`]: a.\n//! - [`session`]: b.\npub mod record;\npub mod session;";
    assert_eq!(map_problems(fine).len(), 0);
    assert_eq!(map_problems(&format!("{fine}\npub mod fleet;")).len(), 1);
    assert_eq!(map_problems(&fine.replace("pub mod session;", "")).len(), 1);
    assert_eq!(map_problems("//! - [`session`]: b.\n//! - [`record`]: a.\npub mod record;\npub mod session;").len(), 1);
    assert!(opening_problem(&File::planted("src/a.rs", "// a\nfn b() {}")).is_some());
    assert!(opening_problem(&File::planted("src/a.rs", "//! A.")).is_none());
}
