//! `reflex audit list` and `reflex escalations list | show`: what stands on the topics that only grow.
//!
//! An audit record names its entity by an id alone: of which session and graph it is, is looked up in the Intervention Log
//! and the overrides, and in the input record that caused it.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;

use clap::Subcommand;
use serde_json::{Value, json};

use crate::cli::decide::operator;
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::{known, unwritable};
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::cli::table::{Table, clean, write_values};
use crate::engine::Config;
use crate::engine::operator::orders::text;
use crate::engine::operator::scan::scan;
use crate::record::audit::Audit;

/// Most records that `list` prints where nothing else is said, the latest.
const LISTED_MAX: usize = 100;

/// What to do with the audit trail.
#[derive(Debug, Subcommand)]
pub enum AuditVerb {
    /// Every transition, the latest last.
    List(AuditFilter),
}

/// What to do with escalations.
#[derive(Debug, Subcommand)]
pub enum EscalationVerb {
    /// What a person was asked to take over, the latest last.
    List(EscalationFilter),
    /// One whole.
    Show {
        /// Its id
        id: String,
    },
}

/// Which sessions and graphs, and how many.
#[derive(Debug, Default, clap::Args)]
pub struct Filter {
    /// Of this graph
    #[arg(long)]
    graph: Option<String>,
    /// Of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// At most so many, the latest
    #[arg(long, value_name = "N", default_value_t = LISTED_MAX)]
    limit: usize,
}

/// Which audit records.
#[derive(Debug, Default, clap::Args)]
pub struct AuditFilter {
    #[command(flatten)]
    filter: Filter,
    /// Of entities of this kind: intervention, override, escalation, command, task, registry
    #[arg(long)]
    entity: Option<String>,
    /// Of the entity with this id
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

/// Which escalations.
#[derive(Debug, Default, clap::Args)]
pub struct EscalationFilter {
    #[command(flatten)]
    filter: Filter,
    /// Of this tenant
    #[arg(long)]
    tenant: Option<String>,
}

fn is(wanted: Option<&String>, found: &Value) -> bool {
    wanted.is_none_or(|text| found.as_str() == Some(text))
}

/// The latest records of a topic that are wanted, by time.
struct Latest {
    records: VecDeque<Value>,
    limit: usize,
    left_out: usize,
}

impl Latest {
    fn read(
        config: &Config,
        topic: &str,
        limit: usize,
        wanted: &dyn Fn(&mut Value) -> bool,
    ) -> Result<Vec<Value>, Failure> {
        let (mut found, mut unreadable) = (BTreeMap::<i32, Self>::new(), 0);
        scan(config, topic, &mut |record| {
            let parsed = record.value.and_then(|bytes| serde_json::from_str(&text(config, &bytes)?).ok());
            let Some(mut value) = parsed else {
                unreadable += 1;
                return;
            };
            if wanted(&mut value) {
                // Each partition is in order of time, so that the latest of each hold the latest of all.
                let empty = || Self { records: VecDeque::new(), limit, left_out: 0 };
                found.entry(record.partition).or_insert_with(empty).push(value);
            }
        })?;
        if unreadable > 0 {
            eprintln!("{topic}: {unreadable} records that this release cannot read");
        }
        let mut left_out: usize = found.values().map(|latest| latest.left_out).sum();
        let mut all: Vec<Value> = found.into_values().flat_map(|latest| latest.records).collect();
        let time = |value: &Value| value["at"].as_str().or(value["created_at"].as_str()).map(str::to_owned);
        all.sort_by_cached_key(|value| (time(value), value["task"].to_string(), value["seq"].as_u64()));
        let more = all.len().saturating_sub(limit);
        left_out += more;
        if left_out > 0 {
            eprintln!("{left_out} earlier ones are not shown: --limit");
        }
        Ok(all.split_off(more))
    }

