//! From a start to the first input a task may take: the same entries from the changelog alone, and from each local store.
//!
//! Entries are those of failing sessions, made by the session stage itself. Every start is a process of its own, so that
//! its memory is not what an earlier one left; stores are filled by a start before the one that is measured.

use std::collections::BTreeMap;
use std::env;
use std::io::Write;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::json;
use twox_hash::XxHash3_128;

use crate::cli::bench::drive::{Mark, Worker};
use crate::cli::bench::fleet::{ATTEMPTS, Fleet, Plan};
use crate::cli::bench::ground::{Ground, names};
use crate::cli::bench::report::rounded;
use crate::cli::bench::{Args, Room};
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::run;
use crate::engine::Config;
use crate::engine::shown::watch::Restored;
use crate::engine::state::store;
use crate::engine::state::store::Kind;
use crate::record::codec::json::event;
use crate::record::position::Position;
use crate::record::time::Timestamp;
use crate::registry::Registry;
use crate::session::{Effects, Input, Session};

/// Longest time in which a store that is being filled gets nothing; over: the run has failed.
const FILL_PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// One start: of which run, from which store, and whether only to fill it.
#[derive(Clone, Debug)]
pub struct Start {
    /// Name of the run.
    pub run: String,
    kind: Kind,
    is_filling: bool,
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split('/');
        let (Some(run), Some(kind), what) = (words.next(), words.next(), words.next()) else {
            return Err("RUN/STORE or RUN/STORE/fill".to_owned());
        };
        Ok(Self { run: run.to_owned(), kind: crate::cli::bench::kind(kind)?, is_filling: what == Some("fill") })
    }
}

/// What a start found, and what it took until its tasks might begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Started {
    tasks: usize,
    entries: u64,
    /// Over all tasks.
    state_hash: String,
    /// Tasks that came from a local store.
    loaded: u64,
    /// From the assignment by the group on.
    seconds: f64,
    /// Of the whole process, from its start on.
    cpu_seconds: f64,
    resident_bytes: u64,
}

/// Does one start, and tells what it took.
///
/// # Errors
/// Whatever ends the engine early.
pub fn start(start: &Start, room: &Room, out: &mut dyn Write) -> Result<Exit, Failure> {
    let age_max = Duration::from_hours(1);
    let store = (start.kind != Kind::Memory).then(|| store::Settings {
        kind: start.kind,
        folder: room.folder.join(start.kind.name()),
        age_max,
    });
    let config = Config { topics: names(&start.run, None), store, ..room.config.clone() };
    let watch = Arc::clone(&config.watch);
    let worker = Worker::start(config, &run::stop_flag()?)?;
    let begun = worker.wait_until_assigned()?;
    let restored = watch.restored();
    let filled = if start.is_filling { fill_up(&watch.stores, restored.len() as u64) } else { Ok(()) };
    let counters = worker.end()?;
    filled?;
    let loaded = watch.stores.counts().loaded;
    let started = started(&restored, loaded, counters.restores.sum_micros(), &begun);
    serde_json::to_writer(&mut *out, &started).map_err(Into::into).and_then(|()| writeln!(out)).map_err(unwritable)?;
    Ok(Exit::Done)
}

fn started(restored: &BTreeMap<String, Restored>, loaded: u64, micros: u64, begun: &Mark) -> Started {
    let mut hash = XxHash3_128::new();
    for (task, Restored { entries_hash, .. }) in restored {
        hash.write(task.as_bytes());
        hash.write(&entries_hash.to_le_bytes());
    }
    Started {
        tasks: restored.len(),
        entries: restored.values().map(|restored| restored.entries).sum(),
        state_hash: store::hex(hash.finish_128()),
        loaded,
        seconds: rounded(Duration::from_micros(micros).as_secs_f64()),
        cpu_seconds: rounded(begun.cpu().as_secs_f64()),
        resident_bytes: begun.resident_bytes.unwrap_or(0),
    }
}

