//! `reflex topics plan | apply | check | acls`: the topics as this release needs them, and who may do what with them.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use crate::cli::engine_config::{cluster, config};
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::engine::cluster::acls::needed;
use crate::engine::cluster::admin::{Admin, TopicFacts};
use crate::engine::cluster::findings::{Finding, judge_cluster};
use crate::engine::cluster::preflight;
use crate::engine::cluster::topics::{Change, TopicSpec, apply, command_line, compare, wait_until_there, wanted};

/// Partitions of new topics where nothing else is said and the events topic does not exist.
const PARTITIONS: usize = 8;

/// What to do about topics.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Print what `apply` would do, and the same as lines for Kafka's own tools.
    Plan(Args),
    /// Create what is missing, configure what differs. Again and again is fine.
    Apply(Args),
    /// Exit 1 where something is missing or differs, or brokers are set up so that a guarantee would break.
    Check(Args),
    /// Print the permissions that each principal needs, as lines for kafka-acls.sh.
    Acls(AclArgs),
}

/// Arguments of `acls`.
#[derive(Debug, clap::Args)]
pub struct AclArgs {
    /// What the names of users begin with: PREFIX-engine, PREFIX-operator, ...
    #[arg(long, value_name = "PREFIX", default_value = "reflex")]
    pub user_prefix: String,
}

/// Arguments of the other three.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Partitions of every topic [default: those of the events topic where it exists, else 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub partitions: Option<u16>,
}

struct Topic {
    spec: TopicSpec,
    is: Option<TopicFacts>,
    changes: Vec<Change>,
}

/// Plans, applies or checks.
///
/// # Errors
/// Exit 69 without a broker, 77 where the broker does not permit it.
pub fn run(verb: &Verb, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let args = match verb {
        Verb::Acls(args) => return acls(args, resolved, out),
        Verb::Plan(args) | Verb::Apply(args) | Verb::Check(args) => args,
    };
    let settings = &resolved.settings;
    let admin = Admin::new(&cluster(settings), Duration::from_millis(settings.broker_timeout_ms))?;
    let topics = look(args, resolved, &admin)?;
    let mut left = false;
    for topic in &topics {
        if matches!(verb, Verb::Apply(_)) {
            apply(&admin, &topic.spec, topic.is.as_ref(), &topic.changes).map_err(Failure::from)?;
            left |= topic.changes.iter().any(|change| !change.is_applicable());
        } else {
            left |= !topic.changes.is_empty();
        }
    }
    if matches!(verb, Verb::Apply(_)) {
        let specs: Vec<&TopicSpec> = topics.iter().map(|topic| &topic.spec).collect();
        wait_until_there(&admin, &specs)?;
    }
    let mut findings = Vec::new();
    if matches!(verb, Verb::Check(_)) {
        let hidden;
        (findings, hidden) = look_at_cluster(resolved, &admin, &topics)?;
        for words in hidden {
            eprintln!("not checked: {words}");
        }
    }
    left |= !findings.is_empty();
    show(verb, resolved, &topics, &findings, out).map_err(unwritable)?;
    Ok(if left && !matches!(verb, Verb::Plan(_)) { Exit::Found } else { Exit::Done })
}

/// What `check` finds.
pub struct Checked {
    /// Topics that do not exist.
    pub missing: Vec<String>,
    /// Topics that are not as they should be, and how.
    pub differing: Vec<(String, Change)>,
    /// What of brokers, replicas and transactions would break a guarantee.
    pub findings: Vec<Finding>,
    /// What the broker did not permit to ask.
    pub hidden: Vec<String>,
    /// Topics looked at.
    pub count: usize,
}

/// Checks without printing.
///
/// # Errors
/// Exit 69 without a broker, 77 where the broker does not permit it.
pub fn check(resolved: &Resolved, admin: &Admin) -> Result<Checked, Failure> {
    let topics = look(&Args { partitions: None }, resolved, admin)?;
    let (mut missing, mut differing) = (Vec::new(), Vec::new());
    for Topic { spec, changes, .. } in &topics {
        if changes.contains(&Change::Create) {
            missing.push(spec.name.clone());
        } else {
            differing.extend(changes.iter().map(|change| (spec.name.clone(), change.clone())));
        }
    }
    let (findings, hidden) = look_at_cluster(resolved, admin, &topics)?;
    Ok(Checked { missing, differing, findings, hidden, count: topics.len() })
}

