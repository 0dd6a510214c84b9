//! Brokers, topics, and what who asks may do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cli::doctor::Line;
use crate::cli::engine_config::cluster;
use crate::cli::exit::{Exit, Failure};
use crate::cli::settings::Resolved;
use crate::cli::topics::{self, Checked};
use crate::engine::EngineError;
use crate::engine::cluster::acls::{Acl, Principal, Resource, needed};
use crate::engine::cluster::admin::{Admin, Configs};

const BROKERS: &str = "brokers";
const TOPICS: &str = "topics";
const PERMISSIONS: &str = "permissions";
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
            "start it, or say with --bootstrap-servers where it is; with security: the [kafka] table of the settings",
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

/// Whether topics are as planned.
pub fn topics(resolved: &Resolved) -> Vec<Line> {
    match admin(resolved).and_then(|admin| topics::check(resolved, &admin)) {
        Ok(checked) => lines_of(checked),
        Err(failure) => vec![Line::of(TOPICS, &failure)],
    }
}

fn lines_of(checked: Checked) -> Vec<Line> {
    const APPLY: &str = "`reflex topics apply` creates and configures; `reflex topics plan` says what it would do";
    let mut lines = Vec::new();
    if !checked.missing.is_empty() {
        let words = format!("{} missing: {}", checked.missing.len(), checked.missing.join(", "));
        lines.push(Line::failed(TOPICS, Exit::Unavailable, words).remedy(APPLY));
    }
    for (topic, change) in checked.differing {
        lines.push(Line::warning(TOPICS, format_args!("{topic}: {change}")).remedy(APPLY));
    }
    for finding in checked.findings {
        let words = format!("{} {}", finding.place, finding.words);
        let line = if finding.is_grave {
            Line::failed(TOPICS, Exit::Configuration, words)
        } else {
            Line::warning(TOPICS, words)
        };
        lines.push(line.remedy(finding.remedy));
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
    let names: BTreeSet<&str> = acls
        .iter()
        .filter_map(|acl| match &acl.resource {
            Resource::Topics(names) => Some(names.iter().map(String::as_str)),
            _ => None,
        })
        .flatten()
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
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
    use crate::cli::doctor::State;
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
        let states = |checked| lines_of(checked).into_iter().map(|line| (line.state, line.exit)).collect::<Vec<_>>();
        assert_eq!(states(checked(&[], None)), [(State::Ok, Exit::Done)]);
        assert_eq!(states(checked(&["a"], None)), [(State::Failed, Exit::Unavailable)]);
        assert_eq!(states(checked(&[], Some(true))), [(State::Failed, Exit::Configuration)]);
        assert_eq!(states(checked(&[], Some(false))), [(State::Warning, Exit::Done)]);
    }
}
