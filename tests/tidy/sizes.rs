//! Sizes: small by ratchet.

use crate::assert_none;
use crate::source;
use crate::tree::{self, File};

const SOURCE_LINES_MAX: usize = 400;
const SOURCE_LINES_MEDIAN_MAX: usize = 200;
const TEST_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 60;

fn too_long(file: &File) -> Option<String> {
    let source = file.path.starts_with("src/") && file.has_extension("rs");
    let max = match source {
        true => SOURCE_LINES_MAX,
        false if file.has_extension("rs") || file.has_extension("py") => TEST_LINES_MAX,
        false => return None,
    };
    let lines = file.text.lines().count();
    (lines > max).then(|| format!("{}:{}: {lines} lines, at most {max}: split it by what it does", file.path, max + 1))
}

fn long_functions(file: &File) -> Vec<String> {
    let measured: Vec<(usize, String, usize)> = if file.has_extension("rs") {
        let code = source::code(&file.text);
        source::functions(&code).iter().map(|f| (f.line, f.name.to_owned(), f.lines)).collect()
    } else if file.has_extension("py") {
        python_functions(&file.text)
    } else {
        Vec::new()
    };
    let long = measured.into_iter().filter(|(_, _, lines)| *lines > FUNCTION_LINES_MAX);
    long.map(|(line, name, lines)| {
        format!("{}:{line}: `{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}", file.path)
    })
    .collect()
}

/// (line, name, lines of the body that are not blank) of each `def`.
fn python_functions(text: &str) -> Vec<(usize, String, usize)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(rest) = line.trim_start().trim_start_matches("async ").strip_prefix("def ") else { continue };
        let head = lines[at..].iter().position(|line| line.trim_end().ends_with(':')).unwrap_or(0);
        let body = lines[at + head + 1..].iter().filter(|line| !line.trim().is_empty());
        let length = body.take_while(|inner| indent(inner) > indent(line)).count();
        let name = rest.split('(').next().unwrap_or(rest);
        // A table of cases written by hand is data, however long.
        if !name.starts_with("cases_of_") {
            found.push((at + 1, name.to_owned(), length));
        }
    }
    found
}

fn median(mut sizes: Vec<usize>) -> usize {
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied().unwrap_or(0)
}

#[test]
fn files_are_small() {
    let found: Vec<String> = tree::files().iter().filter_map(too_long).collect();
    assert_none("Files: src 400 lines, other Rust and Python 500.", &found);
}

#[test]
fn the_median_file_is_smaller() {
    let files = tree::rust_files();
    let sizes = files.iter().filter(|file| file.path.starts_with("src/")).map(|file| file.text.lines().count());
    let median = median(sizes.collect());
    assert!(median <= SOURCE_LINES_MEDIAN_MAX, "the median file in src has {median} lines");
}

#[test]
fn functions_are_small() {
    let found: Vec<String> = tree::files().iter().flat_map(long_functions).collect();
    assert_none("Functions: 60 lines that are neither blank nor comment.", &found);
}

#[test]
fn clippy_holds_the_same_size() {
    let settings: toml::Table = tree::text("clippy.toml").parse().expect("clippy.toml is TOML");
    assert_eq!(settings["too-many-lines-threshold"].as_integer(), Some(60), "clippy.toml: too-many-lines-threshold");
}

#[test]
fn planted_sizes_are_found() {
    let lines = |count: usize| "x();\n".repeat(count);
    assert!(too_long(&File::planted("src/a.rs", &lines(401))).is_some());
    assert!(too_long(&File::planted("src/a.rs", &lines(400))).is_none());
    assert!(too_long(&File::planted("tests/a.py", &lines(501))).is_some());
    let function = |count: usize| format!("fn long() {{\n{}}}\n", lines(count));
    assert_eq!(long_functions(&File::planted("src/a.rs", &function(61))).len(), 1);
    assert_eq!(long_functions(&File::planted("src/a.rs", &function(60))).len(), 0);
    let python = |count: usize| format!("def long(\n    a,\n):\n{}x = 1\n", "    y()\n\n".repeat(count));
    assert_eq!(long_functions(&File::planted("a.py", &python(61))).len(), 1);
    assert_eq!(long_functions(&File::planted("a.py", &python(60))).len(), 0);
    assert_eq!(median(vec![9, 1, 5]), 5);
}