/// What of brokers, replicas and transactions would break a guarantee, and what may not be looked at.
fn look_at_cluster(
    resolved: &Resolved,
    admin: &Admin,
    topics: &[Topic],
) -> Result<(Vec<Finding>, Vec<String>), Failure> {
    let settings = &resolved.settings;
    let names: Vec<String> = topics.iter().map(|topic| topic.spec.name.clone()).collect();
    let (facts, hidden) = preflight::look(admin, &names)?;
    let mut findings = judge_cluster(&facts, settings.dev);
    findings.extend(preflight::transactions(&config(settings, "check")?));
    Ok((findings, hidden))
}

/// No broker is asked: the lists are those of the topics.
fn acls(args: &AclArgs, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let settings = &resolved.settings;
    let all = needed(&settings.topics.names(), &settings.group);
    let written = match settings.output {
        Output::Table => all
            .iter()
            .try_for_each(|acl| writeln!(out, "{}", acl.command_line(&settings.bootstrap_servers, &args.user_prefix))),
        Output::Json => {
            let all: Vec<_> = all.iter().map(|acl| acl.json(&args.user_prefix)).collect();
            serde_json::to_writer_pretty(&mut *out, &all).map_err(Into::into).and_then(|()| writeln!(out))
        }
        Output::Ndjson => all.iter().try_for_each(|acl| writeln!(out, "{}", acl.json(&args.user_prefix))),
    };
    written.map_err(unwritable)?;
    Ok(Exit::Done)
}

fn look(args: &Args, resolved: &Resolved, admin: &Admin) -> Result<Vec<Topic>, Failure> {
    let names = resolved.settings.topics.names();
    let all: Vec<String> = wanted(&names, 1, true).into_iter().map(|spec| spec.name).collect();
    let mut found: BTreeMap<String, TopicFacts> = admin.topics(&all)?;
    let existing = found.get(&names.events).map(|facts| facts.partitions);
    let partitions = args.partitions.map(usize::from).or(existing).unwrap_or(PARTITIONS);
    let specs = wanted(&names, partitions, resolved.settings.dev);
    Ok(specs
        .into_iter()
        .map(|spec| {
            let is = found.remove(&spec.name);
            let changes = compare(&spec, is.as_ref());
            Topic { spec, is, changes }
        })
        .collect())
}

fn show(
    verb: &Verb,
    resolved: &Resolved,
    topics: &[Topic],
    findings: &[Finding],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let servers = &resolved.settings.bootstrap_servers;
    let applied = |change: &Change| matches!(verb, Verb::Apply(_)) && change.is_applicable();
    if resolved.settings.output != Output::Table {
        let found = findings.iter().map(|finding| {
            json!({
                "place": finding.place, "finding": finding.words, "remedy": finding.remedy, "grave": finding.is_grave,
            })
        });
        let all: Vec<_> = topics.iter().map(|topic| as_json(topic, servers, &applied)).chain(found).collect();
        return match resolved.settings.output {
            Output::Ndjson => all.iter().try_for_each(|topic| writeln!(out, "{topic}")),
            _ => serde_json::to_writer_pretty(&mut *out, &all).map_err(Into::into).and_then(|()| writeln!(out)),
        };
    }
    let width = topics.iter().map(|topic| topic.spec.name.len()).max().unwrap_or(0);
    for Topic { spec, changes, .. } in topics {
        if changes.is_empty() {
            writeln!(out, "{:width$}  as it should be", spec.name)?;
        }
        for change in changes {
            let done = if applied(change) { "done: " } else { "" };
            writeln!(out, "{:width$}  {done}{change}", spec.name)?;
        }
    }
    findings.iter().try_for_each(|finding| writeln!(out, "{finding}"))?;
    if matches!(verb, Verb::Plan(_)) {
        let lines: Vec<String> =
            topics.iter().filter_map(|topic| command_line(servers, &topic.spec, &topic.changes)).collect();
        if !lines.is_empty() {
            writeln!(out, "\n# The same with Kafka's own tools:\n{}", lines.join("\n"))?;
        }
    }
    Ok(())
}

fn as_json(topic: &Topic, servers: &str, applied: &dyn Fn(&Change) -> bool) -> serde_json::Value {
    let Topic { spec, changes, .. } = topic;
    let changes: Vec<_> =
        changes.iter().map(|change| json!({ "change": change.to_string(), "done": applied(change) })).collect();
    json!({
        "topic": spec.name, "partitions": spec.partitions, "replication": spec.replication, "configs": spec.configs,
        "changes": changes, "command": command_line(servers, spec, &topic.changes),
    })
}
