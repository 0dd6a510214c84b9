//! Stores of partitions that moved to another process stay behind, and nobody ever opens them again. They are removed at a
//! start, once they are too old to be used by anybody.

use std::fs::{self, DirEntry};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::engine::task::place::StageName;

/// Removes the stores of tasks that nothing was written to for longer than `age_max`; how many. A store in use is written
/// to more often than that. To be called while the data directory is locked, and before a worker opens a store.
#[must_use]
pub fn sweep(stores: &Path, age_max: Duration) -> u64 {
    let now = SystemTime::now();
    let mut removed = 0;
    for stage in StageName::ALL {
        let folder = stores.join(stage.as_str());
        // What a link points to is none of ours.
        let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_symlink());
        if is_link(stores) || is_link(&folder) {
            continue;
        }
        for task in entries(&folder).filter(|task| task.file_type().is_ok_and(|file_type| file_type.is_dir())) {
            let is_task = task.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
            // In the future: the clock went back; nothing is known of its age.
            let is_old = || written(&task).is_some_and(|at| now.duration_since(at).is_ok_and(|age| age > age_max));
            if !is_task || !is_old() {
                continue;
            }
            let path = task.path();
            match fs::remove_dir_all(&path) {
                Ok(()) => {
                    removed += 1;
                    tracing::info!(path = %path.display(), "a local store that nobody used for long is removed");
                }
                Err(error) => tracing::warn!(path = %path.display(), %error, "cannot be removed"),
            }
        }
    }
    removed
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

/// When anything in it was written last; none: the disk does not tell.
fn written(entry: &DirEntry) -> Option<SystemTime> {
    // A link is not followed: what it points to is none of ours.
    let facts = entry.metadata().ok()?;
    let own = facts.modified().ok()?;
    if !facts.is_dir() {
        return Some(own);
    }
    fs::read_dir(entry.path()).ok()?.try_fold(own, |last, entry| Some(last.max(written(&entry.ok()?)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, FileTimes};
    use std::path::PathBuf;

    const AGE_MAX: Duration = Duration::from_hours(12);

    /// A store of which everything was written so long ago.
    fn store(stores: &Path, task: &str, age: Duration) -> PathBuf {
        let folder = stores.join(task);
        let journal = folder.join("fjall/journals");
        fs::create_dir_all(&journal).expect("made");
        fs::write(journal.join("0"), "entries").expect("written");
        for path in [journal.join("0"), journal, folder.join("fjall"), folder.clone()] {
            let times = FileTimes::new().set_modified(SystemTime::now() - age);
            File::open(&path).and_then(|file| file.set_times(times)).expect("set");
        }
        folder
    }

    #[test]
    fn only_stores_that_nobody_writes_any_more_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, young) = (AGE_MAX + Duration::from_mins(1), AGE_MAX / 2);
        let left = [store(folder.path(), "session/3", old), store(folder.path(), "fleet/12", old)];
        let used = store(folder.path(), "session/4", old);
        File::open(used.join("fjall/journals/0")).and_then(|file| file.set_modified(SystemTime::now())).expect("set");
        let kept = [
            used,
            store(folder.path(), "session/5", young),
            store(folder.path(), "session/notes", old),
            store(folder.path(), "other/1", old),
        ];
        assert_eq!(sweep(folder.path(), AGE_MAX), 2);
        assert!(left.iter().all(|path| !path.exists()));
        assert!(kept.iter().all(|path| path.exists()));
        assert_eq!(sweep(folder.path(), AGE_MAX), 0);
        assert_eq!(sweep(&folder.path().join("none"), AGE_MAX), 0);
    }
}
