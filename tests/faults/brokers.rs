//! A broker that dies, and answers that never come.

use std::thread;
use std::time::{Duration, Instant};

use super::load::Load;
use super::proxy::{Lost, Proxy};
use super::reading::Reader;
use super::rig::{PATIENCE, Rig, Run};
use super::watch;
use super::world::{Running, World};
use crate::harness::{self, Broker, child};

/// How long a worker may take to go on once the broker is back; what was measured is in the table.
const BACK_MAX: Duration = Duration::from_secs(30);

/// Longer than `limits.reaction_age_ms_max` and what the oracle grants on top.
const AWAY: Duration = Duration::from_secs(80);

/// SIGKILL to the broker, and a start with the same data.
pub fn killed(run: &mut Run) {
    let broker = harness::broker();
    let world = World::on(broker.bootstrap(), "broker");
    world.apply();
    let mut rig = Rig::of(world, run);
    rig.load = Load::new(run.events(), run.sending() * 2);
    let times = if run.full { 3 } else { 1 };
    let running = rig.during(|| {
        let running = rig.start(0);
        for number in 1..=times {
            rig.wait_for_overrides(number * rig.load.failing.len() / 10);
            run.inject();
            broker.kill9();
            thread::sleep(Duration::from_millis(run.random.within(500..3_000)));
            broker.restart();
            run.fired();
            let back = Instant::now();
            let consumer = watch::committed_reader(&rig.world);
            let committed = || watch::committed(&consumer, &rig.world).map(|all| all.values().sum::<i64>());
            let before = child::wait_for("the broker", PATIENCE, committed);
            child::wait_for("the next commit", PATIENCE, || committed().filter(|sum| *sum > before));
            run.note(format!("went on after {:.1} s", back.elapsed().as_secs_f64()));
            assert!(back.elapsed() < BACK_MAX, "went on after {:?}", back.elapsed());
        }
        running
    });
    running.stop();
    rig.judge();
}

/// A broker is away for longer than an event may wait: neither what was decided before and not committed is published late,
/// nor what nobody had taken yet.
pub fn away(run: &mut Run) {
    let broker = harness::broker();
    let world = World::on(broker.bootstrap(), "away");
    world.apply();
    let mut rig = Rig::of(world, run);
    rig.load = Load::new(run.events(), run.sending() * 2);
    let running = rig.during(|| {
        let running = rig.start(0);
        rig.wait_for_overrides(rig.load.failing.len() / 10);
        run.inject();
        // Meanwhile events come that it takes when the broker is back.
        running.signal("-STOP");
        thread::sleep(Duration::from_secs(2));
        broker.kill9();
        running.signal("-CONT");
        thread::sleep(AWAY);
        broker.restart();
        run.fired();
        running
    });
    running.stop();
    rig.judge();
    let published = Reader::committed(&rig.world).read(&rig.world.topics().overrides);
    let live = published.iter().filter(|record| record.value.is_some()).count();
    run.note(format!("{} of {} failures too old to act on", rig.load.failing.len() - live, rig.load.failing.len()));
    assert!(live < rig.load.failing.len(), "nothing waited for too long");
}

/// A transaction is acknowledged, and its end never comes.
pub fn end_dropped(run: &mut Run) {
    drop_end(run, "end_txn");
}

/// A transaction is acknowledged, and its end comes on every second partition only.
pub fn end_torn(run: &mut Run) {
    drop_end(run, "end_txn_in_part");
}

fn drop_end(run: &mut Run, point: &str) {
    let count = run.count(12, 5..60);
    let rig = Rig::new(run, point);
    let running = rig.during(|| {
        let armed = rig.armed(run, 0, &format!("{point}:{count}:lose"));
        armed.wait_for_loss(run)
    });
    let log = running.stop();
    assert!(log.contains(" torn=1 "), "{log}");
    rig.judge();
}

/// The answer to the end of a transaction is lost.
pub fn answer_lost(run: &mut Run) {
    lose(run, Lost::Answer, "answer");
}

/// The request is lost.
pub fn request_lost(run: &mut Run) {
    lose(run, Lost::Request, "request");
}

/// The request comes 15 s late: the client has given up on it, and others have followed.
pub fn request_late(run: &mut Run) {
    lose(run, Lost::Late(Duration::from_secs(15)), "late");
}

fn lose(run: &mut Run, lost: Lost, name: &str) {
    let number = usize::try_from(run.count(20, 5..60)).expect("a number");
    let proxy = Proxy::listen(number, lost);
    let port = proxy.port;
    let broker = Broker::start(&[
        ("listeners", "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},PROXY://127.0.0.1:{extra}"),
        ("advertised.listeners", &format!("PLAINTEXT://127.0.0.1:{{port}},PROXY://127.0.0.1:{port}")),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXY:PLAINTEXT"),
    ])
    .expect("a broker");
    proxy.forward(&broker.extra_address());
    let world = World::on(broker.bootstrap(), name);
    world.apply();
    let rig = Rig::of(world, run);
    run.inject();
    let running = rig.during(|| {
        let mut command = rig.command(0);
        command.env("REFLEX_BOOTSTRAP_SERVERS", format!("127.0.0.1:{port}"));
        let running = Running::start(command, rig.world.folder.path());
        running.wait_for_log("assigned");
        running
    });
    if let Lost::Late(late) = lost {
        // Until it was delivered after all.
        thread::sleep(late);
    }
    let log = running.stop();
    assert!(log.contains("rebuilt=1"), "the outcome was not unknown: {log}");
    assert!(log.contains(" dropped=0"), "{log}");
    run.fired();
    rig.judge();
}
