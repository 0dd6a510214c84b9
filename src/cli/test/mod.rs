//! `reflex test`: scenario files against a registry, with the pure core.

pub mod scenario;

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::record::codec::json as event_json;
use crate::record::command::Command;
use crate::record::output::{Output, Record};
use crate::record::position::Position;
use crate::record::time::Timestamp;
use crate::record::topic::{self, Topic};
use crate::registry::Registry;
use crate::session::{Effects, Input, Session};
use scenario::{Expected, Scenario, Step};

/// Arguments of `reflex test`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Scenario files.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

/// When scenarios begin: a fixed instant, so that ids and hashes are the same everywhere.
const START: Timestamp = Timestamp::EPOCH;

/// Finds the registry a scenario, at its path, is to be played with.
pub type RegistryOf<'a> = &'a dyn Fn(&Path, &Scenario) -> Result<Arc<Registry>, Failure>;

/// Runs scenario files and reports each; exit 1 where one fails.
///
/// # Errors
/// Exit 66 for a missing file, 65 for one that is no scenario.
pub fn run(args: &Args, registry: RegistryOf<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut failed = 0;
    for file in &args.files {
        let name = file.display();
        let text =
            std::fs::read_to_string(file).map_err(|e| Failure::new(Exit::NoInput, format_args!("{name}: {e}")))?;
        let scenario =
            scenario::parse(&text).map_err(|error| Failure::new(Exit::BadInput, format_args!("{name}:{error}")))?;
        let outcome = play(&scenario, registry(file, &scenario)?);
        failed += usize::from(outcome.is_err());
        let line = match outcome {
            Ok(()) => format!("ok      {name}"),
            Err(error) => format!("FAILED  {name}:{error}"),
        };
        writeln!(out, "{line}").map_err(unwritable)?;
    }
    let passed = args.files.len() - failed;
    writeln!(out, "{passed} passed, {failed} failed").map_err(unwritable)?;
    Ok(if failed > 0 { Exit::Found } else { Exit::Done })
}

/// Plays a scenario.
///
/// # Errors
/// `LINE: what was expected and what came`.
pub fn play(scenario: &Scenario, registry: Arc<Registry>) -> Result<(), String> {
    let mut stage = Stage::new(registry);
    let mut last = 0;
    for (line, step) in &scenario.steps {
        last = *line;
        stage.step(step).map_err(|error| format!("{line}: {error}"))?;
    }
    stage.settled(false).map_err(|error| format!("{last}: at the end: {error}"))
}

/// Everything a scenario publishes, expectations left aside.
///
/// # Errors
/// `LINE: an event or command that is none`.
pub fn records(scenario: &Scenario, registry: Arc<Registry>) -> Result<Vec<Output>, String> {
    let mut stage = Stage::new(registry);
    let mut all = Vec::new();
    for (line, step) in &scenario.steps {
        if !matches!(step, Step::Expect(..) | Step::Nothing) {
            stage.step(step).map_err(|error| format!("{line}: {error}"))?;
        }
        all.extend(stage.pending.drain(..));
    }
    Ok(all)
}

struct Stage {
    session: Session,
    field_bytes_max: usize,
    offset: i64,
    pending: VecDeque<Output>,
    names: Map<String, Value>,
}

