//! Topics as they should be, and what to do where they are not.

use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::cluster::admin::{Admin, Configs, TopicFacts};
use crate::engine::config::{TopicNames, dead_letters_of};
use crate::engine::error::EngineError;

const DAY_MS: u64 = 86_400_000;
/// How long a new topic may take to become visible; over: nobody waits any more, it will.
const VISIBLE_PATIENCE: Duration = Duration::from_secs(5);
/// The largest entry of a state fits, and the largest registry: as much as a producer hands to a broker.
const BYTES_MAX: (&str, &str) = ("max.message.bytes", "10485760");
const LOG_APPEND: (&str, &str) = ("message.timestamp.type", "LogAppendTime");
const COMPACT: (&str, &str) = ("cleanup.policy", "compact");

/// One topic as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSpec {
    /// Name.
    pub name: String,
    /// Number of partitions.
    pub partitions: usize,
    /// Number of replicas; more are fine.
    pub replication: usize,
    /// Configuration.
    pub configs: Configs,
}

/// What is to be done about a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It does not exist.
    Create,
    /// A configuration value differs.
    Configure {
        /// Name of the value.
        key: String,
        /// As it is.
        is: String,
        /// As it should be.
        wanted: String,
    },
    /// Another number of partitions: for people, because keys move to other partitions.
    Partitions {
        /// As it is.
        is: usize,
        /// As it should be.
        wanted: usize,
    },
    /// Too few replicas: for people, because a reassignment moves data.
    Replication {
        /// As it is.
        is: usize,
        /// As it should be.
        wanted: usize,
    },
}

impl Change {
    /// Whether `apply` can do it.
    #[must_use]
    pub fn is_applicable(&self) -> bool {
        matches!(self, Self::Create | Self::Configure { .. })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create => f.write_str("missing: create"),
            Self::Configure { key, is, wanted } => write!(f, "set {key}={wanted} (is {is})"),
            Self::Partitions { is, wanted } => {
                write!(f, "has {is} partitions instead of {wanted}; not changed: keys would move")
            }
            Self::Replication { is, wanted } => {
                write!(f, "has {is} replicas instead of {wanted}; not changed: data would move")
            }
        }
    }
}

/// Every topic this release uses.
///
/// `dev`: one replica, for a single broker; else three, of which two must have a record before it counts.
#[must_use]
pub fn wanted(names: &TopicNames, partitions: usize, dev: bool) -> Vec<TopicSpec> {
    let shape = Shape { partitions, dev };
    let mut topics = vec![
        shape.input(&names.events, 7),
        shape.input(&names.session_commands, 30),
        shape.topic(&names.interventions, &[COMPACT]),
        shape.overrides(&names.overrides),
        shape.delete(&names.escalations, 30, &[]),
        shape.delete(&names.audit, 365, &[]),
        shape.input(&names.fleet, 7),
        shape.input(&names.commands, 30),
        TopicSpec { partitions: 1, ..shape.topic(&names.registry, &[COMPACT, BYTES_MAX]) },
        // By the time of the broker, which so tells how far the clock of a worker is off.
        shape.delete(&names.tape_session, 7, &[LOG_APPEND, BYTES_MAX]),
        shape.delete(&names.tape_fleet, 7, &[LOG_APPEND, BYTES_MAX]),
        shape.state(&names.state_session),
        shape.state(&names.state_fleet),
    ];
    topics.extend(names.inputs().into_iter().map(|input| shape.dead_letters(input)));
    topics
}

/// What all topics have in common.
#[derive(Clone, Copy)]
struct Shape {
    partitions: usize,
    dev: bool,
}

impl Shape {
    fn topic(self, name: &str, own: &[(&str, &str)]) -> TopicSpec {
        let (replication, in_sync) = if self.dev { (1, "1") } else { (3, "2") };
        let mut configs: Configs = own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        configs.insert("min.insync.replicas".into(), in_sync.into());
        TopicSpec { name: name.to_owned(), partitions: self.partitions, replication, configs }
    }

    fn delete(self, name: &str, days: u64, more: &[(&str, &str)]) -> TopicSpec {
        let mut spec = self.topic(name, more);
        spec.configs.insert("cleanup.policy".into(), "delete".into());
        spec.configs.insert("retention.ms".into(), (days * DAY_MS).to_string());
        spec
    }

    fn input(self, name: &str, days: u64) -> TopicSpec {
        self.delete(name, days, &[LOG_APPEND])
    }

    /// What a dead letter adds to the largest input must fit too.
    fn dead_letters(self, input: &str) -> TopicSpec {
        self.delete(&dead_letters_of(input), 14, &[("max.message.bytes", "2097152")])
    }

    fn overrides(self, name: &str) -> TopicSpec {
        let week = (7 * DAY_MS).to_string();
        let own = [
            COMPACT,
            // The active segment is never cleaned: small ones, or a removed override stays for a week.
            ("segment.ms", "600000"),
            ("min.cleanable.dirty.ratio", "0.1"),
            ("min.compaction.lag.ms", "60000"),
            ("max.compaction.lag.ms", "3600000"),
            // A reader that was away for less than this still sees the tombstones.
            ("delete.retention.ms", &week),
        ];
        self.topic(name, &own)
    }

    fn state(self, name: &str) -> TopicSpec {
        let own = [
            COMPACT,
            // A restore reads the active segment too, which is never cleaned.
            ("segment.ms", "600000"),
            ("min.cleanable.dirty.ratio", "0.1"),
            // What was decided within the last hour can be decided again from where its state was.
            ("min.compaction.lag.ms", "3600000"),
            BYTES_MAX,
        ];
        self.topic(name, &own)
    }
}

