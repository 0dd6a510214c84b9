//! What a task has ready for its next transaction, and a transaction of several tasks: records to publish and the
//! offsets they answer for, kept until committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use rdkafka::message::OwnedHeaders;

use crate::engine::task::place::{Input, TaskId};
use crate::engine::task::tape::Recorder;

/// One record to publish. It is kept until its transaction is committed, to be sent again after an abort.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Topic.
    pub topic: Arc<str>,
    /// Partition, where it is not the key that decides.
    pub partition: Option<i32>,
    /// Key.
    pub key: Option<Vec<u8>>,
    /// Value; none is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Headers.
    pub headers: Option<OwnedHeaders>,
}

/// How far a transaction takes an input partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Committed before; none: nothing ever.
    pub previous: Option<i64>,
    /// Committed by this transaction: the next offset to read.
    pub next: i64,
    /// Number of the transaction of its task: it goes into the metadata of the offset, and tells a transaction that
    /// moved no offset from one that was never committed.
    pub seq: u64,
    /// Number of the ownership, beside the writer: it tells who sent it.
    pub incarnation: u64,
}

/// What a task has ready.
#[derive(Debug, Default)]
pub struct Batch {
    /// Records, in order.
    pub publications: Vec<Publication>,
    /// The next offset to read, by slot of the input; none: nothing was taken from it.
    pub next: [Option<i64>; 2],
    /// Inputs taken.
    pub inputs: usize,
    /// Whether a runtime waits for it.
    pub urgent: bool,
    /// The last of them.
    pub last: Option<(Input, i64)>,
    /// When the first thing was put in.
    pub opened: Option<Instant>,
    /// What was taken when.
    pub recorder: Recorder,
}

impl Batch {
    /// Whether there is nothing to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.opened.is_none()
    }

    /// Notes that something was put in at `now`.
    pub fn touch(&mut self, now: Instant) {
        self.opened.get_or_insert(now);
    }

    /// Notes an input that was taken: its offset is the transaction's from now on.
    pub fn consumed(&mut self, input: Input, offset: i64) {
        self.inputs += 1;
        self.next[input.role().slot()] = Some(offset + 1);
        self.last = Some((input, offset));
    }
}

/// What a task puts into a transaction.
#[derive(Debug)]
pub struct Share {
    /// The task.
    pub task: TaskId,
    /// Records of its stage, dead letters included: how many.
    pub outputs: usize,
    /// Entries of its state: how many.
    pub state_entries: usize,
    /// Inputs taken.
    pub inputs: usize,
    /// The last of them.
    pub last: Option<(Input, i64)>,
}

/// One transaction: closed, to be committed as it is or dropped.
#[derive(Debug, Default)]
pub struct Transaction {
    /// What each task puts in.
    pub shares: Vec<Share>,
    /// Records, in order.
    pub publications: Vec<Publication>,
    /// Offsets by input partition.
    pub spans: BTreeMap<Input, Span>,
}

impl Transaction {
    /// Inputs it answers for.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.shares.iter().map(|share| share.inputs).sum()
    }

    /// Its input, where it has a single one.
    #[must_use]
    pub fn only_input(&self) -> Option<(Input, i64)> {
        let single = self.inputs() == 1;
        self.shares.iter().find_map(|share| share.last).filter(|_| single)
    }

    /// Records of the stages in it.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.shares.iter().map(|share| share.outputs).sum()
    }

    /// Entries of state in it.
    #[must_use]
    pub fn state_entries(&self) -> usize {
        self.shares.iter().map(|share| share.state_entries).sum()
    }
}
