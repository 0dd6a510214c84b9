//! Who needs to do what: permissions by principal, from the same names as the topics.

use std::fmt;

use serde_json::{Value, json};

use crate::engine::cluster::topics::wanted;
use crate::engine::config::{TopicNames, dead_letters_of};
use crate::record::topic::Topic;

/// Somebody with permissions of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Principal {
    /// `reflex run`, its HTTP service included.
    Engine,
    /// `reflex serve`.
    Server,
    /// A runtime, for its events.
    RuntimeProducer,
    /// A runtime, or a service, that reads overrides and interventions.
    RuntimeReader,
    /// Who decides: `freeze`, `overrides`, `interventions`, `registry`.
    Operator,
    /// `dlq list` and `dlq show`. Dead letters hold whole inputs.
    DeadLetterReader,
    /// `dlq redrive`, besides.
    DeadLetterRedriver,
    /// `verify`. Inputs hold what runtimes said.
    Verifier,
    /// `topics plan`, `apply` and `check`.
    TopicAdmin,
}

impl Principal {
    /// Everybody.
    pub const ALL: [Self; 9] = [
        Self::Engine,
        Self::Server,
        Self::RuntimeProducer,
        Self::RuntimeReader,
        Self::Operator,
        Self::DeadLetterReader,
        Self::DeadLetterRedriver,
        Self::Verifier,
        Self::TopicAdmin,
    ];

    /// What the name of the user ends with.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Server => "server",
            Self::RuntimeProducer => "runtime-producer",
            Self::RuntimeReader => "runtime-reader",
            Self::Operator => "operator",
            Self::DeadLetterReader => "dead-letter-reader",
            Self::DeadLetterRedriver => "dead-letter-redriver",
            Self::Verifier => "verifier",
            Self::TopicAdmin => "topic-admin",
        }
    }
}

/// What a permission is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Topics of these names.
    Topics(Vec<String>),
    /// A consumer group.
    Group(String),
    /// A transactional id.
    TransactionalId(String),
    /// Every transactional id that begins so.
    TransactionalIdPrefix(String),
    /// The cluster.
    Cluster,
}

/// Permissions of one principal for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    /// Who.
    pub principal: Principal,
    /// What.
    pub resource: Resource,
    /// Names of operations as Kafka spells them.
    pub operations: &'static [&'static str],
}

const READ: &[&str] = &["Read", "Describe"];
const WRITE: &[&str] = &["Write", "Describe"];
const DESCRIBE: &[&str] = &["DescribeConfigs"];
/// A client asks who coordinates its group, even where it is no member.
const LOOK_UP: &[&str] = &["Describe"];

/// Transactional id of `registry push`.
#[must_use]
pub fn push_id(group: &str) -> String {
    format!("{group}/registry-push")
}

/// Transactional id of commands of people.
#[must_use]
pub fn commands_id(group: &str) -> String {
    format!("{group}/commands")
}

/// Transactional id of `dlq redrive`.
#[must_use]
pub fn redrive_id(group: &str) -> String {
    format!("{group}/dlq-redrive")
}

/// Every permission that this release needs, by principal.
#[must_use]
pub fn needed(names: &TopicNames, group: &str) -> Vec<Acl> {
    Principal::ALL.into_iter().flat_map(|principal| of(principal, names, group)).collect()
}

/// What the HTTP service reads: overrides and interventions, and the audit for what became of commands.
fn answered_from(names: &TopicNames) -> [&str; 3] {
    [&names.overrides, &names.interventions, &names.audit]
}

fn of(principal: Principal, names: &TopicNames, group: &str) -> Vec<Acl> {
    let topics = |names: &[&str], operations| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Acl { principal, resource: Resource::Topics(names), operations }
    };
    let acl = |resource, operations| Acl { principal, resource, operations };
    let id = |id: String| acl(Resource::TransactionalId(id), WRITE);
    let cluster = |operations| acl(Resource::Cluster, operations);
    let (letters, wanted) = (names.inputs().map(dead_letters_of), wanted(names, 1, true));
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    let all: Vec<&str> = wanted.iter().map(|spec| spec.name.as_str()).collect();
    let records = Topic::ALL.map(|topic| names.of(topic));
    let commands = [names.session_commands.as_str(), &names.commands];
    let own = [names.state_session.as_str(), &names.state_fleet, &names.tape_session, &names.tape_fleet];
    match principal {
        Principal::Engine => vec![
            topics(&names.inputs(), READ),
            topics(&own, READ),
            topics(&[&names.registry], READ),
            topics(&[&records[..], &own, &[&names.fleet], &letters].concat(), WRITE),
            // A new version of its own folder goes to the topic with the command that activates it.
            topics(&[&[names.registry.as_str()], &commands[..]].concat(), WRITE),
            topics(&all, DESCRIBE),
            acl(Resource::Group(group.to_owned()), READ),
            acl(Resource::TransactionalIdPrefix(format!("{group}/")), WRITE),
            cluster(DESCRIBE),
            topics(&answered_from(names), READ),
            topics(&[&names.events], WRITE),
        ],
        Principal::Server => vec![
            topics(&answered_from(names), READ),
            topics(&[&names.events, commands[0], commands[1]], WRITE),
            acl(Resource::Group(group.to_owned()), LOOK_UP),
            id(commands_id(group)),
        ],
        Principal::RuntimeProducer => vec![topics(&[&names.events], WRITE)],
        Principal::RuntimeReader => vec![topics(&[&names.overrides, &names.interventions], READ)],
        Principal::Operator => vec![
            topics(&[&records[..], &[&names.registry]].concat(), READ),
            topics(&[&[names.registry.as_str()], &commands[..]].concat(), WRITE),
            acl(Resource::Group(group.to_owned()), LOOK_UP),
            id(push_id(group)),
            id(commands_id(group)),
        ],
        Principal::DeadLetterReader => vec![topics(&letters, READ)],
        Principal::DeadLetterRedriver => vec![
            topics(&letters, READ),
            topics(&[&names.inputs()[..], &letters].concat(), WRITE),
            id(redrive_id(group)),
        ],
        Principal::Verifier => vec![
            topics(&names.inputs(), READ),
            topics(&[&own[..], &[names.registry.as_str(), &names.audit]].concat(), READ),
            acl(Resource::Group(group.to_owned()), LOOK_UP),
        ],
        Principal::TopicAdmin => vec![
            topics(&all, &["Create", "Describe", "DescribeConfigs", "AlterConfigs"]),
            topics(&[crate::engine::cluster::findings::TRANSACTION_STATE], &["Describe", "DescribeConfigs"]),
            cluster(DESCRIBE),
            id(crate::engine::cluster::preflight::check_id(group)),
        ],
    }
}

