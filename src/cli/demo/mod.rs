//! `reflex demo`: the same worker as `reflex run`, on an embedded broker, with a sample fleet that fails.

mod runtime;
mod session;
mod story;

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::engine::cluster::embedded::EmbeddedBroker;
use crate::engine::{self, Cluster, Config, Counters, EngineError, Progress, Registries, TopicNames};
use crate::registry::{Registry, SourceFile, load_and_lint};
use runtime::Runtime;

/// Arguments of `reflex demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Sessions of the sample fleet; one in ten fails.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=5000))]
    pub sessions: u32,
    /// Leave the broker and the processor running until interrupted.
    #[arg(long)]
    pub keep: bool,
}

/// Partitions of the embedded topics.
const PARTITIONS: i32 = 4;
/// Longest time until the processor owns its partitions.
const JOIN_PATIENCE: Duration = Duration::from_secs(20);
/// Longest time the fleet runs beyond its own pace.
const FLEET_PATIENCE: Duration = Duration::from_secs(20);

/// The registry of the demo: the shipped refund example, compiled in, so that it runs from any folder.
fn registry() -> Result<Arc<Registry>, Failure> {
    let file = |name: &str, text: &str| SourceFile { name: name.to_owned(), text: text.to_owned() };
    let files = [
        file("defaults.toml", include_str!("../../../config/registry/defaults.toml")),
        file("refund.toml", include_str!("../../../config/registry/refund.toml")),
        file("shapes.toml", include_str!("../../../config/registry/shapes.toml")),
    ];
    let loaded = load_and_lint(&files);
    loaded.map(|loaded| Arc::new(loaded.registry)).map_err(|problems| {
        Failure::new(Exit::Bug, format_args!("the shipped registry has {} problems", problems.len()))
    })
}

/// Runs the demo and tells what happened; `interrupted` is set by a signal.
///
/// # Errors
/// Exit 1 where a failing session was not saved, a healthy one touched, or an override left over.
pub fn run(args: &Args, json: bool, interrupted: &Arc<AtomicBool>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let colours =
        !json && std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let registry = registry()?;
    let topics = TopicNames::default();
    let outputs = topics.outputs();
    // The topic between the stages is both.
    let names: BTreeSet<&str> = topics.inputs().into_iter().chain(outputs.iter().map(String::as_str)).collect();
    let broker = EmbeddedBroker::start(names, PARTITIONS).map_err(failed)?;
    let cluster = Cluster {
        bootstrap_servers: broker.bootstrap_servers(),
        // The embedded broker answers a fetch only when its wait is over, even where records came meanwhile.
        properties: [(String::from("fetch.wait.max.ms"), String::from("5"))].into(),
    };
    let config = Config {
        cluster: cluster.clone(),
        group: String::from("reflex-demo"),
        check_topics: false,
        ..Config::default()
    };
    let mut teller = story::Teller { out, colours };
    if !json {
        teller.opening(&cluster, args.sessions).map_err(unwritable)?;
    }
    let processor = Processor::start(config, registry)?;
    let begun = Instant::now();
    let mut runtime = Runtime::connect(&cluster, &topics, PARTITIONS, args.sessions as usize).map_err(failed)?;
    let pace = Duration::from_millis(5 * u64::from(args.sessions));
    let ran = runtime.run(begun + pace + FLEET_PATIENCE);
    while args.keep && !interrupted.load(Ordering::Relaxed) {
        runtime.read(Duration::from_millis(100));
    }
    let counters = processor.stop();
    ran.map_err(failed)?;
    let outcome = story::Outcome::of(&runtime, &counters?);
    if json { teller.json(&outcome, &runtime) } else { teller.tell(&outcome, &runtime) }.map_err(unwritable)?;
    Ok(if outcome.is_good() { Exit::Done } else { Exit::Found })
}

/// The processor on a thread of its own.
struct Processor {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<Counters, EngineError>>,
}

impl Processor {
    /// Starts it, and waits until it owns its partitions.
    fn start(config: Config, registry: Arc<Registry>) -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (assigned, wait) = mpsc::channel();
        let thread = thread::spawn(move || {
            engine::run(config, Registries::Fixed(registry), &stopped, &mut |progress| {
                if matches!(progress, Progress::Assigned(_)) {
                    // Nobody listens any more after the first: that is fine.
                    let _ = assigned.send(());
                }
            })
        });
        let processor = Self { stop, thread };
        if wait.recv_timeout(JOIN_PATIENCE).is_err() {
            processor.stop()?;
            return Err(Failure::new(Exit::TryAgain, "the processor got no partitions of the embedded broker"));
        }
        Ok(processor)
    }

    fn stop(self) -> Result<Counters, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(ended) => ended.map_err(failed),
            Err(_) => Err(Failure::new(Exit::Bug, "the processor panicked")),
        }
    }
}

fn failed(error: EngineError) -> Failure {
    Failure::new(Exit::Unavailable, error)
}
