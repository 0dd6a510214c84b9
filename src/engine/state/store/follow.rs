//! The keeper's reader: what changelogs hold for good between two offsets.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::engine::cluster::client::{Logs, create, reader};
use crate::engine::config::Config;
use crate::engine::error::words;

const POLL_MAX: Duration = Duration::from_millis(50);
/// How long one question for a beginning may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// Positions are looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A stretch of a changelog.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// The first offset; none: the first there is.
    pub from: Option<i64>,
    /// The offset behind the last.
    pub until: i64,
}

/// Takes a record: which stretch, its offset, key and value.
pub type Take<'a> = &'a mut dyn FnMut(usize, i64, &[u8], Option<&[u8]>);

/// Where changelogs are read.
pub trait Source: Send {
    /// Gives every committed record of the stretches to `take`; says of each whether its end was reached. Ends early where
    /// nothing comes for `stall`, or `stop` says so.
    ///
    /// # Errors
    /// Why nothing can be read, in words.
    fn read(
        &mut self,
        wanted: &[Wanted],
        stall: Duration,
        stop: &dyn Fn() -> bool,
        take: Take<'_>,
    ) -> Result<Vec<bool>, String>;
}

/// Reads from brokers.
pub struct Brokers {
    config: Config,
    /// Made when first needed.
    reader: Option<BaseConsumer<Logs>>,
}

impl Brokers {
    /// Nothing is connected yet.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone(), reader: None }
    }

    fn reader(&mut self) -> Result<&BaseConsumer<Logs>, String> {
        if self.reader.is_none() {
            let mut client = reader(&self.config);
            // Answers that wait for more would hold up the next round.
            client.set("fetch.wait.max.ms", "50");
            self.reader = Some(create(&client, Logs).map_err(|error| error.to_string())?);
        }
        self.reader.as_ref().ok_or_else(|| String::from("no reader"))
    }
}

impl Source for Brokers {
    fn read(
        &mut self,
        wanted: &[Wanted],
        stall: Duration,
        stop: &dyn Fn() -> bool,
        take: Take<'_>,
    ) -> Result<Vec<bool>, String> {
        let reader = self.reader()?;
        let (mut list, mut reached) = (TopicPartitionList::new(), Vec::new());
        for Wanted { topic, partition, from, until } in wanted {
            let from = match from {
                Some(from) => *from,
                None => reader.fetch_watermarks(topic, *partition, ASK_TIMEOUT).map_err(|error| words(&error))?.0,
            };
            // Nobody would tell of the end of nothing.
            reached.push(from >= *until);
            if from < *until {
                list.add_partition_offset(topic, *partition, Offset::Offset(from)).map_err(|error| words(&error))?;
            }
        }
        reader.assign(&list).map_err(|error| words(&error))?;
        let ended = follow(reader, wanted, reached, stall, stop, take);
        reader.unassign().map_err(|error| words(&error))?;
        ended
    }
}

fn follow(
    reader: &BaseConsumer<Logs>,
    wanted: &[Wanted],
    mut reached: Vec<bool>,
    stall: Duration,
    stop: &dyn Fn() -> bool,
    take: Take<'_>,
) -> Result<Vec<bool>, String> {
    let (mut progressed, mut looked) = (Instant::now(), Instant::now());
    while reached.contains(&false) && progressed.elapsed() < stall && !stop() {
        let came = match reader.poll(POLL_MAX) {
            Some(Ok(message)) => {
                let is_of =
                    |wanted: &Wanted| wanted.partition == message.partition() && wanted.topic == message.topic();
                if let Some(index) = wanted.iter().position(is_of)
                    && message.offset() < wanted[index].until
                {
                    take(index, message.offset(), message.key().unwrap_or_default(), message.payload());
                    progressed = Instant::now();
                }
                true
            }
            // The library goes on by itself, or the round ends without having got there.
            Some(Err(_)) => true,
            None => false,
        };
        if came && looked.elapsed() < LOOK_EVERY {
            continue;
        }
        looked = Instant::now();
        // Control records and aborted ones count too, which no poll brings.
        let positions = reader.position().map_err(|error| words(&error))?;
        for (index, wanted) in wanted.iter().enumerate().filter(|(index, _)| !reached[*index]).collect::<Vec<_>>() {
            let found = positions.find_partition(&wanted.topic, wanted.partition).map(|element| element.offset());
            if let Some(Offset::Offset(position)) = found
                && position >= wanted.until
            {
                reached[index] = true;
                progressed = Instant::now();
            }
        }
    }
    Ok(reached)
}
