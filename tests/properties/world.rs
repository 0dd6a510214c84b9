//! A small world for a task: events and decisions as drafts, a player that steps them and keeps what came out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use reflex::record::codec::json;
use reflex::record::command::{Command, Verb};
use reflex::record::event::Route;
use reflex::record::fleet::FleetRecord;
use reflex::record::intervention::InterventionStatus;
use reflex::record::observation::Observation;
use reflex::record::output::{Output, Record};
use reflex::record::position::Position;
use reflex::record::scope::Scope;
use reflex::record::time::Timestamp;
use reflex::record::topic;
use reflex::registry::{Registry, SourceFile, load};
use reflex::session::{Effects, Input, Session};
use serde_json::{Map, Value};

/// A session is (tenant, session id).
pub type Whose = (Option<String>, String);

/// The registry of the scenarios, with `extra` tables and some limits set.
pub fn registry(limits: &[(&str, u64)]) -> Arc<Registry> {
    let texts = [include_str!("../scenarios/registry/plain.toml"), include_str!("registry.toml")];
    let files: Vec<SourceFile> = texts
        .iter()
        .zip(["1.toml", "2.toml"])
        .map(|(text, name)| SourceFile { name: name.to_owned(), text: (*text).to_owned() })
        .collect();
    let loaded = load::load(&files).expect("a valid registry");
    let settings = limits.iter().map(|(name, value)| (format!("limits.{name}"), value.to_string())).collect();
    Arc::new(loaded.registry.with_settings(&settings).expect("valid limits"))
}

/// Limits so high that sessions do not feel each other.
pub fn high() -> Arc<Registry> {
    registry(&[("interventions_per_session_max", 1_000), ("duplicate_ids_max", 1_000)])
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Act {
    /// An event, as its JSON object.
    Event(Map<String, Value>),
    /// Lift the first live override of the session, if any.
    Lift(Whose),
    /// Approve its first waiting proposal; with the right hash or another.
    Approve(Whose, bool),
    /// Reject its first waiting proposal.
    Reject(Whose),
    /// Freeze the task.
    Freeze,
    /// Let it go on.
    Unfreeze,
    /// Time passes.
    Tick,
}

/// Something that happens at a time, at a place in the log.
#[derive(Clone)]
pub struct Step {
    /// Its number: offset, and id of the event or command. The same in every order.
    pub number: i64,
    /// Milliseconds since the start.
    pub at_ms: i64,
    /// What happens.
    pub act: Act,
}

/// On one line, so that a failing log can be read.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.act {
            Act::Event(event) => write!(f, "{} at {} ms {}", self.number, self.at_ms, Value::Object(event.clone())),
            act => write!(f, "{} at {} ms {act:?}", self.number, self.at_ms),
        }
    }
}

impl Step {
    /// Whose it is; none for what concerns the task.
    pub fn whose(&self) -> Option<Whose> {
        match &self.act {
            Act::Event(event) => {
                let text = |name: &str| event.get(name).and_then(Value::as_str).map(str::to_owned);
                Some((text("tenant"), text("session_id").unwrap_or_default()))
            }
            Act::Lift(whose) | Act::Approve(whose, _) | Act::Reject(whose) => Some(whose.clone()),
            Act::Freeze | Act::Unfreeze | Act::Tick => None,
        }
    }
}

/// What one step did.
#[derive(Debug)]
pub struct Done {
    /// Number of the step.
    pub number: i64,
    /// Its time as given.
    pub now: Timestamp,
    /// Whether the task was frozen while it was carried out.
    pub frozen: bool,
    /// Published.
    pub outputs: Vec<Output>,
    /// Seen.
    pub observations: Vec<Observation>,
    /// Use of the guards afterwards.
    pub in_use: (u32, usize),
    /// When the next deadline is due, afterwards.
    pub next_deadline: Option<Timestamp>,
}

/// A task that is played, and what a reader of its topics knows.
pub struct World {
    session: Session,
    field_bytes_max: usize,
    frozen: bool,
    /// Live overrides by key: (owner, override id).
    live: BTreeMap<String, (Whose, String)>,
    /// Waiting proposals by intervention id: (owner, content hash).
    waiting: BTreeMap<String, (Whose, String)>,
}

