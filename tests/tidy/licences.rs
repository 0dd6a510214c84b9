//! Licences of everything that is built or tested with, from `cargo metadata`.

use std::process::Command;

use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::assert_none;
use crate::tree;

/// Licences that ask for no more than a notice, or for changes to their own files (MPL).
const ALLOWED: [&str; 14] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "Zlib",
    "CC0-1.0",
    "0BSD",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "MPL-2.0",
];

/// Packages (`NAME VERSION`) whose licence is none of these, each with the reason why it may stay.
const EXCEPTIONS: [(&str, &str); 0] = [];

/// Whether a choice of the expression's alternatives needs allowed licences only. Old packages write `/` for `OR`.
fn satisfiable(expression: &str) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (allowed, rest) = alternatives(&words)?;
    if rest.is_empty() { Ok(allowed) } else { Err(format!("`{}` is left over", rest.join(" "))) }
}

type Parsed<'a, 'b> = Result<(bool, &'b [&'a str]), String>;

fn alternatives<'a, 'b>(words: &'b [&'a str]) -> Parsed<'a, 'b> {
    let (mut allowed, mut rest) = conjunction(words)?;
    while let ["OR", tail @ ..] = rest {
        let (other, after) = conjunction(tail)?;
        (allowed, rest) = (allowed || other, after);
    }
    Ok((allowed, rest))
}

fn conjunction<'a, 'b>(words: &'b [&'a str]) -> Parsed<'a, 'b> {
    let (mut allowed, mut rest) = licence(words)?;
    while let ["AND", tail @ ..] = rest {
        let (other, after) = licence(tail)?;
        (allowed, rest) = (allowed && other, after);
    }
    Ok((allowed, rest))
}

fn licence<'a, 'b>(words: &'b [&'a str]) -> Parsed<'a, 'b> {
    match words {
        ["(", inner @ ..] => match alternatives(inner)? {
            (allowed, [")", rest @ ..]) => Ok((allowed, rest)),
            _ => Err(String::from("a bracket is not closed")),
        },
        [name, "WITH", exception, rest @ ..] => {
            Ok((ALLOWED.contains(&format!("{name} WITH {exception}").as_str()), rest))
        }
        [name, rest @ ..] if !["OR", "AND", "WITH", ")"].contains(name) => Ok((ALLOWED.contains(name), rest)),
        _ => Err(format!("a licence is missing before `{}`", words.join(" "))),
    }
}

fn problem(name: &str, licence: Option<&str>) -> Option<String> {
    if EXCEPTIONS.iter().any(|(exception, _)| *exception == name) {
        return None;
    }
    match licence.map(satisfiable) {
        None => Some(format!("{name}: no licence expression")),
        Some(Ok(true)) => None,
        Some(Ok(false)) => Some(format!("{name}: `{}` is not among those allowed", licence.unwrap_or_default())),
        Some(Err(error)) => Some(format!("{name}: `{}`: {error}", licence.unwrap_or_default())),
    }
}

/// The platform this is built on: packages of others are never fetched, so nothing is known of them.
fn platform() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("rustc writes text");
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc names its host").to_owned()
}

#[test]
fn licences_are_allowed() {
    let options = ["--locked", "--filter-platform", &platform()].map(String::from);
    let metadata = MetadataCommand::new().current_dir(tree::root()).other_options(options).exec();
    let metadata = metadata.unwrap_or_else(|error| panic!("cargo metadata: {error}"));
    let packages: Vec<_> = metadata.packages.iter().filter(|package| package.source.is_some()).collect();
    let found = packages.iter().filter_map(|p| problem(&format!("{} {}", p.name, p.version), p.license.as_deref()));
    assert_none("Licences of dependencies (normal, build and dev).", &found.collect::<Vec<_>>());
    let own = metadata.packages.iter().find(|package| package.source.is_none()).expect("this package is listed");
    let kinds = [DependencyKind::Normal, DependencyKind::Development];
    for kind in kinds {
        let listed = own.dependencies.iter().filter(|dependency| dependency.kind == kind);
        assert!(listed.count() > 0 && packages.len() > own.dependencies.len(), "{kind} dependencies were not listed");
    }
}

#[test]
fn planted_licences_are_found() {
    for fine in ["MIT", "Apache-2.0 OR MIT", "MIT/Apache-2.0", "GPL-3.0 OR (MIT AND Zlib)", "Unlicense OR MIT"] {
        assert_eq!(problem("a", Some(fine)), None, "{fine}");
    }
    assert_eq!(problem("a", Some("(MIT OR Apache-2.0) AND Unicode-3.0")), None);
    assert_eq!(problem("a", Some("Apache-2.0 WITH LLVM-exception OR GPL-2.0")), None);
    for foul in
        ["GPL-3.0", "Unlicense", "MIT AND GPL-2.0", "Apache-2.0 WITH Other-exception", "(MIT", "MIT OR", "MIT MIT", ""]
    {
        assert!(problem("a", Some(foul)).is_some(), "{foul}");
    }
    assert!(problem("a", None).is_some());
}
