//! How long a commit takes: the trap of 100 ms, held as a ratio to the naive way in the same run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::producer::{BaseRecord, Producer};
use reflex::engine::{Cluster, Config, Progress, Registries, run};
use reflex::registry::{SourceFile, load};

use super::world::{World, story, transactional};

const COMMITS: u64 = 30;

/// The shortest time of `commit_transaction` right after sending, as its documentation suggests: its inner flush waits in steps of 100 ms.
fn naive(world: &World) -> Duration {
    let producer = transactional(&world.bootstrap, &format!("{}-naive", world.name));
    let topic = world.topics().escalations;
    let mut times: Vec<Duration> = (0..COMMITS)
        .map(|_| {
            let started = Instant::now();
            producer.begin_transaction().expect("begun");
            for number in 0..8 {
                let key = number.to_string();
                let record = BaseRecord::to(&topic).key(&key).payload("naive");
                producer.send(record).map_err(|(error, _)| error).expect("queued");
            }
            producer.commit_transaction(Duration::from_secs(10)).expect("committed");
            started.elapsed()
        })
        .collect();
    times.sort();
    times[0]
}

fn registry() -> reflex::registry::Registry {
    let mut files = Vec::new();
    for entry in std::fs::read_dir("config/registry").expect("the registry") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a file");
        files.push(SourceFile { name: path.display().to_string(), text });
    }
    load::load(&files).expect("a valid registry").registry
}

#[test]
fn a_commit_does_not_wait_for_the_flush_inside() {
    let world = World::new("commit");
    let naive = naive(&world);
    let stop = Arc::new(AtomicBool::new(false));
    let config = Config {
        cluster: Cluster { bootstrap_servers: world.bootstrap.clone(), ..Cluster::default() },
        group: world.name.clone(),
        topics: world.topics(),
        dev: true,
        ..Config::default()
    };
    let worker = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            let ended = Arc::clone(&stop);
            run(config, Registries::Fixed(Arc::new(registry())), &stop, &mut |progress| {
                if let Progress::Committed(counters) = progress {
                    ended.fetch_or(counters.transactions >= COMMITS, Ordering::Relaxed);
                }
            })
        })
    };
    let mut session = 0;
    while !worker.is_finished() {
        world.send_events(&story(&format!("sess-{session}")));
        session += 1;
        thread::sleep(Duration::from_millis(40));
    }
    let counters = worker.join().expect("no panic").expect("a clean end");
    // The fast ones of both: no commit is faster than what it waits for, and on a busy machine anything may be slower.
    let ours = Duration::from_micros(counters.commits.quantile_micros(10));
    println!("commit p10: {ours:?}, naive {naive:?}; p99 {} us", counters.commits.quantile_micros(99));
    assert!(naive >= Duration::from_millis(90), "the trap is gone: {naive:?}");
    assert!(ours * 3 < naive * 2, "commit p10 {ours:?}, naive {naive:?}");
}
