//! Registry versions by their hash: what an activation names, and what restored tasks decided by.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;

use crate::engine::cluster::client::{Logs, create, ends};
use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::operator::registry_topic;
use crate::registry::Registry;

/// How long the question for the end of the topic may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the tasks of a process have their registry from.
#[derive(Clone)]
pub enum Registries {
    /// One for all, from the beginning: an embedded broker has nobody else to push one.
    Fixed(Arc<Registry>),
    /// Activated by commands; the versions are on the registry topic.
    InBand(Catalogue),
}

impl Registries {
    /// Versions of the registry topic.
    #[must_use]
    pub fn in_band(config: &Config) -> Self {
        Self::InBand(Catalogue { config: Arc::new(config.clone()), known: Arc::default() })
    }

    /// What a new task begins by; in band: none, it waits for an activation.
    #[must_use]
    pub fn first(&self) -> Arc<Registry> {
        match self {
            Self::Fixed(registry) => Arc::clone(registry),
            Self::InBand(_) => Arc::default(),
        }
    }

    /// The version of that hash; none: there is no such version.
    ///
    /// # Errors
    /// The registry topic cannot be read.
    pub fn get(&self, version: &str) -> Result<Option<Arc<Registry>>, EngineError> {
        match self {
            Self::Fixed(registry) => Ok((registry.version == version).then(|| Arc::clone(registry))),
            Self::InBand(catalogue) => catalogue.get(version),
        }
    }

    /// What a restored task goes on by, which decided by that version before.
    ///
    /// # Errors
    /// The version is not on the registry topic, or that cannot be read.
    pub fn of_restored(&self, version: &str) -> Result<Arc<Registry>, EngineError> {
        match self {
            Self::Fixed(registry) => Ok(Arc::clone(registry)),
            Self::InBand(_) if version.is_empty() => Ok(Arc::default()),
            Self::InBand(catalogue) => catalogue.get(version)?.ok_or_else(|| EngineError::RegistryMissing {
                version: version.to_owned(),
                topic: catalogue.config.topics.registry.clone(),
            }),
        }
    }
}

/// Versions of the registry topic, read when one is asked for that is not known yet.
#[derive(Clone)]
pub struct Catalogue {
    config: Arc<Config>,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    versions: BTreeMap<String, Arc<Registry>>,
    /// Where the topic ended when it was last read: nothing is new before it ends elsewhere.
    end: Option<i64>,
    asking: Option<BaseConsumer<Logs>>,
}

impl Catalogue {
    fn get(&self, version: &str) -> Result<Option<Arc<Registry>>, EngineError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(registry) = known.versions.get(version) {
            return Ok(Some(Arc::clone(registry)));
        }
        if !is_version(version) {
            return Ok(None);
        }
        let end = self.end(&mut known)?;
        if known.end != Some(end) {
            known.versions.extend(registry_topic::read(&self.config)?);
            known.end = Some(end);
        }
        Ok(known.versions.get(version).cloned())
    }

    /// Where the topic ends.
    fn end(&self, known: &mut Known) -> Result<i64, EngineError> {
        if known.asking.is_none() {
            known.asking = Some(create(&ends(&self.config), Logs)?);
        }
        let failed = |error: &KafkaError| EngineError::kafka("reading the registry topic", error);
        match known.asking.as_ref().map(|asking| asking.fetch_watermarks(&self.config.topics.registry, 0, ASK_TIMEOUT))
        {
            Some(Ok((_, end))) => Ok(end),
            Some(Err(error)) => Err(failed(&error)),
            None => Ok(0),
        }
    }
}

/// Whether a text may be a version at all: 32 small hex digits.
fn is_version(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_hash_is_no_version() {
        assert!(is_version(&"0a".repeat(16)));
        for other in ["", "0a", &"0A".repeat(16), &"0g".repeat(16), &"0a".repeat(17)] {
            assert!(!is_version(other), "{other}");
        }
    }
}
