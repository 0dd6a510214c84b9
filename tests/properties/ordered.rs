//! Overrides that people order for a cohort: what is live is what stands on the topic, each change is one audit line.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use reflex::fleet::Fleet;
use reflex::record::command::{Order, Verb};
use reflex::record::output::{Output, Record};
use reflex::record::overrides::{Override, OverrideKind, OverrideMode, OverrideSource};
use reflex::record::scope::Scope;
use reflex::record::topic::Topic;

use crate::draft;
use crate::fleet_world::{Step, Told, instant, new, order, steps, take};
use crate::world::{high, registry};

/// What a reader of the overrides topic holds.
#[derive(Default)]
struct Held(BTreeMap<String, Override>);

impl Held {
    fn read(&mut self, outputs: &[Output]) {
        for output in outputs.iter().filter(|output| output.topic == Topic::Overrides) {
            match &output.value {
                Some(Record::Override(record)) => {
                    assert_eq!(record.key(), output.key);
                    self.0.insert(output.key.clone(), (**record).clone());
                }
                None => assert!(self.0.remove(&output.key).is_some(), "a tombstone of what was not there"),
                Some(other) => panic!("no override: {other:?}"),
            }
        }
    }

    fn only(&self) -> &Override {
        assert_eq!(self.0.len(), 1);
        self.0.values().next().unwrap()
    }
}

/// Tells a task, and its reader what it published; what became of the command.
fn tell(fleet: &mut Fleet, held: &mut Held, number: i64, at_ms: i64, told: Told) -> (String, Option<String>) {
    let outputs = take(fleet, &Step { number, at: instant(at_ms), told });
    held.read(&outputs);
    let mut audits = outputs.iter().filter_map(|output| match &output.value {
        Some(Record::Audit(audit)) if audit.entity == "command" => Some((audit.to.clone(), audit.reason.clone())),
        _ => None,
    });
    audits.next_back().unwrap_or_default()
}

fn force(region: Option<&str>, schema_ref: &str, ttl_ms: u64) -> Told {
    Told::Order(Verb::Force, "g", order(region, Some(schema_ref), ttl_ms))
}

fn refusal(told: Told) -> String {
    let (mut fleet, mut held) = (new(&high()), Held::default());
    let (to, reason) = tell(&mut fleet, &mut held, 1, 0, told);
    assert_eq!((to.as_str(), held.0.len()), ("refused", 0));
    reason.unwrap()
}

proptest! {
    #![proptest_config(draft::config(64))]

    #[test]
    fn what_is_live_is_what_stands_on_the_topic_and_has_not_ended(steps in steps(80)) {
        let (mut fleet, mut held) = (new(&high()), Held::default());
        for step in &steps {
            let outputs = take(&mut fleet, step);
            let moved = outputs.iter().filter(|output| output.topic == Topic::Overrides).count();
            let is_line = |output: &&Output| matches!(&output.value, Some(Record::Audit(audit)) if audit.entity == "override");
            prop_assert_eq!(outputs.iter().filter(is_line).count(), moved, "an audit line a change");
            held.read(&outputs);
            prop_assert_eq!(fleet.in_use().overrides_live, held.0.len());
            let now = fleet.clock().unwrap();
            prop_assert!(held.0.values().all(|record| record.expires_at > now && record.source == OverrideSource::Operator));
        }
    }
}

