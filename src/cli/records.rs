//! `reflex overrides list | show | lift | force | deny` and `reflex interventions list | show | approve | reject`: what stands on the
//! compacted topics, and decisions on it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use clap::Subcommand;
use serde_json::Value;

use crate::cli::decide::{Wait, Why, command, decide, operator};
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::{known, unwritable};
use crate::cli::order::{self, Deny, Force};
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::cli::table::{Table, clean, few, write_values};
use crate::engine::Config;
use crate::engine::operator::orders::{Owner, text};
use crate::engine::operator::scan::scan;
use crate::record::command::Verb as Act;
use crate::record::intervention::{Intervention, InterventionStatus};
use crate::record::overrides::{Override, OverrideStatus};
use crate::record::scope::Scope;

/// What to do with overrides.
#[derive(Debug, Subcommand)]
pub enum OverrideVerb {
    /// Those in force.
    List(Filter),
    /// One whole.
    Show {
        /// Its id
        id: String,
    },
    /// End one, now.
    Lift(OnOne),
    /// Run one schema in a cohort or a whole graph, whatever else says
    Force(Force),
    /// Run the global schema in a cohort or a whole graph, whatever else says
    Deny(Deny),
}

/// What to do with interventions.
#[derive(Debug, Subcommand)]
pub enum InterventionVerb {
    /// The Intervention Log as it stands.
    List(Filter),
    /// One whole.
    Show {
        /// Its id
        id: String,
    },
    /// Approve what one proposes, as it stands on the topic.
    Approve(OnOne),
    /// Reject what one proposes.
    Reject(OnOne),
}

/// A decision on one record.
#[derive(Debug, clap::Args)]
pub struct OnOne {
    /// Its id
    id: String,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    wait: Wait,
}

/// Which records.
#[derive(Debug, clap::Args)]
pub struct Filter {
    /// Of this graph
    #[arg(long)]
    graph: Option<String>,
    /// Of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Of this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// In this status
    #[arg(long)]
    status: Option<String>,
}

impl Filter {
    fn admits(&self, value: &Value) -> bool {
        let is =
            |wanted: &Option<String>, found: &Value| wanted.as_deref().is_none_or(|text| found.as_str() == Some(text));
        is(&self.graph, &value["graph"])
            && is(&self.session, &value["scope"]["session_id"])
            && is(&self.tenant, &value["tenant"])
            && is(&self.status, &value["status"])
    }
}

/// Lists, shows or ends overrides.
///
/// # Errors
/// Exit 64 for a status that there is not, 66 for an id that is not there, 69 without broker or topic; those of a decision.
pub fn overrides(verb: &OverrideVerb, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let found = |config: &Config| Found::read(config, &config.topics.overrides, "override_id");
    match verb {
        OverrideVerb::List(filter) => {
            known("--status", filter.status.as_deref(), OverrideStatus::WORDS)?;
            let heads =
                ["override_id", "graph", "scope", "tenant", "mode", "schema_ref", "attempt", "reason", "expires_at"];
            found(&operator(resolved)?)?.list(filter, resolved, &heads, out)
        }
        OverrideVerb::Show { id } => found(&operator(resolved)?)?.show(id, out),
        OverrideVerb::Lift(on) => {
            let target: Override = found(&operator(resolved)?)?.parsed(&on.id)?;
            let owner = Owner::of(&target.scope, &target.graph);
            decide(resolved, &owner, &command(Act::Lift, &on.id, None, &on.why)?, on.wait, out)
        }
        OverrideVerb::Force(args) => order::force(args, resolved, out),
        OverrideVerb::Deny(args) => order::deny(args, resolved, out),
    }
}

/// Lists, shows or decides interventions.
///
/// # Errors
/// As [`overrides`]; exit 65 for an intervention that does not wait for a decision.
pub fn interventions(verb: &InterventionVerb, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    if let InterventionVerb::List(filter) = verb {
        known("--status", filter.status.as_deref(), InterventionStatus::WORDS)?;
    }
    let config = operator(resolved)?;
    let found = Found::read(&config, &config.topics.interventions, "intervention_id")?;
    let (act, on) = match verb {
        InterventionVerb::List(filter) => {
            let heads = ["intervention_id", "status", "graph", "scope", "tenant", "signal", "reason", "updated_at"];
            return found.list(filter, resolved, &heads, out);
        }
        InterventionVerb::Show { id } => return found.show(id, out),
        InterventionVerb::Approve(on) => (Act::Approve, on),
        InterventionVerb::Reject(on) => (Act::Reject, on),
    };
    let target: Intervention = found.parsed(&on.id)?;
    if target.status != InterventionStatus::AwaitingApproval {
        let message = format!("{} is {}: only what is awaiting_approval can be decided", clean(&on.id), target.status);
        return Err(Failure::new(Exit::BadInput, message));
    }
    let content_hash = target.proposal.map(|proposal| proposal.content_hash).filter(|_| act == Act::Approve);
    let owner = Owner::of(&target.scope, &target.graph);
    decide(resolved, &owner, &command(act, &on.id, content_hash, &on.why)?, on.wait, out)
}

