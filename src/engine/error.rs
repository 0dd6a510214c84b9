//! Why the engine gave up: one variant per cause, each with what a person can do about it.

use std::path::PathBuf;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

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
    /// An input is not stamped by the broker.
    #[error(
        "topic {0} has message.timestamp.type={1}; inputs need LogAppendTime, the clock of all decisions; \
         `reflex topics apply` sets it"
    )]
    NotAppendTime(String, String),
    /// A changelog that does not keep the last value of every key.
    #[error(
        "topic {0} has cleanup.policy={1}; state needs compact alone, or what is old is lost; `reflex topics apply` \
         sets it"
    )]
    NotCompacted(String, String),
    /// A changelog that forgets tombstones before local stores are too old to need them.
    #[error(
        "topic {topic} has delete.retention.ms={kept_ms}; a local store may be {age_ms} ms old, so that it must be twice \
         that: set store_age_ms_max to {half_ms} at most, or store=memory"
    )]
    Forgetful {
        /// The changelog.
        topic: String,
        /// How long it keeps tombstones.
        kept_ms: u64,
        /// How old a store may be.
        age_ms: u128,
        /// How old it could be.
        half_ms: u64,
    },
    /// Inputs are not co-partitioned, or the audit or state topic is narrower than they are.
    #[error("{0} has {1} partitions and {2} has {3}; {4}")]
    Partitions(String, usize, String, usize, &'static str),
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
    fn texts_are_one_capped_line() {
        assert_eq!(capped("a\nb"), "a b");
        assert_eq!(capped(&"x".repeat(1000)).len(), ERROR_CHARS_MAX);
    }
}
