//! A reader of the output topics that trusts nothing: what must hold of every run of a task.

use std::collections::BTreeMap;

use reflex::record::audit::Audit;
use reflex::record::intervention::{Intervention, InterventionStatus as Status};
use reflex::record::output::{Output, Record};
use reflex::record::overrides::Override;
use reflex::record::time::Timestamp;
use reflex::record::topic::Topic;
use reflex::session::intervention::is_legal;

use crate::world::Done;

/// What a reader keeps.
#[derive(Default)]
pub struct Ledger {
    live: BTreeMap<String, Override>,
    interventions: BTreeMap<String, Intervention>,
    audits: Vec<Audit>,
    last_at: Option<Timestamp>,
    clock: Option<Timestamp>,
    /// Overrides published and tombstones: to see that something happened at all.
    pub published: usize,
}

/// Reads everything a run published, and complains.
pub fn read(runs: &[Done]) -> Ledger {
    let mut ledger = Ledger::default();
    for done in runs {
        ledger.step(done);
    }
    ledger
}

impl Ledger {
    /// Reads what one step did.
    pub fn step(&mut self, done: &Done) {
        let clock = self.clock.map_or(done.now, |clock| clock.max(done.now));
        self.clock = Some(clock);
        let mut outputs = done.outputs.iter().peekable();
        while let Some(output) = outputs.next() {
            assert!(self.last_at.is_none_or(|last| last <= output.at), "records never go back in time: {output:?}");
            assert!(output.at <= clock, "nothing is decided in the future: {output:?}");
            self.last_at = Some(output.at);
            if let Some(Record::Fleet(record)) = &output.value {
                assert_eq!((output.topic, &output.key, record.source().1), (Topic::Fleet, &record.key(), output.at));
                continue;
            }
            if let Some(Record::Audit(audit)) = &output.value {
                assert!(stands_alone(audit), "a transition without its record: {audit:?}");
                self.audit(audit, output);
                continue;
            }
            let transition = self.record(output, done);
            let Some(Output { value: Some(Record::Audit(audit)), .. }) = outputs.peek() else {
                panic!("no audit line follows {output:?}");
            };
            let told = (audit.entity.as_str(), audit.entity_id.clone(), audit.from.clone(), audit.to.clone());
            assert_eq!(told, transition, "the audit line of {output:?}");
            self.audit(audit, outputs.next().expect("peeked"));
        }
        let late = self.live.values().find(|live| live.expires_at <= clock && live.created_at < clock);
        assert!(late.is_none_or(|live| live.expires_at == Timestamp::MAX), "outlived its time at {clock}: {late:?}");
        assert_eq!(done.in_use.0 as usize, self.live.len(), "guard of live overrides");
        assert!(done.next_deadline.is_none_or(|next| next > clock || next == Timestamp::MAX), "a deadline was missed");
    }

    /// The sessions with a live override: (tenant, session).
    pub fn held(&self) -> usize {
        let waiting = self.interventions.values().filter(|known| known.status == Status::AwaitingApproval).count();
        self.live.len() + waiting
    }

    fn audit(&mut self, audit: &Audit, output: &Output) {
        assert_eq!(audit.seq, self.audits.len() as u64, "the chain has no gap");
        let previous = self.audits.last().map(Audit::hash).unwrap_or_default();
        assert_eq!(audit.previous_hash, previous, "the chain holds");
        assert_eq!((output.topic, &output.key, output.at), (Topic::Audit, &audit.entity_id, audit.at));
        self.audits.push(audit.clone());
    }

    /// Reads a record that is no audit line; the transition that its audit line must tell.
    fn record(&mut self, output: &Output, done: &Done) -> (&'static str, String, Option<String>, String) {
        match &output.value {
            Some(Record::Intervention(record)) => self.intervention(record, output),
            Some(Record::Override(record)) => self.published(record, output, done),
            Some(Record::Escalation(record)) => {
                assert_eq!((output.topic, &output.key), (Topic::Escalations, &record.session_id));
                assert!(record.evidence.last().is_some_and(|last| last.exhausted_by.is_some()), "{record:?}");
                ("escalation", record.escalation_id.clone(), None, String::from("raised"))
            }
            Some(Record::Audit(_) | Record::Fleet(_)) => unreachable!("handled before"),
            None => {
                assert_eq!(output.topic, Topic::Overrides, "only overrides have tombstones");
                let ended = self.live.remove(&output.key).expect("a tombstone ends what lives");
                self.published += 1;
                ("override", ended.override_id, Some(String::from("active")), String::from("removed"))
            }
        }
    }

