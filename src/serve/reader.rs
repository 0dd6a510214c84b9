//! Fills the board from the compacted topics, on a thread of its own.
//!
//! What goes wrong is tried again for ever: what the board holds is answered from meanwhile. After a new beginning the
//! topics are read whole, and the board takes the result at once, so that nobody sees the past go by.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::engine::follow::Follower;
use crate::engine::operator::orders::text;
use crate::engine::operator::scan::Record;
use crate::engine::{Config, EngineError};
use crate::serve::ServeError;
use crate::serve::board::Board;

const POLL: Duration = Duration::from_millis(50);
/// Whether the end is reached is looked at after so many records, where they do not pause.
const LOOK_EVERY: u32 = 1000;
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A thread that reads until dropped.
#[derive(Debug)]
pub struct Reading {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reading {
    /// Begins to read.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(config: Config, board: Arc<Board>) -> Result<Self, ServeError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || read(&config, &board, &stopped);
        let thread = thread::Builder::new().name("board".into()).spawn(run);
        let failed = |error: std::io::Error| ServeError::System { address: "board".into(), words: error.to_string() };
        Ok(Self { stop, thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was told when it happened.
            let _ = thread.join();
        }
    }
}

fn read(config: &Config, board: &Board, stop: &AtomicBool) {
    let mut pause = PAUSE_MIN;
    while !stop.load(Ordering::Relaxed) {
        let Err(error) = follow(config, board, stop) else { return };
        tracing::warn!(%error, "overrides are not read; what was read last is answered from");
        let mut left = pause;
        while !left.is_zero() && !stop.load(Ordering::Relaxed) {
            thread::sleep(left.min(POLL));
            left = left.saturating_sub(POLL);
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Reads until stopped.
fn follow(config: &Config, board: &Board, stop: &AtomicBool) -> Result<(), EngineError> {
    let mut follower = Follower::new(config, &[&config.topics.overrides, &config.topics.interventions])?;
    let mut staged = Some(BTreeMap::new());
    let mut records: u32 = 0;
    while !stop.load(Ordering::Relaxed) {
        let next = follower.poll(POLL)?;
        let is_pause = next.is_none();
        if let Some((topic, record)) = next {
            records = records.wrapping_add(1);
            take(config, board, staged.as_mut(), topic, record);
        }
        if staged.is_some()
            && (is_pause || records.is_multiple_of(LOOK_EVERY))
            && follower.is_at_end()?
            && let Some(overrides) = staged.take()
        {
            board.load(&overrides);
            tracing::info!(overrides = overrides.len(), "overrides are read");
        }
    }
    Ok(())
}

/// `staged`: overrides before the end is reached.
fn take(config: &Config, board: &Board, staged: Option<&mut BTreeMap<String, String>>, topic: usize, record: Record) {
    let key = record.key.and_then(|key| String::from_utf8(key).ok());
    let json = record.value.map(|value| text(config, &value));
    let (Some(key), false) = (key, matches!(json, Some(None))) else { return board.unreadable() };
    let json = json.flatten();
    if topic != 0 {
        return board.put_intervention(&key, json.as_deref());
    }
    match (staged, json) {
        (None, json) => board.put_override(&key, json.as_deref()),
        (Some(staged), Some(json)) => drop(staged.insert(key, json)),
        (Some(staged), None) => drop(staged.remove(&key)),
    }
}
