//! The keeper's thread: rounds of reading changelogs and writing stores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::engine::error::capped;
use crate::engine::failpoint;
use crate::engine::state::store::check::{guarded, millis, set_aside};
use crate::engine::state::store::follow::{Source, Wanted};
use crate::engine::state::store::keeper::{Kept, Mark, ROUND_BYTES_MAX, Shared, Tally};
use crate::engine::state::store::{Checkpoint, FORMAT, Store, StoreError, Task, Write, hex};

/// How often stores catch up.
const ROUND_EVERY: Duration = Duration::from_secs(1);
/// A round that gets nothing for so long ends; the next one goes on.
const ROUND_STALL: Duration = Duration::from_secs(5);
/// A store that nothing happens to says so again this many times before it would be too old.
const RENEWALS: u32 = 12;

/// The keeper's thread.
pub struct Writer {
    shared: Arc<Shared>,
    source: Box<dyn Source>,
    kept: BTreeMap<Task, Kept>,
}

impl Writer {
    /// Keeps nothing yet.
    pub fn new(shared: Arc<Shared>, source: Box<dyn Source>) -> Self {
        Self { shared, source, kept: BTreeMap::new() }
    }

    /// Goes on until the keeper stops.
    pub fn work(mut self) {
        loop {
            let (marks, closing, dropping, is_stopping) = self.wait();
            for task in dropping {
                if let Some(kept) = self.kept.remove(&task) {
                    self.discard(&task, kept.store);
                }
            }
            if is_stopping {
                for (task, kept) in std::mem::take(&mut self.kept) {
                    close(&task, kept);
                }
                self.shared.desk().closing.clear();
                self.shared.changed.notify_all();
                return;
            }
            let wanted = |task: &Task| closing.is_empty() || closing.contains(task);
            let marks: BTreeMap<Task, Mark> = marks.into_iter().filter(|(task, _)| wanted(task)).collect();
            self.round(&marks, !closing.is_empty());
            self.renew(&marks);
            for task in &closing {
                if let Some(kept) = self.kept.remove(task) {
                    close(task, kept);
                }
                let mut desk = self.shared.desk();
                desk.closing.remove(task);
                desk.open.remove(task);
                desk.marks.remove(task);
                self.shared.changed.notify_all();
            }
        }
    }

    /// Waits for the next round; takes stores over.
    fn wait(&mut self) -> (BTreeMap<Task, Mark>, BTreeSet<Task>, BTreeSet<Task>, bool) {
        let shared = Arc::clone(&self.shared);
        let mut desk = shared.desk();
        let until = Instant::now() + ROUND_EVERY;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let is_urgent = desk.is_hungry || desk.is_stopping || !desk.closing.is_empty() || !desk.dropping.is_empty();
            if is_urgent || left.is_zero() {
                break;
            }
            desk = shared.changed.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        desk.is_hungry = false;
        self.kept.extend(std::mem::take(&mut desk.adopted));
        let dropping = std::mem::take(&mut desk.dropping);
        for task in &dropping {
            desk.open.remove(task);
            desk.marks.remove(task);
        }
        (desk.marks.clone(), desk.closing.clone(), dropping, desk.is_stopping)
    }

    /// Reads the changelogs of tasks that went on, up to their marks, and writes.
    fn round(&mut self, marks: &BTreeMap<Task, Mark>, is_closing: bool) {
        let mut parts: Vec<Part> = Vec::new();
        for (task, mark) in marks {
            let Some(kept) = self.kept.remove(task) else { continue };
            // Filling a store may take long: one that closes is filled next time.
            let is_behind = kept.next.is_none_or(|next| next < mark.changelog_next);
            if is_behind && (kept.whole.is_some() || !is_closing) {
                parts.push(Part::new(task, kept, *mark));
            } else {
                self.kept.insert(task.clone(), kept);
            }
        }
        if parts.is_empty() {
            return;
        }
        let wanted: Vec<Wanted> = parts.iter().map(Part::wanted).collect();
        let shared = Arc::clone(&self.shared);
        let stop = || {
            let desk = shared.desk();
            desk.is_stopping || (!is_closing && !desk.closing.is_empty())
        };
        let read = self.source.read(&wanted, ROUND_STALL, &stop, &mut |index, offset, key, value| {
            parts[index].take(offset, key, value, &shared.tally);
        });
        let reached = read.unwrap_or_else(|words| {
            tracing::warn!(error = capped(&words), "local stores: reading the changelog");
            Vec::new()
        });
        for (index, mut part) in parts.into_iter().enumerate() {
            part.end(reached.get(index) == Some(&true), &shared.tally);
            let Part { task, kept, failed, .. } = part;
            if let Some(error) = failed {
                self.give_up(&task, kept.store, &error);
            } else {
                self.kept.insert(task, kept);
            }
        }
    }

