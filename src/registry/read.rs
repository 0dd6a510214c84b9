//! Text to tables: every table of every file deserialised on its own, so that one error hides no other.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::registry::document::{self, Document};
use crate::registry::limits::Limits;
use crate::registry::origin::Origin;
use crate::registry::problem::{Place, Reporter, SourceFile};
use crate::registry::settings::{Defaults, Graph, RecoveryPolicy, Response, Shape, Signal};

/// A table with the place it was written at.
#[derive(Debug)]
pub struct Written<T> {
    /// As written.
    pub value: T,
    /// Where.
    pub origin: Origin,
}

/// Every table that could be read, in registry order.
#[derive(Debug, Default)]
pub struct Tables {
    /// `[[shape]]`
    pub shapes: Vec<Written<Shape>>,
    /// `[[signal]]`
    pub signals: Vec<Written<Signal>>,
    /// `[[response]]`
    pub responses: Vec<Written<Response>>,
    /// `[[recovery_policy]]`
    pub recovery_policies: Vec<Written<RecoveryPolicy>>,
    /// `[[graph]]`
    pub graphs: Vec<Written<Graph>>,
    /// `[defaults]`, merged.
    pub defaults: Defaults,
    /// `[limits]`, merged.
    pub limits: Limits,
    /// Where each key of `[defaults]` and `[limits]` was written.
    pub keys: BTreeMap<String, Origin>,
    /// Codes and names that tables declare, those of broken tables included: `signal/CODE`.
    pub declared: BTreeSet<String>,
    /// Whether a part of a file could not be parsed, so that what it declares is unknown.
    pub torn: bool,
}

/// A parsed table that is not deserialised yet.
struct Raw<'a> {
    kind: String,
    origin: Origin,
    value: Spanned<DeValue<'a>>,
}

/// Reads all tables of all files.
#[must_use]
pub fn tables(files: &[SourceFile], report: &mut Reporter<'_>) -> Tables {
    let mut documents = Vec::new();
    for (file, source) in files.iter().enumerate() {
        documents.extend(document::split(file, &source.text, report));
    }
    let mut tables = Tables { torn: documents.iter().any(|document| document.text.is_none()), ..Tables::default() };
    let mut limits = DeTable::default();
    let mut defaults = DeTable::default();
    for raw in raw_tables(&documents, report) {
        tables.declare(&raw);
        match raw.kind.as_str() {
            "shape" => tables.shapes.extend(deserialize(raw, report)),
            "signal" => tables.signals.extend(deserialize(raw, report)),
            "response" => tables.responses.extend(deserialize(raw, report)),
            "recovery_policy" => tables.recovery_policies.extend(deserialize(raw, report)),
            "graph" => tables.graphs.extend(deserialize(raw, report)),
            "limits" => limits.extend(tables.checked_keys::<Limits>(raw, report)),
            _ => defaults.extend(tables.checked_keys::<Defaults>(raw, report)),
        }
    }
    tables.limits = merged(limits);
    tables.defaults = merged(defaults);
    tables
}

impl Tables {
    fn declare(&mut self, raw: &Raw<'_>) {
        for key in ["code", "name"] {
            if let Some(name) = raw.value.get_ref().get(key).and_then(|name| name.get_ref().as_str()) {
                self.declared.insert(format!("{}/{name}", raw.kind));
            }
        }
    }

    /// The keys of a table that are right, each tried on its own.
    fn checked_keys<'a, T: DeserializeOwned>(&mut self, raw: Raw<'a>, report: &mut Reporter<'_>) -> DeTable<'a> {
        let mut right = DeTable::default();
        let DeValue::Table(keys) = raw.value.into_inner() else { return right };
        for (key, value) in keys {
            let name = key.get_ref().to_string();
            let path = raw.origin.path(&name);
            if let Some(first) = self.keys.get(&path) {
                let message = format_args!("{path}: already written at {}", report.at(&first.place(&name)));
                report.error(&raw.origin.place(&name), "duplicate", &message.to_string());
                continue;
            }
            let alone = DeTable::from_iter([(key.clone(), value.clone())]);
            match deserialize_value::<T>(DeValue::Table(alone), &raw.origin) {
                Ok(_) => drop(right.insert(key, value)),
                Err(failed) => failed.report(report),
            }
            self.keys.insert(path, raw.origin.clone());
        }
        right
    }
}

