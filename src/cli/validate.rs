//! `reflex validate`: is the registry in order? Also how every other verb loads one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource, Report};

use crate::cli::exit::{Exit, Failure};
use crate::registry::problem::PROBLEMS_MAX;
use crate::registry::{Loaded, Problem, Registry, Severity, SourceFile, load_and_lint};

/// Longest line that is shown with a mark under it; of a longer one there is a part, as of a manifest in one line.
const LINE_CHARS_MAX: usize = 200;

/// Arguments of `validate` beside the common ones.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Args {
    /// Fail on warnings too.
    #[arg(long, env = "REFLEX_DENY_WARNINGS")]
    pub deny_warnings: bool,
}

/// Validates the registry in `dir`, with `limits` set anew (`--set limits.NAME=VALUE`). Problems go to stderr for a person, with `json` to stdout as one array.
///
/// # Errors
/// A [`Failure`] of exit 66 where the folder or a file of it cannot be read. A registry that is not in order is no
/// failure of this verb: it is [`Exit::Configuration`].
pub fn run(dir: &Path, limits: &BTreeMap<String, String>, deny_warnings: bool, json: bool) -> Result<Exit, Failure> {
    let files = read_folder(dir)?;
    let (registry, problems) = match load_and_lint(&files) {
        Ok(Loaded { registry, warnings, .. }) => (Some(registry), warnings),
        Err(problems) => (None, problems),
    };
    let registry = match registry.map(|registry| registry.with_settings(limits)) {
        Some(Err(problem)) => return Err(Failure::new(Exit::Configuration, problem)),
        set => set.and_then(Result::ok),
    };
    let refused = registry.is_none() || (deny_warnings && !problems.is_empty());
    if json {
        let array = serde_json::to_string_pretty(&problems).map_err(|error| Failure::new(Exit::Bug, error))?;
        print(&mut io::stdout(), &array)?;
    } else {
        print(&mut io::stderr(), &render(&problems, &files))?;
        match &registry {
            Some(registry) if !refused => print(&mut io::stdout(), &summary(registry, &problems))?,
            _ => print(&mut io::stderr(), &counted(&problems))?,
        }
    }
    Ok(if refused { Exit::Configuration } else { Exit::Done })
}

/// Loads and lints the registry in `dir`, for verbs that need one. Warnings are in the result.
///
/// # Errors
/// Exit 66 where it cannot be read; exit 78, with every problem rendered, where it is not in order.
pub fn load_folder(dir: &Path) -> Result<Loaded, Failure> {
    let files = read_folder(dir)?;
    load_and_lint(&files).map_err(|problems| {
        let message = format!("{}{}", render(&problems, &files), counted(&problems));
        Failure::new(Exit::Configuration, message)
    })
}

/// The `*.toml` files of a folder by name; they are named by their paths.
///
/// # Errors
/// Exit 66 where the folder is missing, holds no such file, or one cannot be read.
pub fn read_folder(dir: &Path) -> Result<Vec<SourceFile>, Failure> {
    let files = files_of(dir)?;
    if files.is_empty() {
        return Err(Failure::new(Exit::NoInput, format_args!("{}: no *.toml file in it", dir.display())));
    }
    Ok(files)
}

/// As [`read_folder`], but there may be none.
///
/// # Errors
/// Exit 66 where the folder is missing or a file cannot be read.
pub fn files_of(dir: &Path) -> Result<Vec<SourceFile>, Failure> {
    let unreadable =
        |path: &Path, error: &io::Error| Failure::new(Exit::NoInput, format_args!("{}: {error}", path.display()));
    let entries = fs::read_dir(dir).map_err(|error| {
        let message = format!("registry folder {}: {error}; --registry DIR says where it is", dir.display());
        Failure::new(Exit::NoInput, message)
    })?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(dir, &error))?.path();
        // Editors leave hidden files beside the ones they edit.
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.extension().is_some_and(|extension| extension == "toml") && path.is_file() && !hidden {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
        // What is not UTF-8 is marked, and found by the check of the texts with all the other problems.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(SourceFile { name: path.display().to_string(), text })
    };
    paths.into_iter().map(read).collect()
}

fn print(to: &mut impl io::Write, text: &str) -> Result<(), Failure> {
    let text = text.trim_end();
    if text.is_empty() {
        return Ok(());
    }
    writeln!(to, "{text}").map_err(|error| Failure::new(Exit::TryAgain, error))
}

