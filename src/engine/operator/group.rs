//! The consumer group as a bystander sees it: who is in it, and how far behind.

use std::collections::BTreeSet;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use crate::engine::cluster::client::{Logs, create, reader};
use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::operator::scan::bounds;

/// The group now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// In Kafka's words: Stable, Empty, ...; empty: there is no such group.
    pub state: String,
    /// Members.
    pub members: usize,
    /// Machines that members are on.
    pub hosts: BTreeSet<String>,
    /// Records of the inputs that are not committed yet; the end markers of transactions count.
    pub behind: u64,
    /// Input partitions without a committed offset that hold records.
    pub unread: usize,
}

/// Asks for the group of the configuration.
///
/// # Errors
/// No broker answers, it does not permit the question, or an input is missing.
pub fn group(config: &Config) -> Result<Group, EngineError> {
    const DOING: &str = "asking for the group";
    let consumer: BaseConsumer<Logs> = create(&reader(config), Logs)?;
    let list = consumer
        .fetch_group_list(Some(&config.group), config.broker_timeout)
        .map_err(|error| EngineError::kafka(DOING, &error))?;
    let mut found = Group::default();
    for group in list.groups().iter().filter(|group| group.name() == config.group) {
        // Where there is no such group, the coordinator says so with this word.
        group.state().clone_into(&mut found.state);
        found.members += group.members().len();
        found
            .hosts
            .extend(group.members().iter().map(|member| member.client_host().trim_start_matches('/').to_owned()));
    }
    for topic in config.topics.inputs() {
        let bounds = bounds(config, topic)?;
        let mut asked = TopicPartitionList::new();
        for partition in bounds.keys() {
            asked.add_partition(topic, *partition);
        }
        let committed = consumer
            .committed_offsets(asked, config.broker_timeout)
            .map_err(|error| EngineError::kafka(DOING, &error))?;
        for (partition, (first, end)) in bounds {
            let offset = committed.find_partition(topic, partition).map(|found| found.offset());
            match offset {
                Some(Offset::Offset(offset)) => found.behind += u64::try_from(end - offset.max(first)).unwrap_or(0),
                _ if first < end => found.unread += 1,
                _ => {}
            }
        }
    }
    Ok(found)
}