/// Every table of the documents, in registry order.
fn raw_tables<'a>(documents: &'a [Document<'a>], report: &mut Reporter<'_>) -> Vec<Raw<'a>> {
    let mut raws = Vec::new();
    let mut counts: BTreeMap<(usize, String), usize> = BTreeMap::new();
    for Document { file, text, kind } in documents {
        // A document that could not be parsed still counts, so that the numbers in messages are those of the file.
        let parsed = text.as_deref().and_then(|text| DeTable::parse(text).ok());
        let Some(parsed) = parsed else {
            counts.entry((*file, kind.unwrap_or_default().to_owned())).and_modify(|count| *count += 1).or_insert(1);
            continue;
        };
        // Kinds come by name; within a kind, the only order that counts, tables come as they are written.
        for (key, value) in parsed.into_inner() {
            let kind = key.get_ref().to_string();
            let span = value.span();
            match value.into_inner() {
                DeValue::Array(items) if document::LISTS.contains(&kind.as_str()) => {
                    for value in items {
                        let count = counts.entry((*file, kind.clone())).or_default();
                        let origin = Origin::new(*file, format!("{kind}[{count}]"), &value);
                        *count += 1;
                        raws.push(Raw { kind: kind.clone(), origin, value });
                    }
                }
                value @ DeValue::Table(_) if document::SINGLES.contains(&kind.as_str()) => {
                    let value = Spanned::new(span, value);
                    raws.push(Raw { origin: Origin::new(*file, kind.clone(), &value), kind, value });
                }
                _ => refuse(&kind, &Place { file: *file, span: key.span() }, report),
            }
        }
    }
    raws
}

/// Reports a key of the top level that is no table of a registry.
fn refuse(kind: &str, place: &Place, report: &mut Reporter<'_>) {
    if document::LISTS.contains(&kind) {
        report.error(place, "table_kind", &format_args!("{kind}: write it as [[{kind}]]"));
    } else if document::SINGLES.contains(&kind) {
        report.error(place, "table_kind", &format_args!("{kind}: write it as [{kind}]"));
    } else {
        let (lists, singles) = (document::LISTS.join("]], [["), document::SINGLES.join("], ["));
        report.error(place, "unknown_table", &format_args!("{kind}: unknown table, expected [[{lists}]], [{singles}]"));
    }
}

/// What serde said of a table.
struct Failed {
    place: Place,
    code: &'static str,
    message: String,
}

impl Failed {
    fn report(self, report: &mut Reporter<'_>) {
        report.error(&self.place, self.code, &self.message);
    }
}

fn deserialize<T: DeserializeOwned>(raw: Raw<'_>, report: &mut Reporter<'_>) -> Option<Written<T>> {
    match deserialize_value(raw.value.into_inner(), &raw.origin) {
        Ok(value) => Some(Written { value, origin: raw.origin }),
        Err(failed) => {
            failed.report(report);
            None
        }
    }
}

fn deserialize_value<T: DeserializeOwned>(value: DeValue<'_>, origin: &Origin) -> Result<T, Failed> {
    let header = origin.place("");
    let deserializer = ValueDeserializer::from(Spanned::new(header.span.clone(), value));
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { "" } else { path.as_str() };
        let inner = error.inner();
        let place = inner.span().map_or(header, |span| Place { file: origin.file, span });
        let message = inner.message();
        let code = ["unknown_field", "missing_field", "invalid_type"]
            .into_iter()
            .find(|code| message.starts_with(&code.replace('_', " ")))
            .unwrap_or("invalid_value");
        Failed { place, code, message: format!("{}: {message}", origin.path(path)) }
    })
}

/// The value of keys that were all tried before.
fn merged<T: DeserializeOwned + Default>(keys: DeTable<'_>) -> T {
    T::deserialize(ValueDeserializer::from(Spanned::new(0..0, DeValue::Table(keys)))).unwrap_or_default()
}
