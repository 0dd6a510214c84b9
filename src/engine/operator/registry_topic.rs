//! Registry versions on their topic: each whole, under `version/HASH`; the last record is the active version.
//!
//! A version is written in one transaction with the command that activates it, to every task of both stages. Pushing the
//! same version again on top of the same one gives the same command id, which changes nothing where it was done.

use std::collections::BTreeMap;
use std::sync::Arc;

use rdkafka::message::{Header, OwnedHeaders};
use uuid::Uuid;

use crate::engine::cluster::acls::push_id;
use crate::engine::cluster::client::MESSAGE_BYTES_MAX;
use crate::engine::cluster::findings::Finding;
use crate::engine::config::Config;
use crate::engine::error::{EngineError, capped};
use crate::engine::operator::once::Once;
use crate::engine::operator::orders::{Owner, Sent, to_everybody};
use crate::engine::operator::scan::{Record, scan};
use crate::engine::task::batch::Publication;
use crate::record::command::{Command, Verb};
use crate::record::time::Timestamp;
use crate::registry::Registry;

/// What a key begins with.
const KEY_PREFIX: &str = "version/";
/// Key of the commands that activate a version.
const COMMAND_KEY: &str = "registry";
/// What activated it, as headers of its record.
const COMMAND_ID: &str = "command_id";
const REASON: &str = "reason";
const AUTHOR: &str = "author";
/// Namespace of command ids; drawn once, never to be changed.
const NAMESPACE: Uuid = Uuid::from_u128(0x1d6b_8f5e_0c53_5f0a_8e39_c2a7_6b94_e051);

/// One version as it was pushed last.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its hash.
    pub hash: String,
    /// When it was pushed.
    pub pushed_at: Option<Timestamp>,
    /// Who pushed it.
    pub author: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Id of the command that activated it.
    pub command_id: Option<String>,
    /// The registry, or why this release cannot use it.
    pub registry: Result<Registry, String>,
}

/// The topic: versions in the order they were activated last, the active one at the end.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    /// The versions.
    pub list: Vec<Version>,
}

impl Versions {
    /// The active one.
    #[must_use]
    pub fn active(&self) -> Option<&Version> {
        self.list.last()
    }

    /// A version by its hash.
    #[must_use]
    pub fn get(&self, hash: &str) -> Option<&Version> {
        self.list.iter().find(|version| version.hash == hash)
    }

    /// Those that this release can use, by hash.
    #[must_use]
    pub fn usable(self) -> BTreeMap<String, Arc<Registry>> {
        let usable = self.list.into_iter().filter_map(|version| Some((version.hash, Arc::new(version.registry.ok()?))));
        usable.collect()
    }

    fn note(&mut self, record: &Record) {
        let key = String::from_utf8_lossy(record.key.as_deref().unwrap_or_default()).into_owned();
        let Some(hash) = key.strip_prefix(KEY_PREFIX) else {
            tracing::warn!("a record of the registry topic at offset {} is under no version's key", record.offset);
            return;
        };
        self.list.retain(|version| version.hash != hash);
        if let Some(value) = &record.value {
            self.list.push(Version {
                hash: hash.to_owned(),
                pushed_at: record.at_ms.map(Timestamp::from_millis),
                author: record.header(AUTHOR),
                reason: record.header(REASON),
                command_id: record.header(COMMAND_ID),
                registry: registry(hash, value),
            });
        }
    }
}

fn registry(hash: &str, value: &[u8]) -> Result<Registry, String> {
    let text = std::str::from_utf8(value).map_err(|_| "not UTF-8".to_owned())?;
    let registry = Registry::from_json(text).map_err(|error| format!("no registry of this release: {error}"))?;
    if registry.version == hash {
        Ok(registry)
    } else {
        Err(format!("its content has the version {}: another release wrote it, or it was changed", registry.version))
    }
}

/// Every version that this release can use, by its hash.
///
/// # Errors
/// As [`versions`].
pub fn read(config: &Config) -> Result<BTreeMap<String, Arc<Registry>>, EngineError> {
    let versions = versions(config)?;
    for version in &versions.list {
        if let Err(problem) = &version.registry {
            tracing::warn!(version = version.hash, "a registry version cannot be used: {}", capped(problem));
        }
    }
    Ok(versions.usable())
}

/// Reads the topic to its end.
///
/// # Errors
/// It does not exist, or no broker answers.
pub fn versions(config: &Config) -> Result<Versions, EngineError> {
    let mut versions = Versions::default();
    scan(config, &config.topics.registry, &mut |record| versions.note(&record))?;
    Ok(versions)
}

/// What a push did.
pub enum Pushed {
    /// The version is active already. The command that activated it was sent again, for tasks that never had it: those of
    /// partitions that were added later. Those that had it do nothing.
    Again(Sent),
    /// It was written, and a command that activates it sent to every task.
    Activated(Sent),
}