    fn push(&mut self, value: Value) {
        self.records.push_back(value);
        if self.records.len() > self.limit {
            self.records.pop_front();
            self.left_out += 1;
        }
    }
}

/// Lists the audit trail.
///
/// # Errors
/// Exit 64 for a kind of entity that there is not, 69 without broker or topic.
pub fn audit(verb: &AuditVerb, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let AuditVerb::List(args) = verb;
    known("--entity", args.entity.as_deref(), &Audit::ENTITIES)?;
    let config = operator(resolved)?;
    let owners = Owners::read(&config)?;
    let wanted = |value: &mut Value| {
        owners.complete(value);
        args.admits(value)
    };
    let records = Latest::read(&config, &config.topics.audit, args.filter.limit, &wanted)?;
    let heads = ["at", "task", "seq", "entity", "entity_id", "from", "to", "reason", "author", "session_id", "graph"];
    list(&records, &heads, resolved, out)
}

impl AuditFilter {
    fn admits(&self, value: &Value) -> bool {
        is(self.filter.graph.as_ref(), &value["graph"])
            && is(self.filter.session.as_ref(), &value["session_id"])
            && is(self.entity.as_ref(), &value["entity"])
            && is(self.id.as_ref(), &value["entity_id"])
    }
}

/// Lists or shows escalations.
///
/// # Errors
/// Exit 66 for an id that is not there, 69 without broker or topic.
pub fn escalations(verb: &EscalationVerb, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let config = operator(resolved)?;
    let topic = &config.topics.escalations;
    match verb {
        EscalationVerb::List(args) => {
            let records = Latest::read(&config, topic, args.filter.limit, &|value| args.admits(value))?;
            let heads =
                ["created_at", "escalation_id", "reason", "session_id", "graph", "tenant", "signal", "next_step"];
            list(&records, &heads, resolved, out)
        }
        EscalationVerb::Show { id } => {
            let found = Latest::read(&config, topic, 1, &|value| value["escalation_id"].as_str() == Some(id))?;
            let Some(value) = found.first() else {
                return Err(Failure::new(Exit::NoInput, format_args!("{}: no such escalation", clean(id))));
            };
            serde_json::to_writer_pretty(&mut *out, value)
                .map_err(Into::into)
                .and_then(|()| writeln!(out))
                .map_err(unwritable)?;
            Ok(Exit::Done)
        }
    }
}

impl EscalationFilter {
    fn admits(&self, value: &Value) -> bool {
        is(self.filter.graph.as_ref(), &value["graph"])
            && is(self.filter.session.as_ref(), &value["session_id"])
            && is(self.tenant.as_ref(), &value["tenant"])
    }
}

fn list(records: &[Value], heads: &[&str], resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let output = resolved.settings.output;
    let written = if output == Output::Table {
        let mut table = Table::new(heads);
        for value in records {
            let cells: Vec<String> = heads.iter().map(|head| cell(&value[*head])).collect();
            table.row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
        }
        table.write(out)
    } else {
        write_values(output, records, out)
    };
    written.map_err(unwritable)?;
    Ok(Exit::Done)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Session and graph of interventions, overrides and escalations, by id.
#[derive(Default)]
struct Owners {
    by_id: BTreeMap<String, (Value, Value)>,
}

impl Owners {
    /// Those that the topics know; of overrides that are gone the Intervention Log knows the id.
    fn read(config: &Config) -> Result<Self, Failure> {
        let mut owners = Self::default();
        for topic in [&config.topics.interventions, &config.topics.overrides, &config.topics.escalations] {
            scan(config, topic, &mut |record| {
                let value = record.value.and_then(|bytes| serde_json::from_str(&text(config, &bytes)?).ok());
                owners.note(&value.unwrap_or_default());
            })?;
        }
        Ok(owners)
    }

    fn note(&mut self, value: &Value) {
        let session = [&value["scope"]["session_id"], &value["session_id"]].into_iter().find(|it| it.is_string());
        let owner = (session.cloned().unwrap_or_default(), value["graph"].clone());
        for id in ["intervention_id", "override_id", "escalation_id"] {
            if let Some(id) = value[id].as_str() {
                self.by_id.insert(id.to_owned(), owner.clone());
            }
        }
    }

    /// Puts session and graph beside an audit record, null where they are not known.
    fn complete(&self, audit: &mut Value) {
        let owner = audit["entity_id"].as_str().and_then(|id| self.by_id.get(id));
        let (session, graph) = owner.cloned().unwrap_or_default();
        if let Some(fields) = audit.as_object_mut() {
            fields.extend([("session_id".to_owned(), session), ("graph".to_owned(), json!(graph))]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_records_are_found_by_the_session_of_what_they_are_about() {
        let mut owners = Owners::default();
        owners.note(&json!({
            "intervention_id": "int_1", "override_id": "ovr_1", "graph": "g", "scope": { "kind": "session", "session_id": "s" },
        }));
        owners.note(&json!({ "escalation_id": "esc_1", "session_id": "t", "graph": "h" }));
        let complete = |id: &str| {
            let mut audit = json!({ "entity": "override", "entity_id": id });
            owners.complete(&mut audit);
            audit
        };
        let filter = |session: Option<&str>, graph: Option<&str>| AuditFilter {
            filter: Filter { session: session.map(Into::into), graph: graph.map(Into::into), limit: 1 },
            ..AuditFilter::default()
        };
        for id in ["int_1", "ovr_1"] {
            assert!(filter(Some("s"), Some("g")).admits(&complete(id)), "{id}");
            assert!(!filter(Some("t"), None).admits(&complete(id)) && !filter(None, Some("h")).admits(&complete(id)));
        }
        assert!(filter(Some("t"), None).admits(&complete("esc_1")));
        let unknown = complete("*");
        assert!(filter(None, None).admits(&unknown) && !filter(Some("s"), None).admits(&unknown));
        assert_eq!(unknown["session_id"], Value::Null);
    }

    #[test]
    fn the_latest_are_kept() {
        let mut latest = Latest { records: VecDeque::new(), limit: 2, left_out: 0 };
        (0..5).for_each(|number| latest.push(json!(number)));
        assert_eq!((latest.records, latest.left_out), (VecDeque::from([json!(3), json!(4)]), 3));
    }
}