/// Waits until the keeper has brought the stores of so many tasks up to date.
fn fill_up(tally: &store::keeper::Tally, tasks: u64) -> Result<(), Failure> {
    let (mut seen, mut since) = (0, Instant::now());
    loop {
        let counts = tally.counts();
        if counts.caught_up >= tasks {
            return Ok(());
        }
        if counts.written > seen {
            (seen, since) = (counts.written, Instant::now());
        }
        if counts.given_up > 0 || since.elapsed() > FILL_PATIENCE {
            let words = format!("{} of {tasks} local stores were filled, {} entries written", counts.caught_up, seen);
            return Err(Failure::new(Exit::TryAgain, words));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Fills the changelog, and measures.
///
/// # Errors
/// Exit 69 without a broker, and whatever ends a start early.
pub fn measure(
    args: &Args,
    sessions: u64,
    room: &Room,
    registry: &Arc<Registry>,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let ground = Ground::lay(&room.config.cluster, &room.name, None, usize::from(args.partitions))?;
    let measured = compare(args, sessions, &ground, room, registry, json, out);
    ground.clear()?;
    measured
}

fn compare(
    args: &Args,
    sessions: u64,
    ground: &Ground,
    room: &Room,
    registry: &Arc<Registry>,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let config = room.enter(ground, registry)?;
    let (entries, bytes) = fill(args, sessions, ground, registry)?;
    // The activation is behind the entries already; the tasks find no input.
    ground.skip(&config.group)?;
    let mut kinds = if args.stores.is_empty() { vec![Kind::Fjall, Kind::Sled] } else { args.stores.clone() };
    kinds.retain(|kind| *kind != Kind::Memory);
    let mut starts = vec![("changelog", child(&room.name, Kind::Memory, false)?)];
    for kind in kinds {
        child(&room.name, kind, true)?;
        starts.push((kind.name(), child(&room.name, kind, false)?));
    }
    let report = Report { partitions: ground.partitions, sessions, entries, bytes, starts };
    if json { report.json(out) } else { report.table(out) }.map_err(unwritable)?;
    Ok(report.is_good())
}

/// Runs this program once more, for one start.
fn child(run: &str, kind: Kind, is_filling: bool) -> Result<Started, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::TryAgain, format_args!("a start: {error}"));
    let start = format!("--restore-start={run}/{}{}", kind.name(), if is_filling { "/fill" } else { "" });
    let program = env::current_exe().map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    // The same settings; what it says of problems goes where this process does.
    command.args(env::args_os().skip(1)).arg(start).stdin(Stdio::null()).stderr(Stdio::inherit());
    let ended = command.output().map_err(|error| failed(&error))?;
    if !ended.status.success() {
        return Err(failed(&ended.status));
    }
    serde_json::from_slice(&ended.stdout).map_err(|error| failed(&error))
}

/// Writes the entries of so many failing sessions; how many entries, and their bytes.
fn fill(args: &Args, sessions: u64, ground: &Ground, registry: &Arc<Registry>) -> Result<(u64, u64), Failure> {
    let feed = ground.feed(&ground.names.state_session)?;
    let mut fleet = Fleet::new(Plan { events: 0, sessions: 1, ..args.plan() });
    let (mut entries, mut bytes) = (0, 0);
    for partition in 0..ground.partitions {
        let share = share(sessions, partition, ground.partitions);
        let mut session = Session::new(&format!("session/{partition}"), Arc::clone(registry));
        track(&mut session, &mut fleet, share, ATTEMPTS, partition)?;
        for change in session.take_changes() {
            entries += u64::from(change.value.is_some());
            bytes += (change.key.len() + change.value.as_ref().map_or(0, Vec::len)) as u64;
            feed.send_to(partition, change.key.as_bytes(), change.value.as_deref())?;
        }
    }
    feed.finish()?;
    Ok((entries, bytes))
}

/// What one of so many partitions gets.
fn share(all: u64, partition: i32, partitions: i32) -> u64 {
    let of = |number: i32| all * u64::try_from(number).unwrap_or(0) / u64::try_from(partitions).unwrap_or(1).max(1);
    of(partition + 1) - of(partition)
}

/// Makes a task track so many sessions more, each with so many failures of one node.
///
/// # Errors
/// Never: its events are events.
pub fn track(
    session: &mut Session,
    fleet: &mut Fleet,
    sessions: u64,
    failures: u32,
    partition: i32,
) -> Result<(), Failure> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    let (mut session_id, mut text, mut effects) = (String::new(), String::new(), Effects::default());
    let mut offset = 0;
    for _ in 0..sessions {
        for step in fleet.failing(failures) {
            step.write_session_id("live", &mut session_id);
            step.write_event(&session_id, now, &mut text);
            let event = event(&text, 1024).map_err(|rejection| Failure::new(Exit::Bug, rejection.message))?;
            let position = Position { topic: "reflex.events", partition, offset };
            session.step(now, Input::Event { position, event: &event, received_at: now }, &mut effects);
            effects.clear();
            offset += 1;
        }
    }
    Ok(())
}

