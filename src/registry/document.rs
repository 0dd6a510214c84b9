//! A file as TOML documents that can be parsed: the whole text, or, around syntax errors, header by header.

use std::borrow::Cow;
use std::ops::Range;

use toml::de::DeTable;

use crate::registry::problem::{Place, Reporter};

/// Kinds of tables that may be written many times: `[[signal]]`.
pub const LISTS: [&str; 5] = ["shape", "signal", "response", "recovery_policy", "graph"];
/// Tables whose keys may be spread over files, each key once: `[limits]`.
pub const SINGLES: [&str; 2] = ["defaults", "limits"];

/// A piece of a file; its spans are those of the whole text.
#[derive(Debug)]
pub struct Document<'a> {
    /// Index of the file.
    pub file: usize,
    /// The text, padded in front; nothing where it cannot be parsed.
    pub text: Option<Cow<'a, str>>,
    /// The kind of table it begins with.
    pub kind: Option<&'static str>,
}

/// Splits a file into documents and reports its syntax errors, one for each table that has some.
#[must_use]
pub fn split<'a>(file: usize, text: &'a str, report: &mut Reporter<'_>) -> Vec<Document<'a>> {
    let Err(whole) = DeTable::parse(text) else {
        return vec![Document { file, text: Some(Cow::Borrowed(text)), kind: None }];
    };
    // A syntax error may swallow what follows it (an open quote, an open bracket): parsing from header to header
    // reads the tables after it.
    let mut documents = Vec::new();
    for part in parts(text) {
        let own = text.get(part.clone()).unwrap_or_default();
        let padded = format!("{}{own}", " ".repeat(part.start));
        let parsed = DeTable::parse(&padded).map(drop);
        if let Err(error) = &parsed {
            let span = error.span().unwrap_or(part);
            report.error(&Place { file, span }, "syntax", &error.message());
        }
        documents.push(Document { file, text: parsed.is_ok().then_some(Cow::Owned(padded)), kind: header(own) });
    }
    if documents.iter().all(|document| document.text.is_some()) {
        // Right piece by piece: the same `[limits]` twice, say.
        report.error(&Place { file, span: whole.span().unwrap_or(0..0) }, "syntax", &whole.message());
    }
    documents
}

/// The parts of a text that begin with the header of a table of the top level, and what stands before the first.
fn parts(text: &str) -> Vec<Range<usize>> {
    let mut starts = vec![0];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if at > 0 && header(line).is_some() {
            starts.push(at);
        }
        at += line.len();
    }
    let ends: Vec<_> = starts.iter().skip(1).copied().chain([text.len()]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| start..end).collect()
}

/// The kind of table whose header the text begins with: `[[signal]]`, `[limits]`; broken brackets included.
fn header(text: &str) -> Option<&'static str> {
    let inside = text.trim_start().strip_prefix('[')?;
    let name = inside.strip_prefix('[').unwrap_or(inside).trim_start();
    let name = name.get(..name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len()))?;
    let after = inside.trim_start_matches('[').trim_start().get(name.len()..)?;
    let dotted = after.trim_start().starts_with('.');
    LISTS.into_iter().chain(SINGLES).find(|kind| *kind == name && !dotted)
}