    /// Says again of stores that nothing happened to that they are up to date.
    fn renew(&mut self, marks: &BTreeMap<Task, Mark>) {
        let now = millis();
        let every = self.shared.settings.age_max / RENEWALS;
        let mut failed = Vec::new();
        for (task, kept) in &mut self.kept {
            let Some(checkpoint) = &mut kept.whole else { continue };
            let is_old = u128::from(now.abs_diff(checkpoint.written_at)) > every.as_millis();
            let is_there = marks.get(task).is_some_and(|mark| mark.changelog_next == checkpoint.changelog_next);
            if is_old && is_there {
                checkpoint.written_at = now;
                if let Err(error) = guarded(|| kept.store.apply(&[], checkpoint)) {
                    failed.push((task.clone(), error));
                }
            }
        }
        for (task, error) in failed {
            if let Some(kept) = self.kept.remove(&task) {
                self.give_up(&task, kept.store, &error);
            }
        }
    }

    fn give_up(&self, task: &Task, store: Box<dyn Store>, error: &StoreError) {
        tracing::warn!(%task, error = capped(&error.to_string()), "the local store is given up: going on without");
        self.shared.tally.given_up.fetch_add(1, Ordering::Relaxed);
        self.discard(task, store);
        let mut desk = self.shared.desk();
        desk.open.remove(task);
        desk.marks.remove(task);
    }

    fn discard(&self, task: &Task, store: Box<dyn Store>) {
        let settings = &self.shared.settings;
        if let Err(error) = set_aside(&task.folder(&settings.folder).join(settings.kind.name()), Some(store)) {
            tracing::warn!(%task, %error, "the local store cannot be moved");
        }
    }
}

fn close(task: &Task, kept: Kept) {
    if let Err(error) = guarded(|| kept.store.close()) {
        tracing::warn!(%task, error = capped(&error.to_string()), "closing the local store");
    }
}

/// One store in a round.
struct Part {
    task: Task,
    kept: Kept,
    mark: Mark,
    /// The last value of each key.
    held: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    held_bytes: usize,
    /// Behind the last entry taken.
    taken_next: Option<i64>,
    failed: Option<StoreError>,
}

impl Part {
    fn new(task: &Task, kept: Kept, mark: Mark) -> Self {
        let taken_next = kept.next;
        Self { task: task.clone(), kept, mark, held: BTreeMap::new(), held_bytes: 0, taken_next, failed: None }
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            topic: self.task.topic.clone(),
            partition: self.task.partition,
            from: self.kept.next,
            until: self.mark.changelog_next,
        }
    }

    fn take(&mut self, offset: i64, key: &[u8], value: Option<&[u8]>, tally: &Tally) {
        if self.failed.is_some() {
            return;
        }
        self.held_bytes += key.len() + value.map_or(0, <[u8]>::len);
        self.held.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        self.taken_next = Some(offset + 1);
        if self.held_bytes > ROUND_BYTES_MAX {
            tally.parts.fetch_add(1, Ordering::Relaxed);
            self.write(offset + 1, None, tally);
        }
    }

    /// Ends the round; `reached`: everything before the mark was taken.
    fn end(&mut self, reached: bool, tally: &Tally) {
        if self.failed.is_some() {
            return;
        }
        match self.taken_next {
            _ if reached => self.write(self.mark.changelog_next, Some(hex(self.mark.state_hash)), tally),
            // Nothing whole to lose: what came is kept. Else it is read again.
            Some(next) if self.kept.whole.is_none() && !self.held.is_empty() => self.write(next, None, tally),
            _ => {}
        }
    }

    fn write(&mut self, next: i64, state_hash: Option<String>, tally: &Tally) {
        let checkpoint = Checkpoint {
            format: FORMAT,
            topic: self.task.topic.clone(),
            topic_id: self.task.topic_id.clone(),
            partition: self.task.partition,
            changelog_next: next,
            state_hash,
            written_at: millis(),
        };
        let writes: Vec<Write> = std::mem::take(&mut self.held).into_iter().collect();
        self.held_bytes = 0;
        failpoint::pass("mid_store_batch");
        match guarded(|| self.kept.store.apply(&writes, &checkpoint)) {
            Ok(()) => {
                tally.written.fetch_add(writes.len() as u64, Ordering::Relaxed);
                self.kept.next = Some(next);
                tally.caught_up.fetch_add(u64::from(checkpoint.state_hash.is_some()), Ordering::Relaxed);
                self.kept.whole = checkpoint.state_hash.is_some().then_some(checkpoint);
            }
            Err(error) => self.failed = Some(error),
        }
    }
}
