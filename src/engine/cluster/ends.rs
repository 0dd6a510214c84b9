//! Where partitions begin and end, asked until a leader answers: right after a broker restarted it knows nothing yet.

use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use crate::engine::error::EngineError;

const PAUSE: Duration = Duration::from_millis(100);

/// The first offset and the end of a partition.
///
/// # Errors
/// No leader answers in time, or it refuses.
pub fn bounds_of<C: ConsumerContext>(
    asking: &BaseConsumer<C>,
    topic: &str,
    partition: i32,
    within: Duration,
) -> Result<(i64, i64), EngineError> {
    let deadline = Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).max(PAUSE);
        match asking.fetch_watermarks(topic, partition, left) {
            Err(error) if is_passing(&error) && Instant::now() + PAUSE < deadline => thread::sleep(PAUSE),
            answer => return answer.map_err(|error| EngineError::kafka("asking for offsets", &error)),
        }
    }
}

/// Whether another leader, or the same one a little later, may answer.
fn is_passing(error: &KafkaError) -> bool {
    let passing = [
        Code::NotLeaderForPartition,
        Code::LeaderNotAvailable,
        Code::ReplicaNotAvailable,
        Code::FencedLeaderEpoch,
        Code::UnknownLeaderEpoch,
        Code::KafkaStorageError,
        Code::BrokerTransportFailure,
        Code::NetworkException,
    ];
    error.rdkafka_error_code().is_some_and(|code| passing.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        assert!(is_passing(&KafkaError::MetadataFetch(Code::NotLeaderForPartition)));
        assert!(!is_passing(&KafkaError::MetadataFetch(Code::TopicAuthorizationFailed)));
        assert!(!is_passing(&KafkaError::MetadataFetch(Code::UnknownTopicOrPartition)));
    }
}
