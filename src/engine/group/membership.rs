//! A worker's membership in its group: joining, leaving, and what it receives as records of tasks.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::engine::cluster::client::{consumer, create};
use crate::engine::config::Config;
use crate::engine::error::{EngineError, words};
use crate::engine::group::assignment::Group;
use crate::engine::native::inbox::{Inbox, Received};
use crate::engine::task::Record;
use crate::engine::task::intake::Raw;
use crate::engine::task::place::Input;
use crate::record::time::Timestamp;

/// How long closing the consumer may take; over: it is left to the end of the process.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Becomes a member.
pub fn join(config: &Config) -> Result<Inbox<Group>, EngineError> {
    let group: BaseConsumer<Group> = create(&consumer(config), Group::watched(&config.watch))?;
    group.subscribe(&config.topics.inputs()).map_err(|error| EngineError::kafka("subscribing", &error))?;
    Inbox::new(group).map_err(|error| EngineError::kafka("creating a client", &error))
}

/// Leaves without waiting for a broker that does not answer.
pub fn leave(inbox: Inbox<Group>) {
    inbox.consumer().context().close();
    let (done, closed) = mpsc::channel();
    let closing = thread::Builder::new().name("close".into()).spawn(move || {
        if let Err(error) = inbox.consumer().unassign() {
            tracing::warn!(error = %words(&error), "giving partitions up");
        }
        drop(inbox);
        // Nobody may be waiting any more.
        let _ = done.send(());
    });
    if closing.is_ok() && closed.recv_timeout(CLOSE_PATIENCE).is_err() {
        tracing::warn!("the consumer did not close in time");
    }
}

/// What was received as a record of a task; none: not of an input.
pub fn record<'a>(received: Received<'a>, names: &[Arc<str>]) -> Option<Record<'a>> {
    let topic = names.iter().position(|name| received.is_of(name))?;
    Some(Record {
        input: Input { topic, partition: received.partition() },
        offset: received.offset(),
        // A record without a time does not move the task's clock.
        at: received.timestamp_millis().map_or(Timestamp::EPOCH, Timestamp::from_millis),
        raw: Raw { key: received.key(), value: received.value(), headers: received.headers() },
    })
}

/// A record that did not come through the inbox: its partition was assigned without being forwarded.
pub fn outside() -> EngineError {
    EngineError::Kafka { doing: "consuming", words: "a record of a partition that was not forwarded".into() }
}
