//! Topics as they should be, and what to do where they are not.

use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::admin::{Admin, Configs, TopicFacts};
use crate::engine::config::{TopicNames, dead_letters_of};
use crate::engine::error::EngineError;

const DAY_MS: u64 = 86_400_000;
/// How long a new topic may take to become visible; over: nobody waits any more, it will.
const VISIBLE_PATIENCE: Duration = Duration::from_secs(5);
/// The largest entry of a state fits, and the largest registry: as much as a producer hands to a broker.
const BYTES_MAX: (&str, &str) = ("max.message.bytes", "10485760");
const LOG_APPEND: (&str, &str) = ("message.timestamp.type", "LogAppendTime");

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
    let (replication, in_sync) = if dev { (1, "1") } else { (3, "2") };
    let spec = |name: &str, own: &[(&str, &str)]| {
        let mut configs: Configs = own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        configs.insert("min.insync.replicas".into(), in_sync.into());
        TopicSpec { name: name.to_owned(), partitions, replication, configs }
    };
    let days = |days: u64| (days * DAY_MS).to_string();
    let delete = |name: &str, kept: u64, more: &[(&str, &str)]| {
        let kept = days(kept);
        let own: Vec<(&str, &str)> = [("cleanup.policy", "delete"), ("retention.ms", kept.as_str())]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        spec(name, &own)
    };
    // What a dead letter adds to the largest input must fit too.
    let dead_letters = |input: &str| delete(&dead_letters_of(input), 14, &[("max.message.bytes", "2097152")]);
    let state = |name: &str| {
        let own = [
            ("cleanup.policy", "compact"),
            // A restore reads the active segment too, which is never cleaned.
            ("segment.ms", "600000"),
            ("min.cleanable.dirty.ratio", "0.1"),
            // What was decided within the last hour can be decided again from where its state was.
            ("min.compaction.lag.ms", "3600000"),
            BYTES_MAX,
        ];
        spec(name, &own)
    };
    vec![
        delete(&names.events, 7, &[LOG_APPEND]),
        delete(&names.session_commands, 30, &[LOG_APPEND]),
        spec(&names.interventions, &[("cleanup.policy", "compact")]),
        spec(
            &names.overrides,
            &[
                ("cleanup.policy", "compact"),
                // The active segment is never cleaned: small ones, or a removed override stays for a week.
                ("segment.ms", "600000"),
                ("min.cleanable.dirty.ratio", "0.1"),
                ("min.compaction.lag.ms", "60000"),
                ("max.compaction.lag.ms", "3600000"),
                // A reader that was away for less than this still sees the tombstones.
                ("delete.retention.ms", &days(7)),
            ],
        ),
        delete(&names.escalations, 30, &[]),
        delete(&names.audit, 365, &[]),
        delete(&names.fleet, 7, &[LOG_APPEND]),
        delete(&names.commands, 30, &[LOG_APPEND]),
        TopicSpec { partitions: 1, ..spec(&names.registry, &[("cleanup.policy", "compact"), BYTES_MAX]) },
        // By the time of the broker, which so tells how far the clock of a worker is off.
        delete(&names.tape_session, 7, &[LOG_APPEND, BYTES_MAX]),
        delete(&names.tape_fleet, 7, &[LOG_APPEND, BYTES_MAX]),
        state(&names.state_session),
        state(&names.state_fleet),
        dead_letters(&names.events),
        dead_letters(&names.session_commands),
        dead_letters(&names.fleet),
        dead_letters(&names.commands),
    ]
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
        assert_eq!(specs.len(), 9);
        let spec = &specs[0];
        let mut is = TopicFacts { partitions: 8, replication: 3, configs: spec.configs.clone(), own: Configs::new() };
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
    fn inputs_are_stamped_by_the_broker_and_dev_needs_one_broker() {
        for spec in wanted(&TopicNames::default(), 3, true) {
            let stamped = spec.configs.contains_key("message.timestamp.type");
            assert_eq!(
                stamped,
                ["reflex.events", "reflex.session-commands"].contains(&spec.name.as_str()),
                "{}",
                spec.name
            );
            assert_eq!((spec.replication, spec.configs["min.insync.replicas"].as_str()), (1, "1"));
        }
    }
}
