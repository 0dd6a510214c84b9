//! Which cases, with which seeds, and the table of what was injected, fired and survived.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::load::Random;
use super::rig::Run;
use super::{brokers, foreign, kills, members, zombies};

const USAGE: &str = "faults [--all] [--seeds N] [--seed SEED] [--only NAME] [--report FILE] [--list]";

/// One fault.
struct Case {
    name: String,
    /// Whether it is part of the smoke set.
    smoke: bool,
    inject: Box<dyn Fn(&mut Run)>,
}

type Inject = fn(&mut Run);

/// Name, whether it is part of the smoke set, what to do.
const CASES: [(&str, bool, Inject); 22] = [
    ("kill during_end_txn", true, kills::during_end_txn),
    ("kill mid_store_batch", true, kills::mid_store_batch),
    ("kill after_command", true, kills::after_command),
    ("kill in_pre_rebalance", true, kills::in_pre_rebalance),
    ("kill in_restore", true, kills::in_restore),
    ("kill at random", false, kills::at_random),
    ("zombie before begin", true, zombies::before_begin),
    ("zombie before commit", true, zombies::before_commit),
    ("dead writer, open transaction", true, zombies::open_transaction),
    ("rebalance storm", false, members::storm),
    ("rolling restart", false, members::rolling),
    ("one of two killed", false, members::one_of_two),
    ("broker killed", true, brokers::killed),
    ("broker away for 80 s", false, brokers::away),
    ("end of a commit dropped", true, brokers::end_dropped),
    ("end of a commit torn", true, brokers::end_torn),
    ("answer to a commit lost", true, brokers::answer_lost),
    ("commit lost", false, brokers::request_lost),
    ("commit 15 s late", false, brokers::request_late),
    ("foreign transactions", false, foreign::transactions),
    ("damaged local stores", true, foreign::damaged_stores),
    ("a byte of an input changed", true, foreign::changed_input),
];

fn cases() -> Vec<Case> {
    let points = kills::POINTS.iter().map(|point| Case {
        name: format!("kill {}", point.name),
        smoke: true,
        inject: Box::new(|run| kills::at(run, point)),
    });
    let others =
        CASES.into_iter().map(|(name, smoke, inject)| Case { name: name.to_owned(), smoke, inject: Box::new(inject) });
    points.chain(others).collect()
}

#[derive(Default)]
struct Options {
    all: bool,
    list: bool,
    seeds: u64,
    seed: Option<u64>,
    only: Option<String>,
    report: Option<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options { seeds: 1, ..Options::default() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument}: a value is missing; {USAGE}"));
        let number = |text: String| text.parse().map_err(|_| format!("{text}: not a number; {USAGE}"));
        match argument.as_str() {
            "--all" => options.all = true,
            "--list" => options.list = true,
            "--seeds" => options.seeds = number(value()?)?,
            "--seed" => options.seed = Some(number(value()?)?),
            "--only" => options.only = Some(value()?),
            "--report" => options.report = Some(value()?),
            other => return Err(format!("{other}: not understood; {USAGE}")),
        }
    }
    Ok(options)
}

/// What became of all runs of one fault.
#[derive(Default)]
struct Row {
    injected: u32,
    fired: u32,
    survived: u32,
    runs: u32,
    took: Duration,
}

/// Runs what the arguments say.
pub fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(words) => {
            eprintln!("{words}");
            return ExitCode::from(64);
        }
    };
    let wanted = |case: &Case| match &options.only {
        Some(only) => case.name.contains(only.as_str()),
        None => case.smoke || options.all,
    };
    let cases: Vec<Case> = cases().into_iter().filter(wanted).collect();
    if options.list {
        for case in &cases {
            println!("{}", case.name);
        }
        return ExitCode::SUCCESS;
    }
    if cases.is_empty() {
        eprintln!("no such fault: {}", options.only.unwrap_or_default());
        return ExitCode::from(64);
    }
    let first = options.seed.unwrap_or_else(|| if options.all { crate::harness::ports::random() } else { 1 });
    println!("seed {first}, {} faults, {} seeds", cases.len(), options.seeds);
    let (mut table, mut failures) = (Vec::new(), Vec::new());
    for case in &cases {
        let mut row = Row::default();
        for seed in (0..options.seeds).map(|number| first.wrapping_add(number)) {
            one(case, seed, options.all, &mut row, &mut failures);
        }
        table.push((case.name.clone(), row));
    }
    let table = render(&table, &failures);
    print!("{table}");
    if let Some(file) = &options.report {
        std::fs::write(file, format!("seed {first}\n{table}")).expect("the report can be written");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(case: &Case, seed: u64, full: bool, row: &mut Row, failures: &mut Vec<String>) {
    let mut run =
        Run { random: Random(seed), full, injected: Cell::new(0), fired: Cell::new(0), notes: RefCell::default() };
    let started = Instant::now();
    let ended = silently(|| (case.inject)(&mut run));
    row.took += started.elapsed();
    row.runs += 1;
    row.injected += run.injected.get();
    row.fired += run.fired.get();
    let missing = run.injected.get() == 0 || run.fired.get() < run.injected.get();
    let wrong = match ended {
        Err(words) => Some(words),
        Ok(()) if missing => Some("the fault was not injected".to_owned()),
        Ok(()) => None,
    };
    let verdict = if wrong.is_none() { "ok" } else { "FAILED" };
    let (took, notes) = (started.elapsed().as_secs_f64(), run.notes.borrow().join("; "));
    println!("{verdict:<7} {:<32} seed {seed:<20} {took:>6.1} s  {notes}", case.name);
    match wrong {
        None => row.survived += 1,
        Some(words) => {
            let again = if full { "" } else { " --smoke" };
            failures.push(format!(
                "{}: {words}\n  again: .ci/faults{again} --only '{}' --seed {seed}",
                case.name, case.name
            ));
        }
    }
}

/// Runs a case; the words of its panic, if it has one.
fn silently(work: impl FnOnce()) -> Result<(), String> {
    static WORDS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let name = || std::thread::current().name().unwrap_or("?").to_owned();
    panic::set_hook(Box::new(move |info| {
        eprintln!("{info}");
        WORDS.lock().expect("no panic within").entry(name()).or_insert_with(|| info.to_string());
    }));
    let ended = panic::catch_unwind(AssertUnwindSafe(work));
    let mut words = std::mem::take(&mut *WORDS.lock().expect("no panic within"));
    ended.map_err(|_| words.pop_last().map_or_else(|| "failed without words".to_owned(), |(_, words)| words))
}

fn render(table: &[(String, Row)], failures: &[String]) -> String {
    let mut text = format!("\n{:<34} {:>8} {:>6} {:>9} {:>8}\n", "fault", "injected", "fired", "survived", "seconds");
    let mut sum = Row::default();
    for (name, row) in table {
        line(&mut text, name, row);
        sum.injected += row.injected;
        sum.fired += row.fired;
        sum.survived += row.survived;
        sum.runs += row.runs;
        sum.took += row.took;
    }
    line(&mut text, "all", &sum);
    for failure in failures {
        writeln!(text, "\nFAILED {failure}").expect("a string takes everything");
    }
    text
}

fn line(text: &mut String, name: &str, row: &Row) {
    let survived = format!("{}/{}", row.survived, row.runs);
    let seconds = row.took.as_secs_f64();
    writeln!(text, "{name:<34} {:>8} {:>6} {survived:>9} {seconds:>8.1}", row.injected, row.fired)
        .expect("a string takes everything");
}
