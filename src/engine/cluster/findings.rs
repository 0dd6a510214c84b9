//! What of topics and brokers would break a guarantee, each with what to set; judged without asking anybody.

use std::collections::BTreeMap;
use std::fmt;

use crate::engine::cluster::admin::{Configs, TopicFacts};
use crate::engine::config::TopicNames;

/// Copies of a topic in production, and how many must have a record before it counts.
const REPLICAS: usize = 3;
const IN_SYNC: usize = 2;
/// The topic in which a cluster keeps its transactions.
pub const TRANSACTION_STATE: &str = "__transaction_state";
/// A setting that brokers have since Kafka 4.3: nothing that clients are told names the release.
const SINCE_4_3: &str = "group.coordinator.background.threads";

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether records could be lost, read twice or read wrongly: the engine does not start. Else it warns.
    pub is_grave: bool,
    /// Which topic or broker.
    pub place: String,
    /// What is wrong.
    pub words: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}; {}", self.place, self.words, self.remedy)
    }
}

/// Facts about a cluster. What a broker did not permit to ask for is absent.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Topics by name, all that exist.
    pub topics: BTreeMap<String, TopicFacts>,
    /// The topic of transactions, where it exists.
    pub transactions: Option<TopicFacts>,
    /// Configuration of brokers by id.
    pub brokers: BTreeMap<i32, Configs>,
}

/// Judges a cluster whose topics all exist. `dev`: copies do not matter, there is one broker.
#[must_use]
pub fn judge(names: &TopicNames, facts: &Facts, dev: bool) -> Vec<Finding> {
    let mut findings = Findings { dev, list: Vec::new() };
    findings.shape(names, &facts.topics);
    for (name, topic) in &facts.topics {
        findings.copies(name, topic);
    }
    findings.cluster(facts);
    findings.list
}

/// Judges what is not said by the configuration of our topics: brokers, transactions, and replicas that are away.
#[must_use]
pub fn judge_cluster(facts: &Facts, dev: bool) -> Vec<Finding> {
    let mut findings = Findings { dev, list: Vec::new() };
    findings.cluster(facts);
    findings.list
}

struct Findings {
    dev: bool,
    list: Vec<Finding>,
}

impl Findings {
    fn add(&mut self, is_grave: bool, place: impl fmt::Display, words: impl fmt::Display, remedy: impl fmt::Display) {
        let [place, words, remedy] = [place.to_string(), words.to_string(), remedy.to_string()];
        self.list.push(Finding { is_grave, place, words, remedy });
    }

    /// Partitions, stamps and cleanup: a wrong one breaks decisions wherever the engine runs.
    fn shape(&mut self, names: &TopicNames, topics: &BTreeMap<String, TopicFacts>) {
        const STAMP: &str = "message.timestamp.type";
        let [events, others @ ..] = names.inputs();
        let tapes = [names.tape_session.as_str(), &names.tape_fleet];
        for (stamped, why) in names
            .inputs()
            .map(|input| (input, "inputs need LogAppendTime, the clock of all decisions"))
            .into_iter()
            .chain(tapes.map(|tape| (tape, "tapes need LogAppendTime, by which clocks of workers are corrected")))
        {
            let stamp = value(topics, stamped, STAMP);
            if !["", "LogAppendTime"].contains(&stamp) {
                let words = format!("has {STAMP}={stamp}; {why}");
                self.add(true, format_args!("topic {stamped}"), words, "`reflex topics apply` sets it");
            }
        }
        let Some(wanted) = topics.get(events).map(|facts| facts.partitions) else { return };
        let partitions = |name: &str| topics.get(name).map_or(wanted, |facts| facts.partitions);
        for input in others.into_iter().filter(|input| partitions(input) != wanted) {
            let words = format!("has {wanted} partitions and {input} has {}", partitions(input));
            let remedy = "inputs need equally many, so that a decision reaches its task: delete and `reflex topics apply` \
                          what is empty";
            self.add(true, format_args!("topic {events}"), words, remedy);
        }
        let of_tasks = [&names.audit, &names.state_session, &names.state_fleet];
        let of_tasks = of_tasks.into_iter().map(String::as_str).chain(tapes);
        for name in of_tasks.filter(|name| partitions(name) < wanted) {
            let words = format!("has {} partitions and {events} has {wanted}", partitions(name));
            let remedy = format!(
                "a task writes to its own partition, so it needs at least as many: kafka-topics.sh --alter --topic {name} \
                 --partitions {wanted}"
            );
            self.add(true, format_args!("topic {name}"), words, remedy);
        }
        self.cleanup(names, topics);
    }

