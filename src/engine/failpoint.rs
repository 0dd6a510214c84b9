//! Places where a process can be made to end or to stop, for `tests/faults.rs`. Without the feature `failpoints` there
//! is nothing here: `pass` is empty and the timeout a constant.
//!
//! `REFLEX_FAILPOINT=NAME:COUNT[:kill|stop|lose[:MICROS]]`: at the COUNT-th passing of NAME a line is appended to the file
//! `REFLEX_FAILPOINT_FILE`, and the process sends SIGKILL or SIGSTOP to itself; with MICROS it goes on for so long
//! first. With `lose` it goes on, and what it does there is lost, as if a broker had lost it.
//! `REFLEX_FAILPOINT_TRANSACTION_TIMEOUT_MS`: timeout of the transactions of this process.

/// The process passes a place.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn pass(_name: &str) {}

#[cfg(feature = "failpoints")]
pub use armed::{is_lost, pass, transaction_timeout};

/// A transaction that is not ended within this time is aborted by the broker.
#[cfg(not(feature = "failpoints"))]
pub fn transaction_timeout() -> std::time::Duration {
    crate::engine::cluster::client::TRANSACTION_TIMEOUT
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::env;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use crate::engine::cluster::client::TRANSACTION_TIMEOUT;

    /// So long the client's own threads go on before the signal: what was handed to them is on its way.
    const PAUSE: Duration = Duration::from_millis(20);

    struct Point {
        name: String,
        count: u64,
        /// None: what happens there is lost.
        signal: Option<Signal>,
        delay: Option<Duration>,
        passed: AtomicU64,
    }

    fn point() -> Option<&'static Point> {
        static POINT: OnceLock<Option<Point>> = OnceLock::new();
        POINT.get_or_init(|| env::var("REFLEX_FAILPOINT").ok().map(|text| read(&text))).as_ref()
    }

    /// A failpoint that cannot be read would be a fault that is never injected.
    #[allow(clippy::panic, reason = "builds for fault tests only")]
    fn read(text: &str) -> Point {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default().to_owned();
        let count = parts.next().and_then(|count| count.parse().ok());
        let signal = match parts.next() {
            None | Some("kill") => Some(Some(Signal::KILL)),
            Some("stop") => Some(Some(Signal::STOP)),
            Some("lose") => Some(None),
            Some(_) => None,
        };
        let delay = parts.next().map(|micros| micros.parse().map(Duration::from_micros));
        match (count, signal, delay.transpose()) {
            (Some(count), Some(signal), Ok(delay)) => Point { name, count, signal, delay, passed: AtomicU64::new(0) },
            _ => panic!("REFLEX_FAILPOINT={text}: NAME:COUNT[:kill|stop|lose[:MICROS]]"),
        }
    }

    fn reached(name: &str) -> Option<&'static Point> {
        let point = point().filter(|point| point.name == name)?;
        (point.passed.fetch_add(1, Ordering::Relaxed) + 1 == point.count).then_some(point)
    }

    /// Whether what happens here is to be lost.
    pub fn is_lost(name: &str) -> bool {
        let Some(point) = reached(name).filter(|point| point.signal.is_none()) else { return false };
        tell(point);
        true
    }

    pub fn pass(name: &str) {
        let Some(point) = reached(name).filter(|point| point.signal.is_some()) else { return };
        match point.delay {
            None => {
                thread::sleep(PAUSE);
                fire(point);
            }
            Some(delay) => drop(thread::spawn(move || {
                thread::sleep(delay);
                fire(point);
            })),
        }
    }

    #[allow(clippy::expect_used, reason = "builds for fault tests only")]
    fn fire(point: &Point) {
        tell(point);
        kill_process(getpid(), point.signal.unwrap_or(Signal::KILL)).expect("a signal to oneself");
    }

    #[allow(clippy::expect_used, reason = "builds for fault tests only")]
    fn tell(point: &Point) {
        let file = env::var_os("REFLEX_FAILPOINT_FILE").expect("REFLEX_FAILPOINT_FILE");
        let mut file = OpenOptions::new().create(true).append(true).open(file).expect("the failpoint's file");
        writeln!(file, "{} passed {} times", point.name, point.count).expect("a line in the failpoint's file");
    }

    pub fn transaction_timeout() -> Duration {
        let millis = env::var("REFLEX_FAILPOINT_TRANSACTION_TIMEOUT_MS").ok().and_then(|text| text.parse().ok());
        millis.map_or(TRANSACTION_TIMEOUT, Duration::from_millis)
    }
}
