//! Where tables and their fields were written. Kept beside the registry, never in it: places are not meaning.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use crate::registry::problem::{Place, SourceFile};

/// Where one table was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Index of the file.
    pub file: usize,
    /// `signal[0]`: kind of the table and its number among its kind in the file.
    pub table: String,
    header: Range<usize>,
    fields: BTreeMap<String, Range<usize>>,
}

impl Origin {
    /// The origin of a parsed table.
    #[must_use]
    pub fn new(file: usize, table: String, value: &Spanned<DeValue<'_>>) -> Self {
        let mut fields = BTreeMap::new();
        walk(value.get_ref(), "", &mut fields);
        Self { file, table, header: value.span(), fields }
    }

    /// The origin of a table of another notation: its whole, and the value of each field by path.
    #[must_use]
    pub fn from_spans(
        file: usize,
        table: String,
        header: Range<usize>,
        fields: BTreeMap<String, Range<usize>>,
    ) -> Self {
        Self { file, table, header, fields }
    }

    /// The place of the field at `path` (`match.node`, `nodes[0].name`), else of the nearest field around it, else of
    /// the table's header.
    #[must_use]
    pub fn place(&self, path: &str) -> Place {
        let mut path = path;
        loop {
            if let Some(span) = self.fields.get(path) {
                return Place { file: self.file, span: span.clone() };
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return Place { file: self.file, span: self.header.clone() },
            }
        }
    }

    /// Whether the field was written.
    #[must_use]
    pub fn wrote(&self, path: &str) -> bool {
        self.fields.contains_key(path)
    }

    /// `signal[0].match.node`: the field as messages name it.
    #[must_use]
    pub fn path(&self, path: &str) -> String {
        if path.is_empty() { self.table.clone() } else { format!("{}.{path}", self.table) }
    }

    /// Makes what was written at `from` (and below) also known as `to`.
    pub fn alias(&mut self, from: &str, to: &str) {
        let below: Vec<_> = self
            .fields
            .iter()
            .filter_map(|(path, span)| {
                let rest = path.strip_prefix(from)?;
                (rest.is_empty() || rest.starts_with(['.', '['])).then(|| (format!("{to}{rest}"), span.clone()))
            })
            .collect();
        self.fields.extend(below);
    }
}

fn walk(value: &DeValue<'_>, path: &str, fields: &mut BTreeMap<String, Range<usize>>) {
    let children: Vec<(String, &Spanned<DeValue<'_>>)> = match value {
        DeValue::Table(table) => table
            .iter()
            .map(|(key, value)| {
                let key = key.get_ref();
                (if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }, value)
            })
            .collect(),
        DeValue::Array(array) => {
            array.iter().enumerate().map(|(index, value)| (format!("{path}[{index}]"), value)).collect()
        }
        _ => return,
    };
    for (path, value) in children {
        walk(value.get_ref(), &path, fields);
        fields.insert(path, value.span());
    }
}

/// Where everything of a registry was written, and what was written for lint only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origins {
    /// The files, by name.
    pub files: Vec<SourceFile>,
    /// As `Registry::shapes`.
    pub shapes: Vec<Origin>,
    /// As `Registry::signals`.
    pub signals: Vec<Origin>,
    /// As `Registry::responses`.
    pub responses: Vec<Origin>,
    /// As `Registry::recovery_policies`.
    pub recovery_policies: Vec<Origin>,
    /// By `NAME:VERSION`; a node's fields are also under `nodes.NAME`.
    pub graphs: BTreeMap<String, Origin>,
    /// By `NAME:VERSION`: stated traffic in runs an hour. No decision reads it, so it is not part of the version.
    pub expected_runs_per_hour: BTreeMap<String, f64>,
}