    fn cleanup(&mut self, names: &TopicNames, topics: &BTreeMap<String, TopicFacts>) {
        for (name, is_grave, lost) in [
            (&names.state_session, true, "state needs compact alone, or what is old is lost"),
            (&names.state_fleet, true, "state needs compact alone, or what is old is lost"),
            (&names.registry, true, "versions need compact alone, or the active one is lost"),
            (&names.overrides, true, "overrides need compact alone, or live ones disappear"),
            (&names.interventions, false, "the Intervention Log needs compact alone, or waiting proposals disappear"),
        ] {
            let cleanup = value(topics, name, "cleanup.policy");
            if !["", "compact"].contains(&cleanup) {
                let words = format!("has cleanup.policy={cleanup}; {lost}");
                self.add(is_grave, format_args!("topic {name}"), words, "`reflex topics apply` sets it");
            }
        }
    }

    fn cluster(&mut self, facts: &Facts) {
        let transactions = facts.transactions.as_ref().map(|topic| (TRANSACTION_STATE, topic));
        for (name, topic) in facts.topics.iter().map(|(name, topic)| (name.as_str(), topic)).chain(transactions) {
            self.writable(name, topic);
        }
        if let Some((name, topic)) = transactions {
            self.copies(name, topic);
        }
        for (id, configs) in &facts.brokers {
            self.broker(*id, configs, facts);
        }
    }

    /// Whether a record can be written, and stays once it counts as written.
    fn writable(&mut self, name: &str, topic: &TopicFacts) {
        let in_sync = in_sync(topic);
        let place = format!("topic {name}");
        if let Some(in_sync) = in_sync.filter(|in_sync| *in_sync > topic.replication) {
            let words = format!("has min.insync.replicas={in_sync} and {} replicas", topic.replication);
            self.add(true, &place, words, "nothing can be written to it: lower the one or add to the other");
        } else if let Some(in_sync) = in_sync.filter(|in_sync| *in_sync > topic.alive) {
            let words = format!("has min.insync.replicas={in_sync} and {} replicas that are alive", topic.alive);
            self.add(false, &place, words, "nothing can be written to it until brokers come back");
        }
        let unclean = topic.configs.get("unclean.leader.election.enable").is_some_and(|value| value == "true");
        if unclean {
            let words = "has unclean.leader.election.enable=true; a broker that lacks records may become leader";
            self.add(!self.dev, &place, words, "set it to false, on the topic or the brokers");
        }
    }

    /// How many copies of a record there are when it counts as written.
    fn copies(&mut self, name: &str, topic: &TopicFacts) {
        if self.dev {
            return;
        }
        let place = format!("topic {name}");
        let way_out = "for a single broker to try things on: --dev (dev = true)";
        if topic.replication < REPLICAS {
            let words = format!("has {} replicas instead of {REPLICAS}", topic.replication);
            self.add(true, &place, words, format_args!("reassign its partitions, or make it anew; {way_out}"));
        }
        if let Some(in_sync) = in_sync(topic).filter(|in_sync| *in_sync < IN_SYNC) {
            let words = format!("has min.insync.replicas={in_sync}; one broker can lose what counts as written");
            self.add(true, &place, words, format_args!("set min.insync.replicas={IN_SYNC}; {way_out}"));
        }
    }

