//! `reflex registry lint | import | diff | push | activate | list | show`: versions of the registry, from a folder to every task.

use std::io::Write;
use std::path::Path;

use clap::Subcommand;
use serde_json::{Value, json};

use crate::cli::decide::{Why, operator};
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::cli::table::{Table, clean, write_values};
use crate::cli::{import, registry, validate};
use crate::engine::operator::registry_topic::{Pushed, Version, Versions, push, versions};
use crate::registry::{Registry, diff};

/// Shortest beginning of a version that is taken for it.
const PREFIX_CHARS_MIN: usize = 6;

/// What to do with versions.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Check the folder, without a broker: as `reflex validate`.
    Lint(validate::Args),
    /// Make a file of the registry out of graph manifests that runtimes write; what they do not say stays as it was.
    Import(import::Args),
    /// What changes from the active version to the folder's; exit 1 where something does.
    Diff,
    /// Write the folder's version and activate it in every task, in one transaction. Again and again is fine.
    Push(PushArgs),
    /// Activate a version that is on the topic already.
    Activate(ActivateArgs),
    /// The versions on the topic, the active one last.
    List,
    /// One version whole.
    Show {
        /// Its hash, or the beginning of it
        version: String,
    },
}

/// Arguments of `push`.
#[derive(Debug, clap::Args)]
pub struct PushArgs {
    #[command(flatten)]
    why: Why,
    /// Refuse a folder with warnings
    #[arg(long, env = "REFLEX_DENY_WARNINGS")]
    deny_warnings: bool,
}

/// Arguments of `activate`.
#[derive(Debug, clap::Args)]
pub struct ActivateArgs {
    /// Its hash, or the beginning of it
    version: String,
    #[command(flatten)]
    why: Why,
}

/// Does it.
///
/// # Errors
/// Exit 78 for a folder that is not in order, 64 for a beginning of a version that is too short, 66 for a version that is not there, 69 without broker or topic, 75 where a
/// transaction did not go through.
pub fn run(verb: &Verb, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let output = resolved.settings.output;
    match verb {
        Verb::Lint(args) => {
            let folder = Path::new(&resolved.settings.registry);
            validate::run(folder, &resolved.limits, args.deny_warnings, output != Output::Table)
        }
        Verb::Import(args) => import::run(args, resolved, out),
        Verb::Diff => compare(resolved, out),
        Verb::Push(args) => {
            if args.deny_warnings {
                let warnings = validate::load_folder(Path::new(&resolved.settings.registry))?.warnings;
                if let Some(first) = warnings.first() {
                    let message =
                        format!("{first}\n{} warnings in all: `reflex registry lint` shows them", warnings.len());
                    return Err(Failure::new(Exit::Configuration, message));
                }
            }
            activate(&*registry(resolved)?, &args.why, resolved, out)
        }
        Verb::Activate(args) => {
            let versions = versions(&operator(resolved)?)?;
            activate(usable(find(&versions, &args.version)?)?, &args.why, resolved, out)
        }
        Verb::List => list(&versions(&operator(resolved)?)?, output, out),
        Verb::Show { version } => {
            let versions = versions(&operator(resolved)?)?;
            let registry = usable(find(&versions, version)?)?;
            let text = match output {
                Output::Ndjson => registry.canonical_json(),
                Output::Table | Output::Json => {
                    serde_json::to_string_pretty(&json(registry)?).map_err(|error| Failure::new(Exit::Bug, error))?
                }
            };
            writeln!(out, "{text}").map_err(unwritable)?;
            Ok(Exit::Done)
        }
    }
}

fn json(registry: &Registry) -> Result<Value, Failure> {
    serde_json::from_str(&registry.canonical_json()).map_err(|error| Failure::new(Exit::Bug, error))
}

fn activate(registry: &Registry, why: &Why, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let (reason, author) = why.checked()?;
    let version = &registry.version;
    let (words, activated, tasks) = match push(&operator(resolved)?, registry, &reason, &author)? {
        Pushed::Again(sent) => ("active already; sent again for tasks that never had it", false, sent.tasks()),
        Pushed::Activated(sent) => ("activated; each task decides by it from its next record on", true, sent.tasks()),
    };
    let written = match resolved.settings.output {
        Output::Table => writeln!(out, "registry {version}: {words}"),
        _ => writeln!(out, "{}", json!({ "version": version, "activated": activated, "tasks": tasks })),
    };
    written.map_err(unwritable)?;
    Ok(Exit::Done)
}

