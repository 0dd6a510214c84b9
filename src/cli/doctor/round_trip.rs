//! From an event to an override and back, in a session of its own that no person is in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::decide::{Why, command, operator};
use crate::cli::doctor::probe::{NAME, Probe, find};
use crate::cli::doctor::{Args, Line, Told};
use crate::cli::exit::{Exit, Failure};
use crate::cli::settings::Resolved;
use crate::engine::clock::local;
use crate::engine::operator::append::Appender;
use crate::engine::operator::orders::{Owner, send, text};
use crate::engine::operator::scan::{Reader, bounds};
use crate::engine::{Config, EngineError};
use crate::record::command::Verb;
use crate::registry::Registry;

const CLOCK: &str = "clock";
const TRIP: &str = "round trip";
/// An offset between clocks that is worth a word. Milliseconds.
const AHEAD_MS_MAX: i64 = 1000;
/// Longest wait for the lift, and then for the tombstone.
const LIFT_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// Measures the clock and makes the round trip.
pub fn check(args: Args, resolved: &Resolved, active: Option<&Arc<Registry>>, told: &Told) {
    let trip = match Trip::begin(args, resolved) {
        Ok(trip) => trip,
        Err(failure) => {
            told.lines([Line::of(CLOCK, &failure), Line::warning(TRIP, "not made: nothing can be published")]);
            return;
        }
    };
    let lateness_ms_max = active.map_or(0, |registry| registry.limits.lateness_ms_max);
    let clock = trip.clock(lateness_ms_max);
    let could_publish = clock.is_ok();
    told.line(clock.unwrap_or_else(|error| Line::of(CLOCK, &error)));
    let Some(registry) = active.filter(|_| could_publish) else {
        let why = if could_publish { "no registry version is active" } else { "nothing can be published" };
        told.line(Line::warning(TRIP, format_args!("not made: {why}")));
        return;
    };
    let tenant = Some(resolved.settings.input.tenant.as_str()).filter(|tenant| !tenant.is_empty());
    let Some(probe) = find(registry, tenant) else {
        let words =
            "not made: no signal in mode `act` of the active registry has a session response that one event reaches";
        told.line(Line::warning(TRIP, words).remedy("register one, of a graph that nobody runs, to have this checked"));
        return;
    };
    told.lines(trip.make(&probe).unwrap_or_else(|error| vec![Line::of(TRIP, &error)]));
}

/// An override that came.
struct Came {
    key: Vec<u8>,
    override_id: String,
    schema_ref: String,
    after: Duration,
}

struct Trip {
    config: Config,
    appender: Appender,
    session_id: String,
    wait: Duration,
}

impl Trip {
    fn begin(args: Args, resolved: &Resolved) -> Result<Self, Failure> {
        let config = operator(resolved)?;
        let appender = Appender::new(&config)?;
        let id = command(Verb::Lift, NAME, None, &why())?.command_id;
        let wait = Duration::from_secs(u64::from(args.wait));
        Ok(Self { config, appender, session_id: format!("{NAME}-{id}"), wait })
    }

    /// Two records of a type that is counted and ignored: the first opens the connection, the second is measured.
    fn clock(&self, lateness_ms_max: u64) -> Result<Line, Failure> {
        let topic = &self.config.topics.events;
        let mut appended = None;
        for number in 1..=2 {
            let event = json!({
                "event_id": format!("{}-clock-{number}", self.session_id), "type": "reflex_doctor",
                "session_id": self.session_id, "graph": NAME, "tenant": self.config.tenant, "occurred_at": local(),
            });
            appended = Some(self.appender.append(topic, &self.session_id, &event.to_string())?);
        }
        let Some((ahead, wrong)) = appended.and_then(|appended| appended.ahead_ms()) else {
            let words = format!("not measured: {topic} does not have the time of the brokers (LogAppendTime)");
            return Ok(Line::warning(CLOCK, words).remedy("`reflex topics apply` sets it"));
        };
        Ok(judge_clock(ahead, wrong, lateness_ms_max))
    }

