//! `reflex doctor`: does everything work, from the brokers to an override that comes, and what to do where it does not.
//!
//! Checks run one by one in a thread of their own and are told as they end, so that a broker that never answers holds
//! nobody up for longer than `--timeout`.

mod brokers;
mod probe;
mod processor;
mod registry;
mod round_trip;

use std::fmt;
use std::io::Write;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::cli::table::clean;

/// Arguments of `reflex doctor`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Args {
    /// Read only: no round trip in a session of its own, and no measurement of clocks
    #[arg(long)]
    pub read_only: bool,
    /// Longest wait in seconds for the override of the round trip
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=300))]
    pub wait: u16,
    /// Longest time in seconds for everything; over: the check that has not ended failed
    #[arg(long, value_name = "SECONDS", default_value_t = 90, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub timeout: u16,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, or could not be looked at.
    Warning,
    /// It does not work.
    Failed,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// One line.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    check: &'static str,
    state: State,
    words: String,
    remedy: Option<String>,
    /// What the program exits with where this is the worst.
    #[serde(skip)]
    exit: Exit,
}

impl Line {
    fn new(check: &'static str, state: State, exit: Exit, words: impl fmt::Display) -> Self {
        Self { check, state, words: words.to_string(), remedy: None, exit }
    }

    fn ok(check: &'static str, words: impl fmt::Display) -> Self {
        Self::new(check, State::Ok, Exit::Done, words)
    }

    fn warning(check: &'static str, words: impl fmt::Display) -> Self {
        Self::new(check, State::Warning, Exit::Done, words)
    }

    /// `exit`: 1, or what stands in the way: 69, 77, 78.
    fn failed(check: &'static str, exit: Exit, words: impl fmt::Display) -> Self {
        Self::new(check, State::Failed, exit, words)
    }

    fn remedy(self, remedy: impl fmt::Display) -> Self {
        Self { remedy: Some(remedy.to_string()), ..self }
    }

    /// A cause that keeps a check from being made.
    fn of(check: &'static str, failure: &Failure) -> Self {
        match failure.exit {
            Exit::NotPermitted => Self::warning(check, format_args!("not checked: {}", failure.message))
                .remedy("`reflex topics acls` prints what each principal needs"),
            exit => Self::failed(check, exit, &failure.message),
        }
    }
}

/// Where lines go as they come.
pub struct Told {
    sender: Sender<Line>,
}

impl Told {
    fn line(&self, line: Line) {
        // Nobody listens any more once the time is up.
        let _ = self.sender.send(line);
    }

    fn lines(&self, lines: impl IntoIterator<Item = Line>) {
        lines.into_iter().for_each(|line| self.line(line));
    }
}

/// Runs all checks.
///
/// # Errors
/// Exit 75 where the output cannot be written.
pub fn run(args: Args, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let (sender, lines) = mpsc::channel();
    let mine = resolved.clone();
    thread::Builder::new()
        .name("doctor".to_owned())
        .spawn(move || checks(args, &mine, &Told { sender }))
        .map_err(|error| Failure::new(Exit::TryAgain, format_args!("starting a thread: {error}")))?;
    let all = tell(args, &lines, resolved.settings.output, out)?;
    Ok(exit(&all))
}

fn checks(args: Args, resolved: &Resolved, told: &Told) {
    const NEEDS_BROKER: &str = "not checked: no broker";
    told.lines(registry::folder(resolved));
    let brokers = brokers::check(resolved);
    let is_reachable = brokers.iter().all(|line| line.state != State::Failed);
    told.lines(brokers);
    if !is_reachable {
        let rest = ["topics", "permissions", "active registry", "processor", "clock", "round trip"];
        told.lines(rest.map(|check| Line::warning(check, NEEDS_BROKER)));
        return;
    }
    let topics = brokers::topics(resolved);
    // Nothing may be made by looking for it: a broker may create what is written to.
    let are_missing = topics.iter().any(|line| line.exit == Exit::Unavailable);
    told.lines(topics);
    told.lines(brokers::permissions(resolved));
    let (line, active) = registry::active(resolved);
    told.line(line);
    told.lines(processor::check(resolved));
    let reason = match (args.read_only, are_missing) {
        (true, _) => Some("not checked: --read-only"),
        (false, true) => Some("not checked: topics are missing"),
        (false, false) => None,
    };
    if let Some(reason) = reason {
        told.lines(["clock", "round trip"].map(|check| Line::warning(check, reason)));
        return;
    }
    round_trip::check(args, resolved, active.as_ref(), told);
}

