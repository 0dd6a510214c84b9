//! The newest interventions, by id and by session.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::record::intervention::{Intervention, InterventionStatus};
use crate::record::scope::Scope;
use crate::record::time::Timestamp;

/// When it was recorded, then its id: the order of interventions.
type Age = (Timestamp, String);

/// The last state of one intervention.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its id.
    pub id: String,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// The graph.
    pub graph: String,
    /// The run.
    pub run_id: Option<String>,
    /// Whom it concerns.
    pub scope: Scope,
    /// Where it stands.
    pub status: InterventionStatus,
    /// Its override.
    pub override_id: Option<String>,
    /// The record as JSON on one line.
    pub json: Arc<str>,
    revision: u32,
}

impl Kept {
    /// Its place in the order.
    #[must_use]
    pub fn age(&self) -> (Timestamp, &str) {
        (self.created_at, &self.id)
    }

    fn session(&self) -> Option<&str> {
        match &self.scope {
            Scope::Session { session_id } => Some(session_id),
            Scope::Cohort(_) | Scope::Unknown { .. } => None,
        }
    }
}

/// At most so many; over: the oldest is dropped.
#[derive(Debug)]
pub struct Log {
    by_id: HashMap<String, Arc<Kept>>,
    by_session: HashMap<String, BTreeSet<Age>>,
    by_age: BTreeSet<Age>,
    max: usize,
}

impl Log {
    pub fn new(max: usize) -> Self {
        Self { by_id: HashMap::new(), by_session: HashMap::new(), by_age: BTreeSet::new(), max }
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn get(&self, id: &str) -> Option<Arc<Kept>> {
        self.by_id.get(id).cloned()
    }

    /// Newest first.
    pub fn of_session(&self, session_id: &str) -> Vec<Arc<Kept>> {
        let ages = self.by_session.get(session_id).into_iter().flatten().rev();
        ages.filter_map(|(_, id)| self.get(id)).collect()
    }

    /// Takes the next state; an older one changes nothing. Whether the oldest intervention was dropped for it.
    pub fn put(&mut self, record: Intervention, json: Arc<str>) -> bool {
        if self.by_id.get(&record.intervention_id).is_some_and(|kept| kept.revision >= record.revision) {
            return false;
        }
        self.remove(&record.intervention_id);
        let kept = Kept {
            id: record.intervention_id,
            created_at: record.created_at,
            graph: record.graph,
            run_id: record.run_id,
            scope: record.scope,
            status: record.status,
            override_id: record.override_id,
            json,
            revision: record.revision,
        };
        let age: Age = (kept.created_at, kept.id.clone());
        if let Some(session) = kept.session() {
            self.by_session.entry(session.to_owned()).or_default().insert(age.clone());
        }
        self.by_id.insert(kept.id.clone(), Arc::new(kept));
        self.by_age.insert(age);
        let oldest = self.by_age.first().filter(|_| self.by_id.len() > self.max).map(|(_, id)| id.clone());
        if let Some(id) = &oldest {
            self.remove(id);
        }
        oldest.is_some()
    }

    pub fn remove(&mut self, id: &str) {
        let Some(kept) = self.by_id.remove(id) else { return };
        let age: Age = (kept.created_at, kept.id.clone());
        self.by_age.remove(&age);
        if let Some(session) = kept.session()
            && let Some(ages) = self.by_session.get_mut(session)
        {
            ages.remove(&age);
            if ages.is_empty() {
                self.by_session.remove(session);
            }
        }
    }
}
