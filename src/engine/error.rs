//! Why the engine gave up: one variant per cause, each with what a person can do about it.

use std::path::PathBuf;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::engine::cluster::findings::Finding;
use crate::engine::task::tape::CORE_VERSION;

/// Longest text of an error taken over from the client library, in characters; the rest is cut.
pub const ERROR_CHARS_MAX: usize = 300;

/// Why the engine gave up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No broker answered in time.
    #[error(
        "no broker at {servers} answered within {timeout_ms} ms ({words}); is it running? --bootstrap-servers says where"
    )]
    Unreachable {
        /// The brokers asked.
        servers: String,
        /// How long was waited.
        timeout_ms: u128,
        /// The last problem.
        words: String,
    },
    /// A topic does not exist.
    #[error("topic {0} does not exist; `reflex topics apply` creates what is missing")]
    TopicMissing(String),
    /// More copies of a topic are wanted than there are brokers.
    #[error(
        "topic {0} wants more copies than the cluster has brokers; for a single broker: `reflex topics apply --dev`"
    )]
    TooFewBrokers(String),
    /// Topics do not exist.
    #[error("{} topics do not exist: {}; `reflex topics apply` creates what is missing", .0.len(), .0.join(", "))]
    TopicsMissing(Vec<String>),
    /// A topic was deleted, and another of its name made.
    #[error(
        "topic {topic} is another one than before (id {is}, was {was}): it was deleted and made again, so offsets and \
         state of group {group} mean nothing in it. If nothing is to be kept: delete group {group} and its state topics, \
         `reflex topics apply`, start again. With start_at_earliest=true the state is kept and everything the inputs \
         hold is read from their beginning. Else bring the old topic back, or mirror it under another name \
         (topics.* in the settings)"
    )]
    TopicRecreated {
        /// The topic.
        topic: String,
        /// Id of the topic the group has read or written.
        was: String,
        /// Id of the topic that is there.
        is: String,
        /// The consumer group.
        group: String,
    },
    /// Topics or brokers are set up so that a guarantee would break.
    #[error("{}", lines(.0))]
    Unfit(Vec<Finding>),
    /// The data directory is in use.
    #[error("{0} is in use by another process of this machine; give each process its own --data-dir")]
    Locked(PathBuf),
    /// A file of the data directory cannot be used.
    #[error("{path}: {words}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        words: String,
    },
    /// The id is used twice.
    #[error("{id} is used by another process too (fenced {times} times): every process needs its own --instance")]
    Fenced {
        /// `group.instance.id` and `transactional.id`.
        id: String,
        /// How often it was fenced.
        times: usize,
    },
    /// The client refuses its configuration.
    #[error("Kafka client: {0}")]
    Client(String),
    /// The broker does not permit it.
    #[error("not permitted: {0}")]
    NotPermitted(String),
    /// What was consumed is no longer, or not yet, on the broker.
    #[error("{0}")]
    OffsetLost(String),
    /// A task that no tape is of.
    #[error("{0}: no such task; tasks are session/N and fleet/N, N from 0 to the number of partitions less one")]
    NoSuchTask(String),
    /// A tape of other rules.
    #[error(
        "the tape was written by version {0}, this is version {CORE_VERSION}: verify with the version that wrote it"
    )]
    TapeVersion(String),
    /// A registry version that tasks decided by is gone.
    #[error(
        "registry version {version} is not on {topic}; `reflex registry push` with the folder it was made of brings it back"
    )]
    RegistryMissing {
        /// The version.
        version: String,
        /// Where it should be.
        topic: String,
    },
    /// The state of a task cannot be used.
    #[error("state of {task} on {topic}: {words}")]
    State {
        /// The task.
        task: String,
        /// Its changelog.
        topic: String,
        /// Why, and what can be done.
        words: String,
    },
    /// What must be published cannot be, and no input is to blame.
    #[error("{0}; does a topic take smaller messages than `reflex topics apply` sets (max.message.bytes)?")]
    Unpublishable(String),
    /// A transaction's outcome contradicts what was sent.
    #[error("{0}")]
    Undecided(String),
    /// The broker stayed away for too long.
    #[error("{0}")]
    Outage(String),
    /// Any other error of the client.
    #[error("{doing}: {words}")]
    Kafka {
        /// What was being done.
        doing: &'static str,
        /// What the client says.
        words: String,
    },
}

fn lines(findings: &[Finding]) -> String {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    lines.join("\n       ")
}

impl EngineError {
    /// Maps a client error to its cause where one is known.
    pub fn kafka(doing: &'static str, error: &KafkaError) -> Self {
        let words = words(error);
        match error.rdkafka_error_code() {
            Some(
                RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::GroupAuthorizationFailed
                | RDKafkaErrorCode::ClusterAuthorizationFailed
                | RDKafkaErrorCode::TransactionalIdAuthorizationFailed
                | RDKafkaErrorCode::SaslAuthenticationFailed,
            ) => Self::NotPermitted(format!("{doing}: {words}")),
            _ if matches!(error, KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_)) => Self::Client(words),
            _ => Self::Kafka { doing, words },
        }
    }
}

/// Words of a client error without values of properties (a refused value may be a secret), cut at
/// `ERROR_CHARS_MAX`.
pub fn words(error: &KafkaError) -> String {
    let text = match error {
        KafkaError::ClientConfig(_, _, property, _) => format!("property {property} or its value is not accepted"),
        other => other.to_string(),
    };
    capped(&text)
}

/// One line of at most `ERROR_CHARS_MAX` characters.
pub fn capped(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use rdkafka::types::RDKafkaConfRes;

    use super::*;

    #[test]
    fn a_refused_property_is_named_without_its_value() {
        let error = KafkaError::ClientConfig(
            RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "Invalid value \"hunter2\" for configuration property \"sasl.password\"".into(),
            "sasl.password".into(),
            "hunter2".into(),
        );
        assert_eq!(words(&error), "property sasl.password or its value is not accepted");
    }

    #[test]
    fn a_topic_made_again_is_named_with_both_ids_and_the_ways_out() {
        let error = EngineError::TopicRecreated {
            topic: "reflex.events".into(),
            was: "old-id".into(),
            is: "new-id".into(),
            group: "reflex".into(),
        };
        let words = error.to_string();
        for part in ["topic reflex.events", "(id new-id, was old-id)", "delete group reflex", "reflex topics apply"] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }

    #[test]
    fn texts_are_one_capped_line() {
        assert_eq!(capped("a\nb"), "a b");
        assert_eq!(capped(&"x".repeat(1000)).len(), ERROR_CHARS_MAX);
    }
}
