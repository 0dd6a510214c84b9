//! What the next transaction holds: records to publish and the offsets they answer for, kept until committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use rdkafka::message::OwnedHeaders;

use crate::engine::config::Config;

/// Most records of one transaction; over: committed at once. With the largest message this bounds the memory of a
/// batch; typical records have 1 KiB.
pub const BATCH_OUTPUTS_MAX: usize = 10_000;

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

/// One input partition. By number: every record looks it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Input {
    /// Which input: 0 events, 1 commands.
    pub topic: usize,
    /// Its partition.
    pub partition: i32,
}

impl Input {
    /// The events of a task.
    #[must_use]
    pub fn events(partition: i32) -> Self {
        Self { topic: 0, partition }
    }
}

/// How far a transaction takes an input partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Committed before; none: nothing ever.
    pub previous: Option<i64>,
    /// Committed by this transaction: the next offset to read.
    pub next: i64,
}

/// The next transaction.
#[derive(Debug, Default)]
pub struct Batch {
    /// Records, in order.
    pub publications: Vec<Publication>,
    /// How many of them are entries of state.
    pub state_entries: usize,
    /// Offsets by input partition.
    pub spans: BTreeMap<Input, Span>,
    /// Inputs taken.
    pub inputs: usize,
    /// Whether a runtime waits for it.
    pub urgent: bool,
    opened: Option<Instant>,
}

impl Batch {
    /// Whether there is nothing to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.publications.is_empty()
    }

    /// Notes that something was put in at `now`.
    pub fn touch(&mut self, now: Instant) {
        self.opened.get_or_insert(now);
    }

    /// Notes an input that was taken: its offset is the transaction's from now on.
    pub fn consumed(&mut self, input: Input, offset: i64, previous: Option<i64>) {
        self.inputs += 1;
        self.spans.entry(input).or_insert(Span { previous, next: 0 }).next = offset + 1;
    }

    /// Whether it must not grow any more.
    #[must_use]
    pub fn is_full(&self, config: &Config) -> bool {
        self.inputs >= config.batch_events_max || self.publications.len() >= BATCH_OUTPUTS_MAX
    }

    /// Notes a partition whose task changed without an input: its offset is sent as it is, so that a process that no
    /// longer owns the task cannot commit.
    pub fn standing(&mut self, input: Input, offset: i64) {
        self.spans.entry(input).or_insert(Span { previous: Some(offset), next: offset });
    }

    /// When it is to be committed, given when the next commit may begin at the earliest; none while it is empty.
    #[must_use]
    pub fn due(&self, config: &Config, not_before: Instant) -> Option<Instant> {
        if self.is_empty() {
            return None;
        }
        let opened = self.opened.unwrap_or(not_before);
        let wanted = if self.urgent || self.is_full(config) { opened } else { opened + config.commit_interval };
        Some(wanted.max(not_before))
    }

    /// Empties it, keeping the memory.
    pub fn clear(&mut self) {
        self.publications.clear();
        self.state_entries = 0;
        self.spans.clear();
        self.inputs = 0;
        self.urgent = false;
        self.opened = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_and_full_batches_are_due_at_once_others_after_the_interval() {
        let config = Config { batch_events_max: 3, ..Config::default() };
        let start = Instant::now();
        let mut batch = Batch::default();
        assert_eq!(batch.due(&config, start), None);
        let input = Input { topic: 0, partition: 0 };
        batch.touch(start);
        batch.consumed(input, 7, None);
        assert_eq!(batch.due(&config, start), Some(start + config.commit_interval));
        batch.urgent = true;
        assert_eq!(batch.due(&config, start), Some(start));
        batch.urgent = false;
        batch.consumed(input, 8, None);
        batch.consumed(input, 9, None);
        assert_eq!(batch.due(&config, start), Some(start));
        assert_eq!(batch.spans[&input], Span { previous: None, next: 10 });
        batch.standing(input, 3);
        assert_eq!(batch.spans[&input].next, 10);
        batch.clear();
        assert!(batch.is_empty());
    }
}