fn compare(resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let folder = registry(resolved)?;
    let versions = versions(&operator(resolved)?)?;
    let active = versions.active().map(usable).transpose()?;
    let changes = diff(active, &folder);
    let differs = active.is_none_or(|active| active.version != folder.version);
    let from = active.map_or("nothing", |active| active.version.as_str());
    let written = match resolved.settings.output {
        Output::Table if differs => writeln!(out, "active {from}, folder {}", folder.version)
            .and_then(|()| changes.iter().try_for_each(|change| writeln!(out, "{}", clean(&change.to_string())))),
        Output::Table => writeln!(out, "registry {from} is active: no difference"),
        Output::Json => {
            let report =
                json!({ "active": active.map(|active| &active.version), "folder": folder.version, "changes": changes });
            serde_json::to_writer_pretty(&mut *out, &report).map_err(Into::into).and_then(|()| writeln!(out))
        }
        Output::Ndjson => changes.iter().try_for_each(|change| writeln!(out, "{}", json!(change))),
    };
    written.map_err(unwritable)?;
    Ok(if differs { Exit::Found } else { Exit::Done })
}

fn list(versions: &Versions, output: Output, out: &mut dyn Write) -> Result<Exit, Failure> {
    let active = versions.active().map(|version| version.hash.as_str());
    let is_active = |version: &Version| active == Some(version.hash.as_str());
    let time = |version: &Version| version.pushed_at.map(|time| time.to_string()).unwrap_or_default();
    let written = if output == Output::Table {
        let mut table = Table::new(&["version", "active", "pushed_at", "author", "reason"]);
        for version in &versions.list {
            let state = match (&version.registry, is_active(version)) {
                (Err(_), _) => "unusable",
                (Ok(_), true) => "active",
                (Ok(_), false) => "",
            };
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            table.row(&[&version.hash, state, &time(version), &text(&version.author), &text(&version.reason)]);
        }
        table.write(out)
    } else {
        let one = |version: &Version| {
            json!({
                "version": version.hash, "active": is_active(version), "pushed_at": time(version),
                "author": version.author, "reason": version.reason, "command_id": version.command_id,
                "problem": version.registry.as_ref().err(),
            })
        };
        write_values(output, &versions.list.iter().map(one).collect::<Vec<_>>(), out)
    };
    written.map_err(unwritable)?;
    Ok(Exit::Done)
}

/// A version by its hash, or by a beginning that only one has.
fn find<'a>(versions: &'a Versions, wanted: &str) -> Result<&'a Version, Failure> {
    if let Some(version) = versions.get(wanted) {
        return Ok(version);
    }
    if wanted.len() < PREFIX_CHARS_MIN {
        let message = format!("{}: too short: a version or its first {PREFIX_CHARS_MIN} characters", clean(wanted));
        return Err(Failure::new(Exit::Usage, message));
    }
    let begins = |version: &&Version| version.hash.starts_with(wanted);
    let found: Vec<&Version> = versions.list.iter().filter(begins).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [_, _, ..] => Err(Failure::new(Exit::NoInput, format_args!("{wanted}: several versions begin so"))),
        [] => {
            let message = format!("{}: no such version; `reflex registry list` shows them", clean(wanted));
            Err(Failure::new(Exit::NoInput, message))
        }
    }
}

fn usable(version: &Version) -> Result<&Registry, Failure> {
    version.registry.as_ref().map_err(|problem| {
        Failure::new(Exit::Configuration, format_args!("registry {}: {}", version.hash, clean(problem)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_by_six_characters_and_not_by_fewer() {
        let version = |hash: &str| Version {
            hash: hash.to_owned(),
            pushed_at: None,
            author: None,
            reason: None,
            command_id: None,
            registry: Err("unusable".to_owned()),
        };
        let versions = Versions { list: vec![version("abcdef01"), version("abcdef02"), version("123456ff")] };
        let found = |wanted: &str| {
            let found = find(&versions, wanted).map(|version| version.hash.clone());
            found.map_err(|failure| (failure.exit, failure.message))
        };
        assert_eq!(found("123456").as_deref(), Ok("123456ff"));
        assert_eq!(found("abcdef01").as_deref(), Ok("abcdef01"));
        let words = |wanted: &str| found(wanted).expect_err("not found");
        assert_eq!(words("12345"), (Exit::Usage, "12345: too short: a version or its first 6 characters".into()));
        assert_eq!(words("").0, Exit::Usage);
        assert_eq!(words("abcdef").0, Exit::NoInput);
        assert!(words("1234567").1.contains("no such version"));
    }
}
