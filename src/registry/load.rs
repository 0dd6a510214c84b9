//! Files to registry: read, check, build. Nothing is half loaded.

use crate::registry::lint;
use crate::registry::model::Registry;
use crate::registry::origin::Origins;
use crate::registry::problem::{Place, Problem, Reporter, SourceFile};
use crate::registry::{build, check, read};

/// A registry with where its parts were written, and what is doubtful about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The registry.
    pub registry: Registry,
    /// Where everything was written.
    pub origins: Origins,
    /// Warnings, by file, line and column.
    pub warnings: Vec<Problem>,
}

/// Loads a registry from the texts of its files; their order is that of their names.
///
/// # Errors
/// Every problem of every table of every file, warnings included, by file, line and column; at least one is an error.
pub fn load(files: &[SourceFile]) -> Result<Loaded, Vec<Problem>> {
    let mut files = files.to_vec();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let mut report = Reporter::new(&files);
    not_utf8(&files, &mut report);
    let tables = read::tables(&files, &mut report);
    check::check(&tables, &mut report);
    if report.has_errors() {
        return Err(report.into_problems());
    }
    let warnings = report.into_problems();
    let (registry, origins) = build::build(tables, &files);
    Ok(Loaded { registry, origins, warnings })
}

/// A byte that is no UTF-8 comes as U+FFFD; nobody writes that character on purpose.
pub fn not_utf8(files: &[SourceFile], report: &mut Reporter<'_>) {
    for (file, source) in files.iter().enumerate() {
        if let Some(at) = source.text.find('\u{fffd}') {
            let place = Place { file, span: at..at + '\u{fffd}'.len_utf8() };
            report.error(&place, "not_utf8", &"not UTF-8 here: save the file as UTF-8");
        }
    }
}

/// Loads a registry and lints it: what every program that uses one does.
///
/// # Errors
/// As [`load`], errors of [`lint`](lint::lint) included.
pub fn load_and_lint(files: &[SourceFile]) -> Result<Loaded, Vec<Problem>> {
    let mut loaded = load(files)?;
    loaded.warnings.extend(lint::lint(&loaded.registry, &loaded.origins));
    loaded.warnings.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    let failed = loaded.warnings.iter().any(Problem::is_error);
    if failed { Err(loaded.warnings) } else { Ok(loaded) }
}