#[test]
fn an_order_is_published_replaced_under_its_id_and_lifted() {
    let (mut fleet, mut held) = (new(&high()), Held::default());
    assert_eq!(tell(&mut fleet, &mut held, 1, 0, force(Some("eu"), "g:v2", 60_000)).0, "done");
    let first = held.only().clone();
    assert_eq!((first.mode.clone(), first.schema_ref.as_deref()), (OverrideMode::Force, Some("g:v2")));
    assert_eq!((first.attempt, first.revision, first.expires_at), (0, 1, instant(60_000)));
    assert_eq!((first.reason.as_str(), first.author.as_deref()), ("a test says so", Some("ann")));
    let deny = Told::Order(Verb::Deny, "g", order(Some("eu"), None, 60_000));
    assert_eq!(tell(&mut fleet, &mut held, 2, 1_000, deny).0, "done");
    let second = held.only().clone();
    assert_eq!((&second.override_id, second.attempt, second.revision), (&first.override_id, 1, 2));
    assert_eq!((second.mode.clone(), second.schema_ref.as_deref()), (OverrideMode::Deny, None));
    tell(&mut fleet, &mut held, 3, 2_000, force(None, "g:v3", 60_000));
    assert_eq!(held.0.len(), 2, "another scope is another override");
    assert_eq!(tell(&mut fleet, &mut held, 4, 3_000, Told::Lift(first.override_id.clone())).0, "done");
    assert_eq!(held.only().scope, Scope::Cohort(BTreeMap::new()));
    let again = tell(&mut fleet, &mut held, 5, 3_000, Told::Lift(first.override_id));
    assert_eq!(again, (String::from("refused"), Some(String::from("no_such_override"))));
}

#[test]
fn an_order_ends_by_itself_also_while_its_task_is_frozen() {
    let (mut fleet, mut held) = (new(&high()), Held::default());
    tell(&mut fleet, &mut held, 1, 0, Told::Command(Verb::Freeze));
    assert_eq!(
        tell(&mut fleet, &mut held, 2, 0, force(None, "g:v2", 5_000)).0,
        "done",
        "a person's order is no automation"
    );
    assert_eq!(fleet.next_deadline(), Some(instant(5_000)));
    tell(&mut fleet, &mut held, 3, 4_999, Told::Tick);
    assert_eq!(held.0.len(), 1);
    tell(&mut fleet, &mut held, 4, 5_000, Told::Tick);
    assert_eq!((held.0.len(), fleet.next_deadline()), (0, None));
}

#[test]
fn what_cannot_be_ordered_is_refused_with_its_reason() {
    let of = |order: Order| Told::Order(Verb::Force, "g", order);
    let good = || order(Some("eu"), Some("g:v2"), 1_000);
    assert_eq!(refusal(Told::Command(Verb::Force)), "no_override");
    assert_eq!(refusal(of(Order { scope: Scope::session("s"), ..good() })), "not_a_cohort");
    assert_eq!(refusal(of(order(Some(""), Some("g:v2"), 1_000))), "bad_scope");
    assert_eq!(refusal(of(order(Some(&"x".repeat(2_000)), Some("g:v2"), 1_000))), "bad_scope");
    let typo = BTreeMap::from([(String::from("regoin"), String::from("eu"))]);
    assert_eq!(refusal(of(Order { scope: Scope::Cohort(typo), ..good() })), "bad_scope");
    assert_eq!(refusal(Told::Order(Verb::Force, "graph/g", good())), "bad_graph");
    assert_eq!(refusal(of(order(Some("eu"), Some("g_without_version"), 1_000))), "bad_schema_ref");
    assert_eq!(refusal(of(Order { ttl_ms: 0, ..good() })), "no_time_to_live");
    assert_eq!(refusal(of(Order { ttl_ms: 604_800_001, ..good() })), "limit:operator_override_ms_max");
    assert_eq!(refusal(of(Order { schema_ref: None, ..good() })), "bad_schema_ref");
    assert_eq!(refusal(of(Order { kind: OverrideKind::Pause, ..good() })), "bad_schema_ref");
    assert_eq!(refusal(Told::Order(Verb::Deny, "g", good())), "bad_schema_ref");
}

#[test]
fn no_more_orders_live_than_the_limit_and_a_replacement_is_none_more() {
    let registry: Arc<_> = registry(&[("operator_overrides_live_max", 1)]);
    let (mut fleet, mut held) = (new(&registry), Held::default());
    assert_eq!(tell(&mut fleet, &mut held, 1, 0, force(Some("eu"), "g:v2", 1_000)).0, "done");
    let (to, reason) = tell(&mut fleet, &mut held, 2, 0, force(Some("us"), "g:v2", 1_000));
    assert_eq!((to.as_str(), reason.as_deref()), ("refused", Some("limit:operator_overrides_live_max")));
    assert_eq!(tell(&mut fleet, &mut held, 3, 0, force(Some("eu"), "g:v3", 1_000)).0, "done");
}
