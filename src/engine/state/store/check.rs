//! Opening a store: it is read from first to last, and used only where it is, to the bit, what its task had at the
//! checkpoint. Anything else is set aside, and a new one begun.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::engine::error::capped;
use crate::engine::state::store::{Checkpoint, FORMAT, Kind, Settings, Store, StoreError, Task, hex, open};

/// A process that was killed may hold the lock for a moment longer; over: the store is not used.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const ASIDE: &str = ".aside-";

/// What entries are loaded into.
pub trait State: Send + Sized + 'static {
    /// Takes one entry.
    ///
    /// # Errors
    /// No entry of such a state.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), String>;

    /// Hash of all entries taken.
    fn hash(&self) -> u128;
}

/// A store as it was found.
pub enum Found<T> {
    /// Checked: the state at its checkpoint.
    Whole {
        /// The store.
        store: Box<dyn Store>,
        /// What it held.
        state: T,
        /// How far.
        checkpoint: Checkpoint,
        /// How many entries.
        entries: u64,
    },
    /// Empty, or not filled yet: the changelog has to be read. The next offset to fill it from; none: the first.
    Unfilled {
        /// The store.
        store: Box<dyn Store>,
        /// Where filling it goes on.
        next: Option<i64>,
    },
    /// None can be had.
    Nothing,
}

/// Opens and checks the store of a task; `state` makes an empty state. The flag: one was set aside.
pub fn find<T: State>(settings: &Settings, task: &Task, state: impl FnOnce() -> T) -> (Found<T>, bool) {
    let folder = task.folder(&settings.folder);
    let place = folder.join(settings.kind.name());
    if let Some(link) = link_on_the_way(settings, &folder, &place) {
        tracing::warn!(%task, link = %link.display(), "a link on the way to the local store: going on without");
        return (Found::Nothing, false);
    }
    tidy(&folder, settings.kind.name());
    let store = match open_patiently(settings, &place) {
        Ok(store) => store,
        Err(StoreError::Locked) => {
            tracing::warn!(%task, "the local store is in use by another process: going on without");
            return (Found::Nothing, false);
        }
        Err(error) => return (anew(settings, task, &place, None, &error.to_string()), true),
    };
    match guarded(|| read(store.as_ref(), settings, task, state)) {
        Ok(Read::Whole { state, checkpoint, entries }) => (Found::Whole { store, state, checkpoint, entries }, false),
        Ok(Read::Unfilled { next }) => (Found::Unfilled { store, next }, false),
        Err(error) => (anew(settings, task, &place, Some(store), &error.to_string()), true),
    }
}

/// Sets a store aside, and makes an empty one in its place.
fn anew<T>(settings: &Settings, task: &Task, place: &Path, old: Option<Box<dyn Store>>, why: &str) -> Found<T> {
    tracing::warn!(%task, why = capped(why), "the local store is set aside; the state comes from the changelog");
    if let Err(error) = set_aside(place, old) {
        tracing::warn!(%task, %error, "the local store cannot be moved: going on without");
        return Found::Nothing;
    }
    match open_patiently(settings, place) {
        Ok(store) => Found::Unfilled { store, next: None },
        Err(error) => {
            tracing::warn!(%task, error = capped(&error.to_string()), "no local store can be made: going on without");
            // What was begun of it only takes room.
            let _ = set_aside(place, None);
            Found::Nothing
        }
    }
}

/// Moves a store out of the way, then drops and removes it, on a thread of its own: dropping a damaged one may hang.
///
/// # Errors
/// It cannot be moved.
pub fn set_aside(place: &Path, store: Option<Box<dyn Store>>) -> io::Result<()> {
    let aside = aside_of(place);
    let moved = match fs::rename(place, &aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    // Without a thread it happens here, which only takes longer.
    let _ = thread::Builder::new().name("discard".into()).spawn(move || {
        let _ = guarded(|| {
            drop(store);
            Ok(())
        });
        let _ = fs::remove_dir_all(&aside);
    });
    moved
}

fn aside_of(place: &Path) -> PathBuf {
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!("{name}{ASIDE}{unique}"))
}

