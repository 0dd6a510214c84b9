//! What the keeper promises: it is never ahead, never in the way, and never trusts what is old or of another.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use reflex::engine::state::store::check::{LOCK_PATIENCE, millis};
use reflex::engine::state::store::follow::{Source, Take, Wanted};
use reflex::engine::state::store::keeper::{Keeper, ROUND_BYTES_MAX};
use reflex::engine::state::store::{Kind, Settings, Store, Task, open};

use super::log::{KINDS, Log, Map, SOON, begin, fill, keeper, task};

const LOG: Log = Log { keys: 500, value_bytes: 100, end: 2000 };

/// The store of partition 0, opened past the keeper.
fn opened(kind: Kind, folder: &std::path::Path) -> Box<dyn Store> {
    open(kind, &task(0).folder(folder).join(kind.name())).expect("opens")
}

#[test]
fn a_lock_held_for_a_moment_is_waited_for_and_one_held_longer_is_no_damage() {
    for kind in KINDS {
        let folder = tempfile::tempdir().expect("a folder");
        fill(kind, folder.path(), LOG, 0);
        let held = opened(kind, folder.path());
        let releasing = thread::spawn(move || {
            thread::sleep(LOCK_PATIENCE / 5);
            held.close().expect("closed");
        });
        let first = keeper(kind, folder.path(), LOG);
        assert!(begin(&first, LOG, 0).1, "{kind:?}");
        assert_eq!(first.counts().set_aside, 0, "{kind:?}");
        releasing.join().expect("released");
        assert!(first.close(None, SOON));
        let held = opened(kind, folder.path());
        assert_eq!(begin(&first, LOG, 0), (LOG.state(LOG.end), false), "{kind:?}");
        assert_eq!(first.counts().set_aside, 0, "{kind:?}");
        held.close().expect("closed");
        assert!(begin(&first, LOG, 0).1, "{kind:?}: it is as it was");
    }
}

#[test]
fn a_store_that_is_too_old_or_of_another_topic_is_set_aside() {
    for kind in KINDS {
        let folder = tempfile::tempdir().expect("a folder");
        let change = |change: &dyn Fn(&mut reflex::engine::state::store::Checkpoint)| {
            fill(kind, folder.path(), LOG, 0);
            let mut store = opened(kind, folder.path());
            let mut checkpoint = store.checkpoint().expect("read").expect("there");
            change(&mut checkpoint);
            store.apply(&[], &checkpoint).expect("written");
            store.close().expect("closed");
            let keeper = keeper(kind, folder.path(), LOG);
            let found = begin(&keeper, LOG, 0);
            assert_eq!(found.0, LOG.state(LOG.end), "{kind:?}");
            let counts = keeper.counts();
            assert_eq!(counts.set_aside, u64::from(!found.1), "{kind:?}");
            assert!(keeper.close(None, SOON));
            drop(keeper);
            fs::remove_dir_all(folder.path().join("session")).expect("removed");
            found.1
        };
        let hours = |hours: u64| hours * 3_600_000;
        assert!(change(&|checkpoint| checkpoint.written_at = millis() - hours(11)));
        assert!(!change(&|checkpoint| checkpoint.written_at = millis() - hours(13)));
        assert!(!change(&|checkpoint| checkpoint.written_at = millis() + hours(13)));
        assert!(!change(&|checkpoint| checkpoint.topic = "another".into()));
        assert!(!change(&|checkpoint| checkpoint.topic_id = "another".into()));
        assert!(!change(&|checkpoint| checkpoint.format += 1));
        assert!(!change(&|checkpoint| checkpoint.state_hash = Some("0".into())));
        assert!(change(&|checkpoint| checkpoint.changelog_next -= 1), "a longer tail");
    }
}

#[test]
fn more_than_is_held_is_written_in_parts_and_whole_at_the_end() {
    let log = Log { keys: 30_000, value_bytes: 1000, end: 30_000 };
    assert!(log.value_bytes * 30_000 > 3 * ROUND_BYTES_MAX);
    for kind in KINDS {
        let folder = tempfile::tempdir().expect("a folder");
        let first = keeper(kind, folder.path(), log);
        assert!(!begin(&first, log, 0).1);
        let started = Instant::now();
        while first.counts().written == 0 {
            assert!(started.elapsed() < SOON, "nothing is written");
            thread::sleep(Duration::from_millis(20));
        }
        assert!(first.close(None, SOON));
        assert!(first.counts().parts > 0, "{:?}", first.counts());
        let second = keeper(kind, folder.path(), log);
        let (state, _) = begin(&second, log, 0);
        assert_eq!(state.sum, log.state(log.end).sum, "{kind:?}");
    }
}

