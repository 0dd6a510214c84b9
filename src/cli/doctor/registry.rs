//! The registry: the folder, and the version that tasks decide by.

use std::path::Path;
use std::sync::Arc;

use crate::cli::decide::operator;
use crate::cli::doctor::Line;
use crate::cli::exit::{Exit, Failure};
use crate::cli::settings::Resolved;
use crate::cli::{registry, validate};
use crate::engine::operator::registry_topic::versions;
use crate::registry::Registry;

const FOLDER: &str = "registry";
const ACTIVE: &str = "active registry";

/// Whether the folder loads and lints.
pub fn folder(resolved: &Resolved) -> Vec<Line> {
    let path = &resolved.settings.registry;
    match validate::load_folder(Path::new(path)) {
        Ok(loaded) if loaded.warnings.is_empty() => {
            vec![Line::ok(FOLDER, format_args!("{path}: in order, {} signals", loaded.registry.signals.len()))]
        }
        Ok(loaded) => {
            let first = &loaded.warnings[0];
            let words = format!("{path}: {} warnings, the first: {first}", loaded.warnings.len());
            vec![Line::warning(FOLDER, words).remedy("`reflex registry lint` shows them all")]
        }
        Err(failure) if failure.exit == Exit::NoInput => {
            let remedy = "--registry DIR says where it is; processes need it, this check goes by the active version";
            vec![Line::warning(FOLDER, failure.message).remedy(remedy)]
        }
        Err(_) => {
            let words = format!("{path}: not in order");
            vec![Line::failed(FOLDER, Exit::Configuration, words).remedy("`reflex registry lint` shows every problem")]
        }
    }
}

/// Which version is active, and whether it is the folder's.
pub fn active(resolved: &Resolved) -> (Line, Option<Arc<Registry>>) {
    let found = operator(resolved).and_then(|config| Ok(versions(&config)?));
    let versions = match found {
        Ok(versions) => versions,
        Err(failure) => return (Line::of(ACTIVE, &failure), None),
    };
    let Some(active) = versions.active() else {
        let line = Line::failed(ACTIVE, Exit::Found, "no version was ever pushed: tasks read commands only");
        return (line.remedy("`reflex run` pushes its folder at its start, `reflex registry push` does so now"), None);
    };
    let hash = &active.hash;
    let usable = match &active.registry {
        Ok(usable) => Arc::new(usable.clone()),
        Err(problem) => {
            let line = Line::failed(ACTIVE, Exit::Configuration, format_args!("{hash}: {problem}"));
            let remedy = "`reflex registry list` shows the others, `reflex registry activate` goes back to one";
            return (line.remedy(remedy), None);
        }
    };
    let folder: Result<Arc<Registry>, Failure> = registry(resolved);
    let line = match folder {
        Ok(folder) if folder.version != *hash => {
            Line::warning(ACTIVE, format_args!("{hash}, and the folder is {}", folder.version))
                .remedy("`reflex registry diff` says what differs, `reflex registry push` activates the folder's")
        }
        Ok(_) => Line::ok(ACTIVE, format_args!("{hash}, that of the folder")),
        Err(_) => Line::ok(ACTIVE, hash),
    };
    (line, Some(usable))
}
