//! Every setting with its default: the shape of `config/reflex.toml`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::engine::state::store::Kind;
use crate::engine::{Encoding, TopicNames};

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// For a person.
    #[default]
    Table,
    /// One JSON value.
    Json,
    /// One JSON value a line.
    Ndjson,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For a person.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Settings of the process. What the stages read is in the registry, limits included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Folder of the registry.
    pub registry: String,
    /// `host:port,…`.
    pub bootstrap_servers: String,
    /// Folder of what the process keeps.
    pub data_dir: String,
    /// Worker threads, each a member of the group: tasks of both stages are shared among them.
    pub workers: u32,
    /// Consumer group.
    pub group: String,
    /// Name of the process in the group; empty: made once and kept in the data directory.
    pub instance: String,
    /// Address of the HTTP service; empty: none.
    pub http: String,
    /// Names, separated by commas, by which requests may address the HTTP service, besides `localhost` and its addresses.
    pub http_hosts: String,
    /// Connections to the HTTP service at a time; over: health and metrics are answered, all else 503.
    pub http_connections_max: u32,
    /// Long polls and streams at a time; over: 503.
    pub http_waiting_max: u32,
    /// Long polls and streams at a time of one client; over: 429.
    pub http_waiting_per_client_max: u32,
    /// Requests a second of one client; over: 429.
    pub http_rate_per_second_max: u32,
    /// File of tokens and roles; empty: none.
    pub http_tokens: String,
    /// Whether without tokens everybody who reaches the address may read and publish, not only this machine.
    pub http_open: bool,
    /// Certificate chain (PEM) for TLS; empty: no TLS.
    pub http_tls_certificate: String,
    /// Its key (PEM).
    pub http_tls_key: String,
    /// How results are written.
    pub output: Output,
    /// How output records are written.
    pub encoding: Encoding,
    /// Longest time between an input and its commit where nothing is urgent.
    pub commit_interval_ms: u64,
    /// Shortest time between two commits.
    pub commit_gap_ms_min: u64,
    /// Most inputs of one transaction; over: committed at once.
    pub batch_events_max: u32,
    /// How long the first answer of a broker may take; over: exit 69.
    pub broker_timeout_ms: u64,
    /// How long a broker may stay away later; over: exit 75.
    pub broker_outage_ms_max: u64,
    /// Whether a task that has state, but whose group has no offsets, begins at the earliest offset; else it refuses.
    pub start_at_earliest: bool,
    /// Whether one copy of everything is enough: a single broker, to try things on.
    pub dev: bool,
    /// Local store of state: a disposable copy, in `data_dir`.
    pub store: Kind,
    /// A local store older than this is not used.
    pub store_age_ms_max: u64,
    /// Names of the topics.
    pub topics: Topics,
    /// What inputs are held against.
    pub input: Input,
    /// Avro inputs.
    pub avro: Avro,
    /// The log.
    pub log: Log,
    /// Properties of the Kafka client, passed through.
    pub kafka: Properties,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            registry: "config/registry".into(),
            bootstrap_servers: "127.0.0.1:9092".into(),
            data_dir: ".reflex".into(),
            workers: 1,
            group: "reflex".into(),
            instance: String::new(),
            http: String::new(),
            http_hosts: String::new(),
            http_connections_max: 512,
            http_waiting_max: 384,
            http_waiting_per_client_max: 256,
            http_rate_per_second_max: 5000,
            http_tokens: String::new(),
            http_open: false,
            http_tls_certificate: String::new(),
            http_tls_key: String::new(),
            output: Output::Table,
            encoding: Encoding::Json,
            commit_interval_ms: 1000,
            commit_gap_ms_min: 5,
            batch_events_max: 200_000,
            broker_timeout_ms: 10_000,
            broker_outage_ms_max: 300_000,
            start_at_earliest: false,
            store: Kind::Fjall,
            store_age_ms_max: 43_200_000,
            dev: false,
            topics: Topics::default(),
            input: Input::default(),
            avro: Avro::default(),
            log: Log::default(),
            kafka: Properties::default(),
        }
    }
}

/// `[topics]`: names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Topics {
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

/// The same fields under both names.
macro_rules! topics {
    ($from:expr, $source:ident, $target:ident) => {{
        let $source {
            events,
            session_commands,
            interventions,
            overrides,
            escalations,
            audit,
            fleet,
            commands,
            registry,
            tape_session,
            tape_fleet,
            state_session,
            state_fleet,
        } = $from;
        $target {
            events,
            session_commands,
            interventions,
            overrides,
            escalations,
            audit,
            fleet,
            commands,
            registry,
            tape_session,
            tape_fleet,
            state_session,
            state_fleet,
        }
    }};
}

impl Default for Topics {
    fn default() -> Self {
        topics!(TopicNames::default(), TopicNames, Self)
    }
}

impl Topics {
    /// For the engine.
    #[must_use]
    pub fn names(&self) -> TopicNames {
        topics!(self.clone(), Self, TopicNames)
    }
}

/// `[input]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// The only tenant the events topic belongs to; empty: any. Events of another, or of none, are dead letters.
    pub tenant: String,
}

/// `[avro]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Avro {
    /// Schema-registry ids of event schemas, each with its schema file.
    pub schema_ids: BTreeMap<String, String>,
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Text or JSON, on standard error.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,librdkafka=debug`.
    pub level: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".into() }
    }
}

/// `[kafka]`: properties as `sasl.password = …`, quoted or dotted; numbers and booleans count as their text.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Properties(pub BTreeMap<String, String>);

impl fmt::Debug for Properties {
    /// Values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut properties = BTreeMap::new();
        for (key, value) in toml::Table::deserialize(deserializer)? {
            flatten(key, value, &mut properties).map_err(serde::de::Error::custom)?;
        }
        Ok(Self(properties))
    }
}

fn flatten(key: String, value: toml::Value, properties: &mut BTreeMap<String, String>) -> Result<(), String> {
    let text = match value {
        toml::Value::String(text) => text,
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(yes) => yes.to_string(),
        toml::Value::Table(table) => {
            return table
                .into_iter()
                .try_for_each(|(inner, value)| flatten(format!("{key}.{inner}"), value, properties));
        }
        toml::Value::Array(_) | toml::Value::Datetime(_) => {
            return Err(format!("{key}: not a text, number or boolean"));
        }
    };
    properties.insert(key, text);
    Ok(())
}