impl Acl {
    /// The line for Kafka's own tool.
    #[must_use]
    pub fn command_line(&self, servers: &str, user_prefix: &str) -> String {
        let operations: Vec<String> =
            self.operations.iter().map(|operation| format!(" --operation {operation}")).collect();
        format!(
            "kafka-acls.sh --bootstrap-server {servers} --add --allow-principal User:{user_prefix}-{}{operations}{}",
            self.principal.name(),
            self.resource,
            operations = operations.concat(),
        )
    }

    /// The same as one value.
    #[must_use]
    pub fn json(&self, user_prefix: &str) -> Value {
        let (kind, names, pattern) = match &self.resource {
            Resource::Topics(names) => ("topic", names.clone(), "literal"),
            Resource::Group(name) => ("group", vec![name.clone()], "literal"),
            Resource::TransactionalId(name) => ("transactional_id", vec![name.clone()], "literal"),
            Resource::TransactionalIdPrefix(name) => ("transactional_id", vec![name.clone()], "prefixed"),
            Resource::Cluster => ("cluster", vec!["kafka-cluster".to_owned()], "literal"),
        };
        json!({
            "principal": format!("User:{user_prefix}-{}", self.principal.name()), "resource": kind, "names": names,
            "pattern": pattern, "operations": self.operations,
        })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topics(names) => names.iter().try_for_each(|name| write!(f, " --topic {name}")),
            Self::Group(name) => write!(f, " --group {name}"),
            Self::TransactionalId(name) => write!(f, " --transactional-id {name}"),
            Self::TransactionalIdPrefix(name) => {
                write!(f, " --transactional-id {name} --resource-pattern-type prefixed")
            }
            Self::Cluster => f.write_str(" --cluster"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(principal: Principal, operation: &str) -> Vec<String> {
        let all = needed(&TopicNames::default(), "reflex");
        let matching = all.into_iter().filter(|acl| acl.principal == principal && acl.operations.contains(&operation));
        let topics = matching.filter_map(|acl| match acl.resource {
            Resource::Topics(names) => Some(names),
            _ => None,
        });
        topics.flatten().collect()
    }

    #[test]
    fn the_engine_may_use_every_topic_and_nobody_else_may_write_its_outputs() {
        let names = TopicNames::default();
        let (reads, writes) = (may(Principal::Engine, "Read"), may(Principal::Engine, "Write"));
        for spec in wanted(&names, 1, true) {
            assert!(reads.contains(&spec.name) || writes.contains(&spec.name), "{}", spec.name);
            assert!(may(Principal::TopicAdmin, "Create").contains(&spec.name), "{}", spec.name);
        }
        for input in names.inputs() {
            assert!(reads.contains(&input.to_owned()), "{input}");
            assert!(writes.contains(&dead_letters_of(input)), "{input}");
            assert!(may(Principal::DeadLetterRedriver, "Write").contains(&input.to_owned()), "{input}");
        }
        for principal in Principal::ALL.into_iter().filter(|principal| *principal != Principal::Engine) {
            for output in [&names.overrides, &names.interventions, &names.audit, &names.state_session] {
                assert!(!may(principal, "Write").contains(output), "{principal:?} {output}");
            }
        }
        assert_eq!(may(Principal::RuntimeProducer, "Write"), ["reflex.events"]);
        assert_eq!(may(Principal::RuntimeReader, "Read"), ["reflex.overrides", "reflex.interventions"]);
    }

    #[test]
    fn a_verifier_reads_what_was_decided_by_and_writes_nothing() {
        let names = TopicNames::default();
        let reads = may(Principal::Verifier, "Read");
        let inputs = names.inputs();
        for name in
            inputs.into_iter().chain(names.tapes()).chain(names.states()).chain([&*names.registry, &*names.audit])
        {
            assert!(reads.contains(&name.to_owned()), "{name}");
        }
        assert_eq!(may(Principal::Verifier, "Write"), Vec::<String>::new());
    }

    #[test]
    fn lines_are_those_of_the_tool() {
        let all = needed(&TopicNames::default(), "mine");
        let line = |index: usize| all[index].command_line("b:9092", "reflex");
        assert_eq!(
            line(0),
            "kafka-acls.sh --bootstrap-server b:9092 --add --allow-principal User:reflex-engine --operation Read \
             --operation Describe --topic reflex.events --topic reflex.session-commands --topic reflex.fleet --topic \
             reflex.commands"
        );
        assert!(line(7).ends_with(" --transactional-id mine/ --resource-pattern-type prefixed"), "{}", line(7));
        assert_eq!(all[7].json("x")["pattern"], "prefixed");
    }
}
