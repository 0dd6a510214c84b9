//! Records and contexts out of small choices, so that records often match, tie and shadow each other.

use std::collections::BTreeMap;

use reflex::record::overrides::{Override, Shadow};
use reflex::record::scope::Scope;
use reflex::record::time::Timestamp;
use reflex::resolve::{Context, Phase};

/// A live, ignored or expired record of graph `g` or `h`.
pub fn record(id: usize, choice: [u8; 14]) -> Override {
    let [graph, scope, values, tenant, run, source, kind, schema, mode, copies, shadow, percentage, created, expires] =
        choice;
    let pick = |choice: u8, words: &[&'static str]| words[usize::from(choice) % words.len()];
    let some = |word: &'static str| (!word.is_empty()).then(|| word.to_owned());
    let names = ["tenant", "region", "app_version", "graph_version", "attributes.a", "attributes.b", "model"];
    let dimensions = names.iter().enumerate().filter(|(bit, _)| scope & (1 << bit) != 0);
    let value =
        |bit: usize| if values & (1 << bit) == 0 || !tenant.is_multiple_of(3) { "x" } else { pick(values, &["y", ""]) };
    let cohort = dimensions.map(|(bit, name)| ((*name).to_owned(), value(bit).to_owned())).collect();
    let schema_ref = some(pick(schema, &["d:v1", "d:v1", "d:v1", "g:x", ""]));
    Override {
        override_id: format!("ovr_{id}"),
        graph: pick(graph, &["g", "g", "g", "h"]).to_owned(),
        scope: match scope {
            128.. => Scope::session(pick(scope, &["x", "y"])),
            127 => Scope::Unknown { kind: "ring".to_owned() },
            // Most with few dimensions and none unknown.
            _ if scope & 1 == 0 && values & 3 != 0 => {
                Scope::Cohort(BTreeMap::from([("region".to_owned(), "x".to_owned())]))
            }
            _ => Scope::Cohort(cohort),
        },
        tenant: some(pick(tenant, &["", "", "x", "y"])),
        run_id: some(pick(run, &["", "r1", "r2"])),
        source: pick(source, &["auto", "operator", "operator"]).into(),
        kind: pick(kind, &["replace", "replace", "replace", "pause", "drain"]).into(),
        default_schema_ref: if copies.is_multiple_of(5) { None } else { schema_ref.clone() },
        schema_ref,
        entry_point: some(pick(run, &["n1", "", "n2"])),
        resume: None,
        primary_schema_ref: some(pick(copies, &["", "g:x", "g:x", "g:y"])),
        shadow: (!shadow.is_multiple_of(3)).then(|| Shadow {
            schema_ref: "s:v1".to_owned(),
            status: pick(shadow, &["active", "active", "pending"]).to_owned(),
            probe_percentage: f64::from(percentage),
            selection: "deterministic".to_owned(),
            side_effects: "disabled".to_owned(),
        }),
        shadow_schema_ref: some(pick(shadow, &["", "s:v1", "s:v1", "s:v1", "s:v2"])),
        candidate_schema_ref: some(pick(copies / 2, &["g:x", "g:x", "g:x", "g:y", ""])),
        trial_percentage: Some(f64::from(percentage) / 2.0),
        selection: None,
        attempt_salt: some(pick(percentage, &["", "2"])),
        status: pick(expires, &["active", "active", "active", "active", "active", "paused"]).into(),
        mode: pick(mode, &["degraded", "degraded", "degraded", "trial", "trial", "force", "deny", "canary"]).into(),
        attempt: u32::from(run),
        revision: 1,
        intervention_id: None,
        reason: String::new(),
        author: None,
        created_at: Timestamp::from_millis(i64::from(created % 3)),
        expires_at: Timestamp::from_millis(i64::from(expires % 8)),
    }
}

/// A question about them.
pub fn context(choice: [u8; 8]) -> Context {
    let word = |choice: u8, words: &[&str]| {
        Some(words[usize::from(choice) % words.len()].to_owned()).filter(|word| word != "-")
    };
    let [session, run, phase, current, tenant, region, versions, attributes] = choice;
    let values = ["x", "x", "x", "y", "", "-"];
    Context {
        session_id: word(session, &["x", "x", "y", "z", "", "-"]),
        run_id: word(run, &["r1", "r2", "-"]),
        phase: [Phase::Start, Phase::Resume, Phase::Failed][usize::from(phase) % 3],
        current_schema_ref: word(current, &["-", "d:v1", "g:x", "other:v1"]),
        tenant: word(tenant, &values),
        region: word(region, &values),
        app_version: word(versions, &values),
        graph_version: word(versions / 6, &values),
        attributes: ["a", "b"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), word(attributes, &values)?)))
            .collect(),
    }
}
