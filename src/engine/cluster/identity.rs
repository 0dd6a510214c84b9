//! Which topics offsets speak of. A topic that was deleted and made again has its old name and other records: an offset of
//! the old one means nothing in it.

use std::collections::BTreeMap;

use crate::engine::cluster::admin::Admin;
use crate::engine::config::Config;
use crate::engine::error::EngineError;

/// Ids by name.
type Ids = BTreeMap<String, String>;

/// Ids of the inputs, and of the changelogs. Where they cannot be had (an embedded broker, a passing fault), nothing is
/// compared.
pub fn topic_ids(config: &Config) -> (Ids, Ids) {
    if !config.check_topics {
        return Default::default();
    }
    let (inputs, states) = (config.topics.inputs(), config.topics.states());
    let names: Vec<&str> = inputs.into_iter().chain(states).collect();
    let ids = Admin::new(&config.cluster, config.broker_timeout).and_then(|admin| admin.topic_ids(&names));
    let ids = ids.unwrap_or_else(|error| {
        tracing::warn!(%error, "ids of topics are not compared");
        Ids::new()
    });
    ids.into_iter().partition(|(topic, _)| inputs.contains(&topic.as_str()))
}

/// The first topic that is another one now than offsets speak of.
pub fn recreated(now: &Ids, known: &Ids, group: &str) -> Option<EngineError> {
    now.iter().find_map(|(topic, is)| {
        let was = known.get(topic).filter(|was| *was != is)?;
        let (topic, is, was, group) = (topic.clone(), is.clone(), was.clone(), group.to_owned());
        Some(EngineError::TopicRecreated { topic, was, is, group })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_compared_where_both_ids_are_known() {
        let ids = |list: &[(&str, &str)]| -> Ids {
            list.iter().map(|(topic, id)| ((*topic).to_owned(), (*id).to_owned())).collect()
        };
        let known = ids(&[("events", "a"), ("commands", "b")]);
        assert!(recreated(&ids(&[("events", "a"), ("fleet", "c")]), &known, "g").is_none());
        assert!(recreated(&ids(&[]), &known, "g").is_none());
        let other = recreated(&ids(&[("events", "z")]), &known, "g");
        assert!(matches!(other, Some(EngineError::TopicRecreated { topic, .. }) if topic == "events"));
    }
}
