//! A look at topics and brokers before anything starts: what would break a guarantee later is refused now.

use std::collections::BTreeMap;
use std::sync::Arc;

use rdkafka::producer::Producer;

use crate::engine::cluster::admin::{Admin, TopicFacts};
use crate::engine::cluster::client;
use crate::engine::cluster::findings::{Facts, Finding, TRANSACTION_STATE, judge};
use crate::engine::cluster::topics::wanted;
use crate::engine::commit::producer::{Deliveries, Reports, Transactional, discard};
use crate::engine::config::Config;
use crate::engine::error::EngineError;

/// Checks topics and brokers; gives `max.message.bytes` of the topics by name.
///
/// What is no danger to exactly-once, and what may not be looked at, is a line of the log.
///
/// # Errors
/// Topics that are missing, everything that would break a guarantee, a broker that does not answer.
pub fn check(config: &Config) -> Result<BTreeMap<String, usize>, EngineError> {
    let admin = Admin::new(&config.cluster, config.broker_timeout)?;
    let names = names(config);
    let (facts, hidden) = look(&admin, &names)?;
    all_there(&names, &facts)?;
    for words in hidden {
        tracing::warn!("not checked: {words}");
    }
    let findings = judge(&config.topics, &facts, config.dev).into_iter().chain(forgetful(config, &facts));
    let (grave, harmless): (Vec<Finding>, Vec<Finding>) = findings.partition(|finding| finding.is_grave);
    for finding in harmless {
        tracing::warn!("{finding}");
    }
    if grave.is_empty() { Ok(bytes_max(&facts.topics)) } else { Err(EngineError::Unfit(grave)) }
}

/// Changelogs that forget tombstones before a local store is too old to need them.
fn forgetful(config: &Config, facts: &Facts) -> Vec<Finding> {
    const KEPT: &str = "delete.retention.ms";
    let Some(store) = &config.store else { return Vec::new() };
    let age_ms = store.age_max.as_millis();
    let kept = |name: &str| facts.topics.get(name)?.configs.get(KEPT)?.parse::<u64>().ok();
    let states = config.topics.states().into_iter().filter_map(|name| Some((name, kept(name)?)));
    let short = states.filter(|(_, kept_ms)| u128::from(*kept_ms) < age_ms.saturating_mul(2));
    short
        .map(|(name, kept_ms)| Finding {
            is_grave: true,
            place: name.to_owned(),
            words: format!(
                "has {KEPT}={kept_ms}, less than twice the age of a local store that is still used ({age_ms} ms)"
            ),
            remedy: format!("set store_age_ms_max to {} at most, or store=memory", kept_ms / 2),
        })
        .collect()
}

/// Every topic of this release.
fn names(config: &Config) -> Vec<String> {
    wanted(&config.topics, 1, true).into_iter().map(|spec| spec.name).collect()
}

/// Facts about a cluster as far as topics of these names exist, and what the broker did not permit to ask.
///
/// # Errors
/// A broker that does not answer.
pub fn look(admin: &Admin, names: &[String]) -> Result<(Facts, Vec<String>), EngineError> {
    let mut hidden = Vec::new();
    let mut permitted = |asked: Result<(), EngineError>| match asked {
        Err(EngineError::NotPermitted(words)) => {
            hidden.push(words);
            Ok(())
        }
        other => other,
    };
    let all: Vec<String> = names.iter().cloned().chain([TRANSACTION_STATE.to_owned()]).collect();
    let mut topics = admin.existing(&all)?;
    let mut transactions: BTreeMap<_, _> = topics.remove_entry(TRANSACTION_STATE).into_iter().collect();
    permitted(admin.describe(&mut topics))?;
    permitted(admin.describe(&mut transactions))?;
    let mut brokers = BTreeMap::new();
    permitted(admin.brokers().map(|found| brokers = found))?;
    let facts = Facts { topics, transactions: transactions.into_values().next(), brokers };
    Ok((facts, hidden))
}