    fn broker(&mut self, id: i32, configs: &Configs, facts: &Facts) {
        let place = format!("broker {id}");
        if configs.contains_key(SINCE_4_3) {
            let words = "is of Kafka 4.3 or later; 4.3.0, 4.3.1 and 4.4.0 drop the end of committed transactions on partitions \
                         that have no leader, as when all replicas restart at once (KAFKA-20734)";
            self.add(false, &place, words, "look at its version; 4.0 to 4.2 do not");
        }
        let text = |key: &str| configs.get(key).map_or("", String::as_str);
        let number = |key: &str| text(key).parse::<usize>().ok();
        if text("transaction.partition.verification.enable") == "false" {
            let words = "has transaction.partition.verification.enable=false; a late request of a dead worker could leave a \
                         transaction open for ever";
            self.add(!self.dev, &place, words, "set it to true (its default)");
        }
        let (copies, in_sync) =
            (number("transaction.state.log.replication.factor"), number("transaction.state.log.min.isr"));
        // Where the topic exists, what it has counts, not what it would be made with.
        if let (None, Some(copies)) = (&facts.transactions, copies)
            && copies > facts.brokers.len()
        {
            let words = format!(
                "has transaction.state.log.replication.factor={copies}, and the cluster has {} brokers",
                facts.brokers.len()
            );
            self.add(true, &place, words, "there can be no transactions: lower it, or add brokers");
        }
        if let (Some(copies), Some(in_sync)) = (copies, in_sync)
            && in_sync > copies
        {
            let words = format!(
                "has transaction.state.log.min.isr={in_sync} and transaction.state.log.replication.factor={copies}"
            );
            self.add(true, &place, words, "no transaction can be written: the first must not be the larger");
        } else if let Some(in_sync) = in_sync.filter(|in_sync| *in_sync < IN_SYNC && !self.dev) {
            let words =
                format!("has transaction.state.log.min.isr={in_sync}; one broker can lose the end of a transaction");
            self.add(true, &place, words, format_args!("set it to {IN_SYNC}; for a single broker: --dev (dev = true)"));
        }
    }
}

fn in_sync(topic: &TopicFacts) -> Option<usize> {
    topic.configs.get("min.insync.replicas").and_then(|text| text.parse().ok())
}