/// Removes what an earlier process set aside, and stores of another kind; nothing else, and nothing behind a link.
fn tidy(folder: &Path, kind: &str) {
    let Ok(found) = fs::read_dir(folder) else { return };
    for entry in found.flatten().filter(|entry| entry.file_type().is_ok_and(|file_type| file_type.is_dir())) {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| {
            let (of, is_aside) = name.split_once(ASIDE).map_or((name, false), |(of, _)| (of, true));
            Kind::ALL.iter().any(|known| known.name() == of) && (is_aside || of != kind)
        });
        if is_ours && let Err(error) = fs::remove_dir_all(entry.path()) {
            tracing::warn!(path = %entry.path().display(), %error, "cannot be removed");
        }
    }
}

/// A link on the way to a store: what it points to is none of ours, so nothing is read, written or removed there.
fn link_on_the_way(settings: &Settings, folder: &Path, place: &Path) -> Option<PathBuf> {
    let places = [settings.folder.as_path(), folder.parent()?, folder, place];
    let is_link = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_symlink());
    places.into_iter().find(is_link).map(Path::to_path_buf)
}

fn open_patiently(settings: &Settings, place: &Path) -> Result<Box<dyn Store>, StoreError> {
    let started = Instant::now();
    loop {
        let opened = guarded(|| {
            fs::create_dir_all(place)?;
            open(settings.kind, place)
        });
        match opened {
            Err(StoreError::Locked) if started.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_PAUSE),
            other => return other,
        }
    }
}

enum Read<T> {
    Whole { state: T, checkpoint: Checkpoint, entries: u64 },
    Unfilled { next: Option<i64> },
}

/// Reads all of a store, and says why it must not be used.
fn read<T: State>(
    store: &dyn Store,
    settings: &Settings,
    task: &Task,
    state: impl FnOnce() -> T,
) -> Result<Read<T>, StoreError> {
    let Some(checkpoint) = store.checkpoint()? else {
        let mut is_empty = true;
        store.load(&mut |_, _| {
            is_empty = false;
            false
        })?;
        return if is_empty { Ok(Read::Unfilled { next: None }) } else { Err(doubt("entries without a checkpoint")) };
    };
    judge(&checkpoint, settings, task)?;
    let Some(state_hash) = &checkpoint.state_hash else {
        return Ok(Read::Unfilled { next: Some(checkpoint.changelog_next) });
    };
    let (mut state, mut entries, mut refused) = (state(), 0, None);
    store.load(&mut |key, value| {
        entries += 1;
        refused = state.put(key, value).err();
        refused.is_none()
    })?;
    if let Some(words) = refused {
        return Err(StoreError::Damaged(words));
    }
    if hex(state.hash()) != *state_hash {
        return Err(doubt("its entries do not have the hash of the checkpoint"));
    }
    Ok(Read::Whole { state, checkpoint, entries })
}

fn judge(checkpoint: &Checkpoint, settings: &Settings, task: &Task) -> Result<(), StoreError> {
    if checkpoint.format != FORMAT {
        return Err(StoreError::Damaged(format!("format {}, this release has {FORMAT}", checkpoint.format)));
    }
    if (&checkpoint.topic, checkpoint.partition) != (&task.topic, task.partition) {
        return Err(StoreError::Damaged(format!("of {} partition {}", checkpoint.topic, checkpoint.partition)));
    }
    if checkpoint.topic_id != task.topic_id {
        return Err(doubt("the changelog is another topic of the same name"));
    }
    if u128::from(millis().abs_diff(checkpoint.written_at)) > settings.age_max.as_millis() {
        return Err(doubt("too old: the changelog may have forgotten tombstones"));
    }
    Ok(())
}

fn doubt(words: &str) -> StoreError {
    StoreError::Damaged(words.to_owned())
}

/// Now, in milliseconds since the epoch.
pub fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Runs a call into a store's library, whose panics mean damage.
///
/// # Errors
/// Those of the call, and [`StoreError::Panic`].
pub fn guarded<T>(run: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let words = payload.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without words");
        Err(StoreError::Panic(capped(words)))
    })
}
