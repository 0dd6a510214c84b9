//! One record, published and told when the broker appended it: how the clocks of the two are compared.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientContext, Message, Timestamp as KafkaTimestamp};

use crate::engine::clock::local;
use crate::engine::cluster::client::{Logs, create, publisher};
use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::record::time::Timestamp;

const DOING: &str = "publishing";

/// When a record was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// By the clock of the broker; none: the topic has the time of the writer.
    pub at: Option<Timestamp>,
    /// By this machine's clock: not before.
    pub sent_at: Timestamp,
    /// By this machine's clock: not after.
    pub told_at: Timestamp,
}

impl Appended {
    /// By how much the clock of the broker is ahead, and by how much that may be wrong. Milliseconds.
    #[must_use]
    pub fn ahead_ms(&self) -> Option<(i64, i64)> {
        let at = self.at?;
        let (after, before) = (at.millis_since(self.sent_at), at.millis_since(self.told_at));
        Some((i64::midpoint(after, before), (after - before) / 2 + 1))
    }
}

#[derive(Default)]
struct Told(Mutex<Option<Result<Option<Timestamp>, KafkaError>>>);

impl ClientContext for Told {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        Logs::line(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        Logs.error(error, reason);
    }
}

impl ProducerContext for Told {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let told = match result {
            Ok(message) => Ok(match message.timestamp() {
                KafkaTimestamp::LogAppendTime(millis) => Some(Timestamp::from_millis(millis)),
                _ => None,
            }),
            Err((error, _)) => Err(error.clone()),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }
}

/// Publishes records one by one.
pub struct Appender {
    producer: BaseProducer<Told>,
    timeout: Duration,
}

impl Appender {
    /// Makes the client; nothing is sent yet.
    ///
    /// # Errors
    /// What the client refuses.
    pub fn new(config: &Config) -> Result<Self, EngineError> {
        let mut client = publisher(&config.cluster);
        client.set("linger.ms", "0").set("message.timeout.ms", config.broker_timeout.as_millis().to_string());
        Ok(Self { producer: create(&client, Told::default())?, timeout: config.broker_timeout })
    }

    /// Publishes a text under a key, and waits until it is appended.
    ///
    /// # Errors
    /// It was not, or that was not told in time.
    pub fn append(&self, topic: &str, key: &str, text: &str) -> Result<Appended, EngineError> {
        let told = &self.producer.context().0;
        *told.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let sent_at = local();
        self.producer
            .send(BaseRecord::to(topic).key(key.as_bytes()).payload(text.as_bytes()))
            .map_err(|(error, _)| EngineError::kafka(DOING, &error))?;
        let deadline = Instant::now() + self.timeout + Duration::from_secs(1);
        while Instant::now() < deadline {
            self.producer.poll(Duration::from_millis(1));
            let told = told.lock().unwrap_or_else(PoisonError::into_inner).take();
            match told {
                Some(Ok(at)) => return Ok(Appended { at, sent_at, told_at: local() }),
                Some(Err(error)) => return Err(EngineError::kafka(DOING, &error)),
                None => {}
            }
        }
        Err(EngineError::Outage(format!("{DOING}: {topic}: no answer within {} ms", self.timeout.as_millis())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_lies_between_sending_and_being_told() {
        let at = |millis| Timestamp::from_millis(millis);
        let appended = |broker, sent, told| Appended { at: Some(at(broker)), sent_at: at(sent), told_at: at(told) };
        assert_eq!(appended(1005, 1000, 1010).ahead_ms(), Some((0, 6)));
        assert_eq!(appended(4000, 1000, 1002).ahead_ms(), Some((2999, 2)));
        assert_eq!(appended(1000, 4000, 4002).ahead_ms().map(|(ahead, _)| ahead), Some(-3001));
        assert_eq!(Appended { at: None, ..appended(0, 0, 0) }.ahead_ms(), None);
    }
}
