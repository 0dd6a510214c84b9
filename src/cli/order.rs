//! `reflex overrides force | deny`: overrides that a person orders for a cohort or a whole graph.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use crate::cli::decide::{Wait, Why, command, decide};
use crate::cli::exit::{Exit, Failure};
use crate::cli::settings::Resolved;
use crate::cli::table::clean;
use crate::engine::operator::orders::Owner;
use crate::record::command::{Command, Order, Verb};
use crate::record::overrides::OverrideKind;
use crate::record::scope::{DIMENSIONS, Scope, is_dimension};

/// Whom, for how long, and why.
#[derive(Debug, clap::Args)]
pub struct Whom {
    /// A dimension of the cohort, `region=eu-west`; several: the sessions that have all of them; none: the whole graph
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = dimension)]
    dimensions: Vec<(String, String)>,
    /// How long it lives; runtimes end it by themselves
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = humantime::parse_duration)]
    ttl: Duration,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    wait: Wait,
}

/// What to force.
#[derive(Debug, clap::Args)]
pub struct Force {
    /// The graph as given to resolve
    graph: String,
    /// The schema to run, `degraded_refund_graph:v1`
    #[arg(required_unless_present = "pause", conflicts_with = "pause")]
    schema_ref: Option<String>,
    /// Do not run the graph: wait
    #[arg(long)]
    pause: bool,
    #[command(flatten)]
    whom: Whom,
}

/// What to deny.
#[derive(Debug, clap::Args)]
pub struct Deny {
    /// The graph as given to resolve
    graph: String,
    #[command(flatten)]
    whom: Whom,
}

fn dimension(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("not NAME=VALUE")?;
    if name.is_empty() || value.is_empty() {
        return Err("neither name nor value may be empty".into());
    }
    if !is_dimension(name) {
        return Err(format!("no such dimension; there are {}, attributes.NAME", DIMENSIONS.join(", ")));
    }
    Ok((name.to_owned(), value.to_owned()))
}

impl Whom {
    fn order(&self, kind: OverrideKind, schema_ref: Option<String>) -> Result<Order, Failure> {
        let mut dimensions = BTreeMap::new();
        for (name, value) in &self.dimensions {
            if dimensions.insert(name.clone(), value.clone()).is_some() {
                return Err(Failure::new(Exit::Usage, format_args!("--where {name}: stands twice")));
            }
        }
        let ttl_ms = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        Ok(Order { scope: Scope::Cohort(dimensions), kind, schema_ref, ttl_ms })
    }
}

fn ordered(verb: Verb, graph: &str, order: Order, why: &Why) -> Result<Command, Failure> {
    Ok(Command { order: Some(order), ..command(verb, graph, None, why)? })
}

/// Says what the registry of this machine does not know: nobody may be able to run it.
fn unregistered(args: &Force, resolved: &Resolved) {
    let Ok(registry) = crate::cli::registry(resolved) else { return };
    let graphs = &registry.graphs;
    if let Some(schema_ref) = args.schema_ref.as_deref().filter(|schema_ref| !graphs.contains_key(*schema_ref)) {
        eprintln!(
            "warning: {} is no graph of this registry; a runtime that cannot load it runs its own",
            clean(schema_ref)
        );
    }
    if !graphs.values().any(|graph| graph.name == args.graph) {
        eprintln!("warning: no version of {} is in this registry", clean(&args.graph));
    }
}

/// Sends the order to run one schema, or to wait.
///
/// # Errors
/// Exit 64 for a scope that is none; those of a decision.
pub fn force(args: &Force, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let kind = if args.pause { OverrideKind::Pause } else { OverrideKind::Replace };
    unregistered(args, resolved);
    let order = args.whom.order(kind, args.schema_ref.clone())?;
    let command = ordered(Verb::Force, &args.graph, order, &args.whom.why)?;
    decide(resolved, &Owner::Graph(args.graph.clone()), &command, args.whom.wait, out)
}

/// Sends the order to run the global schema whatever else says.
///
/// # Errors
/// As [`force`].
pub fn deny(args: &Deny, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let order = args.whom.order(OverrideKind::Replace, None)?;
    let command = ordered(Verb::Deny, &args.graph, order, &args.whom.why)?;
    decide(resolved, &Owner::Graph(args.graph.clone()), &command, args.whom.wait, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_have_a_name_and_a_value_and_do_not_look_like_a_session() {
        assert_eq!(dimension("region=eu=west"), Ok(("region".into(), "eu=west".into())));
        for text in ["region", "=eu", "region=", "session_id=s", "kind=session", "regoin=eu", "attributes.=x"] {
            assert!(dimension(text).is_err(), "{text}");
        }
    }
}