impl Stage {
    fn new(registry: Arc<Registry>) -> Self {
        let field_bytes_max = registry.limits.field_bytes_max as usize;
        let session = Session::new("session/0", registry);
        Self { session, field_bytes_max, offset: 0, pending: VecDeque::new(), names: Map::new() }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Event(at, event) => self.settled(false).and_then(|()| self.event(*at, event.clone())),
            Step::Command(at, command) => self.settled(false).and_then(|()| self.command(*at, command.clone())),
            Step::Tick(at) => {
                self.settled(false)?;
                self.take(*at, |session, now, effects| session.step(now, Input::Tick, effects));
                Ok(())
            }
            Step::Expect(topic, expected) => self.expect(topic, expected),
            Step::Nothing => self.settled(true),
        }
    }

    fn event(&mut self, at: Duration, mut event: Map<String, Value>) -> Result<(), String> {
        let number = self.offset;
        event.entry("event_id").or_insert_with(|| json!(format!("evt-{number}")));
        let text = self.named(&Value::Object(event)).to_string();
        let event = event_json::event(&text, self.field_bytes_max).map_err(|rejection| rejection.to_string())?;
        self.offset += 1;
        self.take(at, |session, now, effects| {
            let position = Position { topic: topic::EVENTS, partition: 0, offset: number };
            session.step(now, Input::Event { position, event: &event, received_at: now }, effects);
        });
        Ok(())
    }

    fn command(&mut self, at: Duration, mut command: Map<String, Value>) -> Result<(), String> {
        let number = self.offset;
        let id = command.entry("command_id").or_insert_with(|| json!(format!("cmd-{number}")));
        debug_assert!(id.is_string());
        command.entry("reason").or_insert_with(|| json!("a scenario says so"));
        command.entry("author").or_insert_with(|| json!("operator"));
        command.entry("target").or_insert_with(|| json!("*"));
        let command: Command =
            serde_json::from_value(self.named(&Value::Object(command))).map_err(|error| error.to_string())?;
        self.offset += 1;
        self.take(at, |session, now, effects| {
            let position = Position { topic: topic::SESSION_COMMANDS, partition: 0, offset: number };
            session.step(now, Input::Command { position, command: &command }, effects);
        });
        Ok(())
    }

    fn take(&mut self, at: Duration, step: impl FnOnce(&mut Session, Timestamp, &mut Effects)) {
        let mut effects = Effects::default();
        step(&mut self.session, START.plus(at), &mut effects);
        for output in effects.outputs {
            match &output.value {
                Some(Record::Override(record)) => self.name("$override_id", &record.override_id),
                Some(Record::Intervention(record)) => {
                    self.name("$intervention_id", &record.intervention_id);
                    if let Some(proposal) = &record.proposal {
                        self.name("$content_hash", &proposal.content_hash);
                    }
                }
                Some(Record::Escalation(_) | Record::Audit(_) | Record::Fleet(_)) | None => {}
            }
            self.pending.push_back(output);
        }
    }

    fn name(&mut self, name: &str, value: &str) {
        self.names.insert(name.to_owned(), json!(value));
    }

    /// The value with `$names` replaced.
    fn named(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.names.get(text).cloned().unwrap_or_else(|| value.clone()),
            Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), self.named(v))).collect()),
            Value::Array(list) => Value::Array(list.iter().map(|v| self.named(v)).collect()),
            other => other.clone(),
        }
    }

    fn expect(&mut self, topic: &str, expected: &Expected) -> Result<(), String> {
        self.skip_but(topic);
        let Some(output) = self.pending.pop_front() else { return Err(format!("expected {topic}, nothing came")) };
        let came = describe(&output);
        let fits = output.topic.name() == topic
            && match (expected, &output.value) {
                (Expected::Tombstone, None) => true,
                (Expected::Record(wanted), Some(record)) => {
                    let actual = serde_json::to_value(record).unwrap_or_default();
                    scenario::holds(&actual, &self.named(wanted))
                }
                (Expected::Tombstone, Some(_)) | (Expected::Record(_), None) => false,
            };
        let wanted = match expected {
            Expected::Tombstone => String::from("tombstone"),
            Expected::Record(wanted) => wanted.to_string(),
        };
        if fits { Ok(()) } else { Err(format!("expected {topic} {wanted}\n    came {came}")) }
    }

    /// Skips what a scenario need not speak of, unless it does: audit lines, and what goes to the fleet stage.
    fn skip_but(&mut self, topic: &str) {
        let is_silent = |output: &Output| [Topic::Audit, Topic::Fleet].contains(&output.topic);
        while self.pending.front().is_some_and(|output| is_silent(output) && output.topic.name() != topic) {
            self.pending.pop_front();
        }
    }

    /// Nothing unexpected is left. `strictly` words the complaint of an `expect nothing` line.
    fn settled(&mut self, strictly: bool) -> Result<(), String> {
        self.skip_but("");
        match self.pending.front() {
            None => Ok(()),
            Some(output) if strictly => Err(format!("expected nothing, came {}", describe(output))),
            Some(output) => Err(format!("not expected: {}", describe(output))),
        }
    }
}

fn describe(output: &Output) -> String {
    let value = output
        .value
        .as_ref()
        .map_or(String::from("tombstone"), |record| serde_json::to_string(record).unwrap_or_default());
    format!("{} {value}", output.topic.name())
}