/// The instant drafts count from.
pub const START: Timestamp = Timestamp::EPOCH;

/// An instant of the draft's clock.
pub fn instant(at_ms: i64) -> Timestamp {
    Timestamp::from_millis(START.as_millis() + at_ms)
}

impl World {
    /// An empty task.
    pub fn new(registry: &Arc<Registry>) -> Self {
        Self {
            session: Session::new("session/0", registry.clone()),
            field_bytes_max: registry.limits.field_bytes_max as usize,
            frozen: false,
            live: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// The task itself.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// The same reader with another task.
    pub fn with(&self, session: Session) -> Self {
        let Self { field_bytes_max, frozen, live, waiting, .. } = self;
        Self {
            session,
            field_bytes_max: *field_bytes_max,
            frozen: *frozen,
            live: live.clone(),
            waiting: waiting.clone(),
        }
    }

    /// Carries steps out of which nothing comes: the task is rolled back, and the reader has seen nothing.
    pub fn detour(&mut self, steps: &[Step], rollback: impl FnOnce(&mut Session)) {
        let (frozen, live, waiting) = (self.frozen, self.live.clone(), self.waiting.clone());
        for step in steps {
            drop(self.step(step));
        }
        rollback(&mut self.session);
        (self.frozen, self.live, self.waiting) = (frozen, live, waiting);
    }

    /// Carries a step out.
    pub fn step(&mut self, step: &Step) -> Done {
        let mut effects = Effects::default();
        self.step_into(step, &mut effects);
        Done {
            number: step.number,
            now: instant(step.at_ms),
            frozen: self.frozen,
            outputs: effects.outputs,
            observations: effects.observations,
            in_use: self.session.in_use(),
            next_deadline: self.session.next_deadline(),
        }
    }

    /// Carries a step out, appending to `effects`.
    pub fn step_into(&mut self, step: &Step, effects: &mut Effects) {
        let now = instant(step.at_ms);
        let known = effects.outputs.len();
        match &step.act {
            Act::Event(event) => self.event(step.number, now, event, effects),
            Act::Tick => self.session.step(now, Input::Tick, effects),
            act => {
                let command = self.command(step.number, act);
                let position = Position { topic: topic::SESSION_COMMANDS, partition: 0, offset: step.number };
                self.session.step(now, Input::Command { position, command: &command }, effects);
            }
        }
        match step.act {
            Act::Freeze => self.frozen = true,
            Act::Unfreeze => self.frozen = false,
            _ => {}
        }
        effects.outputs[known..].iter().for_each(|output| self.read(output));
    }

    fn event(&mut self, number: i64, now: Timestamp, draft: &Map<String, Value>, effects: &mut Effects) {
        let mut event = draft.clone();
        event.entry("event_id").or_insert_with(|| format!("e-{number}").into());
        if event.get("override_id").and_then(Value::as_str) == Some("$own") {
            let whose = (Step { number, at_ms: 0, act: Act::Event(draft.clone()) }).whose();
            let own = self.live.values().find(|(owner, _)| Some(owner) == whose.as_ref()).map(|(_, id)| id.clone());
            event.insert("override_id".to_owned(), own.into());
        }
        let text = Value::Object(event).to_string();
        let event = json::event(&text, self.field_bytes_max).expect("a draft is an event");
        let position = Position { topic: topic::EVENTS, partition: 0, offset: number };
        self.session.step(now, Input::Event { position, event: &event, received_at: now }, effects);
    }

    fn command(&self, number: i64, act: &Act) -> Command {
        let live = |whose: &Whose| self.live.values().find(|(owner, _)| owner == whose).map(|(_, id)| id.clone());
        let waiting = |whose: &Whose| self.waiting.iter().find(|(_, (owner, _))| owner == whose);
        let (verb, target, content_hash) = match act {
            Act::Lift(whose) => (Verb::Lift, live(whose), None),
            Act::Approve(whose, right) => {
                let (id, hash) = waiting(whose).map(|(id, (_, hash))| (id.clone(), hash.clone())).unzip();
                (Verb::Approve, id, if *right { hash } else { Some(String::from("another")) })
            }
            Act::Reject(whose) => (Verb::Reject, waiting(whose).map(|(id, _)| id.clone()), None),
            Act::Freeze => (Verb::Freeze, Some(String::from("*")), None),
            Act::Unfreeze | Act::Event(_) | Act::Tick => (Verb::Unfreeze, Some(String::from("*")), None),
        };
        Command {
            command_id: format!("c-{number}"),
            verb,
            target: target.unwrap_or_else(|| String::from("nothing")),
            content_hash,
            order: None,
            reason: String::from("a test says so"),
            author: String::from("ann"),
        }
    }

    fn read(&mut self, output: &Output) {
        let owner = |tenant: &Option<String>, scope: &Scope| match scope {
            Scope::Session { session_id } => (tenant.clone(), session_id.clone()),
            other => panic!("not a session: {other:?}"),
        };
        match &output.value {
            Some(Record::Override(record)) => {
                let whose = owner(&record.tenant, &record.scope);
                self.live.insert(output.key.clone(), (whose, record.override_id.clone()));
            }
            Some(Record::Intervention(record)) => match &record.proposal {
                Some(proposal) if record.status == InterventionStatus::AwaitingApproval => {
                    let whose = owner(&record.tenant, &record.scope);
                    self.waiting.insert(output.key.clone(), (whose, proposal.content_hash.clone()));
                }
                _ => drop(self.waiting.remove(&output.key)),
            },
            None => drop(self.live.remove(&output.key)),
            Some(Record::Escalation(_) | Record::Audit(_) | Record::Fleet(_)) => {}
        }
    }
}

/// Plays steps on an empty task.
pub fn play(registry: &Arc<Registry>, steps: &[Step]) -> Vec<Done> {
    let mut world = World::new(registry);
    steps.iter().map(|step| world.step(step)).collect()
}

/// The bytes of everything published, as `replay -o ndjson` writes them.
pub fn bytes<'a>(outputs: impl IntoIterator<Item = &'a Output>) -> String {
    let line = |output: &Output| serde_json::to_string(output).expect("an output is JSON") + "\n";
    outputs.into_iter().map(line).collect()
}

/// What each step published, without what the order of other sessions decides: number and hash of audit lines. Steps
/// that published nothing are left out.
pub fn by_number(done: &[Done]) -> BTreeMap<i64, String> {
    let plain = |output: &Output| {
        let mut output = output.clone();
        if let Some(Record::Audit(audit)) = &mut output.value {
            audit.seq = 0;
            audit.previous_hash.clear();
        }
        if let Some(Record::Fleet(record)) = &mut output.value
            && let FleetRecord::Signature(row) = &mut **record
        {
            // A draft's `$own` is the override that lives when the event comes.
            row.override_id = None;
        }
        output
    };
    let published = |done: &Done| done.outputs.iter().filter(|output| !is_of_shadow(output)).map(plain).collect();
    let published = done.iter().map(|done| (done.number, published(done)));
    published
        .filter(|(_, outputs): &(_, Vec<_>)| !outputs.is_empty())
        .map(|(at, outputs)| (at, bytes(&outputs)))
        .collect()
}

/// Whether it tells the fleet stage of a failure on a shadow: evidence of its recovery, for nothing else.
fn is_of_shadow(output: &Output) -> bool {
    let Some(Record::Fleet(record)) = &output.value else { return false };
    matches!(&**record, FleetRecord::Signature(row) if row.route == Route::Shadow)
}

/// The first step that two runs differ in, in words.
pub fn difference(one: &BTreeMap<i64, String>, other: &BTreeMap<i64, String>) -> Option<String> {
    let numbers = one.keys().chain(other.keys());
    let differing = numbers.copied().filter(|number| one.get(number) != other.get(number)).min()?;
    Some(format!("step {differing}\n  {:?}\n  {:?}", one.get(&differing), other.get(&differing)))
}
