//! The figures, as a table or as JSON.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::cli::bench::drive::{Mark, Ran};
use crate::cli::bench::latency::Latency;
use crate::cli::bench::proof::Proof;
use crate::cli::bench::raw::Reading;

/// What one measurement of throughput took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    events: u64,
    wall: Duration,
    cpu: Duration,
}

impl Cost {
    /// Of so many events between two moments.
    #[must_use]
    pub fn new(events: u64, begun: &Mark, ended: &Mark) -> Self {
        let (wall, cpu) = ended.since(begun);
        Self { events, wall, cpu }
    }

    fn of(reading: &Reading) -> Self {
        Self::new(reading.events, &reading.begun, &reading.ended)
    }

    #[allow(clippy::cast_precision_loss, reason = "a figure, not a count")]
    fn events_per_s(&self) -> f64 {
        self.events as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    /// CPU time of one event, in microseconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a figure, not a count")]
    pub fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.events.max(1) as f64
    }

    /// All of it.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "events": self.events, "seconds": rounded(self.wall.as_secs_f64()), "cpu_seconds": rounded(self.cpu.as_secs_f64()),
            "events_per_s": self.events_per_s().round(), "cpu_us_per_event": rounded(self.cpu_us()),
        })
    }

    fn line(&self) -> String {
        let (wall, cpu) = (self.wall.as_secs_f64(), self.cpu.as_secs_f64());
        format!(
            "{:>9.0} events/s, {:.2} us CPU an event ({wall:.2} s, CPU {cpu:.2} s)",
            self.events_per_s(),
            self.cpu_us()
        )
    }
}

/// Three digits after the point.
#[must_use]
pub fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Overrides found, and those announced.
#[derive(Clone, Copy, Debug)]
pub struct Overrides {
    /// Announced by the fleet.
    pub expected: u64,
    /// Different ones found.
    pub found: u64,
    /// Records beyond one for each.
    pub doubled: u64,
}

impl Overrides {
    /// Whether all are there, once.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.found == self.expected && self.doubled == 0
    }

    fn line(&self) -> String {
        let Self { expected, found, doubled } = self;
        let verdict = if self.is_good() { "as announced" } else { "NOT as announced" };
        format!("{found} of {expected}, {doubled} twice: {verdict}")
    }

    fn json(&self) -> Value {
        json!({ "expected": self.expected, "found": self.found, "doubled": self.doubled })
    }
}

/// A run to the end of a topic.
#[derive(Debug)]
pub struct Throughput<'a> {
    /// The topic.
    pub topic: &'a str,
    /// Its partitions.
    pub partitions: i32,
    /// Events on it.
    pub events: u64,
    /// Events that the group has not committed.
    pub behind: u64,
    /// The engine.
    pub ran: &'a Ran,
    /// What it published.
    pub overrides: Overrides,
    /// The same topic read by the client library alone: in batches, one record at a time.
    pub raw: Option<(Reading, Reading)>,
    /// What was decided again; none: nothing.
    pub proof: Option<Proof>,
}

