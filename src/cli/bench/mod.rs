//! `reflex bench`: what the engine does on a real broker, measured. A fleet whose overrides are known is loaded, the same
//! engine as of `reflex run` goes through it, and the overrides that readers find are held against those announced. The
//! registry is pushed in band, so that what was decided can be verified from the tape.
//!
//! Events are recorded, so the limits on their age are off; the guards are wide open, because a backlog of an hour is
//! gone through in seconds.

mod drive;
mod fleet;
mod ground;
mod http;
mod latency;
mod live;
mod proof;
mod raw;
mod reader;
mod report;
mod restore;
mod usage;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::engine_config::config;
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::cli::{run, validate};
use crate::engine::operator::registry_topic::push;
use crate::engine::state::store::{self, Kind};
use crate::engine::{Config, EngineError};
use crate::registry::Registry;
use drive::Worker;
use fleet::Plan;
use ground::Ground;
use proof::Proof;
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
    /// Verify after the run what was decided, from the tape: every task, every byte
    #[arg(long)]
    pub verify: bool,
    /// Measure instead how long tasks take to get the state of so many failing sessions back
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000),
          conflicts_with_all = ["latency", "topic", "reuse", "baseline", "verify", "sessions_live"])]
    pub restore: Option<u64>,
    /// From what, beside the changelog alone: fjall, sled; again for more [default: both]
    #[arg(long = "store", value_name = "STORE", requires = "restore", value_parser = kind)]
    pub stores: Vec<Kind>,
    /// Measure instead what a healthy event costs while so many failing sessions are tracked: 1000,100000,1000000
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000_000),
          conflicts_with_all = ["latency", "topic", "reuse", "baseline", "verify"])]
    pub sessions_live: Vec<u32>,
    /// Measure instead the HTTP service at --http, with so many requests a second, for --seconds
    #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u32).range(1..=100_000),
          conflicts_with_all = ["latency", "topic", "reuse", "baseline", "verify", "restore", "sessions_live"])]
    pub requests: Option<u32>,
    /// Hold so many streams open as well, and tell the memory of the service
    #[arg(long, value_name = "N", requires = "requests", default_value_t = 0)]
    pub streams: u32,
    /// Token for --requests
    #[arg(long, requires = "requests", env = "REFLEX_HTTP_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// One start of `--restore`, in a process of its own
    #[arg(long, hide = true, requires = "restore")]
    pub restore_start: Option<restore::Start>,
}

fn kind(text: &str) -> Result<Kind, String> {
    let kinds = [Kind::Memory, Kind::Sled, Kind::Fjall];
    kinds.into_iter().find(|kind| kind.name() == text).ok_or_else(|| "none of fjall, sled, memory".to_owned())
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
    if let Some(start) = &args.restore_start {
        return restore::start(start, &Room::new(resolved, &start.run)?, out);
    }
    let json = resolved.settings.output != Output::Table;
    if let Some(rate) = args.requests {
        let is_fine = http::measure(args, rate, &resolved.settings.http, json, out)?;
        return Ok(if is_fine { Exit::Done } else { Exit::Found });
    }
    let room = Room::new(resolved, &run_name())?;
    let registry = registry(resolved)?;
    let measured = match (args.restore, args.sessions_live.is_empty()) {
        (Some(entries), _) => restore::measure(args, entries, &room, &registry, json, out),
        (None, false) => live::measure(args, &room, &registry, json, out),
        (None, true) => overrides(args, &room, &registry, json, out),
    };
    room.clear();
    Ok(if measured? { Exit::Done } else { Exit::Found })
}

/// What belongs to one run alone: its name, its group, the folder of its local stores.
pub struct Room {
    name: String,
    config: Config,
    folder: PathBuf,
}

impl Room {
    fn new(resolved: &Resolved, name: &str) -> Result<Self, Failure> {
        // The stores of `reflex run` are not touched.
        let folder = Path::new(&resolved.settings.data_dir).join(format!("bench-{name}"));
        let mut config = config(&resolved.settings, "bench")?;
        config.group = format!("reflex-bench-{name}");
        // Its topics have one copy: it measures, it keeps nothing.
        config.dev = true;
        config.store = config.store.map(|store| store::Settings { folder: folder.clone(), ..store });
        Ok(Self { name: name.to_owned(), config, folder })
    }

    /// The configuration of workers on this ground, with its registry pushed.
    fn enter(&self, ground: &Ground, registry: &Registry) -> Result<Config, EngineError> {
        let config = Config { topics: ground.names.clone(), ..self.config.clone() };
        push(&config, registry, "reflex bench", "reflex bench")?;
        Ok(config)
    }

    fn clear(&self) {
        if self.folder.exists()
            && let Err(error) = std::fs::remove_dir_all(&self.folder)
        {
            eprintln!("reflex: {}: {error}", self.folder.display());
        }
    }
}

fn overrides(args: &Args, room: &Room, registry: &Registry, json: bool, out: &mut dyn Write) -> Result<bool, Failure> {
    let kept = args.reuse.then(|| ground::kept(args.plan(), usize::from(args.partitions)));
    let events = args.topic.as_ref().or(kept.as_ref());
    let partitions = usize::from(args.partitions);
    let ground = Ground::lay(&room.config.cluster, &room.name, events.map(String::as_str), partitions)?;
    let measured = room.enter(&ground, registry).map_err(Failure::from).and_then(|config| match args.latency {
        Some(rate) => steady(args, rate, &ground, &config, json, out),
        None => throughput(args, &ground, &config, json, out),
    });
    ground.clear()?;
    measured
}

fn throughput(args: &Args, ground: &Ground, config: &Config, json: bool, out: &mut dyn Write) -> Result<bool, Failure> {
    let expected = if let Some(expected) = args.expect {
        expected
    } else {
        let (events, overrides) = args.plan().expected();
        ground.load(args.plan(), events)?;
        overrides
    };
    let events = ground.events()?;
    let is_done = |inputs| Ok(inputs >= events && ground.behind(&config.group)? == 0);
    let ran = Worker::start(config.clone(), &run::stop_flag()?)?.finish(&is_done)?;
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
        proof: args.verify.then(|| Proof::of(config)).transpose()?,
    };
    if json { throughput.json(out) } else { throughput.table(out) }.map_err(unwritable)?;
    Ok(throughput.is_good())
}

fn steady(
    args: &Args,
    rate: u32,
    ground: &Ground,
    config: &Config,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let worker = Worker::start(config.clone(), &run::stop_flag()?)?;
    worker.wait_until_assigned()?;
    let measured = latency::measure(&config.cluster, ground, args.plan(), rate, args.seconds);
    let counters = worker.end()?;
    let steady = Steady {
        rate,
        partitions: ground.partitions,
        latency: &measured?,
        commits: (counters.commits.quantile_micros(50), counters.commits.quantile_micros(99)),
        proof: args.verify.then(|| Proof::of(config)).transpose()?,
    };
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
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    format!("{millis}-{}", std::process::id())
}
