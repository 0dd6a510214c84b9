//! Resolution by a scan over all records, written from its description and not from the code.

use reflex::record::overrides::{Override, OverrideKind, OverrideMode, OverrideSource, OverrideStatus};
use reflex::record::scope::Scope;
use reflex::record::time::Timestamp;
use reflex::resolve::bucket::{self, Purpose};
use reflex::resolve::{Context, Phase};
use serde_json::{Value, json};

fn ignored(record: &Override, graph: &str, context: &Context, now: Timestamp) -> bool {
    let command = matches!(record.mode, OverrideMode::Force | OverrideMode::Deny);
    let trial = record.mode == OverrideMode::Trial
        && (record.default_schema_ref != record.schema_ref
            || record.candidate_schema_ref.is_none()
            || (record.primary_schema_ref.is_some() && record.primary_schema_ref != record.candidate_schema_ref));
    let shadow = match (&record.shadow, &record.shadow_schema_ref) {
        (Some(shadow), Some(copy)) => shadow.schema_ref != *copy,
        _ => false,
    };
    let needs_schema = record.mode != OverrideMode::Deny && record.kind != OverrideKind::Pause;
    record.graph != graph
        || record.status != OverrideStatus::Active
        || matches!(record.mode, OverrideMode::Unknown(_))
        || matches!(record.kind, OverrideKind::Unknown(_))
        || (command && record.source != OverrideSource::Operator)
        || (needs_schema && record.schema_ref.is_none())
        || record.expires_at <= now
        || trial
        || shadow
        || (record.tenant.is_some() && record.tenant != context.tenant)
        || !in_scope(&record.scope, context)
}

fn in_scope(scope: &Scope, context: &Context) -> bool {
    let value = |name: &str| match name {
        "tenant" => context.tenant.clone(),
        "region" => context.region.clone(),
        "app_version" => context.app_version.clone(),
        "graph_version" => context.graph_version.clone(),
        _ => context.attributes.get(name.strip_prefix("attributes.")?).cloned(),
    };
    match scope {
        Scope::Session { session_id } => context.session_id.as_ref() == Some(session_id),
        Scope::Cohort(wanted) => wanted.iter().all(|(name, wanted)| {
            (RANKS.contains(&name.as_str()) || name.starts_with("attributes."))
                && value(name).unwrap_or_default() == *wanted
        }),
        Scope::Unknown { .. } => false,
    }
}

const RANKS: [&str; 4] = ["tenant", "region", "app_version", "graph_version"];

type Place<'a> = (usize, bool, i64, Vec<(usize, &'a str)>, i64, &'a str);

fn place(record: &Override) -> Place<'_> {
    let tier = [OverrideMode::Deny, OverrideMode::Force].iter().position(|mode| *mode == record.mode).unwrap_or(2);
    let names = match &record.scope {
        Scope::Cohort(values) => values.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let rank = |name: &str| RANKS.iter().position(|known| *known == name).unwrap_or(RANKS.len());
    let mut dimensions: Vec<_> = names.into_iter().map(|name| (rank(name), name)).collect();
    dimensions.sort_unstable();
    let fewer = -i64::try_from(dimensions.len()).expect("a few");
    let session = matches!(record.scope, Scope::Session { .. });
    (tier, !session, fewer, dimensions, -record.created_at.as_micros(), &record.override_id)
}

/// What the description says, in JSON, by a scan over all records.
pub fn scan(records: &[Override], graph: &str, context: &Context, now: Timestamp) -> Value {
    let mut matching: Vec<_> = records.iter().filter(|record| !ignored(record, graph, context, now)).collect();
    matching.sort_by(|a, b| place(a).cmp(&place(b)));
    let global = format!("{graph}:{}", context.graph_version.as_deref().unwrap_or(""));
    let answer = |schema_ref: &str, route: &str, reason: &str, record: Option<&Override>| {
        let losers = matching.iter().map(|loser| &loser.override_id);
        let losers: Vec<_> = losers.filter(|id| record.is_some_and(|record| record.override_id != **id)).collect();
        json!({"schema_ref": schema_ref, "entry_point": null, "route": route, "shadow_schema_ref": null, "reason": reason,
            "override_id": record.map(|record| &record.override_id), "override_attempt": record.map(|record| record.attempt),
            "kind": "replace", "losers": losers})
    };
    let keep = |schema: &str| answer(schema, if schema == global { "primary" } else { "degraded" }, "current", None);
    let start = match matching.first() {
        None => answer(&global, "primary", "default", None),
        Some(winner) => follow(winner, &global, context, answer),
    };
    match (context.phase, &context.current_schema_ref) {
        (Phase::Start, _) | (Phase::Resume, None) => start,
        (Phase::Resume, Some(current)) if start["schema_ref"] == json!(current) => {
            let mut kept = start;
            kept["reason"] = json!("current");
            kept["losers"] = json!([]);
            kept
        }
        (Phase::Resume, Some(current)) => keep(current),
        (Phase::Failed, _) if matching.first().is_some_and(|record| record.mode == OverrideMode::Deny) => start,
        (Phase::Failed, current) => {
            let own = matching.iter().find(|record| {
                matches!(record.scope, Scope::Session { .. })
                    && !matches!(record.mode, OverrideMode::Force | OverrideMode::Deny)
                    && record.run_id == context.run_id
            });
            let Some(own) = own else { return keep(current.as_ref().unwrap_or(&global)) };
            let mut moved = answer(own.schema_ref.as_ref().unwrap_or(&global), "degraded", "session", Some(own));
            moved["entry_point"] = json!(own.entry_point);
            moved["kind"] = json!(own.kind);
            moved
        }
    }
}

fn follow(
    record: &Override,
    global: &str,
    context: &Context,
    answer: impl Fn(&str, &str, &str, Option<&Override>) -> Value,
) -> Value {
    let schema = record.schema_ref.as_deref().unwrap_or(global);
    let selected = |purpose, percentage| {
        let salt = record.attempt_salt.as_deref().unwrap_or("");
        let session_id = context.session_id.as_deref().unwrap_or("");
        bucket::selected(purpose, &record.override_id, salt, session_id, percentage)
    };
    if record.mode == OverrideMode::Deny {
        return answer(global, "primary", "deny", Some(record));
    }
    let session = matches!(record.scope, Scope::Session { .. });
    let reason = if session { "session" } else { "cohort" };
    let reason = if record.mode == OverrideMode::Force { "force" } else { reason };
    let mut found = answer(schema, "degraded", reason, Some(record));
    if record.kind == OverrideKind::Pause {
        found["kind"] = json!("pause");
        return found;
    }
    if record.mode == OverrideMode::Trial && selected(Purpose::Trial, record.trial_percentage.unwrap_or(0.0)) {
        return answer(record.candidate_schema_ref.as_deref().expect("checked"), "trial", "trial", Some(record));
    }
    if let Some(shadow) = &record.shadow
        && record.mode != OverrideMode::Force
        && shadow.status == "active"
        && selected(Purpose::Shadow, shadow.probe_percentage)
    {
        found["shadow_schema_ref"] = json!(shadow.schema_ref);
    }
    found
}
