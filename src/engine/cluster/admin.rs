//! What the cluster says about topics, and changes to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigSource, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::MetadataBroker;

use crate::engine::cluster::client::{Logs, admin, asking, create};
use crate::engine::cluster::ends::bounds_of;
use crate::engine::config::Cluster;
use crate::engine::error::{EngineError, words};
use crate::engine::native::describe;

/// Configuration of a topic that differs from the broker's, or not, by name.
pub type Configs = BTreeMap<String, String>;

/// One topic as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicFacts {
    /// Number of partitions.
    pub partitions: usize,
    /// Replicas of the partition that has the fewest.
    pub replication: usize,
    /// Of those, how many are on brokers that are there now; of the partition that has the fewest.
    pub alive: usize,
    /// Every configuration value in force.
    pub configs: Configs,
    /// Those set on the topic itself.
    pub own: Configs,
}

/// A connection for questions and changes.
pub struct Admin {
    asking: BaseConsumer<Logs>,
    changing: AdminClient<Logs>,
    servers: String,
    timeout: Duration,
}

impl Admin {
    /// Makes the clients; nothing is asked yet.
    ///
    /// # Errors
    /// What the client refuses.
    pub fn new(cluster: &Cluster, timeout: Duration) -> Result<Self, EngineError> {
        Ok(Self {
            asking: create(&asking(cluster), Logs)?,
            changing: create(&admin(cluster), Logs)?,
            servers: cluster.bootstrap_servers.clone(),
            timeout,
        })
    }

    /// The named topics that exist, with their configuration.
    ///
    /// # Errors
    /// No broker answers, or it does not permit the question.
    pub fn topics(&self, names: &[String]) -> Result<BTreeMap<String, TopicFacts>, EngineError> {
        let mut topics = self.existing(names)?;
        self.describe(&mut topics)?;
        Ok(topics)
    }

    /// The named topics that exist, without their configuration.
    ///
    /// All topics are asked for: asking for one by name may create it.
    ///
    /// # Errors
    /// No broker answers.
    pub fn existing(&self, names: &[String]) -> Result<BTreeMap<String, TopicFacts>, EngineError> {
        let metadata = self.asking.fetch_metadata(None, self.timeout).map_err(|error| self.unreachable(&error))?;
        let mut topics = BTreeMap::new();
        let brokers: BTreeSet<i32> = metadata.brokers().iter().map(MetadataBroker::id).collect();
        for topic in metadata.topics().iter().filter(|topic| names.iter().any(|name| name == topic.name())) {
            let fewest = |count: &dyn Fn(&[i32]) -> usize| {
                topic.partitions().iter().map(|partition| count(partition.replicas())).min().unwrap_or(0)
            };
            let replication = fewest(&|replicas| replicas.len());
            let alive = fewest(&|replicas| replicas.iter().filter(|id| brokers.contains(id)).count());
            let partitions = topic.partitions().len();
            let facts = TopicFacts { partitions, replication, alive, ..TopicFacts::default() };
            topics.insert(topic.name().to_owned(), facts);
        }
        Ok(topics)
    }

    /// Fills in the configuration of these topics.
    ///
    /// # Errors
    /// No broker answers, or it does not permit the question.
    pub fn describe(&self, topics: &mut BTreeMap<String, TopicFacts>) -> Result<(), EngineError> {
        const DOING: &str = "describing topics";
        // One request a topic: the client drops the error of a single resource in an answer for several.
        for (name, facts) in topics {
            let wanted = [ResourceSpecifier::Topic(name)];
            let described = block_on(self.changing.describe_configs(&wanted, &self.options()))
                .map_err(|error| self.admin_error(DOING, &error))?;
            for resource in described {
                let resource = resource.map_err(|code| self.admin_error(DOING, &KafkaError::AdminOp(code)))?;
                if resource.entries.is_empty() {
                    return Err(EngineError::NotPermitted(format!("{DOING}: {name}")));
                }
                for entry in resource.entries {
                    let value = entry.value.unwrap_or_default();
                    if entry.source == ConfigSource::DynamicTopic {
                        facts.own.insert(entry.name.clone(), value.clone());
                    }
                    facts.configs.insert(entry.name, value);
                }
            }
        }
        Ok(())
    }

    /// Configuration in force of every broker that is there, by its id.
    ///
    /// # Errors
    /// A broker does not answer, or does not permit the question.
    pub fn brokers(&self) -> Result<BTreeMap<i32, Configs>, EngineError> {
        const DOING: &str = "describing brokers";
        let metadata = self.asking.fetch_metadata(None, self.timeout).map_err(|error| self.unreachable(&error))?;
        let mut brokers = BTreeMap::new();
        for id in metadata.brokers().iter().map(MetadataBroker::id) {
            let wanted = [ResourceSpecifier::Broker(id)];
            let described = block_on(self.changing.describe_configs(&wanted, &self.options()))
                .map_err(|error| self.admin_error(DOING, &error))?;
            let mut configs = Configs::new();
            for resource in described {
                let resource = resource.map_err(|code| self.admin_error(DOING, &KafkaError::AdminOp(code)))?;
                if resource.entries.is_empty() {
                    return Err(EngineError::NotPermitted(format!("{DOING}: broker {id}")));
                }
                configs.extend(resource.entries.into_iter().map(|entry| (entry.name, entry.value.unwrap_or_default())));
            }
            brokers.insert(id, configs);
        }
        Ok(brokers)
    }

