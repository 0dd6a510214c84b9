//! `reflex.toml`: read, checked with file, line, column and snippet, and flattened to `section.key`.

use std::collections::BTreeMap;
use std::path::Path;

use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource, Report};

use crate::cli::exit::{Exit, Failure};
use crate::cli::settings::model::Settings;

/// Largest settings file, in bytes; over: refused.
const FILE_BYTES_MAX: u64 = 1_048_576;

/// Reads and checks a file; gives its values by `section.key`.
///
/// # Errors
/// Exit 66 for a missing file, 78 for one that is wrong, with file, line, column and snippet.
pub fn read(path: &Path, colours: bool) -> Result<BTreeMap<String, toml::Value>, Failure> {
    let name = path.display();
    let problem = |error: std::io::Error| {
        let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NoInput } else { Exit::Configuration };
        Failure::new(exit, format_args!("{name}: {error}"))
    };
    if std::fs::metadata(path).map_err(problem)?.len() > FILE_BYTES_MAX {
        return Err(Failure::new(Exit::Configuration, format_args!("{name}: larger than {FILE_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(problem)?;
    parse(&text, &name.to_string(), colours).map_err(|message| Failure::new(Exit::Configuration, message))
}

/// Checks a text; the error is ready to print.
///
/// # Errors
/// File, line, column, what is wrong, snippet.
pub fn parse(text: &str, name: &str, colours: bool) -> Result<BTreeMap<String, toml::Value>, String> {
    let deserializer = toml::Deserializer::parse(text)
        .map_err(|error| render(text, name, error.span(), error.message().to_owned(), colours))?;
    serde_path_to_error::deserialize::<_, Settings>(deserializer).map_err(|error| {
        let (path, inner) = (error.path().to_string(), error.inner());
        let message = if path == "." { inner.message().to_owned() } else { format!("{path}: {}", inner.message()) };
        render(text, name, inner.span(), message, colours)
    })?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let mut values = BTreeMap::new();
    flatten("", table, &mut values);
    Ok(values)
}

/// Leaves by dotted path.
pub fn flatten(prefix: &str, table: toml::Table, values: &mut BTreeMap<String, toml::Value>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&path, inner, values),
            leaf => drop(values.insert(path, leaf)),
        }
    }
}

fn render(text: &str, name: &str, span: Option<std::ops::Range<usize>>, message: String, colours: bool) -> String {
    let start = span.as_ref().map_or(0, |span| span.start).min(text.len());
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let heading = format!("{name}:{line}:{column}: {message}");
    let mut diagnostic = MietteDiagnostic::new(message);
    if let Some(span) = span {
        diagnostic = diagnostic.with_label(LabeledSpan::underline(span));
    }
    let report = Report::new(diagnostic).with_source_code(NamedSource::new(name, text.to_owned()));
    let theme = if colours { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let mut snippet = String::new();
    let rendered = GraphicalReportHandler::new_themed(theme).render_report(&mut snippet, report.as_ref());
    if rendered.is_ok() { format!("{heading}\n{}", snippet.trim_end()) } else { heading }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_shown_where_it_stands() {
        let error = parse("group = \"g\"\n[topics]\nevent = \"e\"\n", "reflex.toml", false).expect_err("unknown key");
        assert!(error.starts_with("reflex.toml:3:1: topics.event: unknown field `event`"), "{error}");
        assert!(error.contains("event = \"e\""), "{error}");
    }

    #[test]
    fn a_value_of_the_wrong_type_and_broken_syntax_are_shown_where_they_stand() {
        let error = parse("workers = \"two\"\n", "f", false).expect_err("wrong type");
        assert!(error.starts_with("f:1:11: workers: invalid type"), "{error}");
        let error = parse("workers = \n", "f", false).expect_err("no TOML");
        assert!(error.starts_with("f:1:"), "{error}");
    }

    #[test]
    fn kafka_properties_may_be_quoted_or_dotted() {
        let values = parse("[kafka]\nsasl.password = \"x\"\n\"ssl.ca.location\" = \"y\"\n", "f", false).expect("valid");
        assert_eq!(values.keys().collect::<Vec<_>>(), ["kafka.sasl.password", "kafka.ssl.ca.location"]);
    }
}
