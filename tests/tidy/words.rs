//! Words that do not belong into a finished tree. The lists are written in pieces, so that they do not find themselves.

use crate::assert_none;
use crate::source;
use crate::tree::{self, File};

/// Left behind by unfinished work, or pretending to check. A word that begins or ends with a letter stands alone.
const UNFINISHED: [(&str, &str); 8] = [
    (concat!("to", "do!"), "finish it"),
    (concat!("unimple", "mented!"), "finish it"),
    (concat!("FIX", "ME"), "mend it, or write down the limit it leaves"),
    (concat!("TO", "DO"), "finish it, or write down the limit it leaves"),
    (concat!("XX", "X"), "mend it, or write down the limit it leaves"),
    (concat!("db", "g!"), "left from a search for an error"),
    (concat!("#[ign", "ore]"), "say why: a reason string"),
    (concat!("assert!(tr", "ue"), "asserts nothing"),
];

/// Other words for what has a name already (README, vocabulary); upper and lower case are the same.
const VOCABULARY: [(&str, &str); 9] = [
    (concat!("kill", "switch"), "freeze"),
    (concat!("kill", " switch"), "freeze"),
    (concat!("kill", "-switch"), "freeze"),
    (concat!("fallback", " graph"), "degraded graph schema"),
    (concat!("fallback", "_graph"), "degraded graph schema"),
    (concat!("black", "list"), "deny list"),
    (concat!("white", "list"), "allow-list"),
    (concat!("incident", " id"), "intervention_id"),
    (concat!("poison", " pill"), "dead letter"),
];

/// Places of one machine. The flag: allowed where tests, vectors and recorded data show what others write.
const MACHINE_PATHS: [(&str, bool); 4] = [
    (concat!("/wo", "rk/"), false),
    (concat!("/ho", "me/"), true),
    (concat!("/ro", "ot/"), true),
    (concat!("/t", "mp/"), true),
];

/// Package registries are reached through their ordinary clients, never by name.
const REGISTRY_HOSTS: [&str; 8] = [
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("py", "pi.org"),
    concat!("files.", "pythonhosted.org"),
    concat!("registry.", "npmjs.org"),
    concat!("repo.", "maven.apache.org"),
    concat!("repo1.", "maven.org"),
    concat!("proxy.", "golang.org"),
];

fn violations(file: &File) -> Vec<String> {
    // The lock file is generated and names the registry by right.
    if file.path == "Cargo.lock" {
        return Vec::new();
    }
    let tests = if file.has_extension("rs") { source::test_lines(&source::code(&file.text)) } else { Vec::new() };
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let shown = file.is_test() || file.path.starts_with("vectors/") || tests.get(index) == Some(&true);
        let problems = unfinished(line).chain(synonyms(line)).chain(places(line, shown));
        found.extend(problems.map(|problem| format!("{}:{}: {problem}", file.path, index + 1)));
    }
    found
}

fn unfinished(line: &str) -> impl Iterator<Item = String> {
    let found = UNFINISHED.iter().filter(move |(word, _)| stands_alone(line, word));
    found.map(|(word, why)| format!("`{word}`: {why}"))
}

fn synonyms(line: &str) -> impl Iterator<Item = String> {
    let lower = line.to_lowercase();
    let found = VOCABULARY.iter().filter(move |(word, _)| lower.contains(word));
    found.map(|(word, name)| format!("`{word}`: the word here is `{name}`"))
}

/// `shown`: the line is a sample of what others write.
fn places(line: &str, shown: bool) -> impl Iterator<Item = String> {
    let paths = MACHINE_PATHS.iter().filter(move |(path, in_tests)| !(shown && *in_tests) && is_absolute(line, path));
    let paths = paths.map(|(path, _)| format!("`{path}`: a path of one machine"));
    let hosts = REGISTRY_HOSTS.iter().filter(move |host| line.contains(**host));
    paths.chain(hosts.map(|host| format!("`{host}`: registries are reached through their clients")))
}

/// Whether `word` occurs with no letter, digit or `_` going on from it on either side.
fn stands_alone(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(part) && word.starts_with(part);
        let after = line[at + word.len()..].chars().next().is_some_and(part) && word.ends_with(part);
        !before && !after
    })
}

/// Whether `path` begins a path in the line, rather than going on from one (`a/work/b`, `~/work/`, `$DIR/work/`).
fn is_absolute(line: &str, path: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || "_-.~})/*]".contains(c);
    line.match_indices(path).any(|(at, _)| !line[..at].chars().next_back().is_some_and(part))
}

#[test]
fn no_banned_words() {
    let found: Vec<String> = tree::files().iter().flat_map(violations).collect();
    assert_none("Words that do not belong into a finished tree.", &found);
}

#[test]
fn planted_words_are_found() {
    let found = |path: &str, text: &str| violations(&File::planted(path, text)).len();
    for (word, _) in UNFINISHED {
        assert_eq!(found("src/a.rs", &format!("a {word}")), 1, "{word}");
    }
    for (word, _) in VOCABULARY {
        assert_eq!(found("README.md", &format!("A {}s", word.to_uppercase())), 1, "{word}");
    }
    for (path, in_tests) in MACHINE_PATHS {
        assert_eq!(found("config/a.toml", &format!("a = \"{path}b\"")), 1, "{path}");
        assert_eq!(found("tests/a.rs", &format!("let a = \"{path}b\";")), usize::from(!in_tests), "{path}");
        let module = format!("#[cfg(test)]\nmod tests {{\n  const A: &str = \"{path}b\";\n}}");
        assert_eq!(found("src/a.rs", &module), usize::from(!in_tests), "{path}");
        assert_eq!(found("src/a.rs", &format!("src{path}b")), 0, "{path}");
    }
    for host in REGISTRY_HOSTS {
        assert_eq!(found("deploy/Dockerfile", &format!("RUN fetch https://{host}/a")), 1, "{host}");
    }
    let reason = concat!("#[ign", "ore = \"needs a second machine\"]");
    assert_eq!(found("tests/a.rs", reason), 0);
}