    /// Ids of the named topics that exist, as Kafka prints them. A topic that is deleted and made again has another one.
    ///
    /// # Errors
    /// No broker answers, or it does not permit the question.
    pub fn topic_ids(&self, names: &[&str]) -> Result<BTreeMap<String, String>, EngineError> {
        const DOING: &str = "asking for ids of topics";
        let mut ids = BTreeMap::new();
        for (name, described) in self.described(names, false, DOING)? {
            match described {
                Ok(described) => ids.extend(described.id.map(|id| (name, id))),
                Err(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {}
                Err(code) => return Err(self.topic_error(DOING, &name, code)),
            }
        }
        Ok(ids)
    }

    /// What who asks may do with the named topics that exist, as Kafka spells it; with those that may not even be asked
    /// for: nothing.
    ///
    /// # Errors
    /// No broker answers.
    pub fn permitted(&self, names: &[&str]) -> Result<BTreeMap<String, BTreeSet<&'static str>>, EngineError> {
        const DOING: &str = "asking for permissions";
        let mut permitted = BTreeMap::new();
        for (name, described) in self.described(names, true, DOING)? {
            match described {
                Ok(described) => drop(permitted.insert(name, described.operations.into_iter().collect())),
                Err(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {}
                Err(RDKafkaErrorCode::TopicAuthorizationFailed) => drop(permitted.insert(name, BTreeSet::new())),
                Err(code) => return Err(self.topic_error(DOING, &name, code)),
            }
        }
        Ok(permitted)
    }

    fn described(
        &self,
        names: &[&str],
        with_operations: bool,
        doing: &'static str,
    ) -> Result<Vec<describe::Answered>, EngineError> {
        // A name with a zero in it is no topic's.
        let names: Vec<CString> = names.iter().filter_map(|name| CString::new(*name).ok()).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        describe::topics(self.changing.inner(), &names, with_operations, self.timeout)
            .map_err(|error| self.admin_error(doing, &error))
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// What the broker refuses; that the topic exists is no error.
    pub fn create(
        &self,
        name: &str,
        partitions: usize,
        replication: usize,
        configs: &Configs,
    ) -> Result<(), EngineError> {
        const DOING: &str = "creating a topic";
        let partitions = i32::try_from(partitions).unwrap_or(i32::MAX);
        let replication = i32::try_from(replication).unwrap_or(i32::MAX);
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(replication));
        for (key, value) in configs {
            topic = topic.set(key, value);
        }
        let answers = block_on(self.changing.create_topics(&[topic], &self.options()))
            .map_err(|error| self.admin_error(DOING, &error))?;
        for answer in answers {
            match answer {
                // Somebody was faster, which is what was wanted.
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((name, code)) => return Err(self.topic_error(DOING, &name, code)),
            }
        }
        Ok(())
    }

    /// Sets a topic's own configuration: what is not named goes back to the broker's default.
    ///
    /// # Errors
    /// What the broker refuses.
    pub fn configure(&self, name: &str, own: &Configs) -> Result<(), EngineError> {
        const DOING: &str = "configuring a topic";
        let mut change = AlterConfig::new(ResourceSpecifier::Topic(name));
        for (key, value) in own {
            change = change.set(key, value);
        }
        let answers = block_on(self.changing.alter_configs(&[change], &self.options()))
            .map_err(|error| self.admin_error(DOING, &error))?;
        match answers.into_iter().find_map(Result::err) {
            Some((_, code)) => Err(self.topic_error(DOING, name, code)),
            None => Ok(()),
        }
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// Where the broker refuses or does not answer.
    pub fn delete(&self, name: &str) -> Result<(), EngineError> {
        const DOING: &str = "deleting a topic";
        let answers = block_on(self.changing.delete_topics(&[name], &self.options()))
            .map_err(|error| self.admin_error(DOING, &error))?;
        match answers.into_iter().find_map(Result::err) {
            Some((_, code)) => Err(self.topic_error(DOING, name, code)),
            None => Ok(()),
        }
    }

    /// First and next offset of every partition.
    ///
    /// # Errors
    /// Where the broker does not answer.
    pub fn ends(&self, name: &str, partitions: i32) -> Result<Vec<(i64, i64)>, EngineError> {
        (0..partitions).map(|partition| bounds_of(&self.asking, name, partition, self.timeout)).collect()
    }

    fn options(&self) -> AdminOptions {
        AdminOptions::new().request_timeout(Some(self.timeout)).operation_timeout(Some(self.timeout))
    }

    fn topic_error(&self, doing: &'static str, name: &str, code: RDKafkaErrorCode) -> EngineError {
        if code == RDKafkaErrorCode::InvalidReplicationFactor {
            return EngineError::TooFewBrokers(name.to_owned());
        }
        match self.admin_error(doing, &KafkaError::AdminOp(code)) {
            EngineError::Kafka { doing, words } => EngineError::Kafka { doing, words: format!("{name}: {words}") },
            other => other,
        }
    }

    fn admin_error(&self, doing: &'static str, error: &KafkaError) -> EngineError {
        match error {
            // The client does not map codes of admin operations to their causes.
            KafkaError::AdminOp(code) => match code {
                RDKafkaErrorCode::OperationTimedOut | RDKafkaErrorCode::BrokerTransportFailure => {
                    self.unreachable(error)
                }
                code => EngineError::kafka(doing, &KafkaError::Global(*code)),
            },
            error => EngineError::kafka(doing, error),
        }
    }

    fn unreachable(&self, error: &KafkaError) -> EngineError {
        match EngineError::kafka("asking for topics", error) {
            EngineError::NotPermitted(words) => EngineError::NotPermitted(words),
            _ => EngineError::Unreachable {
                servers: self.servers.clone(),
                timeout_ms: self.timeout.as_millis(),
                words: words(error),
            },
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for one future on this thread; the client completes it from a thread of its own, within the request timeout.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
