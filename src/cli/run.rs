//! `reflex run`: the engine, until a signal.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::cli::exit::{Exit, Failure};
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Settings;
use crate::cli::{logging, registry};
use crate::engine::home::Home;
use crate::engine::store;
use crate::engine::{Cluster, Config, run as run_engine};
use crate::record::codec::Schemas;

/// A stop takes at most this long; over: the process ends as it is, and the next one finds everything in the log.
const STOP_MAX: Duration = Duration::from_secs(25);
const LOOK_EVERY: Duration = Duration::from_millis(20);

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
    let config = config(settings, home.instance())?;
    tracing::info!(registry = registry.version, instance = home.instance(), "starting");
    let worker = {
        let stop = Arc::clone(&stop);
        let run = move || run_engine(config, registry, &stop, &mut |_| {});
        thread::Builder::new()
            .name("worker-0".into())
            .spawn(run)
            .map_err(|error| Failure::new(Exit::TryAgain, format_args!("starting a thread: {error}")))?
    };
    let mut stopping = None;
    while !worker.is_finished() {
        thread::sleep(LOOK_EVERY);
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
    match worker.join() {
        Ok(ended) => ended.map(|_| Exit::Done).map_err(Failure::from),
        Err(_) => Err(Failure::new(Exit::Bug, "the worker panicked; its message is above")),
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

/// Brokers of the settings.
pub fn cluster(settings: &Settings) -> Cluster {
    Cluster { bootstrap_servers: settings.bootstrap_servers.clone(), properties: settings.kafka.0.clone() }
}

/// The engine's configuration.
///
/// # Errors
/// Exit 66 or 78 for a schema of `[avro] schema_ids` that cannot be used.
pub fn config(settings: &Settings, instance: &str) -> Result<Config, Failure> {
    Ok(Config {
        cluster: cluster(settings),
        group: settings.group.clone(),
        instance: instance.to_owned(),
        topics: settings.topics.names(),
        tenant: Some(settings.input.tenant.clone()).filter(|tenant| !tenant.is_empty()),
        schemas: schemas(settings)?,
        encoding: settings.encoding,
        commit_interval: Duration::from_millis(settings.commit_interval_ms),
        commit_gap_min: Duration::from_millis(settings.commit_gap_ms_min),
        batch_events_max: settings.batch_events_max as usize,
        broker_timeout: Duration::from_millis(settings.broker_timeout_ms),
        outage_max: Duration::from_millis(settings.broker_outage_ms_max),
        start_at_earliest: settings.start_at_earliest,
        store: stores(settings),
        check_topics: true,
    })
}

/// Where local stores are; none: there are none.
fn stores(settings: &Settings) -> Option<store::Settings> {
    (settings.store != store::Kind::Memory).then(|| store::Settings {
        kind: settings.store,
        folder: Path::new(&settings.data_dir).join("store"),
        age_max: Duration::from_millis(settings.store_age_ms_max),
    })
}

/// The shipped schemas and those of `[avro] schema_ids`.
fn schemas(settings: &Settings) -> Result<Schemas, Failure> {
    let mut schemas = Schemas::default();
    for (id, path) in &settings.avro.schema_ids {
        let refuse = |exit, what: &dyn std::fmt::Display| {
            Failure::new(exit, format_args!("avro.schema_ids.{id}: {path}: {what}"))
        };
        let number = id.parse().map_err(|_| refuse(Exit::Configuration, &"the id is not a whole number"))?;
        let text = std::fs::read_to_string(path).map_err(|error| refuse(Exit::NoInput, &error))?;
        schemas = schemas.with_id(number, &text).map_err(|error| refuse(Exit::Configuration, &error))?;
    }
    Ok(schemas)
}
