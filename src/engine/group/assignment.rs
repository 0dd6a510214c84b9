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
use crate::engine::group::sent;
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

/// What a group has committed.
#[derive(Debug, Default)]
pub struct Found {
    /// Where its inputs go on.
    pub places: Committed,
    /// Which transaction of its task sent an offset; absent: no engine did.
    pub sent: BTreeMap<Input, u64>,
}

/// Takes partitions over: from their committed offsets, or, where the group never committed, from the earliest.
///
/// They are paused: nothing is read before the state of their tasks is there.
///
/// Gives none where the member has been fenced in the meantime: the next poll tells. `end_own` ends what this process
/// itself left open; it is called where offsets are hidden and nobody else is to blame.
pub fn assign(
    config: &Config,
    inbox: &Inbox<Group>,
    wanted: &TopicPartitionList,
    names: &[Arc<str>],
    stop: &Arc<AtomicBool>,
    end_own: &mut dyn FnMut() -> Result<(), EngineError>,
) -> Result<Option<Found>, EngineError> {
    let consumer = inbox.consumer();
    let patience = Patience::new(COMMITTED_PATIENCE, stop);
    let mut timeout = HIDDEN_MAX;
    let committed = loop {
        match consumer.committed_offsets(wanted.clone(), timeout) {
            Ok(committed) => break committed,
            Err(_) if consumer.client().fatal_error().is_some() => return Ok(None),
            Err(error) => {
                // A transaction of somebody who is gone may hide them.
                let released = release(config, &inputs(wanted, names).map(Input::task).collect())?;
                if released == 0 && timeout == COMMITTED_TIMEOUT {
                    end_own()?;
                }
                timeout = COMMITTED_TIMEOUT;
                patience.pause(READING_OFFSETS, &words(&error))?;
            }
        }
    };
    let found = read(&committed, names)?;
    start(inbox, &found.places, names)?;
    Ok(Some(found))
}

/// What the group has committed of these inputs, asked once more. None where no answer comes, or not as a member.
pub fn again<'a>(
    inbox: &Inbox<Group>,
    inputs: impl IntoIterator<Item = &'a Input>,
    names: &[Arc<str>],
) -> Result<Option<Found>, EngineError> {
    let consumer = inbox.consumer();
    let mut wanted = TopicPartitionList::new();
    for input in inputs {
        wanted.add_partition(&names[input.topic], input.partition);
    }
    match consumer.committed_offsets(wanted, COMMITTED_TIMEOUT) {
        Ok(committed) if consumer.client().fatal_error().is_none() => read(&committed, names).map(Some),
        _ => Ok(None),
    }
}

fn read(committed: &TopicPartitionList, names: &[Arc<str>]) -> Result<Found, EngineError> {
    let mut found = Found::default();
    for element in committed.elements() {
        element.error().map_err(|error| EngineError::kafka(READING_OFFSETS, &error))?;
        let Some(topic) = names.iter().position(|name| &**name == element.topic()) else { continue };
        let offset = match element.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        let input = Input { topic, partition: element.partition() };
        found.places.insert(input, offset);
        found.sent.extend(sent::number(element.metadata()).map(|number| (input, number)));
    }
    Ok(found)
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
    let moved = match inbox.consumer().seek_partitions(list, SEEK_TIMEOUT) {
        // A member that was fenced moves nothing: the next poll tells.
        Err(_) if inbox.consumer().client().fatal_error().is_some() => return Ok(()),
        moved => moved.map_err(failed)?,
    };
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
