//! Local stores against each other: a million entries written in batches, overwritten, and read again as a restart does.
//! Every phase is a process of its own, so that its memory is its own. All figures come from one run on one machine.
//!
//! `cargo bench --bench store`; `REFLEX_ENTRIES`, `REFLEX_PARTITIONS` and `REFLEX_OVERWRITES` change the size.
#![allow(clippy::expect_used, reason = "a broken expectation is a failed bench")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "files and clocks are what is measured")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use reflex::engine::state::store::check::{Found, State, find, millis};
use reflex::engine::state::store::{Checkpoint, FORMAT, Kind, Settings, Store, Task, hex, open};
use reflex::record::codec::json;
use reflex::record::position::Position;
use reflex::record::task::entry;
use reflex::record::time::Timestamp;
use reflex::registry::{Registry, SourceFile, load};
use reflex::session::state::entry::{Key, TaskEntry};
use reflex::session::table::Tracked;
use reflex::session::{Effects, Input, Restore, Session};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH: u64 = 1000;
const FAILED: &str = r#"{"event_id":"01JDXK3V7Q8Z9W2M4N6P000001","type":"node_failed","session_id":"sess_1","run_id":"run_77012345","graph":"refund_graph","graph_version":"v1","tenant":"t-7","node":"evaluate_evidence","attempt":1,"max_attempts":3,"error":{"class":"pydantic.ValidationError","code":"ast_decoder","message":"1 validation error for Evidence: field 'total' is not a number (got 30,5 EUR)"},"artifact":{"name":"evidence_analysis","present":false}}"#;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn registry() -> Arc<Registry> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/registry");
    let files = ["defaults.toml", "refund.toml", "shapes.toml"].map(|name| SourceFile {
        name: name.to_owned(),
        text: fs::read_to_string(folder.join(name)).expect("a shipped file"),
    });
    Arc::new(load::load(&files).expect("the shipped registry").registry)
}

/// Entries of a task, each the same but for the session's id and how often it was written.
struct Entries {
    tracked: Tracked,
    task: Vec<u8>,
    count: u64,
}

impl Entries {
    fn new(count: u64) -> Self {
        let mut session = Session::new("session/0", registry());
        let event = json::event(FAILED, 1024).expect("an event");
        let (now, mut effects) = (Timestamp::from_millis(0), Effects::default());
        let position = Position { topic: "reflex.events", partition: 0, offset: 1_000_000 };
        session.step(now, Input::Event { position, event: &event, received_at: now }, &mut effects);
        let changes = session.take_changes();
        let value = |key: &str| changes.iter().find(|change| change.key.starts_with(key))?.value.clone();
        let tracked = entry::decode(&value("s/").expect("a session")).expect("a session");
        let mut task: TaskEntry<'_> = entry::decode(&value("task").expect("a task")).expect("a task");
        task.next_serial = count;
        Self { tracked, task: entry::encode(&task), count }
    }

    fn entry(&mut self, serial: u64, times: u32) -> (Vec<u8>, Vec<u8>) {
        self.tracked.session_id = format!("sess_{serial:08}").into();
        self.tracked.interventions = times;
        (Key::Session(serial).text().into_bytes(), entry::encode(&self.tracked))
    }
}

/// A session task on its way back.
struct Of(Restore);

impl State for Of {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.0.apply(key, Some(value)).map_err(|error| error.to_string())
    }

    fn hash(&self) -> u128 {
        self.0.state_hash()
    }
}

fn task(partition: i32) -> Task {
    Task { stage: "session", topic: "reflex.state.session".into(), topic_id: String::new(), partition }
}

fn checkpoint(partition: i32, changelog_next: i64, sum: u128) -> Checkpoint {
    let (topic, state_hash) = (task(0).topic, Some(hex(sum)));
    Checkpoint {
        format: FORMAT,
        topic,
        topic_id: String::new(),
        partition,
        changelog_next,
        state_hash,
        written_at: millis(),
    }
}

/// Kibibytes by name from what the system tells of this process.
fn memory(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

fn disk(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    entries
        .map(|entry| {
            let path = entry.path();
            if path.is_dir() { disk(&path) } else { fs::metadata(&path).map_or(0, |found| found.blocks() * 512) }
        })
        .sum()
}

struct Pace {
    batches: Vec<Duration>,
    begun: Instant,
}

impl Pace {
    fn tell(mut self, what: &str, entries: u64) {
        self.batches.sort();
        let at = |share: usize| self.batches[self.batches.len() * share / 100].as_secs_f64() * 1e3;
        let seconds = self.begun.elapsed().as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "for people")]
        let rate = entries as f64 / seconds / 1e3;
        println!(
            "  {what}: {seconds:.1} s, {rate:.0} k entries/s, batch p50 {:.2} ms, p99 {:.2} ms, memory {} MiB",
            at(50),
            at(99),
            memory("VmRSS") / 1024
        );
    }
}