/// What stands on a compacted topic.
struct Found {
    values: Vec<Value>,
    id: &'static str,
}

impl Found {
    /// The last value of each key; tombstones are gone. What is no record is named.
    fn read(config: &Config, topic: &str, id: &'static str) -> Result<Self, Failure> {
        let mut standing: BTreeMap<Vec<u8>, Value> = BTreeMap::new();
        let mut unreadable: BTreeSet<Vec<u8>> = BTreeSet::new();
        scan(config, topic, &mut |record| {
            let key = record.key.unwrap_or_default();
            unreadable.remove(&key);
            let Some(bytes) = record.value else {
                standing.remove(&key);
                return;
            };
            match text(config, &bytes).and_then(|text| serde_json::from_str(&text).ok()) {
                Some(value) => drop(standing.insert(key, value)),
                None => drop(unreadable.insert(key)),
            }
        })?;
        if !unreadable.is_empty() {
            let keys: Vec<_> = unreadable.iter().map(|key| String::from_utf8_lossy(key)).collect();
            let named = few(keys.iter().map(AsRef::as_ref));
            eprintln!("{topic}: {} records that this release cannot read, under {named}", keys.len());
        }
        let mut values: Vec<Value> = standing.into_values().collect();
        values.sort_by_cached_key(|value| (value["created_at"].to_string(), value[id].to_string()));
        Ok(Self { values, id })
    }

    fn get(&self, id: &str) -> Result<&Value, Failure> {
        self.values.iter().find(|value| value[self.id].as_str() == Some(id)).ok_or_else(|| {
            Failure::new(Exit::NoInput, format_args!("{}: no such {}", clean(id), self.id.trim_end_matches("_id")))
        })
    }

    fn parsed<T: serde::de::DeserializeOwned>(&self, id: &str) -> Result<T, Failure> {
        serde_json::from_value(self.get(id)?.clone())
            .map_err(|error| Failure::new(Exit::BadInput, format_args!("{}: {error}", clean(id))))
    }

    fn show(&self, id: &str, out: &mut dyn Write) -> Result<Exit, Failure> {
        let value = self.get(id)?;
        serde_json::to_writer_pretty(&mut *out, value)
            .map_err(Into::into)
            .and_then(|()| writeln!(out))
            .map_err(unwritable)?;
        Ok(Exit::Done)
    }

    fn list(&self, filter: &Filter, resolved: &Resolved, heads: &[&str], out: &mut dyn Write) -> Result<Exit, Failure> {
        let values: Vec<Value> = self.values.iter().filter(|value| filter.admits(value)).cloned().collect();
        let output = resolved.settings.output;
        let written = if output == Output::Table {
            let mut table = Table::new(heads);
            for value in &values {
                let cells: Vec<String> = heads.iter().map(|head| cell(head, &value[*head])).collect();
                table.row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
            }
            table.write(out)
        } else {
            write_values(output, &values, out)
        };
        written.map_err(unwritable)?;
        Ok(Exit::Done)
    }
}

fn cell(head: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        scope if head == "scope" => match serde_json::from_value::<Scope>(scope.clone()) {
            Ok(Scope::Session { session_id }) => session_id,
            Ok(Scope::Cohort(dimensions)) if dimensions.is_empty() => "the whole graph".to_owned(),
            Ok(Scope::Cohort(dimensions)) => {
                let pairs: Vec<String> = dimensions.iter().map(|(name, value)| format!("{name}={value}")).collect();
                pairs.join(" ")
            }
            Ok(Scope::Unknown { kind }) => format!("{kind}?"),
            Err(_) => scope.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filters_and_cells_read_records_of_either_scope() {
        let session = json!({ "graph": "g", "tenant": null, "status": "active", "scope": { "kind": "session", "session_id": "s" } });
        let cohort = json!({ "graph": "g", "tenant": "t", "scope": { "region": "eu", "app_version": "6" } });
        let filter = |session: Option<&str>, tenant: Option<&str>| Filter {
            graph: Some("g".into()),
            session: session.map(str::to_owned),
            tenant: tenant.map(str::to_owned),
            status: None,
        };
        assert!(filter(Some("s"), None).admits(&session) && !filter(Some("s"), None).admits(&cohort));
        assert!(filter(None, Some("t")).admits(&cohort) && !filter(None, Some("t")).admits(&session));
        assert_eq!(cell("scope", &session["scope"]), "s");
        assert_eq!(cell("scope", &cohort["scope"]), "app_version=6 region=eu");
        assert_eq!(cell("scope", &json!({ "kind": "graph" })), "the whole graph");
        assert_eq!(cell("tenant", &Value::Null), "-");
    }
}
