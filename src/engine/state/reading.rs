//! What goes wrong while a changelog is read.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::engine::error::EngineError;

/// What is being done.
pub const READING: &str = "reading the changelog";

/// What an error of the reader means.
///
/// # Errors
/// What the library does not get over by itself.
pub fn judge(error: &KafkaError, topic: &str) -> Result<(), EngineError> {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            Err(EngineError::TopicMissing(topic.to_owned()))
        }
        _ => match EngineError::kafka(READING, error) {
            denied @ EngineError::NotPermitted(_) => Err(denied),
            fatal if matches!(error, KafkaError::MessageConsumptionFatal(_)) => Err(fatal),
            // The library goes on by itself.
            _ => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_goes_on_where_the_library_does() {
        let judged = |code| judge(&KafkaError::MessageConsumption(code), "reflex.state.session");
        assert!(judged(RDKafkaErrorCode::BrokerTransportFailure).is_ok());
        assert!(matches!(judged(RDKafkaErrorCode::UnknownTopicOrPartition), Err(EngineError::TopicMissing(_))));
        assert!(matches!(judged(RDKafkaErrorCode::TopicAuthorizationFailed), Err(EngineError::NotPermitted(_))));
    }
}
