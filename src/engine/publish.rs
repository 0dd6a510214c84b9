//! Events into a topic, outside of transactions: idempotent, keyed, every delivery checked. A [`Feed`] is checked at its end,
//! an [`Outlet`] record by record.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, FutureProducer, FutureRecord, Producer, ProducerContext, ThreadedProducer,
};

use crate::engine::cluster::client::{Logs, create, publisher};
use crate::engine::config::Cluster;
use crate::engine::error::{EngineError, words};

/// How long the last deliveries may take, beyond the client's own message timeout.
const FINISH_TIMEOUT: Duration = Duration::from_secs(35);

#[derive(Default)]
struct Failures(Mutex<Option<KafkaError>>);

impl ClientContext for Failures {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        Logs::line(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        Logs.error(error, reason);
    }
}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
        }
    }
}

/// Publishes texts under keys.
pub struct Feed {
    producer: ThreadedProducer<Failures>,
    topic: String,
}

impl Feed {
    /// A feed into a topic that exists.
    ///
    /// # Errors
    /// What the client refuses.
    pub fn new(cluster: &Cluster, topic: &str) -> Result<Self, EngineError> {
        Ok(Self { producer: create(&publisher(cluster), Failures::default())?, topic: topic.to_owned() })
    }

    /// Hands one record over; waits while the client's queue is full.
    ///
    /// # Errors
    /// The first delivery that failed, of this record or an earlier one.
    pub fn send(&self, key: &str, text: &str) -> Result<(), EngineError> {
        self.hand(BaseRecord::to(&self.topic).key(key.as_bytes()).payload(text.as_bytes()))
    }

    /// The same, to one partition; none: a tombstone.
    ///
    /// # Errors
    /// As [`Feed::send`].
    pub fn send_to(&self, partition: i32, key: &[u8], value: Option<&[u8]>) -> Result<(), EngineError> {
        let record = BaseRecord::to(&self.topic).partition(partition).key(key);
        self.hand(match value {
            Some(value) => record.payload(value),
            None => record,
        })
    }

    fn hand(&self, mut record: BaseRecord<'_, [u8], [u8]>) -> Result<(), EngineError> {
        loop {
            self.failure()?;
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((error, back)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) => {
                    record = back;
                    thread::sleep(Duration::from_millis(1));
                }
                Err((error, _)) => return Err(EngineError::kafka("publishing", &error)),
            }
        }
    }

    /// Waits until everything is delivered.
    ///
    /// # Errors
    /// The first delivery that failed.
    pub fn finish(&self) -> Result<(), EngineError> {
        let flushed = self.producer.flush(FINISH_TIMEOUT);
        self.failure()?;
        flushed.map_err(|error| EngineError::kafka("publishing", &error))
    }

    fn failure(&self) -> Result<(), EngineError> {
        match &*self.producer.context().0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(EngineError::kafka("publishing", error)),
            None => Ok(()),
        }
    }
}

/// Publishes texts under keys, and tells of each whether the brokers have it.
pub struct Outlet {
    producer: FutureProducer<Logs>,
    topic: String,
}

impl Outlet {
    /// An outlet into a topic; the brokers have `patience` to acknowledge a record.
    ///
    /// # Errors
    /// What the client refuses.
    pub fn new(cluster: &Cluster, topic: &str, patience: Duration) -> Result<Self, EngineError> {
        let mut client = publisher(cluster);
        client.set("message.timeout.ms", patience.as_millis().to_string());
        Ok(Self { producer: create(&client, Logs)?, topic: topic.to_owned() })
    }

    /// Hands records over in order, without waiting; what is returned waits for the brokers, and gives the words of what
    /// failed. Where the queue is full, a record fails at once.
    pub fn send(&self, records: &[(String, String)]) -> impl Future<Output = Vec<Result<(), String>>> + Send + use<> {
        let queued: Vec<_> = records
            .iter()
            .map(|(key, text)| {
                let record = FutureRecord::to(&self.topic).key(key.as_bytes()).payload(text.as_bytes());
                self.producer.send_result(record).map_err(|(error, _)| words(&error))
            })
            .collect();
        async move {
            let mut outcomes = Vec::with_capacity(queued.len());
            for queued in queued {
                outcomes.push(match queued {
                    Err(words) => Err(words),
                    Ok(delivery) => match delivery.await {
                        Ok(Ok(_)) => Ok(()),
                        Ok(Err((error, _))) => Err(words(&error)),
                        Err(_) => Err("the service ends".to_owned()),
                    },
                });
            }
            outcomes
        }
    }
}
