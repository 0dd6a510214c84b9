//! Every setting is documented where it is set, and every limit is shipped with its default.

use std::collections::BTreeMap;

use reflex::registry::Limits;
use serde_json::Value;

use crate::assert_none;
use crate::tree;

/// `key = value` lines of a settings file, those commented out included, without a comment of words directly above.
fn undocumented(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(key) = key(line) else { continue };
        let above = index.checked_sub(1).map_or("", |above| lines[above]);
        if !above.starts_with('#') || self::key(above).is_some() {
            found.push(format!("{path}:{}: `{key}` has no comment directly above", index + 1));
        }
    }
    found
}

/// The key of a `key = value` line; `# key = value` shows a setting without a default.
fn key(line: &str) -> Option<&str> {
    let (key, _) = line.trim_start_matches('#').trim_start().split_once('=')?;
    let key = key.trim_end();
    let bare = |c: char| c.is_ascii_alphanumeric() || "_-.\"".contains(c);
    (!key.is_empty() && key.chars().all(bare)).then_some(key)
}

/// Limits that the shipped file leaves out, adds, or gives another default.
fn limit_problems(limits: &Value, shipped: &toml::Table) -> Vec<String> {
    let written: BTreeMap<&str, Option<i64>> = shipped
        .get("limits")
        .and_then(toml::Value::as_table)
        .map(|table| table.iter().map(|(key, value)| (key.as_str(), value.as_integer())).collect())
        .unwrap_or_default();
    let known = limits.as_object().expect("limits are an object");
    let mut found = Vec::new();
    for (name, value) in known {
        match written.get(name.as_str()) {
            None => found.push(format!("`{name}` is missing")),
            Some(default) if *default != value.as_i64() => {
                found.push(format!("`{name}` is {default:?} in the file and {value} in the code"));
            }
            Some(_) => {}
        }
    }
    found.extend(written.keys().filter(|name| !known.contains_key(**name)).map(|name| format!("`{name}` is no limit")));
    found
}

#[test]
fn process_settings_are_documented() {
    let path = "config/reflex.toml";
    let text = tree::text(path);
    text.parse::<toml::Table>().unwrap_or_else(|error| panic!("{path}: {error}"));
    assert!(text.lines().filter(|line| key(line).is_some()).count() > 5, "{path} holds every setting");
    assert_none("Every setting has a comment directly above that says what it does.", &undocumented(path, &text));
}

/// Settings that the shipped file leaves out, adds, or gives another default.
#[cfg(feature = "shell")]
fn setting_problems(known: &BTreeMap<String, toml::Value>, shipped: &toml::Table) -> Vec<String> {
    let mut written = BTreeMap::new();
    flatten("", shipped, &mut written);
    let wrong = known.iter().filter(|(key, value)| written.get(*key) != Some(*value));
    let mut found: Vec<String> = wrong
        .map(|(key, value)| format!("`{key}` is {:?} in the file and {value} in the code", written.get(key)))
        .collect();
    found.extend(written.keys().filter(|key| !known.contains_key(*key)).map(|key| format!("`{key}` is no setting")));
    found
}

#[cfg(feature = "shell")]
fn flatten(section: &str, table: &toml::Table, into: &mut BTreeMap<String, toml::Value>) {
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => flatten(&format!("{section}{key}."), inner, into),
            other => drop(into.insert(format!("{section}{key}"), other.clone())),
        }
    }
}

#[cfg(feature = "shell")]
#[test]
fn process_settings_are_shipped() {
    let path = "config/reflex.toml";
    let shipped = tree::text(path).parse().unwrap_or_else(|error| panic!("{path}: {error}"));
    let found = setting_problems(&reflex::cli::settings::defaults(), &shipped);
    assert_none("Every setting of the program is in config/reflex.toml with its default.", &found);
}

#[cfg(feature = "shell")]
#[test]
fn a_planted_default_is_found() {
    let known = BTreeMap::from([("log.level".to_owned(), toml::Value::from("info")), ("workers".to_owned(), 1.into())]);
    let problems = |text: &str| setting_problems(&known, &text.parse().expect("TOML")).len();
    assert_eq!(problems("workers = 1\n[log]\nlevel = \"info\""), 0);
    assert_eq!(problems("workers = 2\n[log]\nlevels = \"info\""), 3);
}

#[test]
fn limits_are_documented() {
    let path = "config/registry/defaults.toml";
    let text = tree::text(path);
    let shipped = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
    let limits = serde_json::to_value(Limits::default()).expect("limits serialise");
    let mut found = undocumented(path, &text);
    found.extend(limit_problems(&limits, &shipped).iter().map(|problem| format!("{path}: {problem}")));
    assert_none("Every field of Limits is in [limits] with its default and a comment directly above.", &found);
}

#[test]
fn planted_settings_are_found() {
    assert_eq!(undocumented("a", "# What it does.\nworkers = 1\n\n[kafka]\n# Where.\n# servers = \"a\"").len(), 0);
    assert_eq!(undocumented("a", "workers = 1\n# group = \"b\"\ndir = \"c\"").len(), 3);
    let limits = serde_json::json!({"a_max": 1, "b_max": 2});
    let shipped = |text: &str| limit_problems(&limits, &text.parse().expect("TOML")).len();
    assert_eq!(shipped("[limits]\na_max = 1\nb_max = 2"), 0);
    assert_eq!(shipped("[limits]\na_max = 2\nc_max = 2"), 3);
    assert_eq!(shipped(""), 2);
}
