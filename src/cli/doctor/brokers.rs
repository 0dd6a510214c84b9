//! Brokers, topics, and what who asks may do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cli::doctor::{Line, State};
use crate::cli::engine_config::cluster;
use crate::cli::exit::{Exit, Failure};
use crate::cli::settings::Resolved;
use crate::cli::topics::{self, Checked};
use crate::engine::EngineError;
use crate::engine::cluster::acls::{Acl, Principal, Resource, needed};
use crate::engine::cluster::admin::{Admin, Configs};
use crate::engine::cluster::findings::TRANSACTION_STATE;
use crate::engine::cluster::topics::Change;

const BROKERS: &str = "brokers";
const TOPICS: &str = "topics";
const PERMISSIONS: &str = "permissions";
/// Names in a line about many.
const NAMED_MAX: usize = 3;
/// A broker that knows this setting is of this release or later.
const KNOWN_SINCE: (&str, &str) = ("transaction.partition.verification.enable", "3.6");

fn admin(resolved: &Resolved) -> Result<Admin, Failure> {
    let settings = &resolved.settings;
    Ok(Admin::new(&cluster(settings), Duration::from_millis(settings.broker_timeout_ms))?)
}

/// Whether brokers answer, and whether they are of a release that has what is needed.
pub fn check(resolved: &Resolved) -> Vec<Line> {
    let servers = &resolved.settings.bootstrap_servers;
    let asked = admin(resolved).and_then(|admin| {
        // Asks for what everybody may ask, so that a broker that is there is never taken for absent.
        admin.existing(&[])?;
        Ok(admin.brokers())
    });
    match asked {
        Err(failure) => vec![Line::failed(BROKERS, failure.exit, &failure.message).remedy(
            "start it, or say with --bootstrap-servers where it is; a user, a password or a certificate that it does not take \
             looks the same ([kafka] of the settings)",
        )],
        Ok(Err(EngineError::NotPermitted(_))) => {
            let words = format!("{servers}: reachable; its release is not known: describing brokers is not permitted");
            vec![Line::warning(BROKERS, words).remedy("DescribeConfigs on the cluster (`reflex topics acls`)")]
        }
        Ok(Err(error)) => vec![Line::of(BROKERS, &error.into())],
        Ok(Ok(brokers)) => vec![release(servers, &brokers)],
    }
}

fn release(servers: &str, brokers: &BTreeMap<i32, Configs>) -> Line {
    let (setting, since) = KNOWN_SINCE;
    let old: Vec<String> =
        brokers.iter().filter(|(_, configs)| !configs.contains_key(setting)).map(|(id, _)| id.to_string()).collect();
    if old.is_empty() {
        return Line::ok(BROKERS, format_args!("{servers}: {} brokers, Kafka {since} or later", brokers.len()));
    }
    let words = format!("{servers}: {} brokers; before Kafka {since}, or not Kafka: {}", brokers.len(), old.join(", "));
    Line::warning(BROKERS, words)
        .remedy("without verified transactions a late request of a dead process may leave one open for ever")
}

/// Whether topics are as planned. A topic that who asks may not see is not taken for one that is missing: brokers leave
/// both out of what they list.
pub fn topics(resolved: &Resolved) -> Vec<Line> {
    let names = names(resolved);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let asked = admin(resolved).and_then(|admin| {
        let unseen = unseen(&admin.permitted(&names)?);
        if unseen.is_empty() {
            return topics::check(resolved, &admin).map(|checked| lines_of(checked, resolved.settings.dev));
        }
        let all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let there = admin.existing(&all)?;
        let missing = all.into_iter().filter(|name| !there.contains_key(name) && !unseen.contains(name)).collect();
        Ok(lines_of_seen(missing, &unseen))
    });
    asked.unwrap_or_else(|failure| vec![Line::of(TOPICS, &failure)])
}

