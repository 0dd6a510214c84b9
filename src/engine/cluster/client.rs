//! Settings of the Kafka clients: what exactly-once needs is pinned here, everything else passes through.
//!
//! `topics` and `transaction` rely on these values.

use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::KafkaError;

use crate::engine::config::{Cluster, Config};
use crate::engine::error::{EngineError, capped, words};
use crate::engine::failpoint;

/// A transaction that is not ended within this time is aborted by the broker; readers wait for it that long.
pub const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);
/// A call that may be repeated is given up after this share of [`TRANSACTION_TIMEOUT`].
pub const CALL_TIMEOUT: Duration = Duration::from_secs(8);
/// Largest message the producer hands to a broker; the topic's own `max.message.bytes` decides.
pub const MESSAGE_BYTES_MAX: usize = 10_485_760;

const EXACTLY_ONCE: &str = "exactly-once needs it as it is";
const OWN_SETTING: &str = "it has a setting of its own";

/// Properties that cannot be passed through, each with the reason.
pub const PINNED: &[(&str, &str)] = &[
    ("enable.auto.commit", "offsets are committed in the transaction only"),
    ("enable.auto.offset.store", "offsets are committed in the transaction only"),
    ("auto.offset.reset", "a silent reset would skip or repeat events; the engine stops and asks"),
    ("isolation.level", "aborted records must never be read"),
    ("partitioner", "all inputs are partitioned by murmur2_random, as Java producers do"),
    ("transactional.id", "it is GROUP/INSTANCE/worker-N, from --group and --instance"),
    ("group.id", "it is --group"),
    ("group.instance.id", "it is GROUP/INSTANCE/worker-N, from --group and --instance"),
    ("group.protocol", "the consumer protocol drops members for good that are late once"),
    ("partition.assignment.strategy", "the inputs must be assigned together, eagerly (range)"),
    ("enable.idempotence", EXACTLY_ONCE),
    ("acks", EXACTLY_ONCE),
    ("request.required.acks", EXACTLY_ONCE),
    ("retries", EXACTLY_ONCE),
    ("message.send.max.retries", EXACTLY_ONCE),
    ("max.in.flight", EXACTLY_ONCE),
    ("max.in.flight.requests.per.connection", EXACTLY_ONCE),
    ("enable.gapless.guarantee", EXACTLY_ONCE),
    ("transaction.timeout.ms", "after a crash, readers wait this long"),
    ("message.timeout.ms", "it must be shorter than the transaction's"),
    ("delivery.timeout.ms", "it must be shorter than the transaction's"),
    ("message.max.bytes", "what is too large for a topic becomes a dead letter instead"),
    ("check.crcs", "damaged batches must not reach the stages"),
    ("allow.auto.create.topics", "a topic made by accident has the wrong partitions; `reflex topics apply` makes them"),
    ("enable.partition.eof", "the engine does not expect these events"),
    ("statistics.interval.ms", "lag is taken from them once a second"),
    ("bootstrap.servers", OWN_SETTING),
    ("metadata.broker.list", OWN_SETTING),
];

/// Why a property cannot be passed through, if it cannot.
#[must_use]
pub fn pinned(property: &str) -> Option<&'static str> {
    PINNED.iter().find(|(name, _)| *name == property).map(|(_, reason)| *reason)
}

/// Settings of every client.
fn base(cluster: &Cluster) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("client.id", "reflex")
        .set("reconnect.backoff.max.ms", "1000")
        .set("log.connection.close", "false")
        .set("enable.metrics.push", "false");
    for (property, value) in &cluster.properties {
        config.set(property, value);
    }
    config.set("bootstrap.servers", &cluster.bootstrap_servers);
    config.set_log_level(RDKafkaLogLevel::Info);
    config
}

/// A client that only asks. A consumer without a group: it never creates a topic by asking for it.
pub fn asking(cluster: &Cluster) -> ClientConfig {
    let mut config = base(cluster);
    config.set("allow.auto.create.topics", "false");
    config
}

/// A client that changes topics.
pub fn admin(cluster: &Cluster) -> ClientConfig {
    base(cluster)
}

/// A client that publishes, outside of transactions.
pub fn publisher(cluster: &Cluster) -> ClientConfig {
    let mut config = base(cluster);
    config
        .set("partitioner", "murmur2_random")
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("message.timeout.ms", "30000")
        .set("message.max.bytes", MESSAGE_BYTES_MAX.to_string())
        .set("queue.buffering.max.kbytes", "65536");
    config
}

