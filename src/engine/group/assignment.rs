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

use crate::engine::cluster::client::Logs;
use crate::engine::config::Config;
use crate::engine::error::{EngineError, words};
use crate::engine::group::release::{HIDDEN_MAX, release};
use crate::engine::native::inbox::Inbox;
use crate::engine::patience::Patience;
use crate::engine::shown::watch::Watch;
use crate::engine::task::place::Input;

/// One call for committed offsets may take this long.
const COMMITTED_TIMEOUT: Duration = Duration::from_secs(5);
/// Moving readers may take this long.
const SEEK_TIMEOUT: Duration = Duration::from_secs(10);
/// Committed offsets may be hidden behind the open transaction of a dead process for this long; over: the engine ends.
const COMMITTED_PATIENCE: Duration = Duration::from_secs(40);

const READING_OFFSETS: &str = "reading committed offsets";

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

/// Inputs with where they go on; none: nothing was ever committed, they begin at the earliest offset.
pub type Committed = BTreeMap<Input, Option<i64>>;

/// Takes partitions over: from their committed offsets, or, where the group never committed, from the earliest.
///
/// They are paused: nothing is read before the state of their tasks is there.
///
/// Gives none where the member has been fenced in the meantime: the next poll tells.
pub fn assign(
    config: &Config,
    inbox: &Inbox<Group>,
    wanted: &TopicPartitionList,
    names: &[Arc<str>],
    stop: &Arc<AtomicBool>,
) -> Result<Option<Committed>, EngineError> {
    let consumer = inbox.consumer();
    let patience = Patience::new(COMMITTED_PATIENCE, stop);
    let mut timeout = HIDDEN_MAX;
    let found = loop {
        match consumer.committed_offsets(wanted.clone(), timeout) {
            Ok(found) => break found,
            Err(_) if consumer.client().fatal_error().is_some() => return Ok(None),
            Err(error) => {
                // A transaction of somebody who is gone may hide them.
                release(config, &inputs(wanted, names).map(Input::task).collect())?;
                timeout = COMMITTED_TIMEOUT;
                patience.pause(READING_OFFSETS, &words(&error))?;
            }
        }
    };
    let mut committed = Committed::new();
    for element in found.elements() {
        element.error().map_err(|error| EngineError::kafka(READING_OFFSETS, &error))?;
        let Some(topic) = names.iter().position(|name| &**name == element.topic()) else { continue };
        let offset = match element.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        committed.insert(Input { topic, partition: element.partition() }, offset);
    }
    start(inbox, &committed, names)?;
    Ok(Some(committed))
}

fn inputs(list: &TopicPartitionList, names: &[Arc<str>]) -> impl Iterator<Item = Input> {
    list.elements().into_iter().filter_map(|element| {
        let topic = names.iter().position(|name| &**name == element.topic())?;
        Some(Input { topic, partition: element.partition() })
    })
}

/// Makes these the partitions of the client, each at its place and paused. What it had fetched before is gone.
fn start(inbox: &Inbox<Group>, places: &Committed, names: &[Arc<str>]) -> Result<(), EngineError> {
    const DOING: &str = "assigning";
    let consumer = inbox.consumer();
    let failed = |error| EngineError::kafka(DOING, &error);
    let mut list = TopicPartitionList::new();
    for (input, place) in places {
        let at = place.map_or(Offset::Beginning, Offset::Offset);
        list.add_partition_offset(&names[input.topic], input.partition, at).map_err(failed)?;
    }
    inbox.forward(&list).map_err(failed)?;
    consumer.assign(&list).map_err(failed)?;
    let owned = consumer.assignment().map_err(failed)?;
    if owned.count() != list.count() {
        let words = "the client holds other partitions than assigned".into();
        return Err(EngineError::Kafka { doing: DOING, words });
    }
    consumer.pause(&owned).map_err(|error| EngineError::kafka("pausing", &error))
}

/// Moves readers to other places. What was fetched before is gone; what the inbox holds is to be discarded first.
pub fn seek(inbox: &Inbox<Group>, places: &Committed, names: &[Arc<str>]) -> Result<(), EngineError> {
    const DOING: &str = "going back to the last commit";
    let failed = |error| EngineError::kafka(DOING, &error);
    let mut list = TopicPartitionList::new();
    for (input, place) in places {
        let at = place.map_or(Offset::Beginning, Offset::Offset);
        list.add_partition_offset(&names[input.topic], input.partition, at).map_err(failed)?;
    }
    let moved = inbox.consumer().seek_partitions(list, SEEK_TIMEOUT).map_err(failed)?;
    moved.elements().iter().try_for_each(|element| element.error().map_err(failed))
}

/// Lets these inputs be read.
pub fn resume(
    inbox: &Inbox<Group>,
    inputs: impl IntoIterator<Item = Input>,
    names: &[Arc<str>],
) -> Result<(), EngineError> {
    let mut list = TopicPartitionList::new();
    for input in inputs {
        list.add_partition(&names[input.topic], input.partition);
    }
    inbox.consumer().resume(&list).map_err(|error| EngineError::kafka("resuming", &error))
}
