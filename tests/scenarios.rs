//! Every scenario of `tests/scenarios/` against its registry: the session stage, told as text.
#![cfg(feature = "shell")]
#![allow(clippy::expect_used, reason = "a broken expectation is a failed test")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests read files and clocks")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reflex::cli::test::{play, scenario};
use reflex::registry::{Registry, SourceFile, load};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

fn registry(folder: &Path, settings: &std::collections::BTreeMap<String, String>) -> Arc<Registry> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a registry folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let files: Vec<SourceFile> = files
        .iter()
        .map(|file| SourceFile {
            name: file.display().to_string(),
            text: std::fs::read_to_string(file).expect("a readable file"),
        })
        .collect();
    let loaded = load::load(&files).expect("a valid registry");
    Arc::new(loaded.registry.with_settings(settings).expect("valid settings"))
}

#[test]
fn every_scenario_holds() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("the scenarios")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    assert!(files.len() >= 16, "the scenarios are there");
    let mut failures = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a readable scenario");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let outcome = scenario::parse(&text).and_then(|scenario| {
            let registry_dir = scenario.registry.as_deref().expect("a scenario here names its registry");
            play(&scenario, registry(&folder().join(registry_dir), &scenario.settings))
        });
        if let Err(error) = outcome {
            failures.push(format!("{name}:{error}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_scenario_notices_what_it_does_not_expect() {
    let text = "registry registry\nat 0s event {\"type\":\"retries_exhausted\",\"session_id\":\"s\",\"graph\":\"order_graph\",\"node\":\"rank\"}\n";
    let scenario = scenario::parse(text).expect("a scenario");
    let error = play(&scenario, registry(&folder().join("registry"), &scenario.settings)).expect_err("records came");
    assert!(error.starts_with("2: at the end: not expected: reflex.interventions"), "{error}");
    let wrong = scenario::parse(&format!("{text}expect reflex.interventions {{\"status\":\"applied\"}}\n"))
        .expect("a scenario");
    let error = play(&wrong, registry(&folder().join("registry"), &wrong.settings)).expect_err("another status came");
    assert!(error.starts_with("3: expected reflex.interventions"), "{error}");
}