struct Report {
    partitions: i32,
    sessions: u64,
    entries: u64,
    bytes: u64,
    starts: Vec<(&'static str, Started)>,
}

impl Report {
    /// What is wrong with one of them; none: nothing.
    fn problem(&self, from: &str, started: &Started) -> Option<&'static str> {
        let first = &self.starts[0].1;
        let is_stored = from != "changelog";
        if started.entries != self.entries {
            Some("OTHER ENTRIES")
        } else if started.state_hash != first.state_hash {
            Some("ANOTHER STATE")
        } else if is_stored && started.loaded != started.tasks as u64 {
            Some("NOT FROM THE STORE")
        } else {
            None
        }
    }

    fn is_good(&self) -> bool {
        self.starts.iter().all(|(from, started)| self.problem(from, started).is_none())
    }

    #[allow(clippy::cast_precision_loss, reason = "a figure, not a count")]
    fn table(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let Self { partitions, sessions, entries, bytes, .. } = self;
        let each = bytes / entries.max(&1);
        writeln!(
            out,
            "entries     {entries} of {sessions} failing sessions, {each} bytes each, {partitions} partitions"
        )?;
        for (from, started) in &self.starts {
            writeln!(
                out,
                "{from:11} {:.2} s, {:.0} entries/s, CPU {:.2} s, {} MiB resident: {}",
                started.seconds,
                started.entries as f64 / started.seconds.max(1e-9),
                started.cpu_seconds,
                started.resident_bytes >> 20,
                self.problem(from, started).unwrap_or("the same state")
            )?;
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss, reason = "a figure, not a count")]
    fn json(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let starts = self.starts.iter().map(|(from, started)| {
            let mut value = json!(started);
            value["from"] = json!(from);
            value["entries_per_s"] = json!((started.entries as f64 / started.seconds.max(1e-9)).round());
            value["problem"] = json!(self.problem(from, started));
            value
        });
        let report = json!({
            "sessions": self.sessions, "partitions": self.partitions, "entries": self.entries, "bytes": self.bytes,
            "restores": starts.collect::<Vec<_>>(),
        });
        writeln!(out, "{report}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(entries: u64, state_hash: &str, loaded: u64) -> Started {
        let state_hash = state_hash.to_owned();
        Started { tasks: 2, entries, state_hash, loaded, seconds: 0.5, cpu_seconds: 0.1, resident_bytes: 1 << 20 }
    }

    #[test]
    fn every_session_has_a_partition() {
        assert_eq!((0..3).map(|partition| share(10, partition, 3)).collect::<Vec<_>>(), [3, 3, 4]);
        assert_eq!((0..8).map(|partition| share(3, partition, 8)).sum::<u64>(), 3);
    }

    #[test]
    fn what_is_not_the_same_state_from_the_store_is_told() {
        for (second, problem) in [
            (started(9, "a", 2), None),
            (started(8, "a", 2), Some("OTHER ENTRIES")),
            (started(9, "b", 2), Some("ANOTHER STATE")),
            (started(9, "a", 1), Some("NOT FROM THE STORE")),
        ] {
            let starts = vec![("changelog", started(9, "a", 0)), ("fjall", second)];
            let report = Report { partitions: 1, sessions: 8, entries: 9, bytes: 90, starts };
            assert_eq!(report.problem("fjall", &report.starts[1].1), problem);
            assert_eq!(report.is_good(), problem.is_none());
            let (mut table, mut json) = (Vec::new(), Vec::new());
            report.table(&mut table).and_then(|()| report.json(&mut json)).expect("written");
            let table = String::from_utf8(table).expect("text");
            assert!(table.contains(problem.unwrap_or("the same state")) && table.contains("18 entries/s"), "{table}");
            let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
            assert_eq!(json["restores"][1]["problem"], json!(problem));
        }
    }

    #[test]
    fn a_start_is_named_by_its_run_and_its_store() {
        let start: Start = "17/fjall/fill".parse().expect("a start");
        assert_eq!((start.run.as_str(), start.kind, start.is_filling), ("17", Kind::Fjall, true));
        assert!(!"17/memory".parse::<Start>().expect("a start").is_filling);
        assert!("17".parse::<Start>().is_err() && "17/tape".parse::<Start>().is_err());
    }
}