/// Refuses to go on without these topics, all named at once.
fn all_there(names: &[String], facts: &Facts) -> Result<(), EngineError> {
    let missing: Vec<String> = names.iter().filter(|name| !facts.topics.contains_key(*name)).cloned().collect();
    match missing.as_slice() {
        [] => Ok(()),
        [one] => Err(EngineError::TopicMissing(one.clone())),
        _ => Err(EngineError::TopicsMissing(missing)),
    }
}

/// Whether the cluster begins transactions, tried with an id that nobody else uses.
#[must_use]
pub fn transactions(config: &Config) -> Option<Finding> {
    let mut client = client::producer(config);
    client.set("transactional.id", check_id(&config.group));
    let tried = client::create::<Transactional, _>(&client, Deliveries::new(&Arc::new(Reports::new(&config.topics))))
        .and_then(|producer| {
            let begun = producer.init_transactions(config.broker_timeout);
            discard(producer);
            begun.map_err(|error| EngineError::kafka("beginning transactions", &error))
        });
    tried.err().map(|error| Finding {
        is_grave: true,
        place: "the cluster".into(),
        words: format!("gives no transactions ({error})"),
        remedy: "the engine needs them: look at the topic __transaction_state, its replicas and min.insync.replicas"
            .into(),
    })
}

/// Transactional id of [`transactions`].
#[must_use]
pub fn check_id(group: &str) -> String {
    format!("{group}/check")
}

fn bytes_max(topics: &BTreeMap<String, TopicFacts>) -> BTreeMap<String, usize> {
    let bytes_max = |facts: &TopicFacts| facts.configs.get("max.message.bytes").and_then(|text| text.parse().ok());
    topics.iter().filter_map(|(name, facts)| Some((name.clone(), bytes_max(facts)?))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::state::store::{Kind, Settings};

    #[test]
    fn a_changelog_that_forgets_tombstones_early_is_refused_where_there_are_local_stores() {
        let found = |kept: u64, kind: Option<Kind>| {
            let age_max = Duration::from_hours(12);
            let store = kind.map(|kind| Settings { kind, folder: "store".into(), age_max });
            let config = Config { store, ..Config::default() };
            let configs = BTreeMap::from([("delete.retention.ms".to_owned(), kept.to_string())]);
            let topic = TopicFacts { configs, ..TopicFacts::default() };
            let topics = BTreeMap::from([(config.topics.state_fleet.clone(), topic)]);
            forgetful(&config, &Facts { topics, ..Facts::default() })
        };
        assert_eq!(found(86_400_000, Some(Kind::Fjall)), []);
        assert_eq!(found(86_399_999, None), []);
        let refusal = found(86_399_999, Some(Kind::Fjall)).first().map(ToString::to_string).expect("refused");
        assert!(refusal.contains("store_age_ms_max to 43199999 at most"), "{refusal}");
    }

    #[test]
    fn one_missing_topic_and_several_are_named() {
        let names = ["a", "b"].map(str::to_owned);
        let words = |names: &[String]| all_there(names, &Facts::default()).expect_err("missing").to_string();
        assert!(words(&names[..1]).starts_with("topic a does not exist; `reflex topics apply`"));
        assert!(words(&names).starts_with("2 topics do not exist: a, b; `reflex topics apply`"));
    }

    #[test]
    fn every_topic_of_both_stages_is_looked_at_and_its_largest_message_known() {
        let config = Config::default();
        let names = names(&config);
        for input in config.topics.inputs() {
            assert!(names.iter().any(|name| name == input), "{input}");
        }
        for output in config.topics.outputs() {
            assert!(names.contains(&output), "{output}");
        }
        let topics = wanted(&config.topics, 4, true).into_iter().map(|spec| {
            let facts = TopicFacts { partitions: 4, configs: spec.configs, ..TopicFacts::default() };
            (spec.name, facts)
        });
        assert_eq!(bytes_max(&topics.collect())["reflex.events.dlq"], 2_097_152);
    }
}