    fn make(&self, probe: &Probe) -> Result<Vec<Line>, Failure> {
        let config = &self.config;
        let (overrides, interventions) =
            (self.reader(&config.topics.overrides)?, self.reader(&config.topics.interventions)?);
        let event = probe.failure(&self.session_id, local()).to_string();
        self.appender.append(&config.topics.events, &self.session_id, &event)?;
        let sent = Instant::now();
        let mut intervention = None;
        let came = self.wait_for_override(&overrides, &interventions, sent, &mut intervention);
        let mut lines = match &came {
            Ok(Some(came)) => vec![arrived(probe, came, &self.session_id)],
            Ok(None) => vec![missing(probe, intervention.as_ref(), self.wait)],
            Err(error) => vec![Line::failed(TRIP, Exit::Found, error)],
        };
        // Whatever came, or comes later: the session is over, and nothing of it is remembered.
        let lifted = match &came {
            Ok(Some(came)) => self.lift(came),
            _ => Ok(()),
        };
        let end = probe.end(&self.session_id, local()).to_string();
        let ended = self.appender.append(&config.topics.events, &self.session_id, &end);
        if let Err(failure) = lifted {
            let words =
                format!("the override is not lifted by command: {}; the end of its session ends it", failure.message);
            lines.push(Line::warning(TRIP, words).remedy("permissions of an operator: `reflex topics acls`"));
        }
        if let Ok(Some(came)) = &came {
            lines.extend(self.cleaned(&overrides, came));
        }
        ended?;
        Ok(lines)
    }

    fn reader(&self, topic: &str) -> Result<Reader, EngineError> {
        let ends = bounds(&self.config, topic)?.into_iter().map(|(partition, (_, end))| (partition, end));
        Reader::new(&self.config, topic, ends)
    }

