//! Which partitions this worker owns. The callback of a rebalance only queues; the worker acts after the poll.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use crate::engine::batch::Input;
use crate::engine::client::Logs;
use crate::engine::error::{EngineError, words};
use crate::engine::native::inbox::Inbox;
use crate::engine::patience::Patience;
use crate::engine::watch::Watch;

/// One call for committed offsets may take this long.
const COMMITTED_TIMEOUT: Duration = Duration::from_secs(5);
/// Committed offsets may be hidden behind the open transaction of a dead process for this long; over: the engine ends.
const COMMITTED_PATIENCE: Duration = Duration::from_secs(40);

/// What the group decided.
#[derive(Debug)]
pub enum Rebalance {
    /// These partitions, and no others.
    Assign(TopicPartitionList),
    /// None any more. Lost: somebody else may own them already.
    Revoke {
        /// Whether it is too late to commit.
        lost: bool,
    },
}

/// Queues rebalances for the worker.
#[derive(Debug, Default)]
pub struct Group {
    queue: Mutex<VecDeque<Rebalance>>,
    closing: AtomicBool,
    watch: Arc<Watch>,
}

impl Group {
    /// Hands what the client tells of itself to this watch.
    pub fn watched(watch: &Arc<Watch>) -> Self {
        Self { watch: Arc::clone(watch), ..Self::default() }
    }

    /// The next rebalance to act on.
    pub fn next(&self) -> Option<Rebalance> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Whether there is a rebalance to act on.
    pub fn is_pending(&self) -> bool {
        !self.queue.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// From now on nobody acts on rebalances: the callback answers them itself, or closing would wait for ever.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }
}

impl ClientContext for Group {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        Logs::line(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        Logs.error(error, reason);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        self.watch.told(statistics);
    }
}

impl ConsumerContext for Group {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, error: RDKafkaRespErr, list: &mut TopicPartitionList) {
        if self.closing.load(Ordering::Acquire) {
            if let Err(error) = consumer.unassign() {
                tracing::warn!(error = %words(&error), "giving partitions up while closing");
            }
            return;
        }
        let rebalance = if error == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            Rebalance::Assign(list.clone())
        } else {
            // Later it cannot be asked any more: after rejoining the assignment is not lost.
            Rebalance::Revoke { lost: consumer.assignment_lost() }
        };
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(rebalance);
    }
}

/// Committed offsets of the partitions owned; none: nothing was ever committed.
pub type Committed = BTreeMap<Input, Option<i64>>;

/// Takes partitions over: from their committed offsets, or, where the group never committed, from the earliest.
///
/// They are paused: nothing is read before the state of their tasks is there.
///
/// Gives none where the member has been fenced in the meantime: the next poll tells.
pub fn assign(
    inbox: &Inbox<Group>,
    wanted: &TopicPartitionList,
    names: &[Arc<str>],
    stop: &Arc<AtomicBool>,
) -> Result<Option<Committed>, EngineError> {
    const DOING: &str = "reading committed offsets";
    let consumer = inbox.consumer();
    let patience = Patience::new(COMMITTED_PATIENCE, stop);
    let found = loop {
        match consumer.committed_offsets(wanted.clone(), COMMITTED_TIMEOUT) {
            Ok(found) => break found,
            Err(_) if consumer.client().fatal_error().is_some() => return Ok(None),
            Err(error) => patience.pause(DOING, &words(&error))?,
        }
    };
    let mut committed = Committed::new();
    let mut start = TopicPartitionList::new();
    for element in found.elements() {
        element.error().map_err(|error| EngineError::kafka(DOING, &error))?;
        let Some(topic) = names.iter().position(|name| &**name == element.topic()) else { continue };
        let (offset, at) = match element.offset() {
            Offset::Offset(offset) => (Some(offset), Offset::Offset(offset)),
            _ => (None, Offset::Beginning),
        };
        start
            .add_partition_offset(element.topic(), element.partition(), at)
            .map_err(|error| EngineError::kafka("assigning", &error))?;
        committed.insert(Input { topic, partition: element.partition() }, offset);
    }
    inbox.forward(&start).map_err(|error| EngineError::kafka("assigning", &error))?;
    consumer.assign(&start).map_err(|error| EngineError::kafka("assigning", &error))?;
    let owned = consumer.assignment().map_err(|error| EngineError::kafka("assigning", &error))?;
    if owned.count() == start.count() {
        consumer.pause(&owned).map_err(|error| EngineError::kafka("pausing", &error))?;
        Ok(Some(committed))
    } else {
        Err(EngineError::Kafka { doing: "assigning", words: "the client holds other partitions than assigned".into() })
    }
}
