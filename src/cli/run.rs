//! `reflex run`: the engine, until a signal.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::cli::engine_config::{config, store_folder};
use crate::cli::exit::{Exit, Failure};
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Settings;
use crate::cli::{http, logging, registry};
use crate::engine::cluster::preflight;
use crate::engine::home::Home;
use crate::engine::operator::registry_topic::{push, versions};
use crate::engine::operator::scan;
use crate::engine::shown::health::Bounds;
use crate::engine::shown::watch::Monitor;
use crate::engine::state::store::sweep::sweep;
use crate::engine::{Config, Counters, EngineError, Registries, run as run_engine};
use crate::registry::Registry;

/// A stop takes at most this long; over: the process ends as it is, and the next one finds everything in the log.
const STOP_MAX: Duration = Duration::from_secs(25);
/// Processes that start at once try so often to push their registry.
const PUSH_TRIES_MAX: u32 = 5;
/// Pause before the next try, times the number of tries.
const PUSH_PAUSE: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What the client library tells once a second is read this often.
const TEND_EVERY: Duration = Duration::from_millis(500);

/// Runs until SIGTERM or SIGINT; a second signal ends the process at once.
///
/// # Errors
/// Why the engine could not start or go on.
pub fn run(resolved: &Resolved) -> Result<Exit, Failure> {
    let settings = &resolved.settings;
    logging::start(&settings.log)?;
    let registry = registry(resolved)?;
    let stop = stop_flag()?;
    // Locked until the process ends.
    let instance = Some(settings.instance.as_str()).filter(|name| !name.is_empty());
    let home = Home::open(Path::new(&settings.data_dir), instance)?;
    let monitor = Arc::new(Monitor::new(settings.workers as usize, bounds(settings), &stop));
    let removed = sweep(&store_folder(settings), Duration::from_millis(settings.store_age_ms_max));
    if let Some(first) = monitor.workers().first() {
        first.stores.removed.store(removed, Ordering::Relaxed);
    }
    // Before the group hears of this process; it answers until the worker has closed.
    let config = config(settings, home.instance())?;
    let _service = http::start(settings, config.clone(), &monitor)?;
    tracing::info!(registry = registry.version, instance = home.instance(), workers = settings.workers, "starting");
    let registries = registries(&config, &registry)?;
    let workers = start(&config, &registries, &monitor, &stop)?;
    wait(&workers, &monitor, &stop)?;
    let ended: Vec<_> = workers.into_iter().map(JoinHandle::join).collect();
    for ended in ended {
        match ended {
            Ok(ended) => drop(ended?),
            Err(_) => return Err(Failure::new(Exit::Bug, "a worker panicked; its message is above")),
        }
    }
    Ok(Exit::Done)
}

type Worker = JoinHandle<Result<Counters, EngineError>>;

/// Starts the workers, each on a thread of its own. One that gives up ends the others: the process answers for all its
/// tasks, or another one does.
fn start(
    config: &Config,
    registries: &Registries,
    monitor: &Arc<Monitor>,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Worker>, Failure> {
    let mut workers = Vec::new();
    for (number, watch) in (0..).zip(monitor.workers()) {
        let config = Config { worker: number, watch: Arc::clone(watch), ..config.clone() };
        let (registries, stop) = (registries.clone(), Arc::clone(stop));
        let run = move || {
            let ended = run_engine(config, registries, &stop, &mut |_| {});
            if ended.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            ended
        };
        let worker = thread::Builder::new().name(format!("worker-{number}")).spawn(run);
        workers.push(worker.map_err(|error| Failure::new(Exit::TryAgain, format_args!("starting a thread: {error}")))?);
    }
    Ok(workers)
}

/// Waits until all workers have ended.
fn wait(workers: &[Worker], monitor: &Monitor, stop: &AtomicBool) -> Result<(), Failure> {
    let mut stopping = None;
    let mut tended = Instant::now();
    while !workers.iter().all(JoinHandle::is_finished) {
        thread::sleep(LOOK_EVERY);
        if tended.elapsed() >= TEND_EVERY {
            tended = Instant::now();
            monitor.tend(tended);
        }
        if workers.iter().any(JoinHandle::is_finished) {
            stop.store(true, Ordering::Relaxed);
        }
        if stop.load(Ordering::Relaxed) {
            let since = *stopping.get_or_insert_with(|| {
                tracing::info!("stopping");
                Instant::now()
            });
            if since.elapsed() > STOP_MAX {
                let message =
                    format!("did not stop within {} s; what was not committed is processed again", STOP_MAX.as_secs());
                return Err(Failure::new(Exit::TryAgain, message));
            }
        }
    }
    Ok(())
}

/// Versions from their topic. The folder's is pushed where the topic has never seen it; one that it has seen, and that is
/// not active, was replaced by somebody: it stays so.
fn registries(config: &Config, registry: &Registry) -> Result<Registries, Failure> {
    preflight::check(config)?;
    let versions = versions(config)?;
    let active = versions.active().map(|version| version.hash.clone());
    let is_active = active.as_ref() == Some(&registry.version);
    if versions.get(&registry.version).is_none() || is_active && lacks_activations(config)? {
        push_new(config, registry)?;
    } else if !is_active {
        tracing::warn!(
            version = registry.version,
            active,
            "the registry of this process is not the active one, and stays so: `reflex registry push` activates it"
        );
    }
    Ok(Registries::in_band(config))
}

/// Whether a partition of commands holds none: one that was added later, whose tasks would wait for a registry for ever.
fn lacks_activations(config: &Config) -> Result<bool, Failure> {
    for topic in [&config.topics.session_commands, &config.topics.commands] {
        if scan::bounds(config, topic)?.values().any(|(first, end)| first >= end) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Pushes a version nobody has pushed. Processes that start at once do so at once, and take the right to from each other:
/// whoever comes too late finds it there.
fn push_new(config: &Config, registry: &Registry) -> Result<(), Failure> {
    for tries in 1.. {
        match push(config, registry, "start of reflex run", &format!("reflex run {}", config.instance)) {
            Ok(_) => {
                tracing::info!(version = registry.version, "the registry of this process is pushed");
                return Ok(());
            }
            Err(EngineError::Outage(words)) if tries < PUSH_TRIES_MAX => {
                tracing::warn!(words, "the registry of this process is not pushed yet");
                thread::sleep(PUSH_PAUSE * tries);
            }
            Err(error) => return Err(error.into()),
        }
        if versions(config)?.get(&registry.version).is_some() {
            break;
        }
    }
    Ok(())
}

/// How long a worker may take: as the group sees it, and as long as the engine waits for a broker.
fn bounds(settings: &Settings) -> Bounds {
    let poll_ms = settings.kafka.0.get("max.poll.interval.ms").and_then(|text| text.parse().ok());
    Bounds {
        beat_max: poll_ms.map_or(Bounds::default().beat_max, Duration::from_millis),
        wait_max: Duration::from_millis(settings.broker_outage_ms_max) + Duration::from_mins(1),
        ..Bounds::default()
    }
}

/// Set by SIGTERM or SIGINT; a second signal ends the process at once.
///
/// # Errors
/// Where signals cannot be had.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal sets the flag, the second finds it set and ends the process.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::new(Exit::TryAgain, format_args!("waiting for signals: {error}")))?;
    }
    Ok(stop)
}