    fn intervention(
        &mut self,
        record: &Intervention,
        output: &Output,
    ) -> (&'static str, String, Option<String>, String) {
        let id = &record.intervention_id;
        assert_eq!((output.topic, &output.key), (Topic::Interventions, id));
        let before = self.interventions.insert(id.clone(), record.clone());
        let from = before.as_ref().map(|before| before.status.clone());
        assert!(is_legal(from.as_ref(), &record.status), "{from:?} -> {}: {id}", record.status);
        assert_eq!(record.revision, before.as_ref().map_or(1, |before| before.revision + 1), "{id}");
        assert_eq!(record.updated_at, output.at);
        assert!(record.evidence.last().is_some_and(|last| last.exhausted_by.is_some()), "{record:?}");
        assert!(record.signature.retry_budget_exhausted);
        if let Some(before) = before {
            let lasting =
                |of: &Intervention| (of.signature.clone(), of.scope.clone(), of.evidence.clone(), of.created_at);
            assert_eq!(lasting(record), lasting(&before), "what an intervention is about never changes");
        }
        assert_eq!(record.status == Status::Applied, record.override_id.is_some(), "{record:?}");
        ("intervention", id.clone(), from.map(|from| from.to_string()), record.status.to_string())
    }

    fn published(
        &mut self,
        record: &Override,
        output: &Output,
        done: &Done,
    ) -> (&'static str, String, Option<String>, String) {
        assert!(!done.frozen, "a frozen task publishes no override: {record:?}");
        assert_eq!((output.topic, &output.key), (Topic::Overrides, &record.key()));
        assert!(record.expires_at >= output.at);
        let before = self.live.insert(output.key.clone(), record.clone());
        match &before {
            None => assert_eq!((record.attempt, record.revision), (0, 1), "a new one begins at the beginning"),
            Some(before) => {
                assert_eq!(record.override_id, before.override_id, "one live override per (tenant, session, graph)");
                assert_eq!((record.attempt, record.revision), (before.attempt + 1, before.revision + 1));
                assert_eq!(record.created_at, before.created_at);
            }
        }
        let id = record.intervention_id.as_ref().expect("an override names its intervention");
        assert!(self.interventions.contains_key(id), "{id} is not in the log");
        let applied = done.outputs.iter().any(|output| match &output.value {
            Some(Record::Intervention(told)) => {
                told.intervention_id == *id
                    && told.status == Status::Applied
                    && told.override_id.as_ref() == Some(&record.override_id)
            }
            _ => false,
        });
        assert!(applied, "{id} is applied in the same step");
        self.published += 1;
        let from = before.map(|_| String::from("active"));
        ("override", record.override_id.clone(), from, String::from("active"))
    }

    /// Every edge of interventions seen: from (none: new) and to.
    pub fn edges(&self) -> impl Iterator<Item = (Option<String>, String)> {
        let transitions = self.audits.iter().filter(|audit| audit.entity == "intervention");
        let moved = transitions.filter(|audit| audit.from.as_ref() != Some(&audit.to));
        moved.map(|audit| (audit.from.clone(), audit.to.clone()))
    }
}

/// Lines without a record of their own: decisions, the freeze, and signatures attached to what lives.
fn stands_alone(audit: &Audit) -> bool {
    let attached = audit.reason.as_ref().is_some_and(|reason| reason.starts_with("attached:"));
    match audit.entity.as_str() {
        "command" | "task" => true,
        "override" | "intervention" => attached && audit.from.as_ref() == Some(&audit.to),
        _ => false,
    }
}
