//! The local stores of an assignment on their way into memory: on threads of their own, so that the worker can go on
//! polling its group.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::state::store::Task;
use crate::engine::state::store::check::{State, set_aside};
use crate::engine::state::store::keeper::{Keeper, Loaded};

/// A store that gives nothing for so long hangs in its library: it is set aside.
pub const LOAD_STALL: Duration = Duration::from_secs(30);
/// Most threads that load at once.
const THREADS_MAX: usize = 4;

/// Counts what passes, so that a hang can be told from a long way.
struct Watched<T> {
    state: T,
    passed: Arc<AtomicU64>,
}

impl<T: State> State for Watched<T> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.passed.fetch_add(1, Ordering::Relaxed);
        self.state.put(key, value)
    }

    fn hash(&self) -> u128 {
        self.state.hash()
    }
}

/// Makes the empty state of a task.
pub type Empty<T> = Arc<dyn Fn(&Task) -> T + Send + Sync>;

/// Stores that are being loaded.
pub struct Loading<T> {
    keeper: Arc<Keeper>,
    came: mpsc::Receiver<(Task, Option<Loaded<T>>)>,
    waiting: Vec<Task>,
    passed: Arc<AtomicU64>,
    seen: u64,
    progressed: Instant,
}

impl<T: State> Loading<T> {
    /// Begins with the stores of these tasks.
    pub fn begin(keeper: &Arc<Keeper>, tasks: Vec<Task>, empty: &Empty<T>) -> Self {
        let (sender, came) = mpsc::channel();
        let passed = Arc::new(AtomicU64::new(0));
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(tasks.len());
        let (queue, next) = (Arc::new(tasks.clone()), Arc::new(AtomicUsize::new(0)));
        for _ in 0..threads {
            let (queue, next, keeper) = (Arc::clone(&queue), Arc::clone(&next), Arc::clone(keeper));
            let (sender, passed, empty) = (sender.clone(), Arc::clone(&passed), Arc::clone(empty));
            let load = move || {
                while let Some(task) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let state = || Watched { state: empty(task), passed: Arc::clone(&passed) };
                    let loaded = keeper.load(task, state).map(|loaded| Loaded {
                        state: loaded.state.state,
                        changelog_next: loaded.changelog_next,
                        entries: loaded.entries,
                    });
                    passed.fetch_add(1, Ordering::Relaxed);
                    if sender.send((task.clone(), loaded)).is_err() {
                        // The assignment is over.
                        keeper.close(Some(std::slice::from_ref(task)), Duration::ZERO);
                        return;
                    }
                }
            };
            if let Err(error) = thread::Builder::new().name("load".into()).spawn(load) {
                tracing::warn!(%error, "loading local stores");
            }
        }
        Self { keeper: Arc::clone(keeper), came, waiting: tasks, passed, seen: 0, progressed: Instant::now() }
    }

    /// Whether all came.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next store that came, within a moment; a state, or none where the changelog has to be read whole.
    pub fn next(&mut self, wait: Duration) -> Option<(Task, Option<Loaded<T>>)> {
        match self.came.recv_timeout(wait) {
            Ok((task, loaded)) => {
                self.waiting.retain(|waiting| *waiting != task);
                self.progressed = Instant::now();
                Some((task, loaded))
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let passed = self.passed.load(Ordering::Relaxed);
                if passed != self.seen {
                    (self.seen, self.progressed) = (passed, Instant::now());
                } else if self.progressed.elapsed() > LOAD_STALL {
                    self.give_up("its library hangs");
                }
                None
            }
            // No thread could be had.
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                self.give_up("no thread");
                None
            }
        }
    }

    fn give_up(&mut self, why: &str) {
        for task in std::mem::take(&mut self.waiting) {
            tracing::warn!(%task, why, "the local store is set aside; the state comes from the changelog");
            let settings = self.keeper.settings();
            // A second try to move it is made at the next start.
            let _ = set_aside(&task.folder(&settings.folder).join(settings.kind.name()), None);
        }
    }
}