/// A changelog that cannot be read.
struct Silent;

impl Source for Silent {
    fn read(&mut self, _: &[Wanted], _: Duration, _: &dyn Fn() -> bool, _: Take<'_>) -> Result<Vec<bool>, String> {
        Err(String::from("no broker"))
    }
}

#[test]
fn a_changelog_that_cannot_be_read_leaves_stores_as_they_are() {
    for kind in KINDS {
        let folder = tempfile::tempdir().expect("a folder");
        fill(kind, folder.path(), LOG, 0);
        let settings = Settings { kind, folder: folder.path().to_path_buf(), age_max: Duration::from_hours(12) };
        let deaf = Keeper::start(settings, Box::new(Silent)).expect("a thread");
        let later = Log { end: LOG.end + 100, ..LOG };
        assert_eq!(begin(&deaf, later, 0), (later.state(later.end), true));
        assert!(deaf.close(None, SOON), "nobody waits for a broker");
        drop(deaf);
        assert_eq!(begin(&keeper(kind, folder.path(), later), later, 0), (later.state(later.end), true));
    }
}

#[test]
fn a_store_of_another_kind_makes_room() {
    let folder = tempfile::tempdir().expect("a folder");
    fill(Kind::Sled, folder.path(), LOG, 0);
    fill(Kind::Fjall, folder.path(), LOG, 0);
    let found: Vec<_> = fs::read_dir(task(0).folder(folder.path())).expect("a folder").flatten().collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].file_name(), "fjall");
}

#[test]
fn doubt_of_a_worker_removes_the_store() {
    for kind in KINDS {
        let folder = tempfile::tempdir().expect("a folder");
        fill(kind, folder.path(), LOG, 0);
        let first = keeper(kind, folder.path(), LOG);
        assert!(begin(&first, LOG, 0).1);
        first.doubt(&task(0));
        assert!(!begin(&first, LOG, 0).1, "{kind:?}");
        assert_eq!(first.counts().set_aside, 1);
    }
}

#[test]
fn marks_of_tasks_without_a_store_are_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let keeper = keeper(Kind::Fjall, folder.path(), LOG);
    keeper.committed(&task(7), LOG.mark(10));
    assert!(keeper.close(None, SOON));
    assert_eq!(keeper.counts().written, 0);
    let tasks: BTreeMap<Task, Map> = BTreeMap::from([(task(7), Map::default())]);
    assert!(tasks.keys().all(|task| !task.folder(folder.path()).exists()));
}

#[test]
#[cfg(unix)]
fn nothing_behind_a_link_is_touched_and_only_stores_are_removed() {
    for kind in KINDS {
        let (folder, elsewhere) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("another"));
        fs::create_dir(elsewhere.path().join("precious")).expect("made");
        fs::write(elsewhere.path().join("precious/file"), "kept").expect("written");
        let place = task(0).folder(folder.path());
        fs::create_dir_all(place.parent().expect("a stage")).expect("made");
        std::os::unix::fs::symlink(elsewhere.path(), &place).expect("linked");
        let first = keeper(kind, folder.path(), LOG);
        assert_eq!(begin(&first, LOG, 0), (LOG.state(LOG.end), false), "{kind:?}");
        assert!(first.close(None, SOON));
        let there: Vec<_> =
            fs::read_dir(elsewhere.path()).expect("read").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(there, ["precious"], "{kind:?}");

        // A file and a folder that are no store stay; what was set aside and stores of another kind go.
        fs::remove_file(&place).expect("unlinked");
        for name in ["notes", "fjall.aside-1", "sled.aside-2", "sled", "fjall"] {
            fs::create_dir_all(place.join(name)).expect("made");
        }
        fs::write(place.join("readme"), "kept").expect("written");
        let second = keeper(kind, folder.path(), LOG);
        let _ = begin(&second, LOG, 0);
        assert!(second.close(None, SOON));
        assert!(place.join("notes").exists() && place.join("readme").exists(), "{kind:?}");
        assert!(!place.join("fjall.aside-1").exists() && !place.join("sled.aside-2").exists(), "{kind:?}");
    }
}