/// Shows lines until the last one, or until the time is up.
fn tell(args: Args, lines: &Receiver<Line>, output: Output, out: &mut dyn Write) -> Result<Vec<Line>, Failure> {
    let deadline = Instant::now() + Duration::from_secs(u64::from(args.timeout));
    let mut all = Vec::new();
    loop {
        let line = match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => late(args, all.last()),
        };
        let is_last = line.check == OUT_OF_TIME;
        match output {
            Output::Table => show(&line, out),
            Output::Ndjson => writeln!(out, "{}", json!(line)),
            Output::Json => Ok(()),
        }
        .and_then(|()| out.flush())
        .map_err(unwritable)?;
        all.push(line);
        if is_last {
            break;
        }
    }
    if output == Output::Json {
        let worst = all.iter().map(|line| line.state).max().unwrap_or(State::Ok);
        let report = json!({ "state": worst, "checks": all });
        serde_json::to_writer_pretty(&mut *out, &report)
            .map_err(Into::into)
            .and_then(|()| writeln!(out))
            .map_err(unwritable)?;
    }
    Ok(all)
}

const OUT_OF_TIME: &str = "time";

fn late(args: Args, last: Option<&Line>) -> Line {
    let after = last.map_or("the beginning", |line| line.check);
    let words = format!("the check after `{after}` had not ended after {} s", args.timeout);
    Line::failed(OUT_OF_TIME, Exit::Unavailable, words).remedy("are brokers slow, or --timeout too short?")
}

fn show(line: &Line, out: &mut dyn Write) -> std::io::Result<()> {
    let (state, words) = (line.state.word(), clean(&line.words));
    writeln!(out, "{state:<8} {:<16} {words}", line.check)?;
    match &line.remedy {
        Some(remedy) => writeln!(out, "{:25} -> {}", "", clean(remedy)),
        None => Ok(()),
    }
}

/// What cannot be reached comes before what is configured wrongly, and that before what does not work.
fn exit(lines: &[Line]) -> Exit {
    let failed = |exit| lines.iter().any(|line| line.state == State::Failed && line.exit == exit);
    let found = [Exit::Unavailable, Exit::Configuration].into_iter().find(|exit| failed(*exit));
    let any = lines.iter().any(|line| line.state == State::Failed);
    found.unwrap_or(if any { Exit::Found } else { Exit::Done })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_decides_the_exit_code() {
        let failed = |exit| Line::failed("a", exit, "words");
        let warning = || Line::warning("b", "words");
        assert_eq!(exit(&[Line::ok("c", "words"), warning()]), Exit::Done);
        assert_eq!(exit(&[failed(Exit::Found), warning()]), Exit::Found);
        assert_eq!(exit(&[failed(Exit::TryAgain)]), Exit::Found);
        assert_eq!(exit(&[failed(Exit::Found), failed(Exit::Configuration)]), Exit::Configuration);
        assert_eq!(exit(&[failed(Exit::Configuration), failed(Exit::Unavailable)]), Exit::Unavailable);
    }

    #[test]
    fn a_check_that_does_not_end_fails_when_the_time_is_up() {
        let (sender, lines) = mpsc::channel();
        sender.send(Line::ok("brokers", "one")).expect("heard");
        let args = Args { read_only: false, wait: 1, timeout: 1 };
        let mut out = Vec::new();
        // The sender lives on, as that of a thread that hangs does.
        let all = tell(args, &lines, Output::Table, &mut out).expect("written");
        drop(sender);
        assert_eq!(exit(&all), Exit::Unavailable);
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains("the check after `brokers` had not ended after 1 s"), "{text}");
    }

    #[test]
    fn a_line_says_its_state_and_what_to_do() {
        let mut out = Vec::new();
        show(&Line::warning("clock", "a\u{1b}[31mhead").remedy("set it"), &mut out).expect("written");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, format!("warning  clock            a[31mhead\n{:25} -> set it\n", ""));
    }
}
