//! What is wrong with a registry file, and where: one [`Problem`] each, with the line it stands in.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// Most problems that are kept; what comes after them is not reported, unless it would be the only error.
pub const PROBLEMS_MAX: usize = 1000;
/// Longest snippet, in characters; of a longer line it is what stands around the mark.
const SNIPPET_CHARS_MAX: usize = 200;

/// One registry file, already read: the core does no IO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name as reported; registry order is the order of names.
    pub name: String,
    /// The whole TOML text.
    pub text: String,
}

/// Whether a registry with the problem may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It may not.
    Error,
    /// It may, but something in it cannot work as written.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Error or warning.
    pub severity: Severity,
    /// Stable word for the kind of problem.
    pub code: &'static str,
    /// Name of the file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Length of the marked text in characters, at least 1; never beyond the end of the line.
    pub length: usize,
    /// Path of the field, then what is wrong with it.
    pub message: String,
    /// The whole line; of a long one what stands around the mark.
    pub snippet: String,
}

impl Problem {
    /// Whether a registry with it must not be used.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let Self { code, file, line, column, message, .. } = self;
        write!(f, "{file}:{line}:{column}: {severity}[{code}] {message}")
    }
}

/// A place in one of the files: index of the file, bytes of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index into the files.
    pub file: usize,
    /// Bytes in its text.
    pub span: Range<usize>,
}

/// Line and column of a place, from 1, the line's text, and how many characters of it are marked.
struct Located<'a> {
    line: usize,
    column: usize,
    length: usize,
    snippet: &'a str,
}

fn locate<'a>(text: &'a str, span: &Range<usize>) -> Located<'a> {
    let start = floor(text, span.start);
    let end = floor(text, span.end.max(start));
    let before = text.get(..start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = text.get(start..).and_then(|rest| rest.find('\n')).map_or(text.len(), |newline| start + newline);
    let marked = text.get(start..end.min(line_end)).unwrap_or_default();
    Located {
        line: before.matches('\n').count() + 1,
        column: text.get(line_start..start).unwrap_or_default().chars().count() + 1,
        length: marked.trim_end().chars().count().max(1),
        snippet: text.get(line_start..line_end).unwrap_or_default().trim_end_matches('\r'),
    }
}

/// A line, or what stands around a column of a long one.
fn around(line: &str, column: usize) -> String {
    if line.chars().count() <= SNIPPET_CHARS_MAX {
        return line.to_owned();
    }
    let start = column.saturating_sub(SNIPPET_CHARS_MAX / 2);
    let before = if start > 0 { "…" } else { "" };
    let mut rest = line.chars().skip(start);
    let shown: String = rest.by_ref().take(SNIPPET_CHARS_MAX).collect();
    let after = if rest.next().is_some() { "…" } else { "" };
    format!("{before}{shown}{after}")
}

/// The nearest character boundary at or before `index`.
fn floor(text: &str, index: usize) -> usize {
    let index = index.min(text.len());
    (0..=index).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0)
}

/// Collects problems of a set of files.
pub struct Reporter<'a> {
    files: &'a [SourceFile],
    problems: Vec<Problem>,
}

impl<'a> Reporter<'a> {
    /// Nothing wrong so far.
    #[must_use]
    pub fn new(files: &'a [SourceFile]) -> Self {
        Self { files, problems: Vec::new() }
    }

    /// Adds an error.
    pub fn error(&mut self, place: &Place, code: &'static str, message: &dyn fmt::Display) {
        self.add(Severity::Error, place, code, message);
    }

    /// Adds a warning.
    pub fn warning(&mut self, place: &Place, code: &'static str, message: &dyn fmt::Display) {
        self.add(Severity::Warning, place, code, message);
    }

    fn add(&mut self, severity: Severity, place: &Place, code: &'static str, message: &dyn fmt::Display) {
        let Some(file) = self.files.get(place.file) else { return };
        if self.problems.len() >= PROBLEMS_MAX && (severity == Severity::Warning || self.has_errors()) {
            return;
        }
        let Located { line, column, length, snippet } = locate(&file.text, &place.span);
        self.problems.push(Problem {
            severity,
            code,
            file: file.name.clone(),
            line,
            column,
            length,
            message: message.to_string(),
            snippet: around(snippet, column),
        });
    }

    /// `FILE:LINE:COLUMN` of a place, for messages that name a second one.
    #[must_use]
    pub fn at(&self, place: &Place) -> String {
        self.files.get(place.file).map_or_else(String::new, |file| {
            let located = locate(&file.text, &place.span);
            format!("{}:{}:{}", file.name, located.line, located.column)
        })
    }

    /// Whether an error is among the problems.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }

    /// All problems by file, line and column; those of one place in the order they were found.
    #[must_use]
    pub fn into_problems(mut self) -> Vec<Problem> {
        self.problems.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        self.problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_shown_around_the_mark_and_problems_beyond_the_limit_are_not_kept() {
        let text = format!("{}mark{}", "a".repeat(5000), "b".repeat(5000));
        let files = [SourceFile { name: "a".into(), text }];
        let mut report = Reporter::new(&files);
        for _ in 0..PROBLEMS_MAX + 5 {
            report.warning(&Place { file: 0, span: 5000..5004 }, "w", &"m");
        }
        assert!(!report.has_errors());
        report.error(&Place { file: 0, span: 5000..5004 }, "e", &"m");
        report.error(&Place { file: 0, span: 5000..5004 }, "e", &"m");
        let found = report.into_problems();
        assert_eq!(found.len(), PROBLEMS_MAX + 1, "one error at least");
        let snippet = &found[0].snippet;
        assert!(snippet.chars().count() == SNIPPET_CHARS_MAX + 2 && snippet.contains("amarkb"), "{snippet}");
        assert_eq!((found[0].column, found[0].length), (5001, 4));
    }

    #[test]
    fn columns_count_characters_and_marks_end_with_the_line() {
        let files = [SourceFile { name: "a.toml".into(), text: "x = 1\r\nä = \"größer\"\nz".into() }];
        let mut report = Reporter::new(&files);
        let start = files[0].text.find("größer").expect("there");
        report.error(&Place { file: 0, span: start..files[0].text.len() }, "c", &"m");
        report.error(&Place { file: 0, span: 0..1 }, "c", &"m");
        report.error(&Place { file: 0, span: 999..1000 }, "c", &"m");
        let found: Vec<_> =
            report.into_problems().into_iter().map(|p| (p.line, p.column, p.length, p.snippet)).collect();
        assert_eq!(
            found,
            [(1, 1, 1, "x = 1".into()), (2, 6, 7, "ä = \"größer\"".into()), (3, 2, 1, String::from("z"))]
        );
    }
}