/// What differs.
#[must_use]
pub fn compare(spec: &TopicSpec, is: Option<&TopicFacts>) -> Vec<Change> {
    let Some(is) = is else { return vec![Change::Create] };
    let mut changes = Vec::new();
    if is.partitions != spec.partitions {
        changes.push(Change::Partitions { is: is.partitions, wanted: spec.partitions });
    }
    if is.replication < spec.replication {
        changes.push(Change::Replication { is: is.replication, wanted: spec.replication });
    }
    for (key, wanted) in &spec.configs {
        let found = is.configs.get(key).map_or("", String::as_str);
        if found != wanted {
            changes.push(Change::Configure { key: key.clone(), is: found.to_owned(), wanted: wanted.clone() });
        }
    }
    changes
}

/// Carries out what can be carried out, and leaves every other value of the topic as it is.
///
/// # Errors
/// What the broker refuses.
pub fn apply(admin: &Admin, spec: &TopicSpec, is: Option<&TopicFacts>, changes: &[Change]) -> Result<(), EngineError> {
    if changes.contains(&Change::Create) {
        return admin.create(&spec.name, spec.partitions, spec.replication, &spec.configs);
    }
    if !changes.iter().any(Change::is_applicable) {
        return Ok(());
    }
    let mut own = is.map(|facts| facts.own.clone()).unwrap_or_default();
    own.extend(spec.configs.clone());
    admin.configure(&spec.name, &own)
}

/// Waits until brokers know the topics that were just created: a creation is answered before that.
///
/// # Errors
/// No broker answers.
pub fn wait_until_there(admin: &Admin, specs: &[&TopicSpec]) -> Result<(), EngineError> {
    let names: Vec<String> = specs.iter().map(|spec| spec.name.clone()).collect();
    let started = Instant::now();
    while admin.existing(&names)?.len() < names.len() && started.elapsed() < VISIBLE_PATIENCE {
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The same with Kafka's own tools, for those who may not let a program do it.
#[must_use]
pub fn command_line(servers: &str, spec: &TopicSpec, changes: &[Change]) -> Option<String> {
    if changes.contains(&Change::Create) {
        let configs: Vec<String> = spec.configs.iter().map(|(key, value)| format!(" --config {key}={value}")).collect();
        let configs = configs.concat();
        return Some(format!(
            "kafka-topics.sh --bootstrap-server {servers} --create --topic {} --partitions {} --replication-factor {}{configs}",
            spec.name, spec.partitions, spec.replication
        ));
    }
    let configs: BTreeMap<&String, &String> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Configure { key, wanted, .. } => Some((key, wanted)),
            _ => None,
        })
        .collect();
    let configs: Vec<String> = configs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    (!configs.is_empty()).then(|| {
        format!(
            "kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics --entity-name {} --add-config {}",
            spec.name,
            configs.join(",")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_as_wanted_needs_nothing_and_another_says_what() {
        let specs = wanted(&TopicNames::default(), 8, false);
        let names: std::collections::BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!((specs.len(), names.len()), (17, 17));
        let spec = &specs[0];
        let mut is =
            TopicFacts { partitions: 8, replication: 3, configs: spec.configs.clone(), ..TopicFacts::default() };
        assert_eq!(compare(spec, Some(&is)), []);
        assert_eq!(compare(spec, None), [Change::Create]);
        is.partitions = 4;
        is.configs.insert("message.timestamp.type".into(), "CreateTime".into());
        let changes = compare(spec, Some(&is));
        assert_eq!(changes.len(), 2);
        assert_eq!(changes.iter().filter(|change| change.is_applicable()).count(), 1);
        let line = command_line("b:9092", spec, &changes).expect("a line");
        assert!(
            line.ends_with("--entity-name reflex.events --add-config message.timestamp.type=LogAppendTime"),
            "{line}"
        );
    }

    #[test]
    fn inputs_and_tapes_are_stamped_by_the_broker_and_dev_needs_one_broker() {
        let names = TopicNames::default();
        let tapes = [names.tape_session.as_str(), &names.tape_fleet];
        for spec in wanted(&names, 3, true) {
            let name = spec.name.as_str();
            let stamped = spec.configs.contains_key("message.timestamp.type");
            assert_eq!(stamped, names.inputs().contains(&name) || tapes.contains(&name), "{name}");
            assert_eq!((spec.replication, spec.configs["min.insync.replicas"].as_str()), (1, "1"));
            assert_eq!(spec.partitions, if spec.name == names.registry { 1 } else { 3 }, "{name}");
        }
    }

    #[test]
    fn state_tapes_and_versions_are_kept_as_their_readers_need_them() {
        let names = TopicNames::default();
        let specs = wanted(&names, 3, false);
        let of = |name: &str| &specs.iter().find(|spec| spec.name == name).expect("wanted").configs;
        for state in [&names.state_session, &names.state_fleet, &names.registry, &names.overrides] {
            assert_eq!(of(state)["cleanup.policy"], "compact", "{state}");
        }
        for state in [&names.state_session, &names.state_fleet] {
            assert_eq!(of(state)["min.compaction.lag.ms"], "3600000", "{state}");
        }
        for input in names.inputs() {
            assert_eq!(of(&dead_letters_of(input))["retention.ms"], (14 * DAY_MS).to_string(), "{input}");
        }
    }
}