/// Every topic that somebody needs.
fn names(resolved: &Resolved) -> BTreeSet<String> {
    let settings = &resolved.settings;
    let acls = needed(&settings.topics.names(), &settings.group).into_iter();
    let names = acls.filter_map(|acl| match acl.resource {
        Resource::Topics(names) => Some(names),
        _ => None,
    });
    // Kafka's own is no topic of ours.
    names.flatten().filter(|name| name != TRANSACTION_STATE).collect()
}

fn unseen(permitted: &BTreeMap<String, BTreeSet<&'static str>>) -> BTreeSet<String> {
    permitted.iter().filter(|(_, may)| may.is_empty()).map(|(name, _)| name.clone()).collect()
}

fn lines_of_seen(missing: Vec<String>, unseen: &BTreeSet<String>) -> Vec<Line> {
    let checked = Checked { missing, differing: Vec::new(), findings: Vec::new(), hidden: Vec::new(), count: 0 };
    let missing = lines_of(checked, true).into_iter().filter(|line| line.state == State::Failed);
    let some: Vec<&str> = unseen.iter().take(NAMED_MAX).map(String::as_str).collect();
    let more = if unseen.len() > some.len() { ", …" } else { "" };
    let words = format!("not checked: this principal may not see {} topics: {}{more}", unseen.len(), some.join(", "));
    missing
        .chain([Line::warning(TOPICS, words).remedy("as a topic admin they can be checked (`reflex topics acls`)")])
        .collect()
}

/// Equal things once, each with whom it is about, in the order of the first of each.
fn grouped<T: PartialEq>(all: impl Iterator<Item = (T, String)>) -> Vec<(T, Vec<String>)> {
    let mut groups: Vec<(T, Vec<String>)> = Vec::new();
    for (what, whom) in all {
        match groups.iter_mut().find(|(other, _)| *other == what) {
            Some((_, whole)) => whole.push(whom),
            None => groups.push((what, vec![whom])),
        }
    }
    groups
}

/// One by its name, more by their number and some of their names.
fn named(names: &[String], kind: &str) -> String {
    if let [one] = names {
        return one.clone();
    }
    let more = if names.len() > NAMED_MAX { ", …" } else { "" };
    let some = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    format!("{} {kind} ({some}{more})", names.len())
}

/// Whether it is about how many copies of a record there are.
fn is_of_copies(change: &Change) -> bool {
    match change {
        Change::Replication { .. } => true,
        Change::Configure { key, .. } => key == "min.insync.replicas",
        Change::Create | Change::Partitions { .. } => false,
    }
}

/// `dev`: whether one copy of everything is enough.
fn lines_of(checked: Checked, dev: bool) -> Vec<Line> {
    const APPLY: &str = "`reflex topics apply` creates and configures; `reflex topics plan` says what it would do";
    const DEV: &str = "one copy is enough on a single broker to try things on: --dev (dev = true) asks for no more; else \
                       `reflex topics plan` says what to do";
    let mut lines = Vec::new();
    if !checked.missing.is_empty() {
        let words = format!("{} missing: {}", checked.missing.len(), checked.missing.join(", "));
        lines.push(Line::failed(TOPICS, Exit::Unavailable, words).remedy(APPLY));
    }
    let differing = checked.differing.into_iter().map(|(topic, change)| ((change.to_string(), change), topic));
    for ((words, change), topics) in grouped(differing) {
        let line = Line::warning(TOPICS, format_args!("{}: {words}", named(&topics, "topics")));
        lines.push(if is_of_copies(&change) && !dev { line.remedy(DEV) } else { line.remedy(APPLY) });
    }
    let findings = checked.findings.into_iter().map(|it| ((it.is_grave, it.words, it.remedy), it.place));
    for ((is_grave, words, remedy), places) in grouped(findings) {
        let words = format!("{} {words}", named(&places, "places"));
        let line =
            if is_grave { Line::failed(TOPICS, Exit::Configuration, words) } else { Line::warning(TOPICS, words) };
        lines.push(line.remedy(remedy));
    }
    lines.extend(checked.hidden.into_iter().map(|words| Line::warning(TOPICS, format_args!("not checked: {words}"))));
    if lines.is_empty() {
        lines.push(Line::ok(TOPICS, format_args!("{} topics as planned", checked.count)));
    }
    lines
}

