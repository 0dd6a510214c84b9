//! What changes from one version of the registry to another: tables added, removed, fields changed, order changed.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::registry::model::Registry;

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change {
    /// A table that was not there.
    Added {
        /// Kind of table: `signal`, `response`, ...
        table: &'static str,
        /// Its name.
        name: String,
    },
    /// A table that is gone.
    Removed {
        /// Kind of table.
        table: &'static str,
        /// Its name.
        name: String,
    },
    /// A field with another value; none: it is not there.
    Changed {
        /// Kind of table.
        table: &'static str,
        /// Its name; empty for `[limits]` and `[defaults]`.
        name: String,
        /// Path of the field.
        field: String,
        /// Value before.
        from: Option<Value>,
        /// Value after.
        to: Option<Value>,
    },
    /// Tables of a kind stand in another order, and the first match wins.
    Reordered {
        /// Kind of table.
        table: &'static str,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
        match self {
            Self::Added { table, name } => write!(f, "+ {table} {name}"),
            Self::Removed { table, name } => write!(f, "- {table} {name}"),
            Self::Changed { table, name, field, from, to } => {
                let space = if name.is_empty() { "" } else { " " };
                write!(f, "~ {table}{space}{name}: {field}: {} -> {}", shown(from), shown(to))
            }
            Self::Reordered { table } => write!(f, "~ {table}: another order"),
        }
    }
}

/// Every change from `old` to `new`, by kind of table and name; without `old` everything is added.
#[must_use]
pub fn diff(old: Option<&Registry>, new: &Registry) -> Vec<Change> {
    let value = |registry: &Registry| serde_json::to_value(registry).unwrap_or_default();
    let (before, after) = (old.map(value).unwrap_or_default(), value(new));
    let mut changes = Vec::new();
    for (table, field, names) in [
        ("shape", "shapes", "name"),
        ("signal", "signals", "code"),
        ("response", "responses", "name"),
        ("recovery_policy", "recovery_policies", "name"),
    ] {
        let (before, after) = (named(&before[field], names), named(&after[field], names));
        tables(table, &before, &after, &mut changes);
        let common = |list: &[(String, &Value)], other: &[(String, &Value)]| {
            let is_common = |name: &String| other.iter().any(|(there, _)| there == name);
            list.iter().map(|(name, _)| name.clone()).filter(|name| is_common(name)).collect::<Vec<_>>()
        };
        // Policies are found by name: their order means nothing.
        if table != "recovery_policy" && common(&before, &after) != common(&after, &before) {
            changes.push(Change::Reordered { table });
        }
    }
    tables("graph", &keyed(&before["graphs"]), &keyed(&after["graphs"]), &mut changes);
    for table in ["defaults", "limits"] {
        if old.is_some() {
            fields(table, "", &before[table], &after[table], &mut changes);
        }
    }
    changes
}

/// Tables of a list by name; a name that stands again gets a number.
fn named<'a>(list: &'a Value, field: &str) -> Vec<(String, &'a Value)> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut tables = Vec::new();
    for table in list.as_array().into_iter().flatten() {
        let name = table[field].as_str().unwrap_or_default();
        let times = seen.entry(name).or_default();
        *times += 1;
        tables.push((if *times == 1 { name.to_owned() } else { format!("{name} ({times})") }, table));
    }
    tables
}

fn keyed(map: &Value) -> Vec<(String, &Value)> {
    map.as_object().into_iter().flatten().map(|(name, table)| (name.clone(), table)).collect()
}

fn tables(table: &'static str, before: &[(String, &Value)], after: &[(String, &Value)], changes: &mut Vec<Change>) {
    let old: BTreeMap<&String, &Value> = before.iter().map(|(name, value)| (name, *value)).collect();
    let new: BTreeMap<&String, &Value> = after.iter().map(|(name, value)| (name, *value)).collect();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        changes.push(Change::Removed { table, name: (*name).clone() });
    }
    for (name, value) in new {
        match old.get(name) {
            None => changes.push(Change::Added { table, name: name.clone() }),
            Some(before) => fields(table, name, before, value, changes),
        }
    }
}

fn fields(table: &'static str, name: &str, before: &Value, after: &Value, changes: &mut Vec<Change>) {
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    flatten(String::new(), before, &mut old);
    flatten(String::new(), after, &mut new);
    let mut all: Vec<&String> = old.keys().chain(new.keys()).collect();
    all.sort();
    all.dedup();
    for field in all {
        let (from, to) = (old.get(field).copied().cloned(), new.get(field).copied().cloned());
        if from != to {
            changes.push(Change::Changed { table, name: name.to_owned(), field: field.clone(), from, to });
        }
    }
}

/// Values by path; lists are compared whole, and what is null is not there.
fn flatten<'a>(path: String, value: &'a Value, into: &mut BTreeMap<String, &'a Value>) {
    match value {
        Value::Null => {}
        Value::Object(inner) => {
            for (key, value) in inner {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(path, value, into);
            }
        }
        other => drop(into.insert(path, other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{SourceFile, load};

    fn registry(text: &str) -> Registry {
        load(&[SourceFile { name: "a.toml".into(), text: text.into() }]).expect("loads").registry
    }

    fn words(old: &str, new: &str) -> Vec<String> {
        diff(Some(&registry(old)), &registry(new)).iter().map(ToString::to_string).collect()
    }

    const A: &str = "[[signal]]\ncode = \"a\"\nowner = \"team\"\nmatch = { node = \"n\" }\n";
    const B: &str = "[[signal]]\ncode = \"b\"\nowner = \"team\"\nmatch = { node = \"m\" }\n";

    #[test]
    fn the_same_has_no_changes_and_nothing_before_adds_everything() {
        assert_eq!(words(A, A), Vec::<String>::new());
        let all = diff(None, &registry(A));
        assert!(all.contains(&Change::Added { table: "signal", name: "a".into() }), "{all:?}");
        assert!(all.iter().all(|change| matches!(change, Change::Added { .. })), "{all:?}");
    }

    #[test]
    fn tables_fields_order_and_limits_are_told_apart() {
        assert_eq!(words(A, B), ["- signal a", "+ signal b"]);
        assert_eq!(words(&[A, B].concat(), &[B, A].concat()), ["~ signal: another order"]);
        let observed = format!("{A}mode = \"observe\"\n").replace("node = \"n\"", "failure_shape = \"s\"");
        assert_eq!(
            words(A, &observed),
            [
                "~ signal a: matches.failure_shape: nothing -> \"s\"",
                "~ signal a: matches.node: \"n\" -> nothing",
                "~ signal a: mode: \"act\" -> \"observe\"",
            ]
        );
        let limited = format!("{A}[limits]\nreaction_age_ms_max = 5\n");
        assert_eq!(words(A, &limited), ["~ limits: reaction_age_ms_max: 60000 -> 5"]);
        let twice = "[[shape]]\nname = \"s\"\nmatch = { code = [\"1\"] }\n[[shape]]\nname = \"s\"\nmatch = { code = [\"2\"] }\n";
        assert_eq!(words(twice, &twice.replace("[\"2\"]", "[\"3\"]")).len(), 1);
    }
}
