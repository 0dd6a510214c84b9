//! What the engine needs to know; made by the command line from its settings, or by hand for an embedded broker.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::shown::watch::Watch;
use crate::engine::state::store;
use crate::record::codec::Schemas;
use crate::record::topic::{
    COMMANDS, DEAD_LETTER_SUFFIX, EVENTS, FLEET, REGISTRY, SESSION_COMMANDS, STATE_FLEET, STATE_SESSION, TAPE_FLEET,
    TAPE_SESSION, Topic,
};

/// How to reach the brokers.
#[derive(Clone, Default)]
pub struct Cluster {
    /// `host:port,…`.
    pub bootstrap_servers: String,
    /// Properties of the client library passed through; pinned ones were refused before.
    pub properties: BTreeMap<String, String>,
}

impl fmt::Debug for Cluster {
    /// Values of properties may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let properties: Vec<&String> = self.properties.keys().collect();
        f.debug_struct("Cluster")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("properties", &properties)
            .finish()
    }
}

/// Names of the topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicNames {
    /// Runtime events.
    pub events: String,
    /// Decisions on one session.
    pub session_commands: String,
    /// The Intervention Log.
    pub interventions: String,
    /// What runtimes resolve against.
    pub overrides: String,
    /// Packages for people.
    pub escalations: String,
    /// Every transition.
    pub audit: String,
    /// Between the stages.
    pub fleet: String,
    /// Decisions on cohorts, and what concerns every task.
    pub commands: String,
    /// Registry versions.
    pub registry: String,
    /// Tape of the session stage.
    pub tape_session: String,
    /// Tape of the fleet stage.
    pub tape_fleet: String,
    /// Changelog of the session stage.
    pub state_session: String,
    /// Changelog of the fleet stage.
    pub state_fleet: String,
}

impl Default for TopicNames {
    fn default() -> Self {
        Self {
            events: EVENTS.to_owned(),
            session_commands: SESSION_COMMANDS.to_owned(),
            interventions: Topic::Interventions.name().to_owned(),
            overrides: Topic::Overrides.name().to_owned(),
            escalations: Topic::Escalations.name().to_owned(),
            audit: Topic::Audit.name().to_owned(),
            fleet: FLEET.to_owned(),
            commands: COMMANDS.to_owned(),
            registry: REGISTRY.to_owned(),
            tape_session: TAPE_SESSION.to_owned(),
            tape_fleet: TAPE_FLEET.to_owned(),
            state_session: STATE_SESSION.to_owned(),
            state_fleet: STATE_FLEET.to_owned(),
        }
    }
}

impl TopicNames {
    /// The default names with another beginning than `reflex`, for runs that must not meet.
    #[must_use]
    pub fn prefixed(prefix: &str) -> Self {
        let with_prefix = |name: String| name.replacen("reflex", prefix, 1);
        let default = Self::default();
        Self {
            events: with_prefix(default.events),
            session_commands: with_prefix(default.session_commands),
            interventions: with_prefix(default.interventions),
            overrides: with_prefix(default.overrides),
            escalations: with_prefix(default.escalations),
            audit: with_prefix(default.audit),
            fleet: with_prefix(default.fleet),
            commands: with_prefix(default.commands),
            registry: with_prefix(default.registry),
            tape_session: with_prefix(default.tape_session),
            tape_fleet: with_prefix(default.tape_fleet),
            state_session: with_prefix(default.state_session),
            state_fleet: with_prefix(default.state_fleet),
        }
    }

    /// The configured name of an output topic.
    #[must_use]
    pub fn of(&self, topic: Topic) -> &str {
        match topic {
            Topic::Interventions => &self.interventions,
            Topic::Overrides => &self.overrides,
            Topic::Escalations => &self.escalations,
            Topic::Audit => &self.audit,
            Topic::Fleet => &self.fleet,
        }
    }

    /// The inputs: of the session stage, of the fleet stage, each with its commands behind.
    #[must_use]
    pub fn inputs(&self) -> [&str; 4] {
        [&self.events, &self.session_commands, &self.fleet, &self.commands]
    }

    /// The changelogs, by stage.
    #[must_use]
    pub fn states(&self) -> [&str; 2] {
        [&self.state_session, &self.state_fleet]
    }

    /// The tapes, by stage.
    #[must_use]
    pub fn tapes(&self) -> [&str; 2] {
        [&self.tape_session, &self.tape_fleet]
    }

    /// Everything that is written to.
    #[must_use]
    pub fn outputs(&self) -> Vec<String> {
        let own = self.states().into_iter().chain(self.tapes()).map(str::to_owned);
        let dead_letters = self.inputs().map(dead_letters_of);
        Topic::ALL.iter().map(|topic| self.of(*topic).to_owned()).chain(own).chain(dead_letters).collect()
    }
}

/// The dead-letter topic of an input.
#[must_use]
pub fn dead_letters_of(input: &str) -> String {
    format!("{input}{DEAD_LETTER_SUFFIX}")
}

/// How outputs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// JSON.
    #[default]
    Json,
    /// Avro single-object encoding.
    Avro,
}

/// What one worker needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// How to reach the brokers.
    pub cluster: Cluster,
    /// Consumer group.
    pub group: String,
    /// Name of this process within the group, the same after a restart.
    pub instance: String,
    /// Number of this worker within the process, from 0.
    pub worker: u32,
    /// Names of the topics.
    pub topics: TopicNames,
    /// The only tenant this events topic belongs to; an event of another, or of none, is a dead letter.
    pub tenant: Option<String>,
    /// Schemas of events beside the shipped ones.
    pub schemas: Schemas,
    /// How outputs are written.
    pub encoding: Encoding,
    /// Longest time between an input and its commit where nothing is urgent.
    pub commit_interval: Duration,
    /// Shortest time between two commits: back to back, the second meets the end of the first on the broker.
    pub commit_gap_min: Duration,
    /// Most inputs of one transaction; over: committed at once.
    pub batch_events_max: usize,
    /// How long the first answer of a broker may take.
    pub broker_timeout: Duration,
    /// How long a broker may stay away once it has answered; over: the engine ends with "try again".
    pub outage_max: Duration,
    /// Whether a task that has state, but whose group has no offsets, begins at the earliest offset. Else it refuses.
    pub start_at_earliest: bool,
    /// Whether one copy of everything is enough: a single broker, to try things on.
    pub dev: bool,
    /// Local stores of state; none: state comes from changelogs only.
    pub store: Option<store::Settings>,
    /// Whether topics are looked at first (existence, `LogAppendTime`, equal partition counts). Off for an embedded
    /// broker without an admin interface only.
    pub check_topics: bool,
    /// Where the worker shows what it does.
    pub watch: Arc<Watch>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cluster: Cluster { bootstrap_servers: "127.0.0.1:9092".to_owned(), ..Cluster::default() },
            group: "reflex".to_owned(),
            instance: "local".to_owned(),
            worker: 0,
            topics: TopicNames::default(),
            tenant: None,
            schemas: Schemas::default(),
            encoding: Encoding::Json,
            commit_interval: Duration::from_secs(1),
            commit_gap_min: Duration::from_millis(5),
            batch_events_max: 200_000,
            broker_timeout: Duration::from_secs(10),
            outage_max: Duration::from_mins(5),
            start_at_earliest: false,
            store: None,
            dev: false,
            check_topics: true,
            watch: Arc::default(),
        }
    }
}

impl Config {
    /// `group.instance.id` and `transactional.id` of the worker.
    #[must_use]
    pub fn worker_id(&self) -> String {
        format!("{}/{}/worker-{}", self.group, self.instance, self.worker)
    }
}
