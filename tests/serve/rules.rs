//! The alerts that are shipped, and the README, against the metrics there are.

use std::collections::BTreeSet;

use super::metrics::scrape;

const RULES: &str = include_str!("../../deploy/prometheus-rules.yml");
const README: &str = include_str!("../../README.md");

/// Words that look like a metric of ours.
fn named(text: &str) -> BTreeSet<String> {
    let word = |c: char| !(c.is_ascii_lowercase() || c == '_');
    text.split(word).filter(|word| word.starts_with("reflex_") && word.len() > 8).map(str::to_owned).collect()
}

#[test]
fn every_metric_in_an_alert_exists() {
    let there = scrape().names();
    let expressions: String = RULES.lines().filter(|line| line.trim_start().starts_with("expr:")).collect();
    let wanted = named(&expressions);
    assert!(wanted.len() >= 8, "{wanted:?}");
    let missing: Vec<&String> = wanted.difference(&there).collect();
    assert!(missing.is_empty(), "{missing:?} not among {there:#?}");
}

#[test]
fn every_alert_says_how_bad_it_is_and_what_it_means() {
    let alerts = RULES.matches("- alert: ").count();
    assert!(alerts >= 6);
    for part in ["expr: ", "labels: {severity: ", "summary: "] {
        assert_eq!(RULES.matches(part).count(), alerts, "{part}");
    }
    for name in RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(README.contains(name), "{name} has no line in the README");
    }
}

#[test]
fn every_metric_in_the_readme_exists() {
    let there = scrape();
    let stems: BTreeSet<String> = there.types.keys().cloned().collect();
    let names: BTreeSet<String> = there.names().union(&stems).cloned().collect();
    let missing: Vec<String> = named(README).into_iter().filter(|name| !names.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
