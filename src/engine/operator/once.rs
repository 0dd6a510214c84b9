//! One transaction of a verb: all its records, or none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer;

use crate::engine::cluster::client::{CALL_TIMEOUT, create, producer};
use crate::engine::commit::classifier::{Action, Call, Seen, classify};
use crate::engine::commit::producer::{Deliveries, Reports, Transactional, abort, discard, produce};
use crate::engine::config::Config;
use crate::engine::error::{EngineError, words};
use crate::engine::task::batch::Publication;

const DOING: &str = "writing a transaction";
const PAUSE: Duration = Duration::from_millis(50);

/// A producer under an id of its own, for one transaction.
pub struct Once {
    producer: Transactional,
}

impl Once {
    /// Takes the id over. From here on, no other process that has it can write.
    ///
    /// # Errors
    /// The broker does not permit the id, or gives no transactions in time.
    pub fn take(config: &Config, id: &str) -> Result<Self, EngineError> {
        let mut client = producer(config);
        client.set("transactional.id", id);
        let producer: Transactional = create(&client, Deliveries::new(&Arc::new(Reports::new(&config.topics))))?;
        let taken = Self { producer };
        let limit = config.broker_timeout.max(CALL_TIMEOUT);
        taken.repeat(Call::Init, limit, Producer::init_transactions).map_err(|error| {
            match EngineError::kafka("beginning transactions", &error) {
                denied @ (EngineError::NotPermitted(_) | EngineError::Client(_)) => denied,
                other => EngineError::Outage(other.to_string()),
            }
        })?;
        Ok(taken)
    }

    /// Writes the records, all or none.
    ///
    /// # Errors
    /// Nothing was written, or it is not known: the words say which.
    pub fn write(self, publications: &[Publication]) -> Result<(), EngineError> {
        let begun = self.producer.begin_transaction().and_then(|()| produce(&self.producer, publications));
        if let Err(error) = begun {
            abort(&self.producer);
            return Err(self.failed(&error, "nothing was written"));
        }
        let committed = self.repeat(Call::Commit, CALL_TIMEOUT, Producer::commit_transaction);
        match committed {
            Ok(()) => Ok(()),
            Err(error) if classify(Call::Commit, Seen::of(&error)) == Action::Abort && abort(&self.producer) => {
                Err(self.failed(&error, "nothing was written"))
            }
            Err(error) => Err(self.failed(&error, "whether it was written is not known: look, then repeat it")),
        }
    }

    fn failed(&self, error: &KafkaError, outcome: &str) -> EngineError {
        // Records of a producer that was fenced are purged, which says nothing of why.
        let fatal = self.producer.client().fatal_error().map(|(code, _)| code);
        if Seen::of(error).is_fencing() || fatal == Some(RDKafkaErrorCode::Fenced) {
            return EngineError::Outage(format!("{DOING}: another process does the same at this moment; {outcome}"));
        }
        match EngineError::kafka(DOING, error) {
            denied @ EngineError::NotPermitted(_) => denied,
            _ => EngineError::Outage(format!("{DOING}: {}; {outcome}", words(error))),
        }
    }

    /// Gives the producer up without waiting for it.
    pub fn give_up(self) {
        discard(self.producer);
    }

    fn repeat(
        &self,
        call: Call,
        limit: Duration,
        run: impl Fn(&Transactional, Duration) -> Result<(), KafkaError>,
    ) -> Result<(), KafkaError> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Err(error) = run(&self.producer, left.clamp(Duration::from_millis(100), CALL_TIMEOUT)) else {
                return Ok(());
            };
            if left.is_zero() || classify(call, Seen::of(&error)) != Action::Again {
                return Err(error);
            }
            std::thread::sleep(PAUSE);
        }
    }
}
