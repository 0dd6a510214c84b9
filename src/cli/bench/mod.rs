//! `reflex bench`: what the engine does on a real broker, measured. A fleet whose overrides are known is loaded, the same
//! engine as of `reflex run` goes through it, and the overrides that readers find are held against those announced.
//!
//! Events are recorded, so the limits on their age are off; the guards are wide open, because a backlog of an hour is
//! gone through in seconds.

mod drive;
mod fleet;
mod ground;
mod latency;
mod raw;
mod reader;
mod report;
mod usage;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::engine_config::config;
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::cli::{run, validate};
use crate::engine::Config;
use crate::registry::Registry;
use drive::Worker;
use fleet::Plan;
use ground::Ground;
use reader::Reader;
use report::{Overrides, Steady, Throughput};

/// Arguments of `reflex bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Events to load and go through
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub events: u64,
    /// Partitions of new topics
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub partitions: u16,
    /// Sessions open at the same time
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub sessions: u32,
    /// How many of all sessions fail
    #[arg(long, value_name = "PERCENT", default_value_t = 0.8)]
    pub failing_percentage: f64,
    /// Start of the random numbers: the same one gives the same events
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Keep the loaded events for the next run with the same fleet, and use those of the last one
    #[arg(long, conflicts_with_all = ["topic", "latency"])]
    pub reuse: bool,
    /// Go through this topic instead; nothing is loaded
    #[arg(long, value_name = "NAME", requires = "expect", conflicts_with = "latency")]
    pub topic: Option<String>,
    /// Overrides that the events of the topic must lead to
    #[arg(long, value_name = "N", requires = "topic")]
    pub expect: Option<u64>,
    /// Measure the client library alone too, on the same events
    #[arg(long, value_enum, conflicts_with = "latency")]
    pub baseline: Option<Baseline>,
    /// Measure instead how long an override takes, with so many events a second around it
    #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub latency: Option<u32>,
    /// How long, after a warm-up
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
}

/// What to measure beside the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Baseline {
    /// The client library, reading only.
    Raw,
}

impl Args {
    fn plan(&self) -> Plan {
        Plan {
            events: self.events,
            sessions: self.sessions,
            failing_parts: Plan::parts(self.failing_percentage),
            seed: self.seed,
        }
    }
}

/// Measures; exit 1 where the overrides found are not those announced.
///
/// # Errors
/// Exit 69 without a broker, and whatever ends the engine early.
pub fn run(args: &Args, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let registry = registry(resolved)?;
    let name = run_name();
    let config = Config {
        group: format!("reflex-bench-{name}"),
        // Its topics have one copy: it measures, it keeps nothing.
        dev: true,
        check_topics: true,
        ..config(&resolved.settings, "bench")?
    };
    let kept = args.reuse.then(|| ground::kept(args.plan(), usize::from(args.partitions)));
    let events = args.topic.as_ref().or(kept.as_ref());
    let ground = Ground::lay(&config.cluster, &name, events.map(String::as_str), usize::from(args.partitions))?;
    let config = Config { topics: ground.names.clone(), ..config };
    let json = resolved.settings.output != Output::Table;
    let measured = match args.latency {
        Some(rate) => steady(args, rate, &ground, config, registry, json, out),
        None => throughput(args, &ground, &config, registry, json, out),
    };
    let cleared = ground.clear();
    let measured = measured?;
    cleared?;
    Ok(if measured { Exit::Done } else { Exit::Found })
}

fn throughput(
    args: &Args,
    ground: &Ground,
    config: &Config,
    registry: Arc<Registry>,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let expected = if let Some(expected) = args.expect {
        expected
    } else {
        let (events, overrides) = args.plan().expected();
        ground.load(args.plan(), events)?;
        overrides
    };
    let events = ground.events()?;
    let ran = Worker::start(config.clone(), registry, events, &run::stop_flag()?)?.finish()?;
    let (found, records) = Reader::new(&config.cluster, &ground.names.overrides, ground.partitions)?.count()?;
    let raw = match args.baseline {
        None => None,
        Some(Baseline::Raw) => {
            Some((raw::batches(config, ground.partitions, events)?, raw::polls(config, ground.partitions, events)?))
        }
    };
    let throughput = Throughput {
        topic: &ground.names.events,
        partitions: ground.partitions,
        events,
        behind: ground.behind(&config.group)?,
        ran: &ran,
        overrides: Overrides { expected, found, doubled: records - found },
        raw,
    };
    if json { throughput.json(out) } else { throughput.table(out) }.map_err(unwritable)?;
    Ok(throughput.is_good())
}

fn steady(
    args: &Args,
    rate: u32,
    ground: &Ground,
    config: Config,
    registry: Arc<Registry>,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let cluster = config.cluster.clone();
    let worker = Worker::start(config, registry, u64::MAX, &run::stop_flag()?)?;
    worker.wait_until_assigned()?;
    let measured = latency::measure(&cluster, ground, args.plan(), rate, args.seconds);
    let counters = worker.end()?;
    let commits = (counters.commits.quantile_micros(50), counters.commits.quantile_micros(99));
    let steady = Steady { rate, partitions: ground.partitions, latency: &measured?, commits };
    if json { steady.json(out) } else { steady.table(out) }.map_err(unwritable)?;
    Ok(steady.is_good())
}

/// The registry, with limits for recorded events; those of `--set` win.
fn registry(resolved: &Resolved) -> Result<Arc<Registry>, Failure> {
    let wide = u32::MAX.to_string();
    let mut limits: BTreeMap<String, String> = [
        ("limits.reaction_age_ms_max", "0"),
        ("limits.lateness_ms_max", "0"),
        ("limits.interventions_per_minute_max", wide.as_str()),
        ("limits.session_overrides_live_max", wide.as_str()),
    ]
    .map(|(limit, value)| (limit.to_owned(), value.to_owned()))
    .into();
    limits.extend(resolved.limits.clone());
    let registry = validate::load_folder(Path::new(&resolved.settings.registry))?.registry;
    let registry = registry.with_settings(&limits);
    Ok(Arc::new(registry.map_err(|problem| Failure::new(Exit::Configuration, problem))?))
}

/// Tells the topics and the group of one run from those of another.
fn run_name() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().to_string()
}
