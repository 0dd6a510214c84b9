//! A small reader of `OpenMetrics` text, which refuses what a scraper would refuse.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::{BTreeMap, BTreeSet};

/// Metrics as read.
#[derive(Debug, Default)]
pub struct Exposition {
    /// Type by name of the metric.
    pub types: BTreeMap<String, String>,
    /// Words by name of the metric.
    help: BTreeMap<String, String>,
    units: BTreeMap<String, String>,
    /// Values by name and labels, as written.
    pub values: BTreeMap<String, f64>,
}

impl Exposition {
    /// Reads it; what is wrong is an error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut found = Self::default();
        let body = text.strip_suffix("# EOF\n").ok_or("no end")?;
        for line in body.lines() {
            found.line(line).map_err(|problem| format!("{line}: {problem}"))?;
        }
        for name in found.types.keys() {
            let words = found.help.get(name).ok_or(format!("{name} without HELP"))?;
            if !words.ends_with('.') {
                return Err(format!("{name}: HELP is no sentence"));
            }
        }
        for (name, unit) in &found.units {
            if !name.ends_with(unit) {
                return Err(format!("{name} does not end with its unit {unit}"));
            }
        }
        Ok(found)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let put = |map: &mut BTreeMap<String, String>, rest: &str| {
            let (name, value) = rest.split_once(' ').ok_or("no value")?;
            match map.insert(name.to_owned(), value.to_owned()) {
                None => Ok(()),
                Some(_) => Err("said twice".to_owned()),
            }
        };
        if let Some(rest) = line.strip_prefix("# HELP ") {
            return put(&mut self.help, rest);
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            return put(&mut self.types, rest);
        }
        if let Some(rest) = line.strip_prefix("# UNIT ") {
            return put(&mut self.units, rest);
        }
        let (key, value) = line.rsplit_once(' ').ok_or("no value")?;
        let name = key.split('{').next().unwrap_or_default();
        let metric = ["_total", "_bucket", "_sum", "_count", ""]
            .iter()
            .find_map(|suffix| Some((name.strip_suffix(suffix)?, *suffix)))
            .filter(|(metric, _)| self.types.contains_key(*metric));
        let metric = metric.or_else(|| self.types.contains_key(name).then_some((name, "")));
        let (metric, suffix) = metric.ok_or("no TYPE before it")?;
        match (self.types[metric].as_str(), suffix) {
            ("counter", "_total") | ("gauge", "") | ("histogram", "_bucket" | "_sum" | "_count") => {}
            (kind, _) => return Err(format!("not a name of a {kind}")),
        }
        let number: f64 = value.parse().map_err(|_| "not a number")?;
        match self.values.insert(key.to_owned(), number) {
            None => Ok(()),
            Some(_) => Err("twice".to_owned()),
        }
    }

    /// A value by its name and labels.
    pub fn get(&self, key: &str) -> Option<f64> {
        self.values.get(key).copied()
    }

    /// The sum over all labels.
    pub fn sum(&self, name: &str) -> f64 {
        let of = |key: &&String| key.split('{').next() == Some(name);
        self.values.iter().filter(|(key, _)| of(key)).map(|(_, value)| value).sum()
    }

    /// Names as queries use them.
    pub fn names(&self) -> BTreeSet<String> {
        let suffixes = |kind: &str| match kind {
            "counter" => &["_total"][..],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let each = self.types.iter().flat_map(|(name, kind)| suffixes(kind).iter().map(move |s| format!("{name}{s}")));
        each.collect()
    }

    /// Names of labels in use.
    pub fn labels(&self) -> BTreeSet<String> {
        let sets = self.values.keys().filter_map(|key| Some(key.split_once('{')?.1.trim_end_matches('}')));
        let pairs = sets.flat_map(|set| set.split(','));
        pairs.filter_map(|pair| Some(pair.split_once('=')?.0.to_owned())).collect()
    }
}

#[test]
fn what_a_scraper_refuses_is_refused() {
    let fine = "# HELP a Words.\n# TYPE a counter\na_total{b=\"c\"} 1\n# EOF\n";
    let read = Exposition::parse(fine).expect("fine");
    assert_eq!(read.get("a_total{b=\"c\"}"), Some(1.0));
    assert_eq!(read.labels().into_iter().collect::<Vec<_>>(), ["b"]);
    for (what, wrong) in [
        ("no end", fine.replace("# EOF\n", "")),
        ("no help", fine.replace("# HELP a Words.\n", "")),
        ("no type", fine.replace("# TYPE a counter\n", "")),
        ("a counter without its suffix", fine.replace("a_total", "a")),
        ("no number", fine.replace(" 1\n", " one\n")),
        ("twice", fine.replace("# EOF", "a_total{b=\"c\"} 2\n# EOF")),
        ("a foreign unit", fine.replace("# TYPE a counter\n", "# TYPE a counter\n# UNIT a seconds\n")),
    ] {
        assert!(Exposition::parse(&wrong).is_err(), "{what}");
    }
}
