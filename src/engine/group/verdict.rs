//! What an error of a poll means: go on, give the partitions up, join again, or end.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::engine::config::Config;
use crate::engine::error::{EngineError, words};

/// What a worker does about an error of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The library goes on by itself.
    Passing,
    /// The partitions are gone.
    Lost,
    /// The member was replaced by another of the same id, maybe its own late self.
    Fenced,
}

/// What an error of a poll means.
pub fn judge(error: &KafkaError, config: &Config) -> Result<Verdict, EngineError> {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::PollExceeded) => Ok(Verdict::Lost),
        Some(RDKafkaErrorCode::FencedInstanceId | RDKafkaErrorCode::Fenced) => Ok(Verdict::Fenced),
        Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => {
            Err(EngineError::OffsetLost(format!(
                "group {} stands at an offset that an input ({}) no longer has ({}): events were removed before they \
                 were read; set the group's offsets where it is to go on",
                config.group,
                config.topics.inputs().join(", "),
                words(error)
            )))
        }
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            Err(EngineError::TopicMissing(config.topics.inputs().join(", or ")))
        }
        _ => match EngineError::kafka("consuming", error) {
            denied @ EngineError::NotPermitted(_) => Err(denied),
            fatal if matches!(error, KafkaError::MessageConsumptionFatal(_)) => Err(fatal),
            _ => Ok(Verdict::Passing),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_poll_end_the_engine_only_where_it_cannot_go_on() {
        let config = Config::default();
        let judged = |code| judge(&KafkaError::MessageConsumption(code), &config);
        assert!(matches!(judged(RDKafkaErrorCode::AllBrokersDown), Ok(Verdict::Passing)));
        assert!(matches!(judged(RDKafkaErrorCode::PollExceeded), Ok(Verdict::Lost)));
        assert!(matches!(judged(RDKafkaErrorCode::FencedInstanceId), Ok(Verdict::Fenced)));
        assert!(matches!(judged(RDKafkaErrorCode::AutoOffsetReset), Err(EngineError::OffsetLost(_))));
        assert!(matches!(judged(RDKafkaErrorCode::TopicAuthorizationFailed), Err(EngineError::NotPermitted(_))));
        let fatal = judge(&KafkaError::MessageConsumptionFatal(RDKafkaErrorCode::Fail), &config);
        assert!(matches!(fatal, Err(EngineError::Kafka { .. })));
    }
}
