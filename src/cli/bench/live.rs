//! What a healthy event costs while many failing sessions are tracked: on the broker, and of the session stage alone.

use std::io::Write;
use std::sync::Arc;

use serde_json::json;

use crate::cli::bench::drive::{Mark, Ran, Worker};
use crate::cli::bench::fleet::{Fleet, Plan};
use crate::cli::bench::ground::Ground;
use crate::cli::bench::report::{Cost, rounded};
use crate::cli::bench::restore::track;
use crate::cli::bench::{Args, Room};
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::run;
use crate::engine::Config;
use crate::record::codec::json::event;
use crate::record::position::Position;
use crate::record::time::Timestamp;
use crate::registry::Registry;
use crate::session::{Effects, Input, Session};

/// Events of a commit, where the stage is measured alone.
const COMMIT_EVENTS: usize = 10_000;
/// Different events there; they come again and again.
const TEXTS_MAX: u64 = 200_000;

/// One number of sessions.
struct Measured {
    sessions: u32,
    /// As many as the worker tracked at the end.
    tracked: u64,
    behind: u64,
    /// The whole process on the broker.
    broker: Cost,
    resident_bytes: u64,
    /// Decoding and the session stage alone: events of sessions that never failed, and of those that did.
    others: Cost,
    failing: Cost,
}

/// Measures one number of sessions after the other.
///
/// # Errors
/// Exit 69 without a broker, and whatever ends the engine early.
pub fn measure(
    args: &Args,
    room: &Room,
    registry: &Arc<Registry>,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let mut all = Vec::new();
    for sessions in &args.sessions_live {
        let run = format!("{}-{sessions}", room.name);
        let ground = Ground::lay(&room.config.cluster, &run, None, usize::from(args.partitions))?;
        let measured = broker(args, *sessions, &run, &ground, room, registry);
        ground.clear()?;
        let (broker, tracked, behind, resident_bytes) = measured?;
        let [others, failing] = alone(args, *sessions, registry)?;
        all.push(Measured { sessions: *sessions, tracked, behind, broker, resident_bytes, others, failing });
    }
    let report = Report { events: args.events, all };
    if json { report.json(out) } else { report.table(out) }.map_err(unwritable)?;
    Ok(report.is_good())
}

/// On the broker: first the failures, to their end; then, by a worker that has their state, the healthy events.
fn broker(
    args: &Args,
    sessions: u32,
    run: &str,
    ground: &Ground,
    room: &Room,
    registry: &Registry,
) -> Result<(Cost, u64, u64, u64), Failure> {
    // What a keeper has to catch up with is not the cost of an event.
    let config = Config { group: format!("reflex-bench-{run}"), store: None, ..room.enter(ground, registry)? };
    let mut fleet = Fleet::new(Plan { events: 0, sessions: 1, ..args.plan() });
    ground.send("live", (0..sessions).flat_map(|_| fleet.failing(1)))?;
    through(&config, ground, u64::from(sessions))?;
    let before = ground.events()?;
    let mut fleet = Fleet::new(Plan { failing_parts: 0, ..args.plan() });
    ground.send("", std::iter::from_fn(|| fleet.step()))?;
    let events = ground.events()? - before;
    let ran = through(&config, ground, events)?;
    let tracked = config.watch.snapshot().tasks.iter().map(|task| task.sessions_tracked).sum();
    let cost = Cost::new(events, &ran.begun, &ran.ended);
    Ok((cost, tracked, ground.behind(&config.group)?, ran.ended.resident_bytes.unwrap_or(0)))
}

fn through(config: &Config, ground: &Ground, events: u64) -> Result<Ran, Failure> {
    let is_done = |inputs| Ok(inputs >= events && ground.behind(&config.group)? == 0);
    Worker::start(config.clone(), &run::stop_flag()?)?.finish(&is_done)
}

