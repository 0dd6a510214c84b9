//! What the routes need of Kafka, so that tests do without.

use std::pin::Pin;
use std::process;
use std::thread;
use std::time::Duration;

use crate::engine::operator::orders::{Answer, Owner, send};
use crate::engine::publish::Outlet;
use crate::engine::{Config, EngineError};
use crate::record::command::Command;
use crate::serve::api::events::Text;

/// Another process may send a command at the same moment, which takes the transactional id away: so often it is tried
/// again, with the same command id.
const TRIES_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);
/// Processes that disturb each other do not come back at the same time: each has a share of this of its own.
const APART_MS: u32 = 97;

/// Of each record in order: whether brokers have it, else why not.
pub type Told = Pin<Box<dyn Future<Output = Vec<Result<(), String>>> + Send>>;

/// Where events go.
pub trait Publisher: Send + Sync {
    /// Hands records over, in order, without waiting.
    fn publish(&self, records: &[Text]) -> Told;
}

impl Publisher for Outlet {
    fn publish(&self, records: &[Text]) -> Told {
        Box::pin(self.send(records))
    }
}

/// What became of a command: how many tasks it went to, and what they said in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// Tasks that are to answer.
    pub tasks: usize,
    /// Those that did.
    pub answers: Vec<Answer>,
}

/// Waits for the answers to a command that was sent, at most this long.
pub type Awaited = Box<dyn FnOnce(Duration) -> Result<Answers, EngineError> + Send>;

/// Where commands go.
pub trait Orders: Send + Sync {
    /// Sends a command; it is durable when this returns. Blocks; to be called by one at a time.
    ///
    /// # Errors
    /// It was not sent, or that is not known: the same command may be sent again.
    fn send(&self, owner: &Owner, command: &Command) -> Result<Awaited, EngineError>;
}

/// Commands to the tasks of a group.
pub struct KafkaOrders(pub Config);

impl Orders for KafkaOrders {
    fn send(&self, owner: &Owner, command: &Command) -> Result<Awaited, EngineError> {
        let mut tries = 1;
        let sent = loop {
            match send(&self.0, owner, command) {
                Err(EngineError::Outage(_)) if tries < TRIES_MAX => {
                    thread::sleep((PAUSE + Duration::from_millis(u64::from(process::id() % APART_MS))) * tries);
                    tries += 1;
                }
                ended => break ended?,
            }
        };
        let config = self.0.clone();
        Ok(Box::new(move |wait| Ok(Answers { tasks: sent.tasks(), answers: sent.answers(&config, wait)? })))
    }
}