/// A reader of changelogs: it is no member of the group, and uses its name only because a reader needs one.
pub fn reader(config: &Config) -> ClientConfig {
    let mut client = asking(&config.cluster);
    client
        .set("group.id", &config.group)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "false")
        .set("queued.max.messages.kbytes", "16384")
        // A full queue is looked after again this soon; by default a restore would pause for a second each time.
        .set("fetch.queue.backoff.ms", "5")
        .set("check.crcs", "true");
    client
}

/// Asks for the ends of partitions as writers see them, open transactions included.
pub fn ends(config: &Config) -> ClientConfig {
    let mut client = asking(&config.cluster);
    client.set("isolation.level", "read_uncommitted");
    client
}

/// The worker's consumer.
pub fn consumer(config: &Config) -> ClientConfig {
    let mut client = asking(&config.cluster);
    // Defaults that `[kafka]` may replace: fail-over time, and memory per partition.
    for (property, value) in [
        ("session.timeout.ms", "6000"),
        ("heartbeat.interval.ms", "1000"),
        ("max.poll.interval.ms", "60000"),
        // What waits in the queues is cold by the time it is used: short ones, looked after often.
        ("queued.max.messages.kbytes", "8192"),
        ("queued.min.messages", "10000"),
        ("fetch.queue.backoff.ms", "2"),
        // Large answers cost fresh pages each time; a batch that is larger comes whole all the same.
        ("max.partition.fetch.bytes", "262144"),
        // A request that waits for an idle partition keeps the others waiting.
        ("fetch.wait.max.ms", "50"),
    ] {
        if !config.cluster.properties.contains_key(property) {
            client.set(property, value);
        }
    }
    client
        .set("group.id", &config.group)
        .set("group.instance.id", config.worker_id())
        .set("group.protocol", "classic")
        .set("partition.assignment.strategy", "range")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "false")
        // Lag comes from here.
        .set("statistics.interval.ms", "1000")
        .set("check.crcs", "true");
    client
}

/// The worker's transactional producer.
pub fn producer(config: &Config) -> ClientConfig {
    let mut client = publisher(&config.cluster);
    // A transaction is handed over whole and then flushed, which ends lingering: fewer, fuller requests.
    if !config.cluster.properties.contains_key("linger.ms") {
        client.set("linger.ms", "200");
    }
    client
        .set("transactional.id", config.worker_id())
        .set("transaction.timeout.ms", failpoint::transaction_timeout().as_millis().to_string())
        .set("message.timeout.ms", CALL_TIMEOUT.as_millis().to_string())
        // The next transaction may meet the end of the last one: ask again soon.
        .set("retry.backoff.ms", "2")
        // A full batch stays below any topic's max.message.bytes; a larger message has a batch of its own.
        .set("batch.size", "262144");
    client
}

/// Creates a client with logs through `tracing`.
///
/// # Errors
/// What the client refuses, without values of properties.
pub fn create<T, C>(config: &ClientConfig, context: C) -> Result<T, EngineError>
where
    C: ClientContext,
    T: FromClientConfigAndContext<C>,
{
    config.create_with_context(context).map_err(|error| EngineError::kafka("creating a client", &error))
}

/// Log lines of the client library, through `tracing`, one capped line each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Logs;

impl Logs {
    /// One line of the library's log.
    pub fn line(level: RDKafkaLogLevel, facility: &str, text: &str) {
        let text = capped(text);
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::error!(target: "librdkafka", facility, "{text}");
            }
            // A lost connection is an error to the library and a Tuesday to the engine.
            RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => {
                tracing::warn!(target: "librdkafka", facility, "{text}");
            }
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => tracing::info!(target: "librdkafka", facility, "{text}"),
            RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", facility, "{text}"),
        }
    }
}

impl ClientContext for Logs {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        Self::line(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(target: "librdkafka", error = %words(&error), "{}", capped(reason));
    }
}

impl rdkafka::consumer::ConsumerContext for Logs {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_win_over_what_is_passed_through() {
        let mut config = Config::default();
        config.cluster.properties.insert("session.timeout.ms".into(), "9000".into());
        config.cluster.properties.insert("isolation.level".into(), "read_uncommitted".into());
        let client = consumer(&config);
        assert_eq!(client.get("session.timeout.ms"), Some("9000"));
        assert_eq!(client.get("isolation.level"), Some("read_committed"));
        assert_eq!(client.get("group.instance.id"), producer(&config).get("transactional.id"));
    }

    #[test]
    fn every_pinned_property_has_a_reason() {
        assert_eq!(pinned("enable.auto.commit"), Some("offsets are committed in the transaction only"));
        assert_eq!(pinned("security.protocol"), None);
        assert!(PINNED.iter().all(|(_, reason)| !reason.is_empty()));
    }
}