/// Writes all entries once, then some again.
fn write(kind: Kind, folder: &Path) {
    let (entries, partitions) = (number("REFLEX_ENTRIES", 1_000_000), number("REFLEX_PARTITIONS", 8));
    let each = entries / partitions;
    let mut made = Entries::new(each);
    let mut stores: Vec<(Box<dyn Store>, u128, i64)> = (0..partitions)
        .map(|partition| {
            let place = task(i32::try_from(partition).expect("few")).folder(folder).join(kind.name());
            fs::create_dir_all(&place).expect("a folder");
            (open(kind, &place).expect("opens"), 0, 0)
        })
        .collect();
    let mut times = vec![0_u32; usize::try_from(entries).expect("fits")];
    let mut bytes = 0;
    for (what, count) in [("written", each), ("overwritten", number("REFLEX_OVERWRITES", entries) / partitions)] {
        let mut pace = Pace { batches: Vec::new(), begun: Instant::now() };
        for batch in 0..count.div_ceil(BATCH) {
            for (partition, (store, sum, next)) in stores.iter_mut().enumerate() {
                let mut writes = Vec::new();
                for n in batch * BATCH..((batch + 1) * BATCH).min(count) {
                    // Overwrites jump about.
                    let serial = if what == "written" { n } else { n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % each };
                    let known = &mut times
                        [partition * usize::try_from(each).expect("fits") + usize::try_from(serial).expect("fits")];
                    if *known > 0 {
                        let (key, value) = made.entry(serial, *known);
                        *sum = sum.wrapping_sub(entry::hash(&key, &value));
                    }
                    *known += 1;
                    let (key, value) = made.entry(serial, *known);
                    *sum = sum.wrapping_add(entry::hash(&key, &value));
                    bytes = key.len() + value.len();
                    writes.push((key, Some(value)));
                }
                *next += 1000;
                let mut whole = *sum;
                let hash = entry::hash(b"task", &made.task);
                whole = whole.wrapping_add(hash);
                writes.push((b"task".to_vec(), Some(made.task.clone())));
                let at = Instant::now();
                store
                    .apply(&writes, &checkpoint(i32::try_from(partition).expect("few"), *next, whole))
                    .expect("written");
                pace.batches.push(at.elapsed());
            }
        }
        pace.tell(what, count * partitions);
    }
    let at = Instant::now();
    for (store, ..) in stores {
        store.close().expect("closed");
    }
    println!(
        "  closed in {:.2} s; at most {} MiB of memory, {} MiB on disk for {} MiB of entries",
        at.elapsed().as_secs_f64(),
        memory("VmHWM") / 1024,
        disk(folder) >> 20,
        (made.count * partitions * bytes as u64) >> 20
    );
}

/// Reads everything as a restart does, two tasks at a time, and one after the other.
fn read(kind: Kind, folder: &Path, threads: usize) {
    let partitions = i32::try_from(number("REFLEX_PARTITIONS", 8)).expect("few");
    let settings = Settings { kind, folder: folder.to_path_buf(), age_max: Duration::from_hours(12) };
    let registry = registry();
    let (begun, next) = (Instant::now(), AtomicI32::new(0));
    let sessions: usize = std::thread::scope(|scope| {
        let work = || {
            let mut restored = Vec::new();
            loop {
                let partition = next.fetch_add(1, Ordering::Relaxed);
                if partition >= partitions {
                    return restored;
                }
                let task = task(partition);
                let empty = || Of(Restore::new(&task.to_string(), Arc::clone(&registry)));
                let (Found::Whole { state, store, .. }, _) = find(&settings, &task, empty) else {
                    panic!("{task} is not whole");
                };
                restored.push((state.0.finish().expect("a state"), store));
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let restored: Vec<_> = running.into_iter().flat_map(|thread| thread.join().expect("restored")).collect();
        let seconds = begun.elapsed().as_secs_f64();
        println!("  restored by {threads} thread(s): {seconds:.2} s, memory {} MiB", memory("VmRSS") / 1024);
        restored.iter().map(|(session, _)| session.in_use().1).sum()
    });
    assert_eq!(
        sessions as u64,
        number("REFLEX_ENTRIES", 1_000_000) / number("REFLEX_PARTITIONS", 8) * number("REFLEX_PARTITIONS", 8)
    );
}

/// The same entries from memory: what no store can be faster than.
fn bare() {
    let count = number("REFLEX_ENTRIES", 1_000_000);
    let mut made = Entries::new(count);
    let entries: Vec<_> = (0..count).map(|serial| made.entry(serial, 1)).collect();
    let begun = Instant::now();
    let sum = entries.iter().fold(0, |sum: u128, (key, value)| sum.wrapping_add(entry::hash(key, value)));
    println!("  hashed: {:.2} s ({sum:032x})", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let mut restore = Restore::new("session/0", registry());
    for (key, value) in &entries {
        restore.apply(key, Some(value)).expect("an entry");
    }
    println!("  applied: {:.2} s", begun.elapsed().as_secs_f64());
    restore.apply(b"task", Some(&made.task)).expect("an entry");
    let session = restore.finish().expect("a state");
    println!("  restored by 1 thread: {:.2} s; {} sessions", begun.elapsed().as_secs_f64(), session.in_use().1);
}

fn phase(name: &str, kind: &str, folder: &Path) {
    let status = Command::new(std::env::current_exe().expect("this program"))
        .env("REFLEX_BENCH_PHASE", name)
        .env("REFLEX_BENCH_KIND", kind)
        .env("REFLEX_BENCH_FOLDER", folder)
        .status();
    assert!(status.expect("it runs").success());
}

fn main() {
    let folder = || PathBuf::from(std::env::var_os("REFLEX_BENCH_FOLDER").expect("set"));
    let kind = || match std::env::var("REFLEX_BENCH_KIND").as_deref() {
        Ok("sled") => Kind::Sled,
        _ => Kind::Fjall,
    };
    match std::env::var("REFLEX_BENCH_PHASE").as_deref() {
        Ok("write") => write(kind(), &folder()),
        Ok("read") => read(kind(), &folder(), 2),
        Ok("read alone") => read(kind(), &folder(), 1),
        Ok(_) => bare(),
        Err(_) => {
            println!("memory");
            phase("bare", "", Path::new(""));
            for kind in [Kind::Fjall, Kind::Sled] {
                let folder = tempfile::tempdir().expect("a folder");
                println!("{}", kind.name());
                for name in ["write", "read", "read alone"] {
                    phase(name, kind.name(), folder.path());
                }
            }
        }
    }
}