fn value<'a>(topics: &'a BTreeMap<String, TopicFacts>, name: &str, key: &str) -> &'a str {
    topics.get(name).and_then(|facts| facts.configs.get(key)).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::cluster::topics::wanted;

    /// A cluster as production should be, changed.
    fn found(dev: bool, change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
        let names = TopicNames::default();
        let topics = wanted(&names, 4, false).into_iter().map(|spec| {
            let facts = TopicFacts {
                partitions: spec.partitions,
                replication: 3,
                alive: 3,
                configs: spec.configs,
                own: Configs::new(),
            };
            (spec.name, facts)
        });
        let broker: Configs = [
            ("transaction.partition.verification.enable", "true"),
            ("transaction.state.log.replication.factor", "3"),
            ("transaction.state.log.min.isr", "2"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let brokers = (1..=3).map(|id| (id, broker.clone())).collect();
        let mut facts = Facts { topics: topics.collect(), transactions: None, brokers };
        change(&mut facts);
        judge(&names, &facts, dev)
    }

    fn set(facts: &mut Facts, topic: &str, key: &str, value: &str) {
        let topic = facts.topics.get_mut(topic).expect("there");
        topic.configs.insert(key.to_owned(), value.to_owned());
    }

    #[test]
    fn a_cluster_as_it_should_be_has_no_findings() {
        assert_eq!(found(false, |_| {}), []);
        // What may not be asked for is not held against anybody.
        let unknown = found(false, |facts| {
            facts.brokers.clear();
            facts.topics.values_mut().for_each(|topic| topic.configs.clear());
        });
        assert_eq!(unknown, []);
    }

    #[test]
    fn shapes_of_all_inputs_tapes_and_states_are_looked_at() {
        for input in ["reflex.events", "reflex.session-commands", "reflex.fleet", "reflex.commands"] {
            let findings = found(true, |facts| set(facts, input, "message.timestamp.type", "CreateTime"));
            assert_eq!(findings.len(), 1, "{input}");
            assert!(findings[0].is_grave, "{input}");
            assert!(findings[0].to_string().contains(&format!("{input} has message.timestamp.type=CreateTime")));
        }
        let narrow =
            |name: &'static str| found(true, |facts| facts.topics.get_mut(name).expect("there").partitions = 2).len();
        for name in ["reflex.session-commands", "reflex.fleet", "reflex.commands", "reflex.audit"] {
            assert_eq!(narrow(name), 1, "{name}");
        }
        for name in ["reflex.state.session", "reflex.state.fleet", "reflex.tape.session", "reflex.tape.fleet"] {
            assert_eq!(narrow(name), 1, "{name}");
        }
        assert_eq!(narrow("reflex.overrides"), 0);
        assert_eq!(narrow("reflex.events"), 3, "each other input differs from it");
        for name in ["reflex.state.session", "reflex.state.fleet", "reflex.registry", "reflex.overrides"] {
            let findings = found(true, |facts| set(facts, name, "cleanup.policy", "compact,delete"));
            assert!(findings[0].is_grave, "{name}");
            assert!(findings[0].words.starts_with("has cleanup.policy=compact,delete"), "{name}");
        }
        let log = found(true, |facts| set(facts, "reflex.interventions", "cleanup.policy", "delete"));
        assert!(!log[0].is_grave);
    }

    #[test]
    fn too_few_copies_are_refused_in_production_and_accepted_for_development() {
        let one = |facts: &mut Facts| {
            for topic in facts.topics.values_mut() {
                (topic.replication, topic.alive) = (1, 1);
                topic.configs.insert("min.insync.replicas".into(), "1".into());
            }
            facts.brokers.values_mut().for_each(|broker| {
                broker.insert("transaction.state.log.replication.factor".into(), "1".into());
                broker.insert("transaction.state.log.min.isr".into(), "1".into());
            });
            facts.brokers.retain(|id, _| *id == 1);
        };
        assert_eq!(found(true, one), []);
        let findings = found(false, one);
        assert_eq!(findings.len(), 17 * 2 + 1);
        assert!(findings.iter().all(|finding| finding.is_grave && finding.remedy.contains("dev = true")));
    }

    #[test]
    fn what_cannot_be_written_is_refused_and_what_cannot_be_written_now_is_a_warning() {
        let never = found(true, |facts| set(facts, "reflex.audit", "min.insync.replicas", "4"));
        assert!(never[0].is_grave && never[0].words == "has min.insync.replicas=4 and 3 replicas", "{never:?}");
        let now = found(false, |facts| facts.topics.get_mut("reflex.audit").expect("there").alive = 1);
        assert!(!now[0].is_grave && now[0].words.contains("1 replicas that are alive"), "{now:?}");
    }

    #[test]
    fn brokers_that_break_transactions_are_refused() {
        let broker = |dev: bool, key: &'static str, value: &'static str| {
            found(dev, |facts| drop(facts.brokers.get_mut(&2).expect("there").insert(key.into(), value.into())))
        };
        let dropping = broker(false, SINCE_4_3, "2");
        assert!(dropping.len() == 1 && !dropping[0].is_grave && dropping[0].words.contains("KAFKA-20734"));
        let unverified = broker(false, "transaction.partition.verification.enable", "false");
        assert!(unverified[0].is_grave && unverified[0].place == "broker 2");
        assert!(!broker(true, "transaction.partition.verification.enable", "false")[0].is_grave);
        assert!(broker(true, "transaction.state.log.min.isr", "5")[0].is_grave);
        assert!(broker(true, "transaction.state.log.replication.factor", "5")[0].words.contains("has 3 brokers"));
        let unclean = found(false, |facts| set(facts, "reflex.audit", "unclean.leader.election.enable", "true"));
        assert!(unclean[0].is_grave);
        let kept = found(false, |facts| {
            let configs = [("min.insync.replicas".to_owned(), "2".to_owned())].into();
            let lone = TopicFacts { partitions: 4, replication: 1, alive: 1, configs, own: Configs::new() };
            facts.transactions = Some(lone);
        });
        assert!(kept[0].place.ends_with(TRANSACTION_STATE) && kept[0].is_grave);
    }
}
