//! Processes that die, or whose disk is full, in the middle of writing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use reflex::engine::state::store::Kind;

use super::log::{KINDS, Log, SOON, begin, keeper, mix, task};
use crate::harness::child::{self, Process};

/// Longer than any child lives.
const LOG: Log = Log { keys: 2000, value_bytes: 200, end: 1_000_000 };
const FOLDER: &str = "REFLEX_TEST_STORE";
const KIND: &str = "REFLEX_TEST_STORE_KIND";

fn setting() -> (Kind, PathBuf) {
    let kind = std::env::var(KIND).expect("set");
    let kind = KINDS.into_iter().find(|known| known.name() == kind).expect("a kind");
    (kind, PathBuf::from(std::env::var_os(FOLDER).expect("set")))
}

#[test]
#[ignore = "a child of a_process_killed_while_it_writes_leaves_a_store_that_is_only_behind"]
fn writes_until_it_is_killed() {
    let Some(file) = child::file() else { return };
    let (kind, folder) = setting();
    let keeper = keeper(kind, &folder, LOG);
    let loaded = keeper.load(&task(0), super::log::Map::default);
    let (mut state, mut next) = loaded.map_or_else(Default::default, |loaded| (loaded.state, loaded.changelog_next));
    for step in 0.. {
        state = LOG.over(state, next, next + 200);
        next += 200;
        let mark = reflex::engine::state::store::keeper::Mark { changelog_next: next, state_hash: state.sum };
        keeper.committed(&task(0), mark);
        // Closing makes a round at once.
        let at = Instant::now();
        keeper.close(None, SOON);
        let again = keeper.load(&task(0), super::log::Map::default);
        if let Some(loaded) = again {
            assert_eq!((loaded.state.sum, loaded.changelog_next), (state.sum, next), "after {:?}", at.elapsed());
        } else {
            // Not filled yet: the first round does that.
            keeper.committed(&task(0), mark);
            thread::sleep(Duration::from_millis(1100));
        }
        if step == 3 {
            child::tell(&file, &[std::process::id()]);
        }
    }
}

#[test]
fn a_process_killed_while_it_writes_leaves_a_store_that_is_only_behind() {
    for kind in KINDS {
        let folder = tempfile::tempdir().expect("a folder");
        let mut used = 0;
        for round in 0..4 {
            let place = folder.path().display().to_string();
            let mut child =
                Process::spawn("store::crash::writes_until_it_is_killed", &[(FOLDER, &place), (KIND, kind.name())]);
            let [_] = child.told();
            thread::sleep(Duration::from_millis(mix(round) % 300));
            child.kill9();
            let log = Log { end: 20_000, ..LOG };
            let keeper = keeper(kind, folder.path(), log);
            let loaded = keeper.load(&task(0), super::log::Map::default);
            if let Some(loaded) = loaded {
                used += 1;
                let next = loaded.changelog_next;
                assert_eq!(loaded.state, log.state(next), "{kind:?}");
                assert_eq!(log.over(loaded.state, next, next + 500), log.state(next + 500), "{kind:?}");
            }
            assert!(keeper.close(None, SOON));
        }
        assert!(used > 0, "{kind:?}: no store survived");
    }
}

#[test]
#[ignore = "a child of a_full_disk_costs_the_store_and_nothing_else"]
fn writes_to_a_full_disk() {
    let Some(file) = child::file() else { return };
    let (kind, folder) = setting();
    let log = Log { keys: 100_000, value_bytes: 1000, end: 100_000 };
    let keeper = keeper(kind, &folder, log);
    let (state, is_stored) = begin(&keeper, log, 0);
    assert!(!is_stored && state.sum == log.state(log.end).sum);
    let started = Instant::now();
    // Given up while it is filled, or there never was one.
    while keeper.counts().given_up == 0 && task(0).folder(&folder).join(kind.name()).exists() {
        assert!(started.elapsed() < SOON, "{:?}", keeper.counts());
        thread::sleep(Duration::from_millis(20));
    }
    assert!(keeper.close(None, SOON));
    // A later mark is no trouble either.
    keeper.committed(&task(0), log.mark(10));
    child::tell(&file, &[std::process::id()]);
}

#[test]
fn a_full_disk_costs_the_store_and_nothing_else() {
    for kind in KINDS {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("told");
        let program = std::env::current_exe().expect("a test binary");
        // In units of 512 bytes; the signal that comes with it is ignored, as it is of a full disk.
        let script = "trap '' XFSZ; ulimit -f 8000; exec \"$0\" --exact store::crash::writes_to_a_full_disk --ignored --nocapture";
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(&program).stdin(Stdio::piped());
        command.env("REFLEX_HARNESS_CHILD", &file).env(KIND, kind.name()).env(FOLDER, folder.path().join("stores"));
        let output = command.output_while_alive();
        assert!(output.status.success(), "{kind:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(Path::new(&file).exists(), "{kind:?}: it came to its end");
    }
}

/// Runs a child whose standard input stays open until it ends.
trait OutputWhileAlive {
    fn output_while_alive(&mut self) -> std::process::Output;
}

impl OutputWhileAlive for Command {
    fn output_while_alive(&mut self) -> std::process::Output {
        let mut child = self.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sh runs");
        let life = child.stdin.take();
        let output = child.wait_with_output().expect("ends");
        drop(life);
        output
    }
}