    /// The override of the session, where it comes in time; what became of the intervention, else.
    fn wait_for_override(
        &self,
        overrides: &Reader,
        interventions: &Reader,
        sent: Instant,
        intervention: &mut Option<Value>,
    ) -> Result<Option<Came>, EngineError> {
        while sent.elapsed() < self.wait {
            if let Some(record) = overrides.poll(POLL)?
                && let Some(value) = self.mine(record.value.as_deref())
            {
                let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
                return Ok(Some(Came {
                    key: record.key.unwrap_or_default(),
                    override_id: text("override_id"),
                    schema_ref: text("schema_ref"),
                    after: sent.elapsed(),
                }));
            }
            while let Some(record) = interventions.poll(Duration::ZERO)? {
                if let Some(value) = self.mine(record.value.as_deref()) {
                    *intervention = Some(value);
                }
            }
            // An end that is no override is one all the same.
            let status = intervention.as_ref().map(|value| value["status"].clone());
            if matches!(status.as_ref().and_then(Value::as_str), Some("failed" | "observed" | "awaiting_approval")) {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// A record of the session.
    fn mine(&self, value: Option<&[u8]>) -> Option<Value> {
        let value: Value = serde_json::from_str(&text(&self.config, value?)?).ok()?;
        (value["scope"]["session_id"].as_str() == Some(self.session_id.as_str())).then_some(value)
    }

    fn lift(&self, came: &Came) -> Result<(), Failure> {
        let lift = command(Verb::Lift, &came.override_id, None, &why())?;
        let answers =
            send(&self.config, &Owner::Session(self.session_id.clone()), &lift)?.answers(&self.config, LIFT_MAX)?;
        match answers.first() {
            Some(answer) if answer.is_done => Ok(()),
            Some(answer) => Err(Failure::new(Exit::Found, answer.reason.as_deref().unwrap_or("refused"))),
            None => Err(Failure::new(Exit::TryAgain, format_args!("no answer within {} s", LIFT_MAX.as_secs()))),
        }
    }

    /// Waits for the tombstone; a line where it does not come.
    fn cleaned(&self, overrides: &Reader, came: &Came) -> Option<Line> {
        let started = Instant::now();
        let mut standing: BTreeMap<Vec<u8>, bool> = [(came.key.clone(), true)].into();
        while started.elapsed() < LIFT_MAX {
            let Ok(Some(record)) = overrides.poll(POLL) else { continue };
            standing.insert(record.key.unwrap_or_default(), record.value.is_some());
            if standing.get(&came.key) == Some(&false) {
                return None;
            }
        }
        let words = format!("the override {} still stands after {} s", came.override_id, LIFT_MAX.as_secs());
        Some(Line::failed(TRIP, Exit::Found, words).remedy(format_args!(
            "it is of session {} alone and expires by itself; `reflex overrides lift {} --reason doctor`",
            self.session_id, came.override_id
        )))
    }
}

fn why() -> Why {
    Why { reason: "reflex doctor: the round trip is over".to_owned(), author: None }
}

fn judge_clock(ahead: i64, wrong: i64, lateness_ms_max: u64) -> Line {
    let words =
        format!("the brokers are {} ms {} (± {wrong} ms)", ahead.abs(), if ahead < 0 { "behind" } else { "ahead" });
    let remedy = "set the clocks by NTP: runtimes enforce expires_at by theirs, and events later than lateness_ms_max are not \
                  acted on";
    // As much as may be wrong is not held against anybody.
    let surely = ahead.abs() - wrong;
    if lateness_ms_max > 0 && surely > i64::try_from(lateness_ms_max).unwrap_or(i64::MAX) {
        let words = format!("{words}: more than limits.lateness_ms_max ({lateness_ms_max})");
        return Line::failed(CLOCK, Exit::Found, words).remedy(remedy);
    }
    if surely > AHEAD_MS_MAX { Line::warning(CLOCK, words).remedy(remedy) } else { Line::ok(CLOCK, words) }
}

fn arrived(probe: &Probe, came: &Came, session_id: &str) -> Line {
    let to = if came.schema_ref.is_empty() { "a pause".to_owned() } else { came.schema_ref.clone() };
    let words = format!(
        "override to {to} after {} ms (signal {}, response {}, graph {}); left behind: audit records, an intervention and one \
         failing run of session {session_id}",
        came.after.as_millis(),
        probe.signal,
        probe.response,
        probe.graph
    );
    Line::ok(TRIP, words)
}

fn missing(probe: &Probe, intervention: Option<&Value>, wait: Duration) -> Line {
    let Some(intervention) = intervention else {
        let words = format!("no answer within {} s to a failure that signal {} names", wait.as_secs(), probe.signal);
        return Line::failed(TRIP, Exit::Found, words).remedy(
            "is `reflex run` running, with this --group and these topics, and is it ready (`reflex ready`)? Dead letters: \
             `reflex dlq list`",
        );
    };
    let text = |name: &str| intervention[name].as_str().unwrap_or("?").to_owned();
    let words =
        format!("answered, but not by an override: the intervention is {} ({})", text("status"), text("reason"));
    match text("reason").as_str() {
        "frozen" => Line::warning(TRIP, words).remedy("automation is frozen: `reflex unfreeze --reason …`"),
        reason if reason.starts_with("limit:") => Line::warning(TRIP, words)
            .remedy("a limit of the registry is used up: reflex_limit_reached, config/registry/defaults.toml"),
        _ => Line::failed(TRIP, Exit::Found, words).remedy("`reflex interventions list` and the log of the processor"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::State;

    #[test]
    fn clocks_are_judged_by_what_is_surely_wrong() {
        let state = |ahead, wrong, limit| judge_clock(ahead, wrong, limit).state;
        assert_eq!(state(3, 2, 120_000), State::Ok);
        assert_eq!(state(-1003, 5, 120_000), State::Ok);
        assert_eq!(state(-1010, 5, 120_000), State::Warning);
        assert_eq!(state(119_000, 5, 120_000), State::Warning);
        assert_eq!(state(-120_010, 5, 120_000), State::Failed);
        assert_eq!(state(500_000, 5, 0), State::Warning, "0 = off");
        assert!(judge_clock(-1010, 5, 0).words.starts_with("the brokers are 1010 ms behind"));
    }

    #[test]
    fn an_end_without_an_override_is_told_with_its_reason() {
        let probe = |reason: Option<&str>| {
            let value = reason.map(|reason| json!({ "status": "failed", "reason": reason }));
            let registry = crate::registry::load(&[crate::registry::SourceFile {
                name: "a.toml".into(),
                text: "[[signal]]\ncode = \"s\"\n[[response]]\nname = \"r\"\nsignal = \"s\"\nscope = \"session\"\nkind = \"pause\"\n".into(),
            }])
            .expect("loads")
            .registry;
            let probe = find(&Arc::new(registry), None).expect("a probe");
            missing(&probe, value.as_ref(), Duration::from_secs(10))
        };
        assert_eq!(probe(None).state, State::Failed);
        assert_eq!(probe(Some("frozen")).state, State::Warning);
        assert_eq!(probe(Some("limit:interventions_per_minute_max")).state, State::Warning);
        let failed = probe(Some("no_response"));
        assert!(failed.state == State::Failed && failed.words.contains("failed (no_response)"), "{failed:?}");
    }
}
