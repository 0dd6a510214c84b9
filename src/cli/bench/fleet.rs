//! A fleet whose end is known: sessions walk through the refund graph, some fail one node until no attempt is left, and
//! each of those must be overridden once. The same seed gives the same events.

use std::fmt::Write;

use twox_hash::XxHash3_64;

use crate::record::time::Timestamp;

const NODES: [&str; 5] =
    ["identify_order", "request_evidence", "evaluate_evidence", "check_eligibility", "issue_refund"];
/// The node that fails: the shipped registry names its signal.
const FAILING_NODE: usize = 2;
/// Attempts of a node.
pub const ATTEMPTS: u32 = 3;
const VERSIONS: [&str; 4] = ["6.3.0", "6.4.0", "6.4.1", "6.5.0"];
const REGIONS: [&str; 4] = ["eu-west", "eu-north", "us-east", "ap-south"];
const TENANTS: u64 = 200;
const MODELS: u64 = 3;
const RUNTIMES: [&str; 3] = ["worker-python-3.12", "worker-python-3.13", "worker-typescript-5"];
/// Shares are drawn from this many.
const PARTS: u32 = 1_000_000;

/// What a fleet looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Events at least; the open sessions are brought to their ends after that.
    pub events: u64,
    /// Sessions open at the same time.
    pub sessions: u32,
    /// Sessions that fail, of a million.
    pub failing_parts: u32,
    /// Start of the random numbers.
    pub seed: u64,
}

impl Plan {
    /// Sessions that fail, of a million, from a percentage of 0 to 100.
    #[must_use]
    pub fn parts(percentage: f64) -> u32 {
        let parts = (percentage.clamp(0.0, 100.0) / 100.0 * f64::from(PARTS)).round();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to a million")]
        let parts = parts as u32;
        parts
    }

    /// Events in all, and overrides they must lead to.
    #[must_use]
    pub fn expected(self) -> (u64, u64) {
        let mut fleet = Fleet::new(self);
        let (mut events, mut overrides) = (0, 0);
        while let Some(step) = fleet.step() {
            events += 1;
            overrides += u64::from(step.exhausted);
        }
        (events, overrides)
    }
}

/// Random numbers that only depend on a seed and a counter.
#[derive(Clone, Copy, Debug)]
struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.drawn += 1;
        let bits = XxHash3_64::oneshot_with_seed(self.seed, &self.drawn.to_le_bytes());
        u64::try_from((u128::from(bits) * u128::from(end)) >> 64).unwrap_or(0)
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap_or(0)]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Start,
    NodeStarts(usize),
    NodeEnds(usize),
    End,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    number: u64,
    version: &'static str,
    region: &'static str,
    tenant: u64,
    runtime: &'static str,
    fails: bool,
    stage: Stage,
    failures: u32,
}

/// One event, not written yet.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    session: Session,
    number: u64,
    /// Whether its session has no attempt left: an override must follow.
    pub exhausted: bool,
    model: u64,
    latency_ms: u64,
    detail: u64,
}

/// The sessions that are open, and what comes next.
#[derive(Debug)]
pub struct Fleet {
    plan: Plan,
    random: Random,
    open: Vec<Session>,
    begun: u64,
    sent: u64,
}

impl Fleet {
    /// A fleet at its beginning.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let mut fleet =
            Self { plan, random: Random { seed: plan.seed, drawn: 0 }, open: Vec::new(), begun: 0, sent: 0 };
        for _ in 0..plan.sessions.max(1) {
            let session = fleet.begin();
            fleet.open.push(session);
        }
        fleet
    }

    fn begin(&mut self) -> Session {
        let number = self.begun;
        self.begun += 1;
        Session {
            number,
            version: self.random.pick(&VERSIONS),
            region: self.random.pick(&REGIONS),
            tenant: self.random.below(TENANTS),
            runtime: self.random.pick(&RUNTIMES),
            fails: self.random.below(u64::from(PARTS)) < u64::from(self.plan.failing_parts),
            stage: Stage::Start,
            failures: 0,
        }
    }

    /// The next event of some session; none once there are enough and every session has ended.
    pub fn step(&mut self) -> Option<Step> {
        let enough = self.sent >= self.plan.events;
        let index = match self.open.len() as u64 {
            0 => return None,
            _ if enough => self.open.len() - 1,
            open => usize::try_from(self.random.below(open)).unwrap_or(0),
        };
        let mut session = self.open[index];
        let fails_now = session.fails && session.stage == Stage::NodeEnds(FAILING_NODE);
        session.failures += u32::from(fails_now);
        let step = Step {
            session,
            number: self.sent,
            exhausted: fails_now && session.failures == ATTEMPTS,
            model: self.random.below(MODELS),
            latency_ms: 20 + self.random.below(900),
            detail: self.random.below(1_000_000),
        };
        self.sent += 1;
        match next(session.stage, fails_now).filter(|_| !step.exhausted) {
            Some(stage) => self.open[index] = Session { stage, ..session },
            None if enough => drop(self.open.swap_remove(index)),
            None => self.open[index] = self.begin(),
        }
        Some(step)
    }
}

impl Fleet {
    /// The first failures of one more session, whose node has [`ATTEMPTS`]; it does nothing else.
    pub fn failing(&mut self, failures: u32) -> Vec<Step> {
        let session = Session { fails: true, stage: Stage::NodeEnds(FAILING_NODE), ..self.begin() };
        let steps = (1..=failures.min(ATTEMPTS)).map(|failures| {
            self.sent += 1;
            Step {
                session: Session { failures, ..session },
                number: self.sent,
                exhausted: failures == ATTEMPTS,
                model: self.random.below(MODELS),
                latency_ms: 20 + self.random.below(900),
                detail: self.random.below(1_000_000),
            }
        });
        steps.collect()
    }
}