/// The stage alone, all sessions in one task.
fn alone(args: &Args, sessions: u32, registry: &Arc<Registry>) -> Result<[Cost; 2], Failure> {
    let mut session = Session::new("session/0", Arc::clone(registry));
    track(&mut session, &mut Fleet::new(Plan { events: 0, sessions: 1, ..args.plan() }), u64::from(sessions), 1, 0)?;
    session.committed();
    let now = session.watermark().unwrap_or(Timestamp::EPOCH);
    let events = args.events.clamp(1, TEXTS_MAX);
    let mut fleet = Fleet::new(Plan { failing_parts: 0, ..args.plan() });
    let (mut id, mut texts, mut others) = (String::new(), Vec::new(), Vec::new());
    for number in 0..events {
        let Some(step) = fleet.step() else { break };
        let mut text = String::new();
        step.write_session_id("", &mut id);
        step.write_event(&id, now, &mut text);
        // The same event of a session that failed, one after the other from all over the table. Numbers begin behind the
        // one session that every fleet opens.
        let failing = number * u64::from(sessions) / events + 1;
        texts.push(text.replace(&id, &format!("sess_live{failing:010}")));
        others.push(text);
    }
    Ok([cost(&mut session, args.events, &others, now)?, cost(&mut session, args.events, &texts, now)?])
}

fn cost(session: &mut Session, events: u64, texts: &[String], now: Timestamp) -> Result<Cost, Failure> {
    let mut effects = Effects::default();
    let begun = Mark::now();
    for (number, text) in (0..events).zip(texts.iter().cycle()) {
        let event = event(text, 1024).map_err(|rejection| Failure::new(Exit::Bug, rejection.message))?;
        let position = Position { topic: "reflex.events", partition: 0, offset: i64::try_from(number).unwrap_or(0) };
        session.step(now, Input::Event { position, event: &event, received_at: now }, &mut effects);
        effects.clear();
        if number % COMMIT_EVENTS as u64 == 0 {
            session.committed();
        }
    }
    Ok(Cost::new(events, &begun, &Mark::now()))
}

struct Report {
    events: u64,
    all: Vec<Measured>,
}

impl Report {
    fn is_good(&self) -> bool {
        self.all.iter().all(|measured| measured.behind == 0 && measured.tracked == u64::from(measured.sessions))
    }

    /// CPU of an event in parts of that with the fewest sessions.
    fn ratio(&self, measured: &Measured, of: fn(&Measured) -> &Cost) -> f64 {
        let fewest = self.all.iter().min_by_key(|measured| measured.sessions).unwrap_or(measured);
        rounded(of(measured).cpu_us() / of(fewest).cpu_us().max(1e-9))
    }

    fn table(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(
            out,
            "{} healthy events; CPU of one in us, and in parts of that with the fewest sessions",
            self.events
        )?;
        writeln!(
            out,
            "{:>13} {:>16} {:>10} {:>23} {:>23}",
            "sessions live", "on the broker", "resident", "decoded and stepped", "of sessions that failed"
        )?;
        for measured in &self.all {
            let cell =
                |of: fn(&Measured) -> &Cost| format!("{:.3} x{:.2}", of(measured).cpu_us(), self.ratio(measured, of));
            let verdict = if measured.behind == 0 && measured.tracked == u64::from(measured.sessions) {
                String::new()
            } else {
                format!("  NOT ALL: {} tracked, {} events not committed", measured.tracked, measured.behind)
            };
            writeln!(
                out,
                "{:>13} {:>16} {:>6} MiB {:>23} {:>23}{verdict}",
                measured.sessions,
                cell(|measured| &measured.broker),
                measured.resident_bytes >> 20,
                cell(|measured| &measured.others),
                cell(|measured| &measured.failing)
            )?;
        }
        Ok(())
    }

    fn json(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let figures = |measured: &Measured, of: fn(&Measured) -> &Cost| {
            let mut value = of(measured).json();
            value["ratio"] = json!(self.ratio(measured, of));
            value
        };
        let all = self.all.iter().map(|measured| {
            json!({
                "sessions_live": measured.sessions, "tracked": measured.tracked, "not_committed": measured.behind,
                "resident_bytes": measured.resident_bytes,
                "broker": figures(measured, |measured| &measured.broker),
                "stage": figures(measured, |measured| &measured.others),
                "stage_of_failing": figures(measured, |measured| &measured.failing),
            })
        });
        writeln!(out, "{}", json!({ "events": self.events, "measured": all.collect::<Vec<_>>() }))
    }
}
