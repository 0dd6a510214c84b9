//! SIGKILL at each step between a poll and the next, and at random moments.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::reading::Reader;
use super::rig::{PATIENCE, Rig, Run};

/// A point of the loop, with its count in the smoke set and the counts of the matrix.
pub struct Point {
    pub name: &'static str,
    pub smoke: u64,
    pub counts: std::ops::Range<u64>,
}

/// Those that every round passes.
pub const POINTS: [Point; 8] = [
    Point { name: "after_poll", smoke: 40, counts: 1..120 },
    Point { name: "after_decide", smoke: 12, counts: 1..60 },
    Point { name: "in_checkpoint_write", smoke: 14, counts: 1..60 },
    Point { name: "mid_produce", smoke: 9, counts: 1..60 },
    Point { name: "after_produce", smoke: 11, counts: 1..60 },
    Point { name: "after_send_offsets", smoke: 13, counts: 1..60 },
    Point { name: "before_end_txn", smoke: 10, counts: 1..60 },
    Point { name: "after_end_txn_before_store", smoke: 15, counts: 1..60 },
];

/// Killed at a point of the loop, started again.
pub fn at(run: &mut Run, point: &Point) {
    let count = run.count(point.smoke, point.counts.clone());
    killed_and_started_again(run, point.name, &format!("{}:{count}", point.name));
}

/// Killed while the end of a transaction is on its way: the broker has carried it out, or not.
pub fn during_end_txn(run: &mut Run) {
    let count = run.count(12, 1..60);
    let micros = run.count(700, 0..6_000);
    killed_and_started_again(run, "during_end_txn", &format!("before_end_txn:{count}:kill:{micros}"));
}

/// Killed while a local store is being written.
pub fn mid_store_batch(run: &mut Run) {
    let count = run.count(8, 1..20);
    let micros = run.count(300, 0..3_000);
    killed_and_started_again(run, "mid_store_batch", &format!("mid_store_batch:{count}:kill:{micros}"));
}

fn killed_and_started_again(run: &mut Run, name: &str, point: &str) {
    let rig = Rig::new(run, name);
    let second = rig.during(|| {
        rig.armed(run, 0, point).wait_for_kill(run);
        rig.start(0)
    });
    second.stop();
    rig.judge();
}

/// Killed between reading a command and committing what it did. (What waits for a command over HTTP comes with the HTTP
/// commands: here the command is a record already.)
pub fn after_command(run: &mut Run) {
    // The first six are those that activate the registry, one a task.
    let count = run.count(8, 1..16);
    let mut rig = Rig::new(run, "after_command");
    let lifted: BTreeSet<String> = rig.load.failing.difference(&rig.load.ending).take(10).cloned().collect();
    rig.lifted.clone_from(&lifted);
    let second = rig.during(|| {
        let first = rig.armed(run, 0, &format!("after_command:{count}"));
        let lift = || lift(&rig, &lifted);
        if count > 6 {
            lift();
        }
        first.wait_for_kill(run);
        let second = rig.start(0);
        if count <= 6 {
            lift();
        }
        second
    });
    second.stop();
    rig.judge();
}

/// Sends the command that lifts, for each of these sessions.
fn lift(rig: &Rig, sessions: &BTreeSet<String>) {
    let (topics, reader) = (rig.world.topics(), Reader::committed(&rig.world));
    let (mut left, started) = (sessions.clone(), Instant::now());
    while !left.is_empty() {
        assert!(started.elapsed() < PATIENCE, "no overrides of {left:?}");
        for record in reader.read(&topics.overrides).iter().filter(|record| record.value.is_some()) {
            let record = record.json();
            let session = record["scope"]["session_id"].as_str().expect("a session").to_owned();
            if left.remove(&session) {
                let command = json!({
                    "command_id": format!("c-{session}"), "verb": "lift", "target": record["override_id"],
                    "reason": "tested", "author": "somebody",
                });
                let bytes = command.to_string();
                rig.world.send(&topics.session_commands, Some(session.as_bytes()), Some(bytes.as_bytes()), None);
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Killed when the group takes the partitions away, before what was taken is committed.
pub fn in_pre_rebalance(run: &mut Run) {
    let rig = Rig::new(run, "in_pre_rebalance");
    let (first, second) = rig.during(|| {
        let first = rig.armed(run, 0, "in_pre_rebalance:1");
        rig.wait_for_overrides(20);
        let second = super::world::Running::start(rig.command(1), rig.world.folder.path());
        first.wait_for_kill(run);
        (rig.start(0), second)
    });
    second.wait_for_log("assigned");
    first.stop();
    second.stop();
    rig.judge();
}

/// Killed while the changelog is read.
pub fn in_restore(run: &mut Run) {
    let count = run.count(60, 1..60);
    let rig = Rig::new(run, "in_restore");
    let third = rig.during(|| {
        let first = rig.start(0);
        rig.wait_for_overrides(60);
        first.kill9();
        let mut command = rig.command(0);
        // Without a local store, or little is left to be read.
        command.args(["--set", "store=memory"]);
        rig.armed_with(run, command, &format!("in_restore:{count}")).wait_for_kill(run);
        rig.start(0)
    });
    third.stop();
    rig.judge();
}

/// Killed at random moments, each after progress was seen.
pub fn at_random(run: &mut Run) {
    let kills = if run.full { 6 } else { 3 };
    let rig = Rig::new(run, "random");
    let pauses: Vec<u64> = (0..kills).map(|_| run.random.within(0..900)).collect();
    let last = rig.during(|| {
        let mut running = rig.start(0);
        for (number, pause) in (1..).zip(pauses) {
            run.inject();
            rig.wait_for_overrides(number * rig.load.failing.len() / 20);
            thread::sleep(Duration::from_millis(pause));
            running.kill9();
            run.fired();
            running = rig.start(0);
        }
        running
    });
    last.stop();
    rig.judge();
}
