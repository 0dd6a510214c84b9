//! Registry versions by their hash: what an activation names, and what restored tasks decided by.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::operator::registry_topic;
use crate::registry::Registry;

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
    known: Arc<Mutex<BTreeMap<String, Arc<Registry>>>>,
}

impl Catalogue {
    fn get(&self, version: &str) -> Result<Option<Arc<Registry>>, EngineError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(version) {
            *known = registry_topic::read(&self.config)?;
        }
        Ok(known.get(version).cloned())
    }
}
