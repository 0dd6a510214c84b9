//! A look at the topics before anything starts: what would break a guarantee later is refused now.

use std::collections::BTreeMap;

use crate::engine::admin::{Admin, TopicFacts};
use crate::engine::config::Config;
use crate::engine::error::EngineError;

/// Checks the topics; gives `max.message.bytes` of the outputs by name.
pub fn check(config: &Config) -> Result<BTreeMap<String, usize>, EngineError> {
    let names: Vec<String> =
        config.topics.inputs().into_iter().map(str::to_owned).chain(config.topics.outputs()).collect();
    let admin = Admin::new(&config.cluster, config.broker_timeout)?;
    let topics = admin.topics(&names)?;
    judge(config, &names, &topics)
}

fn judge(
    config: &Config,
    names: &[String],
    topics: &BTreeMap<String, TopicFacts>,
) -> Result<BTreeMap<String, usize>, EngineError> {
    if let Some(missing) = names.iter().find(|name| !topics.contains_key(*name)) {
        return Err(EngineError::TopicMissing(missing.clone()));
    }
    let [events, commands] = config.topics.inputs();
    for input in [events, commands] {
        let stamp = topics[input].configs.get("message.timestamp.type").map_or("", String::as_str);
        if stamp != "LogAppendTime" {
            return Err(EngineError::NotAppendTime(input.to_owned(), stamp.to_owned()));
        }
    }
    let partitions = |topic: &str| topics[topic].partitions;
    let differ = |other: &str, why| {
        Err(EngineError::Partitions(events.to_owned(), partitions(events), other.to_owned(), partitions(other), why))
    };
    if partitions(commands) != partitions(events) {
        return differ(commands, "a decision must reach the task of its session, so inputs have equally many");
    }
    let audit = &config.topics.audit;
    if partitions(audit) < partitions(events) {
        return differ(audit, "a task writes its audit records to its own partition, so it needs at least as many");
    }
    let state = &config.topics.state_session;
    if partitions(state) < partitions(events) {
        return differ(state, "a task keeps its state in its own partition, so it needs at least as many");
    }
    let cleanup = topics[state].configs.get("cleanup.policy").map_or("", String::as_str);
    if cleanup != "compact" {
        return Err(EngineError::NotCompacted(state.clone(), cleanup.to_owned()));
    }
    let kept = topics[state].configs.get("delete.retention.ms").and_then(|text| text.parse::<u64>().ok());
    if let Some((store, kept_ms)) = config.store.as_ref().zip(kept) {
        let (topic, age_ms) = (state.clone(), store.age_max.as_millis());
        if u128::from(kept_ms) < age_ms.saturating_mul(2) {
            return Err(EngineError::Forgetful { topic, kept_ms, age_ms, half_ms: kept_ms / 2 });
        }
    }
    let bytes_max = |facts: &TopicFacts| facts.configs.get("max.message.bytes").and_then(|text| text.parse().ok());
    Ok(topics.iter().filter_map(|(name, facts)| Some((name.clone(), bytes_max(facts)?))).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::store::{Kind, Settings};
    use crate::engine::topics::wanted;

    fn cluster(config: &Config) -> BTreeMap<String, TopicFacts> {
        let facts = |spec: &crate::engine::topics::TopicSpec| TopicFacts {
            partitions: spec.partitions,
            replication: 1,
            configs: spec.configs.clone(),
            ..TopicFacts::default()
        };
        wanted(&config.topics, 4, true).iter().map(|spec| (spec.name.clone(), facts(spec))).collect()
    }

    fn judged(change: impl FnOnce(&mut BTreeMap<String, TopicFacts>)) -> Result<BTreeMap<String, usize>, EngineError> {
        let config = Config::default();
        let mut topics = cluster(&config);
        let names: Vec<String> = topics.keys().cloned().collect();
        change(&mut topics);
        judge(&config, &names, &topics)
    }

    #[test]
    fn topics_as_wanted_are_accepted() {
        let bytes_max = judged(|_| {}).expect("accepted");
        assert_eq!(bytes_max["reflex.events.dlq"], 2_097_152);
    }

    #[test]
    fn what_breaks_a_guarantee_is_refused_by_name() {
        let refusal = |change: fn(&mut BTreeMap<String, TopicFacts>)| judged(change).expect_err("refused").to_string();
        assert!(refusal(|topics| drop(topics.remove("reflex.audit"))).contains("reflex.audit does not exist"));
        let stamp = refusal(|topics| {
            let configs = &mut topics.get_mut("reflex.session-commands").expect("there").configs;
            configs.insert("message.timestamp.type".into(), "CreateTime".into());
        });
        assert!(stamp.contains("reflex.session-commands has message.timestamp.type=CreateTime"), "{stamp}");
        let narrow = |name: &'static str| judged(|topics| topics.get_mut(name).expect("there").partitions = 2);
        assert!(matches!(narrow("reflex.session-commands"), Err(EngineError::Partitions(..))));
        assert!(matches!(narrow("reflex.audit"), Err(EngineError::Partitions(..))));
        assert!(matches!(narrow("reflex.state.session"), Err(EngineError::Partitions(..))));
        assert!(narrow("reflex.overrides").is_ok());
        let deleted = refusal(|topics| {
            let configs = &mut topics.get_mut("reflex.state.session").expect("there").configs;
            configs.insert("cleanup.policy".into(), "compact,delete".into());
        });
        assert!(deleted.contains("reflex.state.session has cleanup.policy=compact,delete"), "{deleted}");
    }

    #[test]
    fn a_changelog_that_forgets_tombstones_early_is_refused_where_there_are_local_stores() {
        let judged = |kept: u64, kind: Option<Kind>| {
            let age_max = Duration::from_hours(12);
            let store = kind.map(|kind| Settings { kind, folder: "store".into(), age_max });
            let config = Config { store, ..Config::default() };
            let mut topics = cluster(&config);
            let names: Vec<String> = topics.keys().cloned().collect();
            let state = topics.get_mut("reflex.state.session").expect("there");
            state.configs.insert("delete.retention.ms".into(), kept.to_string());
            judge(&config, &names, &topics).map(|_| ())
        };
        assert!(judged(86_400_000, Some(Kind::Fjall)).is_ok());
        assert!(judged(86_399_999, None).is_ok());
        let refusal = judged(86_399_999, Some(Kind::Fjall)).expect_err("refused").to_string();
        assert!(refusal.contains("store_age_ms_max to 43199999 at most"), "{refusal}");
    }
}