impl Throughput<'_> {
    fn cost(&self) -> Cost {
        Cost::new(self.events, &self.ran.begun, &self.ran.ended)
    }

    fn commits(&self) -> (u64, u64, u64) {
        let commits = &self.ran.counters.commits;
        (self.ran.counters.transactions, commits.quantile_micros(50), commits.quantile_micros(99))
    }

    fn dead_letters(&self) -> u64 {
        self.ran.counters.dead_letters.values().sum()
    }

    /// Whether everything was committed, and led to what was announced.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.behind == 0 && self.overrides.is_good() && self.proof.as_ref().is_none_or(Proof::is_good)
    }

    /// Writes a table.
    pub fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { topic, partitions, events, behind, .. } = self;
        let (transactions, p50, p99) = self.commits();
        let cost = self.cost();
        writeln!(out, "events      {events} on {topic}, {partitions} partitions, {behind} not committed")?;
        writeln!(out, "engine      {}", cost.line())?;
        writeln!(out, "commits     {transactions}, p50 {:.1} ms, p99 {:.1} ms", ms(p50), ms(p99))?;
        if let Some(bytes) = self.ran.ended.resident_bytes {
            writeln!(out, "memory      {} MiB resident", bytes >> 20)?;
        }
        writeln!(out, "overrides   {}", self.overrides.line())?;
        if self.dead_letters() > 0 {
            writeln!(out, "dead letters {}", self.dead_letters())?;
        }
        if let Some(proof) = &self.proof {
            writeln!(out, "tape        {}", proof.line())?;
        }
        if let Some((batches, polls)) = &self.raw {
            for (name, reading) in [("raw batches", batches), ("raw polls", polls)] {
                let raw = Cost::of(reading);
                writeln!(out, "{name:11} {}", raw.line())?;
                let (speed, cpu) = ratios(&cost, &raw);
                writeln!(out, "            engine: x{speed:.2} the throughput, x{cpu:.2} the CPU an event")?;
            }
        }
        Ok(())
    }

    /// Writes one JSON object.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let (transactions, p50, p99) = self.commits();
        let cost = self.cost();
        let mut report = Map::new();
        report.insert("topic".into(), json!(self.topic));
        report.insert("partitions".into(), json!(self.partitions));
        report.insert("events".into(), json!(self.events));
        report.insert("not_committed".into(), json!(self.behind));
        report.insert("engine".into(), cost.json());
        report.insert("commits".into(), json!({ "count": transactions, "p50_ms": ms(p50), "p99_ms": ms(p99) }));
        report.insert("resident_bytes".into(), json!(self.ran.ended.resident_bytes));
        report.insert("overrides".into(), self.overrides.json());
        report.insert("dead_letters".into(), json!(self.dead_letters()));
        report.extend(self.proof.iter().map(|proof| ("verified".to_owned(), proof.json())));
        if let Some((batches, polls)) = &self.raw {
            for (name, reading) in [("raw_batches", batches), ("raw_polls", polls)] {
                let raw = Cost::of(reading);
                let (speed, cpu) = ratios(&cost, &raw);
                let mut value = raw.json();
                value["event_bytes"] = json!(reading.bytes / reading.events.max(1));
                value["engine_throughput_ratio"] = json!(rounded(speed));
                value["engine_cpu_ratio"] = json!(rounded(cpu));
                report.insert(name.into(), value);
            }
        }
        writeln!(out, "{}", Value::Object(report))
    }
}

/// Throughput and CPU of the first in parts of the second.
fn ratios(first: &Cost, second: &Cost) -> (f64, f64) {
    (first.events_per_s() / second.events_per_s().max(1e-9), first.cpu_us() / second.cpu_us().max(1e-9))
}

#[allow(clippy::cast_precision_loss, reason = "a figure, not a count")]
fn ms(micros: u64) -> f64 {
    micros as f64 / 1e3
}

/// Latency at a steady rate.
#[derive(Debug)]
pub struct Steady<'a> {
    /// Events a second.
    pub rate: u32,
    /// Partitions of every topic.
    pub partitions: i32,
    /// What was seen.
    pub latency: &'a Latency,
    /// Median and 99th percentile of a commit, in microseconds.
    pub commits: (u64, u64),
    /// What was decided again; none: nothing.
    pub proof: Option<Proof>,
}

impl Steady<'_> {
    fn overrides(&self) -> Overrides {
        Overrides { expected: self.latency.expected, found: self.latency.seen, doubled: self.latency.doubled }
    }

    /// Whether every failing session was overridden, once.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let something = !self.latency.times.is_empty();
        something && self.overrides().is_good() && self.proof.as_ref().is_none_or(Proof::is_good)
    }

    fn percentile(&self, percent: usize) -> f64 {
        rounded(self.latency.percentile(percent).as_secs_f64() * 1e3)
    }

    /// Writes a table.
    pub fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        let at = |percent| self.percentile(percent);
        let (sent, measured) = (self.latency.sent, self.latency.times.len());
        writeln!(out, "events      {sent} at {} a second, {} partitions", self.rate, self.partitions)?;
        writeln!(out, "overrides   {}", self.overrides().line())?;
        writeln!(out, "commits     p50 {:.1} ms, p99 {:.1} ms", ms(self.commits.0), ms(self.commits.1))?;
        if let Some(proof) = &self.proof {
            writeln!(out, "tape        {}", proof.line())?;
        }
        if measured == 0 {
            return writeln!(
                out,
                "latency     nothing was measured, no session failed in time: raise --latency, --seconds or --failing-percentage"
            );
        }
        writeln!(
            out,
            "latency     p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, longest {:.1} ms, of {measured}: failing event sent to override read",
            at(50),
            at(90),
            at(99),
            at(100)
        )
    }

    /// Writes one JSON object.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let at = |percent| self.percentile(percent);
        let mut report = json!({
            "rate": self.rate, "partitions": self.partitions, "sent": self.latency.sent,
            "overrides": self.overrides().json(), "measured": self.latency.times.len(),
            "commits": { "p50_ms": ms(self.commits.0), "p99_ms": ms(self.commits.1) },
            "latency_ms": { "p50": at(50), "p90": at(90), "p99": at(99), "max": at(100) },
        });
        if let Some(proof) = &self.proof {
            report["verified"] = proof.json();
        }
        writeln!(out, "{report}")
    }
}
