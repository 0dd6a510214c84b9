//! One case: topics of its own, events on their way, processes with and without a failpoint.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::load::{Load, Random};
use super::oracle;
use super::reading::Reader;
use super::watch;
use super::world::{Running, World};
use crate::harness::child;

/// Longest wait for a fault to be injected, and for everything to be committed after the last one.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// What a case is given, and what it counts.
pub struct Run {
    pub random: Random,
    /// Of the whole matrix, not of the smoke set.
    pub full: bool,
    pub injected: Cell<u32>,
    pub fired: Cell<u32>,
    /// What was measured.
    pub notes: RefCell<Vec<String>>,
}

impl Run {
    /// A fault is to come.
    pub fn inject(&self) {
        self.injected.set(self.injected.get() + 1);
    }

    /// It came.
    pub fn fired(&self) {
        self.fired.set(self.fired.get() + 1);
    }

    /// Something measured.
    pub fn note(&self, words: String) {
        self.notes.borrow_mut().push(words);
    }

    /// A count from the seed; in the smoke set always the same.
    pub fn count(&mut self, smoke: u64, range: std::ops::Range<u64>) -> u64 {
        if self.full { self.random.within(range) } else { smoke }
    }

    pub fn events(&self) -> usize {
        if self.full { 200_000 } else { 20_000 }
    }

    /// How long sending them takes.
    pub fn sending(&self) -> Duration {
        Duration::from_secs(if self.full { 20 } else { 4 })
    }
}

/// Topics, events, processes of one case.
pub struct Rig {
    pub world: World,
    pub load: Load,
    pub lifted: BTreeSet<String>,
    done: AtomicBool,
}

/// A process with a failpoint.
pub struct Armed {
    pub running: Running,
    file: PathBuf,
}

impl Rig {
    pub fn new(run: &Run, name: &str) -> Self {
        Self::of(World::new(name), run)
    }

    pub fn of(world: World, run: &Run) -> Self {
        let load = Load::new(run.events(), run.sending());
        Self { world, load, lifted: BTreeSet::new(), done: AtomicBool::new(false) }
    }

    /// `reflex run`; each number is an instance of its own.
    pub fn command(&self, instance: usize) -> Command {
        let mut command = self.world.command(&[
            "run",
            "--set",
            "batch_events_max=300",
            "--set",
            "commit_interval_ms=100",
            "--set",
            "log.level=info,reflex::engine=debug,reflex::engine::task=info",
        ]);
        command.env("REFLEX_DATA_DIR", self.world.folder.path().join(format!("data-{instance}")));
        command
    }

    pub fn start(&self, instance: usize) -> Running {
        let running = Running::start(self.command(instance), self.world.folder.path());
        running.wait_for_log("assigned");
        running
    }

    pub fn armed(&self, run: &Run, instance: usize, point: &str) -> Armed {
        self.armed_with(run, self.command(instance), point)
    }

    pub fn armed_with(&self, run: &Run, mut command: Command, point: &str) -> Armed {
        run.inject();
        let file = self.world.folder.path().join(format!("fired-{:016x}", crate::harness::ports::random()));
        command.env("REFLEX_FAILPOINT", point).env("REFLEX_FAILPOINT_FILE", &file);
        Armed { running: Running::start(command, self.world.folder.path()), file }
    }

    /// Sends the events and looks at committed offsets while `work` goes on; then everything has to be there.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            let watching = scope.spawn(|| watch::offsets(&self.world, &self.done));
            let sending = scope.spawn(|| self.load.send(&self.world));
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let worked = work();
                sending.join().expect("all sent");
                self.wait_until_processed();
                worked
            }));
            self.done.store(true, Ordering::Relaxed);
            let watched = watching.join();
            let worked = worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            watched.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            worked
        })
    }

    /// Waits until so many overrides can be read.
    pub fn wait_for_overrides(&self, count: usize) {
        let reader = Reader::committed(&self.world);
        child::wait_for(&format!("{count} overrides"), PATIENCE, || {
            (reader.read(&self.world.topics().overrides).len() >= count).then_some(())
        });
    }

    /// Waits until all events and all commands on sessions are committed.
    pub fn wait_until_processed(&self) {
        let started = Instant::now();
        let consumer = watch::committed_reader(&self.world);
        let (topics, reader) = (self.world.topics(), Reader::committed(&self.world));
        let mut wanted = BTreeMap::new();
        for topic in [&topics.events, &topics.session_commands] {
            for record in reader.read(topic) {
                wanted.insert((topic.clone(), record.partition), record.offset + 1);
            }
        }
        loop {
            let committed = watch::committed(&consumer, &self.world).unwrap_or_default();
            if wanted.iter().all(|(place, next)| committed.get(place).is_some_and(|offset| offset >= next)) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "after {PATIENCE:?} {committed:?} is committed of {wanted:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Everything that must hold at the end.
    pub fn judge(&self) {
        oracle::judge(self);
    }
}

impl Armed {
    /// Waits for the end by SIGKILL.
    pub fn wait_for_kill(self, run: &Run) {
        let (code, log) = self.running.wait(PATIENCE);
        assert_eq!(code, None, "not killed:\n{log}");
        let told = std::fs::read_to_string(&self.file).unwrap_or_default();
        assert!(!told.is_empty(), "ended by something else:\n{log}");
        run.fired();
    }

    /// Waits until it has lost something.
    pub fn wait_for_loss(self, run: &Run) -> Running {
        self.wait_for_file(run, "the loss")
    }

    /// Waits until it has stopped itself.
    pub fn wait_for_stop(self, run: &Run) -> Running {
        self.wait_for_file(run, "the stop of a process")
    }

    fn wait_for_file(self, run: &Run, what: &str) -> Running {
        child::wait_for(what, PATIENCE, || {
            std::fs::read_to_string(&self.file).is_ok_and(|told| !told.is_empty()).then_some(())
        });
        run.fired();
        self.running
    }
}
