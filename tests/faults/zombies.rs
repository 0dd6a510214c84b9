//! Processes that stop in the middle, are replaced, and go on as if nothing had happened.

use std::thread;
use std::time::{Duration, Instant};

use super::load::Load;
use super::reading::Reader;
use super::rig::{PATIENCE, Rig, Run};
use super::world::{PARTITIONS, Running, World};
use crate::harness::child;

/// Longer than a takeover takes: records come before, meanwhile and after.
const SENDING: Duration = Duration::from_secs(18);
/// In place of the pinned 10 s: what ends an open transaction in these cases is not its timeout.
const TRANSACTION_TIMEOUT_MS: &str = "60000";
/// The dead writer's transaction is ended by whoever takes its tasks over: session timeout, and what that takes. Far
/// below the timeout of the transaction; what was measured is in the table.
const HIDDEN_MAX: Duration = Duration::from_secs(20);

fn rig(name: &str, run: &Run) -> Rig {
    let mut rig = Rig::of(World::new(name), run);
    rig.load = Load::new(run.events(), SENDING);
    rig
}

/// Waits until a process has got all tasks once more than before.
fn wait_for_takeover(running: &Running, before: usize) {
    child::wait_for("a takeover", PATIENCE, || (takeovers(running) > before).then_some(()));
}

fn takeovers(running: &Running) -> usize {
    running.log().matches("assigned tasks=6").count()
}

/// Stopped at `point` until another process has taken its tasks over and committed for them; then it goes on. The
/// group's generation has to keep it from committing.
fn stopped_and_replaced(run: &mut Run, name: &str, point: &str) {
    let rig = rig(name, run);
    let (zombie, successor) = rig.during(|| {
        let successor = rig.start(1);
        let mut command = rig.command(0);
        command.env("REFLEX_FAILPOINT_TRANSACTION_TIMEOUT_MS", TRANSACTION_TIMEOUT_MS);
        let armed = rig.armed_with(run, command, point);
        let before = takeovers(&successor);
        let zombie = armed.wait_for_stop(run);
        wait_for_takeover(&successor, before);
        // The successor commits for the tasks it took.
        thread::sleep(Duration::from_secs(2));
        zombie.signal("-CONT");
        (zombie, successor)
    });
    // Both are members again, or become so.
    child::wait_for("the zombie's return", PATIENCE, || {
        (zombie.log().matches("assigned tasks=").count() > 1).then_some(())
    });
    zombie.stop();
    successor.stop();
    rig.judge();
}

/// Between a poll and the beginning of its transaction.
pub fn before_begin(run: &mut Run) {
    let count = run.count(30, 10..60);
    stopped_and_replaced(run, "zombie-begin", &format!("in_checkpoint_write:{count}:stop"));
}

/// With an open transaction that already holds its offsets.
pub fn before_commit(run: &mut Run) {
    let count = run.count(30, 10..60);
    stopped_and_replaced(run, "zombie-commit", &format!("after_send_offsets:{count}:stop"));
}

/// A writer is dead with an open transaction: what others commit behind it can be read again soon, though nobody starts it
/// again.
pub fn open_transaction(run: &mut Run) {
    let count = run.count(30, 10..60);
    let rig = rig("hidden", run);
    let topics = rig.world.topics();
    let outputs = topics.outputs();
    let (successor, hidden) = rig.during(|| {
        let successor = rig.start(1);
        let mut command = rig.command(0);
        command.env("REFLEX_FAILPOINT_TRANSACTION_TIMEOUT_MS", TRANSACTION_TIMEOUT_MS);
        rig.armed_with(run, command, &format!("after_send_offsets:{count}")).wait_for_kill(run);
        let died = Instant::now();
        let (stable, all) = (Reader::committed(&rig.world), Reader::uncommitted(&rig.world));
        let places = outputs.iter().flat_map(|topic| (0..PARTITIONS).map(move |partition| (topic, partition)));
        // Where the transaction is: it holds the tape's record at least, and overrides where it has any.
        let mut hidden: Vec<_> = places
            .map(|(topic, partition)| (topic, partition, all.end(topic, partition)))
            .filter(|(topic, partition, end)| stable.end(topic, *partition) < *end)
            .collect();
        assert!(!hidden.is_empty(), "the dead writer left nothing open");
        child::wait_for("the end of a dead writer's transaction", PATIENCE, || {
            hidden.retain(|(topic, partition, end)| stable.end(topic, *partition) < *end);
            hidden.is_empty().then_some(())
        });
        (successor, died.elapsed())
    });
    run.note(format!("hidden for {:.1} s", hidden.as_secs_f64()));
    assert!(hidden < HIDDEN_MAX, "what was committed was hidden for {hidden:?}");
    successor.stop();
    rig.judge();
}
