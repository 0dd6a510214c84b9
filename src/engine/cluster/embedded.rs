//! A broker inside the process, for `reflex demo`: the mock cluster of the client library. It speaks the protocol,
//! groups and transactions included, but its transactions guarantee nothing: never measure or prove exactly-once on it.

use std::fmt;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use crate::engine::error::EngineError;

/// An embedded broker; it ends when dropped.
pub struct EmbeddedBroker {
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl fmt::Debug for EmbeddedBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EmbeddedBroker").field(&self.bootstrap_servers()).finish()
    }
}

impl EmbeddedBroker {
    /// Starts one broker on a free loopback port, with these topics of `partitions` each.
    ///
    /// # Errors
    /// Where no port can be had.
    pub fn start<'a>(topics: impl IntoIterator<Item = &'a str>, partitions: i32) -> Result<Self, EngineError> {
        let cluster =
            MockCluster::new(1).map_err(|error| EngineError::kafka("starting the embedded broker", &error))?;
        for topic in topics {
            let made = cluster.create_topic(topic, partitions, 1);
            made.map_err(|error| EngineError::kafka("making a topic of the embedded broker", &error))?;
        }
        Ok(Self { cluster })
    }

    /// `host:port`.
    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        self.cluster.bootstrap_servers()
    }
}