/// Which roles who asks may play, by what the brokers say he may do with each topic.
pub fn permissions(resolved: &Resolved) -> Vec<Line> {
    let settings = &resolved.settings;
    let acls = needed(&settings.topics.names(), &settings.group);
    let names = names(resolved);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match admin(resolved).and_then(|admin| Ok(admin.permitted(&names)?)) {
        Ok(permitted) => vec![roles(&acls, &permitted)],
        Err(failure) => vec![Line::of(PERMISSIONS, &failure)],
    }
}

fn roles(acls: &[Acl], permitted: &BTreeMap<String, BTreeSet<&'static str>>) -> Line {
    const REST: &str = "groups and transactional ids cannot be asked for";
    if permitted.is_empty() {
        return Line::warning(PERMISSIONS, "not checked: none of the topics is there");
    }
    if permitted.values().all(BTreeSet::is_empty) {
        return Line::warning(PERMISSIONS, "the brokers do not say what this principal may do with any topic")
            .remedy("Describe on the topics (`reflex topics acls`), brokers since Kafka 2.3");
    }
    let lacking = |principal: Principal| {
        let mine = acls.iter().filter(move |acl| acl.principal == principal);
        mine.flat_map(|acl| match &acl.resource {
            Resource::Topics(names) => names.iter().map(|name| (name, acl.operations)).collect::<Vec<_>>(),
            _ => Vec::new(),
        })
        .filter_map(|(name, operations)| {
            let may = permitted.get(name)?;
            let missing: Vec<&str> = operations
                .iter()
                // A topic that is there need not be created.
                .filter(|operation| **operation != "Create" && !may.contains(*operation))
                .copied()
                .collect();
            (!missing.is_empty()).then(|| format!("{} on {name}", missing.join("+")))
        })
        .collect::<Vec<_>>()
    };
    let (mut may, mut may_not) = (Vec::new(), Vec::new());
    for principal in Principal::ALL {
        match lacking(principal).as_slice() {
            [] => may.push(principal.name().to_owned()),
            [first] => may_not.push(format!("{} (lacks {first})", principal.name())),
            [first, rest @ ..] => may_not.push(format!("{} (lacks {first} and {} more)", principal.name(), rest.len())),
        }
    }
    if may_not.is_empty() {
        return Line::ok(PERMISSIONS, format_args!("every role, as far as topics go; {REST}"));
    }
    let roles = if may.is_empty() { "no role".to_owned() } else { may.join(", ") };
    let words = format!("this principal may be {roles}; not {}; {REST}", may_not.join(", "));
    let remedy = "`reflex topics acls` prints what each principal needs";
    if may.is_empty() { Line::warning(PERMISSIONS, words).remedy(remedy) } else { Line::ok(PERMISSIONS, words) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::TopicNames;

    #[test]
    fn roles_are_told_by_what_may_be_done_with_topics() {
        let names = TopicNames::default();
        let acls = needed(&names, "g");
        let topics = acls.iter().filter_map(|acl| match &acl.resource {
            Resource::Topics(names) => Some(names.clone()),
            _ => None,
        });
        let topics: BTreeSet<String> = topics.flatten().collect();
        let all = ["Read", "Write", "Describe", "DescribeConfigs", "AlterConfigs"];
        let permitted = |of: &dyn Fn(&str) -> Vec<&'static str>| {
            topics.iter().map(|name| (name.clone(), of(name).into_iter().collect())).collect::<BTreeMap<_, _>>()
        };
        let everything = roles(&acls, &permitted(&|_| all.to_vec()));
        assert!(everything.state == State::Ok && everything.words.starts_with("every role"), "{everything:?}");
        let reader = roles(
            &acls,
            &permitted(&|name| {
                if [&names.overrides, &names.interventions].iter().any(|topic| *topic == name) {
                    vec!["Read", "Describe"]
                } else {
                    vec![]
                }
            }),
        );
        assert!(
            reader.state == State::Ok && reader.words.starts_with("this principal may be runtime-reader; not engine")
        );
        assert!(reader.words.contains("runtime-producer (lacks Write+Describe on reflex.events)"), "{}", reader.words);
        assert_eq!(roles(&acls, &permitted(&|_| vec![])).state, State::Warning);
        assert_eq!(roles(&acls, &permitted(&|_| vec!["Describe"])).state, State::Warning);
    }

    #[test]
    fn topics_that_may_not_be_seen_are_not_taken_for_missing() {
        let unseen = ["a", "b", "c", "d"].map(str::to_owned).into();
        let lines = lines_of_seen(vec!["gone".into()], &unseen);
        let states: Vec<_> = lines.iter().map(|line| (line.state, line.words.as_str())).collect();
        let words = "not checked: this principal may not see 4 topics: a, b, c, …";
        assert_eq!(states, [(State::Failed, "1 missing: gone"), (State::Warning, words)]);
        assert_eq!(lines_of_seen(Vec::new(), &unseen).len(), 1);
    }

    #[test]
    fn what_is_said_of_many_topics_is_said_once_with_one_hint() {
        use crate::engine::cluster::findings::Finding;
        let [few, lax] = [
            Change::Replication { is: 1, wanted: 3 },
            Change::Configure { key: "min.insync.replicas".into(), is: "1".into(), wanted: "2".into() },
        ];
        let other = Change::Configure { key: "cleanup.policy".into(), is: "delete".into(), wanted: "compact".into() };
        let names: Vec<String> = (0..17).map(|number| format!("t{number}")).collect();
        let both = names.iter().flat_map(|name| [(name.clone(), few.clone()), (name.clone(), lax.clone())]);
        let finding =
            |place: &str| Finding { is_grave: true, place: place.into(), words: "has w".into(), remedy: "r".into() };
        let lines = |dev: bool| {
            let checked = Checked {
                missing: Vec::new(),
                differing: both.clone().chain([("t3".to_owned(), other.clone())]).collect(),
                findings: ["broker 1", "broker 2", "broker 3"].map(finding).into(),
                hidden: Vec::new(),
                count: 17,
            };
            lines_of(checked, dev)
        };
        let told = lines(false);
        let words: Vec<&str> = told.iter().map(|line| line.words.as_str()).collect();
        assert_eq!(
            words,
            [
                "17 topics (t0, t1, t2, …): has 1 replicas instead of 3; not changed: data would move",
                "17 topics (t0, t1, t2, …): set min.insync.replicas=2 (is 1)",
                "t3: set cleanup.policy=compact (is delete)",
                "3 places (broker 1, broker 2, broker 3) has w",
            ]
        );
        let says_dev = |line: &Line| line.remedy.as_ref().is_some_and(|remedy| remedy.contains("--dev"));
        assert_eq!(told.iter().map(says_dev).collect::<Vec<_>>(), [true, true, false, false]);
        assert!(lines(true).iter().all(|line| !says_dev(line)), "it is said already");
    }

    #[test]
    fn missing_topics_fail_and_grave_findings_are_configuration() {
        use crate::engine::cluster::findings::Finding;
        let checked = |missing: &[&str], is_grave: Option<bool>| Checked {
            missing: missing.iter().map(|name| (*name).to_owned()).collect(),
            differing: Vec::new(),
            findings: is_grave
                .map(|is_grave| Finding { is_grave, place: "p".into(), words: "w".into(), remedy: "r".into() })
                .into_iter()
                .collect(),
            hidden: Vec::new(),
            count: 17,
        };
        let states =
            |checked| lines_of(checked, false).into_iter().map(|line| (line.state, line.exit)).collect::<Vec<_>>();
        assert_eq!(states(checked(&[], None)), [(State::Ok, Exit::Done)]);
        assert_eq!(states(checked(&["a"], None)), [(State::Failed, Exit::Unavailable)]);
        assert_eq!(states(checked(&[], Some(true))), [(State::Failed, Exit::Configuration)]);
        assert_eq!(states(checked(&[], Some(false))), [(State::Warning, Exit::Done)]);
    }
}