/// Problems as a person reads them: message, place, the line with the mark. Colours only on a terminal and without
/// `NO_COLOR`.
#[must_use]
pub fn render(problems: &[Problem], files: &[SourceFile]) -> String {
    let colours = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let theme = if colours { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    // No line is broken inside a path or a name: terminals wrap by themselves.
    let handler = GraphicalReportHandler::new_themed(theme).with_wrap_lines(false).with_links(false);
    let mut text = String::new();
    for problem in problems {
        if problem.snippet.chars().count() > LINE_CHARS_MAX {
            // The renderer would show the whole line.
            let _ = write!(text, "  {problem}\n  {}\n\n", problem.snippet);
            continue;
        }
        let source = files.iter().find(|file| file.name == problem.file).map_or("", |file| file.text.as_str());
        let severity = match problem.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        };
        let diagnostic = MietteDiagnostic::new(problem.message.clone())
            .with_code(problem.code)
            .with_severity(severity)
            .with_label(LabeledSpan::underline(bytes(problem, source)));
        let report = Report::new(diagnostic).with_source_code(NamedSource::new(&problem.file, source.to_owned()));
        let mut rendered = String::new();
        if handler.render_report(&mut rendered, report.as_ref()).is_err() {
            rendered = problem.to_string();
        }
        text.push_str(&placed(&rendered, problem));
        text.push('\n');
    }
    text
}

/// The renderer counts columns in bytes; people and editors count characters.
fn placed(rendered: &str, problem: &Problem) -> String {
    let head = format!("[{}:", problem.file);
    match rendered.split_once(&head).and_then(|(before, after)| Some((before, after.split_once(']')?))) {
        Some((before, (_, after))) => format!("{before}{head}{}:{}]{after}", problem.line, problem.column),
        None => rendered.to_owned(),
    }
}

/// Where the problem stands in the text, in bytes.
fn bytes(problem: &Problem, text: &str) -> std::ops::Range<usize> {
    let line_start: usize = text.split_inclusive('\n').take(problem.line - 1).map(str::len).sum();
    let line = text.get(line_start..).unwrap_or_default();
    let at = |column: usize| line.char_indices().nth(column).map_or(line.len(), |(index, _)| index);
    let start = at(problem.column - 1);
    line_start + start..line_start + at(problem.column - 1 + problem.length).max(start)
}

/// How many errors and warnings.
pub fn counted(problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.is_error()).count();
    let first = if problems.len() >= PROBLEMS_MAX { "; more than these are not shown" } else { "" };
    format!("{}, {}{first}", plural(errors, "error"), plural(problems.len() - errors, "warning"))
}

fn summary(registry: &Registry, problems: &[Problem]) -> String {
    let parts = [
        (registry.shapes.len(), "shape rule"),
        (registry.signals.len(), "signal"),
        (registry.responses.len(), "response"),
        (registry.recovery_policies.len(), "recovery policy"),
        (registry.graphs.len(), "graph"),
        (problems.len(), "warning"),
    ];
    let parts: Vec<_> = parts.into_iter().map(|(number, noun)| plural(number, noun)).collect();
    format!("registry {}: {}", registry.version, parts.join(", "))
}

fn plural(number: usize, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, bytes) in files {
            fs::write(dir.path().join(name), bytes).expect("written");
        }
        dir
    }

    const DOUBTFUL: &[u8] = b"[[signal]]\ncode = \"a\"\nowner = \"team\"\nmatch = { node = \"n\" }\n";

    #[test]
    fn exit_codes_tell_missing_broken_doubtful_and_right() {
        let code = |files: &[(&str, &[u8])], deny: bool| {
            run(folder(files).path(), &BTreeMap::new(), deny, true).map_err(|it| it.exit)
        };
        let missing = run(Path::new("/no/such/folder"), &BTreeMap::new(), false, false).map_err(|it| it.exit);
        assert_eq!(missing, Err(Exit::NoInput));
        assert_eq!(code(&[("a.txt", b"")], false), Err(Exit::NoInput));
        assert_eq!(code(&[("a.toml", b"\xff")], false), Ok(Exit::Configuration));
        assert_eq!(code(&[("a.toml", b"x = 1")], false), Ok(Exit::Configuration));
        assert_eq!(code(&[("a.toml", DOUBTFUL)], false), Ok(Exit::Done));
        assert_eq!(code(&[("a.toml", DOUBTFUL)], true), Ok(Exit::Configuration));
        assert_eq!(code(&[("a.toml", b"")], true), Ok(Exit::Done));
    }

    #[test]
    fn files_are_read_by_name_and_only_toml() {
        let dir = folder(&[("b.toml", b""), ("a.toml", b"# \xc3\xa4"), ("c.md", b"no")]);
        let files = read_folder(dir.path()).expect("readable");
        let names: Vec<_> = files.iter().map(|file| file.name.rsplit('/').next().unwrap_or_default()).collect();
        assert_eq!(names, ["a.toml", "b.toml"]);
        assert_eq!(files[0].text, "# \u{e4}");
    }

    #[test]
    fn other_verbs_get_every_problem_rendered() {
        let dir = folder(&[("a.toml", b"# gr\xc3\xb6\xc3\x9fer\n[[signal]]\ncode = 5\n"), ("b.toml", b"[[signal]]\n")]);
        let failure = load_folder(dir.path()).expect_err("broken");
        assert_eq!(failure.exit, Exit::Configuration);
        for wanted in ["signal[0].code: invalid type", "a.toml:3:8", "code = 5", "b.toml:1:1", "2 errors, 0 warnings"] {
            assert!(failure.message.contains(wanted), "{wanted} not in\n{}", failure.message);
        }
        assert!(!failure.message.contains('\u{1b}'), "no colours beside a terminal");
    }
}
