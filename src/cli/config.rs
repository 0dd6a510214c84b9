//! `reflex config show`: every setting in force and where it came from, secrets masked.

use std::io::Write;

use clap::Subcommand;
use serde_json::json;

use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;

/// What to do about settings.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Print every setting, its value and where it came from.
    Show,
}

/// Shows the settings.
///
/// # Errors
/// Exit 75 where the output cannot be written.
pub fn run(verb: &Verb, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let Verb::Show = verb;
    // Limits that nobody sets are those of the registry.
    let limits = resolved.limits.iter().map(|(key, text)| (key.as_str(), limit(text), "flag --set".to_owned()));
    let lines: Vec<(&str, toml::Value, String)> =
        resolved.shown().map(|(key, value, source)| (key, value, source.to_string())).chain(limits).collect();
    let written = match resolved.settings.output {
        Output::Table => {
            let wide = |widths: &mut dyn Iterator<Item = usize>| widths.max().unwrap_or(0);
            let (keys, values) = (
                wide(&mut lines.iter().map(|(key, ..)| key.len())),
                wide(&mut lines.iter().map(|(_, value, _)| value.to_string().chars().count())),
            );
            lines.iter().try_for_each(|(key, value, source)| {
                writeln!(out, "{key:keys$}  {:values$}  {source}", value.to_string())
            })
        }
        Output::Json => {
            let all: Vec<_> = lines.iter().map(as_json).collect();
            serde_json::to_writer_pretty(&mut *out, &all).map_err(Into::into).and_then(|()| writeln!(out))
        }
        Output::Ndjson => lines.iter().try_for_each(|line| writeln!(out, "{}", as_json(line))),
    };
    written.map_err(unwritable)?;
    Ok(Exit::Done)
}

/// A limit is a number, checked where the registry is loaded.
fn limit(text: &str) -> toml::Value {
    text.parse::<i64>().map_or_else(|_| text.into(), Into::into)
}

fn as_json((key, value, source): &(&str, toml::Value, String)) -> serde_json::Value {
    json!({ "key": key, "value": value, "source": source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::settings::{Flags, resolve};

    #[test]
    fn limits_that_are_set_are_shown() {
        let set = ["limits.lateness_ms_max=0".to_owned(), "output=ndjson".to_owned()].to_vec();
        let resolved = resolve(&Flags { set, ..Flags::default() }, std::iter::empty(), false).expect("valid settings");
        let mut out = Vec::new();
        run(&Verb::Show, &resolved, &mut out).expect("shown");
        let text = String::from_utf8(out).expect("text");
        let line = r#"{"key":"limits.lateness_ms_max","source":"flag --set","value":0}"#;
        assert!(text.lines().any(|shown| shown == line), "{text}");
    }

    #[test]
    fn both_forms_show_values_and_sources_and_no_secrets() {
        for (output, expected) in [("table", "flag --set"), ("json", "\"source\": \"flag --set\"")] {
            let set = [format!("output={output}"), "kafka.sasl.password=hunter2".to_owned()].to_vec();
            let resolved =
                resolve(&Flags { set, ..Flags::default() }, std::iter::empty(), false).expect("valid settings");
            let mut out = Vec::new();
            run(&Verb::Show, &resolved, &mut out).expect("shown");
            let text = String::from_utf8(out).expect("text");
            assert!(text.contains(expected) && text.contains("kafka.sasl.password"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
