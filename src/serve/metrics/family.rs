//! One metric: name, words, and its values by label.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::engine::shown::counters::Durations;

/// The first bound of a histogram: half a millisecond.
const OCTAVE_FIRST: usize = 8;
/// Bounds from there, each twice the one before: the last is 67 s.
const OCTAVES: usize = 18;

/// Labels of one value.
pub type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
enum Value {
    Count(u64),
    Seconds(f64),
    Gauge(f64),
    Histogram { buckets: Vec<(f64, u64)>, count: u64, sum: f64 },
}

/// One metric with its values.
#[derive(Debug)]
pub struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: MetricType,
    values: Vec<(Labels, Value)>,
}

impl Family {
    fn new(name: &'static str, help: &'static str, unit: Option<Unit>, kind: MetricType) -> Self {
        Self { name, help, unit, kind, values: Vec::new() }
    }

    /// What only grows; the name gets the suffix `_total`.
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, None, MetricType::Counter)
    }

    /// Seconds that only grow.
    pub fn seconds_counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Some(Unit::Seconds), MetricType::Counter)
    }

    /// What rises and falls.
    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, None, MetricType::Gauge)
    }

    /// Seconds that rise and fall.
    pub fn seconds(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Some(Unit::Seconds), MetricType::Gauge)
    }

    /// Bytes that rise and fall.
    pub fn bytes(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Some(Unit::Bytes), MetricType::Gauge)
    }

    /// Durations.
    pub fn histogram(name: &'static str, help: &'static str, durations: &Durations) -> Self {
        let mut family = Self::new(name, help, Some(Unit::Seconds), MetricType::Histogram);
        let counts = durations.octaves(OCTAVE_FIRST, OCTAVES);
        let bounds = (OCTAVE_FIRST..).map(|octave| float(2 << octave) / 1e6);
        let mut buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        if let Some(last) = buckets.last_mut() {
            last.0 = f64::MAX;
        }
        let (count, sum) = (durations.count(), float(durations.sum_micros()) / 1e6);
        family.values.push((Labels::new(), Value::Histogram { buckets, count, sum }));
        family
    }

    /// A count under a label.
    pub fn count(mut self, labels: Labels, count: u64) -> Self {
        self.values.push((labels, Value::Count(count)));
        self
    }

    /// A number under a label.
    pub fn number(mut self, labels: Labels, number: f64) -> Self {
        let value = if self.kind.as_str() == "counter" { Value::Seconds(number) } else { Value::Gauge(number) };
        self.values.push((labels, value));
        self
    }

    /// A whole number under a label.
    pub fn whole(self, labels: Labels, number: u64) -> Self {
        self.number(labels, float(number))
    }

    /// Counts under one label each.
    pub fn counts(self, label: &'static str, counts: &[(&str, u64)]) -> Self {
        counts.iter().fold(self, |family, (value, count)| family.count(vec![(label, (*value).to_owned())], *count))
    }

    /// Writes it.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut encoder = encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), self.kind)?;
        for (labels, value) in &self.values {
            if labels.is_empty() {
                write(&mut encoder, value)?;
            } else {
                write(&mut encoder.encode_family(labels)?, value)?;
            }
        }
        Ok(())
    }
}

fn write(encoder: &mut MetricEncoder<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Count(count) => encoder.encode_counter::<NoLabelSet, _, u64>(count, None),
        Value::Seconds(seconds) => encoder.encode_counter::<NoLabelSet, _, f64>(seconds, None),
        Value::Gauge(number) => encoder.encode_gauge(number),
        Value::Histogram { buckets, count, sum } => encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None),
    }
}

/// As a gauge shows it.
#[allow(clippy::cast_precision_loss, reason = "below 2^53 nothing is lost")]
pub fn float(number: u64) -> f64 {
    number as f64
}