/// Writes a version and the commands that activate it, all or nothing. Processes that push at once come one after the
/// other, or fail with "try again".
///
/// # Errors
/// A topic is missing, no broker answers, the registry is too large, or the transaction did not go through.
pub fn push(config: &Config, registry: &Registry, reason: &str, author: &str) -> Result<Pushed, EngineError> {
    // First of all, so that a missing topic is told at once.
    versions(config)?;
    let once = Once::take(config, &push_id(&config.group))?;
    // Nobody else writes from here on: what is active now is what this version follows.
    let versions = versions(config)?;
    if let Some(active) = versions.active().filter(|active| active.hash == registry.version) {
        let sent = again(config, once, active, reason, author)?;
        return Ok(Pushed::Again(sent));
    }
    let json = registry.canonical_json();
    if json.len() + 4096 > MESSAGE_BYTES_MAX {
        return Err(EngineError::Unfit(vec![Finding {
            is_grave: true,
            place: format!("registry {}", registry.version),
            words: format!("has {} bytes, and a record takes {MESSAGE_BYTES_MAX}", json.len()),
            remedy: "split it, or drop what is unused".into(),
        }]));
    }
    let command = activation(&registry.version, versions.active(), reason, author);
    let headers = [(COMMAND_ID, &command.command_id), (REASON, &command.reason), (AUTHOR, &command.author)];
    let headers = headers
        .into_iter()
        .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(value.as_str()) }));
    let mut publications = vec![Publication {
        topic: Arc::from(config.topics.registry.as_str()),
        partition: Some(0),
        key: Some(format!("{KEY_PREFIX}{}", registry.version).into_bytes()),
        value: Some(json.into_bytes()),
        headers: Some(headers),
    }];
    publications.extend(to_everybody(config, &command, COMMAND_KEY)?);
    let sent = Sent::before(config, &command, &Owner::Everybody)?;
    once.write(&publications)?;
    Ok(Pushed::Activated(sent))
}

/// Sends the command that activated a version to every task once more.
fn again(config: &Config, once: Once, active: &Version, reason: &str, author: &str) -> Result<Sent, EngineError> {
    let command = activation(&active.hash, None, reason, author);
    let command = Command { command_id: active.command_id.clone().unwrap_or(command.command_id), ..command };
    let sent = Sent::before(config, &command, &Owner::Everybody)?;
    once.write(&to_everybody(config, &command, COMMAND_KEY)?)?;
    Ok(sent)
}

/// The command that makes `hash` follow the active version. The same for the same two: a push that is repeated because
/// its outcome was not known changes nothing.
fn activation(hash: &str, active: Option<&Version>, reason: &str, author: &str) -> Command {
    let before = active.map_or("", |version| version.command_id.as_deref().unwrap_or(&version.hash));
    Command {
        command_id: Uuid::new_v5(&NAMESPACE, format!("{hash}\n{before}").as_bytes()).to_string(),
        verb: Verb::Activate,
        target: hash.to_owned(),
        content_hash: None,
        order: None,
        reason: reason.to_owned(),
        author: author.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{SourceFile, load};

    fn version(code: &str) -> Registry {
        let text = format!("[[signal]]\ncode = \"{code}\"\nowner = \"team\"\nmatch = {{ node = \"n\" }}\n");
        load(&[SourceFile { name: "a.toml".into(), text }]).expect("loads").registry
    }

    fn record(offset: i64, hash: &str, value: Option<&str>) -> Record {
        Record {
            offset,
            key: Some(format!("{KEY_PREFIX}{hash}").into_bytes()),
            value: value.map(|text| text.as_bytes().to_vec()),
            headers: vec![(COMMAND_ID.as_bytes().to_vec(), Some(format!("c{offset}").into_bytes()))],
            ..Record::default()
        }
    }

    #[test]
    fn the_last_record_is_the_active_version() {
        let (a, b) = (version("a"), version("b"));
        let mut versions = Versions::default();
        for (offset, registry) in [&a, &b, &a].into_iter().enumerate() {
            versions.note(&record(
                i64::try_from(offset).expect("small"),
                &registry.version,
                Some(&registry.canonical_json()),
            ));
        }
        assert_eq!(versions.active().map(|active| active.hash.as_str()), Some(a.version.as_str()));
        assert_eq!(versions.active().and_then(|active| active.command_id.as_deref()), Some("c2"));
        assert_eq!(versions.list.len(), 2);
        versions.note(&record(3, &a.version, None));
        assert_eq!(versions.active().map(|active| active.hash.as_str()), Some(b.version.as_str()));
        assert_eq!(versions.usable().into_keys().collect::<Vec<_>>(), [b.version]);
    }

    #[test]
    fn what_is_not_what_its_key_says_is_named_and_not_used() {
        let a = version("a");
        let mut versions = Versions::default();
        versions.note(&record(0, "0123", Some(&a.canonical_json())));
        versions.note(&record(1, "4567", Some("{}")));
        versions.note(&Record { key: Some(b"other".to_vec()), value: Some(Vec::new()), ..Record::default() });
        let why: Vec<&str> =
            versions.list.iter().filter_map(|version| version.registry.as_ref().err()).map(String::as_str).collect();
        assert!(why[0].contains(&a.version) && why[1].starts_with("no registry of this release"), "{why:?}");
        assert!(versions.usable().is_empty());
    }

    #[test]
    fn an_activation_is_the_same_only_on_top_of_the_same_version() {
        let mut versions = Versions::default();
        let id = |versions: &Versions| activation("b", versions.active(), "r", "a").command_id;
        let first = id(&versions);
        assert_eq!(first, id(&versions));
        versions.note(&record(1, &version("a").version, Some(&version("a").canonical_json())));
        let second = id(&versions);
        assert_ne!(first, second);
        versions.note(&record(7, &version("a").version, Some(&version("a").canonical_json())));
        assert_ne!(second, id(&versions), "activated again in between");
    }
}
