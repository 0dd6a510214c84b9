//! Processes that come and go under load.

use std::thread;
use std::time::Duration;

use super::load::Load;
use super::reading::Reader;
use super::rig::{PATIENCE, Rig, Run};
use super::world::{Running, World};

const LEFT_WITHIN: Duration = Duration::from_secs(30);

fn rig(name: &str, run: &Run, sending: u64) -> Rig {
    let mut rig = Rig::of(World::new(name), run);
    rig.load = Load::new(run.events(), Duration::from_secs(sending));
    rig
}

/// Starts without waiting for tasks: there may be none for it.
fn begin(rig: &Rig, instance: usize) -> Running {
    Running::start(rig.command(instance), rig.world.folder.path())
}

/// Two of three join and leave, by SIGTERM and by SIGKILL, while the third stays.
pub fn storm(run: &mut Run) {
    let rounds = if run.full { 20 } else { 5 };
    let rig = rig("storm", run, rounds * 2);
    let steady = rig.during(|| {
        let steady = rig.start(0);
        let mut others: [Option<Running>; 2] = [None, None];
        for _ in 0..rounds {
            run.inject();
            let which = usize::try_from(run.random.within(0..2)).expect("0 or 1");
            match others[which].take() {
                None => others[which] = Some(begin(&rig, which + 1)),
                Some(running) if run.random.within(0..2) == 0 => running.kill9(),
                Some(running) => {
                    running.terminate();
                    let (code, log) = running.wait(LEFT_WITHIN);
                    assert_eq!(code, Some(0), "{log}");
                }
            }
            run.fired();
            thread::sleep(Duration::from_millis(run.random.within(1_000..3_000)));
        }
        for running in others.into_iter().flatten() {
            running.terminate();
            assert_eq!(running.wait(LEFT_WITHIN).0, Some(0));
        }
        steady
    });
    steady.stop();
    rig.judge();
}

/// Three processes, one after the other stopped and started again.
pub fn rolling(run: &mut Run) {
    let rig = rig("rolling", run, 20);
    let all = rig.during(|| {
        let mut all: Vec<Running> = (0..3).map(|instance| begin(&rig, instance)).collect();
        for running in &all {
            running.wait_for_log("assigned");
        }
        for (instance, running) in all.iter_mut().enumerate() {
            run.inject();
            running.terminate();
            let next = begin_after(&rig, instance, running);
            let (code, log) = std::mem::replace(running, next).wait(LEFT_WITHIN);
            assert_eq!(code, Some(0), "{log}");
            running.wait_for_log("assigned");
            run.fired();
        }
        all
    });
    for running in all {
        assert!(running.log().matches("joining again").count() == 0, "{}", running.log());
        running.stop();
    }
    rig.judge();
}

/// The folder is locked until the old process has gone.
fn begin_after(rig: &Rig, instance: usize, old: &Running) -> Running {
    crate::harness::child::wait_for("the end of a process", PATIENCE, || old.has_ended().then_some(()));
    begin(rig, instance)
}

/// One of two is killed and started again: the other goes on.
pub fn one_of_two(run: &mut Run) {
    let rig = rig("one-of-two", run, 12);
    let (first, second, killed_ms) = rig.during(|| {
        let (first, second) = (begin(&rig, 0), begin(&rig, 1));
        first.wait_for_log("assigned");
        second.wait_for_log("assigned");
        thread::sleep(Duration::from_secs(4));
        run.inject();
        let killed_ms = now_ms();
        first.kill9();
        run.fired();
        (rig.start(0), second, killed_ms)
    });
    let log = second.log();
    let id = log.split_once("worker started id=\"").and_then(|(_, rest)| rest.split_once('"')).expect("its id");
    let writer = id.0.to_owned();
    first.stop();
    second.stop();
    let (before, after) = gaps(&rig, &writer, killed_ms);
    run.note(format!("longest gap of the other {before} ms before, {after} ms after"));
    // A shared machine has gaps of its own.
    assert!(after <= (3 * before).max(1_000), "{after} ms without a commit, {before} ms before");
    rig.judge();
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("a time")
}

/// Longest times between two transactions of a writer, before and after.
fn gaps(rig: &Rig, writer: &str, at_ms: i64) -> (i64, i64) {
    let reader = Reader::committed(&rig.world);
    let mut times: Vec<i64> = Vec::new();
    for tape in rig.world.topics().tapes() {
        let records = reader.read(tape);
        times.extend(records.iter().filter(|record| record.json()["writer"] == writer).map(|record| record.at_ms));
    }
    times.sort_unstable();
    let longest = |of: fn(i64, i64) -> bool| {
        let pairs = times.windows(2).filter(|pair| of(pair[1], at_ms));
        pairs.map(|pair| pair[1] - pair[0]).max().expect("transactions before and after")
    };
    (longest(|time, at| time < at), longest(|time, at| time >= at && time < at + 6_000))
}