fn next(stage: Stage, failed: bool) -> Option<Stage> {
    match stage {
        Stage::Start => Some(Stage::NodeStarts(0)),
        Stage::NodeStarts(node) => Some(Stage::NodeEnds(node)),
        Stage::NodeEnds(node) if failed => Some(Stage::NodeStarts(node)),
        Stage::NodeEnds(node) if node + 1 < NODES.len() => Some(Stage::NodeStarts(node + 1)),
        Stage::NodeEnds(_) => Some(Stage::End),
        Stage::End => None,
    }
}

impl Step {
    /// Whether its session is one that fails.
    #[must_use]
    pub fn is_of_failing(&self) -> bool {
        self.session.fails
    }

    /// Writes the session's id; `run` tells fleets apart.
    pub fn write_session_id(&self, run: &str, text: &mut String) {
        text.clear();
        // A string takes everything.
        let _ = write!(text, "sess_{run}{:010}", self.session.number);
    }

    /// Writes the event as JSON: 350 to 450 bytes.
    pub fn write_event(&self, session_id: &str, at: Timestamp, text: &mut String) {
        text.clear();
        let _ = self.write(session_id, at, text);
    }

    fn write(&self, session_id: &str, at: Timestamp, text: &mut String) -> std::fmt::Result {
        let Session { version, region, tenant, runtime, stage, failures, .. } = self.session;
        let (event_type, node) = match stage {
            Stage::Start => ("graph_started", None),
            Stage::NodeStarts(node) => ("node_started", Some(node)),
            Stage::NodeEnds(node) if self.session.fails && node == FAILING_NODE => ("node_failed", Some(node)),
            Stage::NodeEnds(node) => ("node_completed", Some(node)),
            Stage::End => ("graph_completed", None),
        };
        let id = XxHash3_64::oneshot(session_id.as_bytes());
        write!(
            text,
            r#"{{"event_id":"{id:016x}{:016x}","occurred_at":"{at}","type":"{event_type}","session_id":"{session_id}","graph":"refund_graph","graph_version":"v1","schema_ref":"refund_graph:v1","route":"primary""#,
            self.number
        )?;
        if let Some(node) = node {
            let attempt = if event_type == "node_failed" { failures } else { failures + 1 };
            write!(
                text,
                r#","node":"{}","attempt":{attempt},"max_attempts":{ATTEMPTS},"latency_ms":{}"#,
                NODES[node], self.latency_ms
            )?;
        }
        if event_type == "node_failed" {
            write!(
                text,
                r#","error":{{"code":"int_parsing@total","class":"pydantic.ValidationError","message":"1 validation error for Evidence {}"}}"#,
                self.detail
            )?;
        }
        write!(
            text,
            r#","app_version":"{version}","region":"{region}","tenant":"tenant-{tenant}","attributes":{{"model":"m-{}","runtime":"{runtime}"}}}}"#,
            self.model
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::codec::json::event;

    const PLAN: Plan = Plan { events: 5000, sessions: 100, failing_parts: 100_000, seed: 7 };

    fn texts(plan: Plan) -> Vec<(String, String, bool)> {
        let mut fleet = Fleet::new(plan);
        std::iter::from_fn(|| fleet.step())
            .map(|step| {
                let (mut session_id, mut text) = (String::new(), String::new());
                step.write_session_id("", &mut session_id);
                step.write_event(&session_id, Timestamp::EPOCH, &mut text);
                (session_id, text, step.exhausted)
            })
            .collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_events_and_announces_them() {
        let all = texts(PLAN);
        assert_eq!(all, texts(PLAN));
        assert_ne!(all, texts(Plan { seed: 8, ..PLAN }));
        let exhausted = all.iter().filter(|(_, _, exhausted)| *exhausted).count();
        assert_eq!(PLAN.expected(), (all.len() as u64, exhausted as u64));
        assert!((20..80).contains(&exhausted), "{exhausted}");
        assert_eq!(Plan { failing_parts: 0, ..PLAN }.expected().1, 0);
    }

    #[test]
    fn a_session_fails_as_often_as_asked_and_no_more_than_its_attempts() {
        let mut fleet = Fleet::new(Plan { events: 0, ..PLAN });
        let mut all = fleet.failing(1);
        all.extend(fleet.failing(9));
        let mut ids = std::collections::BTreeSet::new();
        let exhausted: Vec<bool> = all
            .iter()
            .map(|step| {
                let (mut session_id, mut text) = (String::new(), String::new());
                step.write_session_id("x", &mut session_id);
                step.write_event(&session_id, Timestamp::EPOCH, &mut text);
                ids.insert(session_id);
                let event = event(&text, 1024).expect("an event");
                assert!(event.event_type.is_failure());
                event.attempt == event.max_attempts
            })
            .collect();
        assert_eq!(exhausted, [false, false, false, true]);
        assert_eq!(ids.len(), 2);
    }

    #[test]
    fn events_are_accepted_and_of_the_size_that_is_said() {
        let all = texts(PLAN);
        for (session_id, text, exhausted) in &all {
            let event = event(text, 1024).expect("an event");
            assert_eq!(event.session_id.as_str(), session_id);
            assert_eq!(*exhausted, event.error.is_some() && event.attempt == event.max_attempts, "{text}");
        }
        let bytes: usize = all.iter().map(|(_, text, _)| text.len()).sum();
        assert!((380..450).contains(&(bytes / all.len())), "{}", bytes / all.len());
    }

    #[test]
    fn a_percentage_is_a_share_of_a_million() {
        assert_eq!([0.0, 0.5, 100.0, 250.0].map(Plan::parts), [0, 5000, 1_000_000, 1_000_000]);
    }
}
