//! Runs with a failure: attempts per node, artifacts, and what was signed. Healthy runs are not here.

use serde::{Deserialize, Serialize};

use crate::record::event::Route;
use crate::record::position::{Evidence, Position};
use crate::session::lane::Lane;
use crate::session::normalise::Facts;
use crate::session::state::entry::is_default;

/// One run that failed somewhere, or went past an irreversible node. In state entries its fields have one letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The graph as given to `resolve`.
    #[serde(rename = "g")]
    pub graph: Box<str>,
    /// The run's id, where the runtime has one.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Box<str>>,
    /// Whether this is a shadow's run: kept apart.
    #[serde(rename = "s", default, skip_serializing_if = "is_default")]
    pub shadow: bool,
    /// Whether an irreversible node completed.
    #[serde(rename = "i", default, skip_serializing_if = "is_default")]
    pub irreversible: bool,
    #[serde(rename = "n", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) nodes: Vec<NodeTrack>,
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) artifacts: Vec<Box<str>>,
    /// Failures so far: order among the nodes.
    #[serde(rename = "q", default, skip_serializing_if = "is_default")]
    pub(crate) sequence: u32,
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<Previous>,
}

/// The run's previous failure, to know a repetition of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Previous {
    #[serde(rename = "n")]
    pub(crate) node: usize,
    #[serde(rename = "s")]
    pub(crate) shape: usize,
    #[serde(rename = "a")]
    pub(crate) attempt: u32,
}

/// What a run knows of one node on one lane: a swap starts afresh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTrack {
    #[serde(rename = "r", default = "primary", skip_serializing_if = "is_primary")]
    pub(crate) route: Route,
    /// The schema, on the degraded route.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<Box<str>>,
    /// Whether a mutating step here may have happened: its outcome is unknown until the node completes.
    #[serde(rename = "u", default, skip_serializing_if = "is_default")]
    pub(crate) ambiguous: bool,
    /// The node; none where an event names none.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Sequence of its last failure; 0: none since its last reset.
    #[serde(rename = "f", default, skip_serializing_if = "is_default")]
    pub(crate) last_failed: u32,
    #[serde(rename = "l", default, skip_serializing_if = "is_default")]
    pub(crate) last_shape: usize,
    /// Of its last failure, for comparison with the graph's.
    #[serde(rename = "e", default)]
    pub last_facts: Facts,
    /// Whether it failed since its last `node_started` or `node_completed`.
    #[serde(rename = "b", default, skip_serializing_if = "is_default")]
    pub(crate) failed_since_boundary: bool,
    #[serde(rename = "s", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shapes: Vec<ShapeTrack>,
}

/// What a run knows of one shape of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShapeTrack {
    /// The failure shape.
    #[serde(rename = "s")]
    pub shape: Box<str>,
    /// Identical failures since the last reset.
    #[serde(rename = "c", default, skip_serializing_if = "is_default")]
    pub count: u32,
    /// Whether a signature was given since the last reset.
    #[serde(rename = "g", default, skip_serializing_if = "is_default")]
    pub signed: bool,
    #[serde(rename = "w", default, skip_serializing_if = "is_default")]
    pub(crate) rowed: bool,
    /// The counted failures, oldest first, bounded.
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Sighting>,
}

/// Where a counted failure stands in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// The topic it was read from.
    #[serde(rename = "t")]
    pub topic: Box<str>,
    /// Its partition.
    #[serde(rename = "p", default, skip_serializing_if = "is_default")]
    pub partition: i32,
    /// Its offset.
    #[serde(rename = "o", default, skip_serializing_if = "is_default")]
    pub offset: i64,
    /// The id the runtime gave the event.
    #[serde(rename = "i")]
    pub event_id: Box<str>,
}

impl Sighting {
    /// The event at a position.
    #[must_use]
    pub fn at(position: Position<'_>, event_id: &str) -> Self {
        let Position { topic, partition, offset } = position;
        Self { topic: topic.into(), partition, offset, event_id: event_id.into() }
    }

    /// As evidence.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        Position { topic: &self.topic, partition: self.partition, offset: self.offset }.evidence(&self.event_id)
    }
}

fn primary() -> Route {
    Route::Primary
}

fn is_primary(route: &Route) -> bool {
    *route == Route::Primary
}

/// Where in a run a failure was filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    node: usize,
    shape: usize,
}

/// What filing a failure found.
#[derive(Debug, PartialEq, Eq)]
pub struct Filed {
    /// Where it was filed.
    pub place: Place,
    /// The same failure reported a second time: it can only exhaust.
    pub repeated: bool,
    /// The run's first failure of (node, shape).
    pub first: bool,
}

/// A failure to be filed.
pub struct Failure<'a> {
    /// Where it happened.
    pub lane: Lane<'a>,
    /// Whether a mutating step of the node may have happened.
    pub ambiguous: bool,
    /// The node, where named.
    pub node: Option<&'a str>,
    /// Its shape.
    pub shape: &'a str,
    /// Its attempt, where given.
    pub attempt: Option<u32>,
    /// Whether its type may repeat another event's report (`node_failed`).
    pub may_repeat: bool,
    /// What made the shape.
    pub facts: Facts,
}

impl Run {
    /// A run without anything yet.
    #[must_use]
    pub fn new(graph: &str, run_id: Option<&str>, shadow: bool) -> Self {
        Self {
            graph: graph.into(),
            run_id: run_id.map(Into::into),
            shadow,
            irreversible: false,
            nodes: Vec::new(),
            artifacts: Vec::new(),
            sequence: 0,
            previous: None,
        }
    }

    /// Whether this is the run of that name.
    #[must_use]
    pub fn is(&self, graph: &str, run_id: Option<&str>, shadow: bool) -> bool {
        self.shadow == shadow && &*self.graph == graph && self.run_id.as_deref() == run_id
    }

    /// Files a failure; `None` where `shapes_max` is reached and it cannot be tracked.
    pub fn fail(
        &mut self,
        failure: Failure<'_>,
        evidence: Sighting,
        shapes_max: usize,
        evidence_max: usize,
    ) -> Option<Filed> {
        let place = self.place(failure.lane, failure.node, failure.shape, shapes_max)?;
        let previous = failure.attempt.map(|attempt| Previous { node: place.node, shape: place.shape, attempt });
        let repeated = failure.may_repeat && previous.is_some() && previous == self.previous;
        self.previous = previous;
        self.touch(place, failure.facts);
        self.nodes[place.node].ambiguous |= failure.ambiguous;
        let shape = &mut self.nodes[place.node].shapes[place.shape];
        if !repeated {
            shape.count = shape.count.saturating_add(1);
            if shape.evidence.len() >= evidence_max {
                shape.evidence.remove(0);
            }
            shape.evidence.push(evidence);
        }
        let first = !std::mem::replace(&mut shape.rowed, true);
        Some(Filed { place, repeated, first })
    }

    /// Files that the retries of a node are exhausted: the shape it already failed with, else `own`.
    pub fn exhaust(
        &mut self,
        lane: Lane<'_>,
        node: Option<&str>,
        own: impl FnOnce() -> (String, Facts),
        shapes_max: usize,
    ) -> Option<Place> {
        let failing = self.nodes.iter().position(|track| track.is(lane, node) && track.last_failed > 0);
        if let Some(node) = failing {
            return Some(Place { node, shape: self.nodes[node].last_shape });
        }
        let (shape, facts) = own();
        let place = self.place(lane, node, &shape, shapes_max)?;
        self.touch(place, facts);
        Some(place)
    }

    fn place(&mut self, lane: Lane<'_>, node: Option<&str>, shape: &str, shapes_max: usize) -> Option<Place> {
        let known = self.nodes.iter().position(|track| track.is(lane, node));
        if let Some(node) = known
            && let Some(shape) = self.nodes[node].shapes.iter().position(|track| &*track.shape == shape)
        {
            return Some(Place { node, shape });
        }
        if self.nodes.iter().map(|track| track.shapes.len()).sum::<usize>() >= shapes_max {
            return None;
        }
        let node = known.unwrap_or_else(|| {
            self.nodes.push(NodeTrack::new(lane, node));
            self.nodes.len() - 1
        });
        let shapes = &mut self.nodes[node].shapes;
        shapes.push(ShapeTrack { shape: shape.into(), count: 0, signed: false, rowed: false, evidence: Vec::new() });
        Some(Place { node, shape: shapes.len() - 1 })
    }

    fn touch(&mut self, place: Place, facts: Facts) {
        self.sequence = self.sequence.saturating_add(1);
        let node = &mut self.nodes[place.node];
        node.last_failed = self.sequence;
        node.last_shape = place.shape;
        node.last_facts = facts;
        node.failed_since_boundary = true;
    }

    /// The node a place is in.
    #[must_use]
    pub fn node(&self, place: Place) -> &NodeTrack {
        &self.nodes[place.node]
    }

    /// The shape at a place.
    #[must_use]
    pub fn shape(&self, place: Place) -> &ShapeTrack {
        &self.nodes[place.node].shapes[place.shape]
    }

    /// Marks the shape at a place as signed; whether it was not before.
    pub fn sign(&mut self, place: Place) -> bool {
        !std::mem::replace(&mut self.nodes[place.node].shapes[place.shape].signed, true)
    }

    /// Whether the node at a place gave a signature of any shape since its last reset.
    #[must_use]
    pub fn node_signed(&self, place: Place) -> bool {
        self.nodes[place.node].shapes.iter().any(|shape| shape.signed)
    }

    /// The last node that failed on a lane and was not reset since, with its last shape.
    #[must_use]
    pub fn last_failing(&self, lane: Lane<'_>) -> Option<Place> {
        let failing = self.nodes.iter().enumerate().filter(|(_, node)| node.is_on(lane) && node.last_failed > 0);
        failing.max_by_key(|(_, node)| node.last_failed).map(|(at, node)| Place { node: at, shape: node.last_shape })
    }

    /// `node_started`. Whether anything changed, as with all of these.
    pub fn started(&mut self, lane: Lane<'_>, node: Option<&str>) -> bool {
        let track = self.nodes.iter_mut().find(|track| track.is(lane, node));
        track.is_some_and(|track| std::mem::take(&mut track.failed_since_boundary))
    }

    /// `node_completed`: a reset, if the node reported no failure since its last start or completion.
    pub fn completed(&mut self, lane: Lane<'_>, node: Option<&str>) -> bool {
        let Some(at) = self.nodes.iter().position(|track| track.is(lane, node)) else { return false };
        if std::mem::take(&mut self.nodes[at].failed_since_boundary) {
            return true;
        }
        let settled = std::mem::take(&mut self.nodes[at].ambiguous);
        self.reset_node(at) || settled
    }

    /// `progress` or `artifact_produced`: resets that node, without a node the whole run.
    pub fn progressed(&mut self, lane: Lane<'_>, node: Option<&str>) -> bool {
        let whole_run = node.is_none();
        let concerned = |run: &Self, at: usize| whole_run || run.nodes[at].is(lane, node);
        let changed = (0..self.nodes.len()).filter(|at| concerned(self, *at) && self.reset_node(*at)).count();
        changed > 0
    }

    fn reset_node(&mut self, at: usize) -> bool {
        let node = &mut self.nodes[at];
        let mut changed = std::mem::take(&mut node.last_failed) != 0;
        for shape in &mut node.shapes {
            changed |= shape.count != 0 || shape.signed || !shape.evidence.is_empty();
            shape.count = 0;
            shape.signed = false;
            shape.evidence.clear();
        }
        let repeats = self.previous.as_ref().is_some_and(|previous| previous.node == at);
        if repeats {
            self.previous = None;
        }
        changed || repeats
    }

    /// Whether a mutating step of some node may have happened.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        self.nodes.iter().any(|node| node.ambiguous)
    }

    /// Remembers an artifact produced since the run's first failure.
    pub fn produced(&mut self, artifact: &str, artifacts_max: usize) -> bool {
        let new = self.sequence > 0 && self.artifacts.len() < artifacts_max && !self.has_produced(artifact);
        if new {
            self.artifacts.push(artifact.into());
        }
        new
    }

    /// Whether what it says of itself fits together: entries come from outside.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.nodes.iter().all(|node| node.last_failed == 0 || node.last_shape < node.shapes.len())
    }

    /// Whether it produced the required artifacts of the nodes known on a lane; none where no such node has one.
    #[must_use]
    pub fn artifacts_present<'g>(&self, lane: Lane<'_>, of: impl Fn(&str) -> Option<&'g str>) -> Option<bool> {
        let nodes = self.nodes.iter().filter(|node| node.is_on(lane));
        let mut required = nodes.filter_map(|node| of(node.name.as_deref()?)).peekable();
        required.peek()?;
        Some(required.all(|artifact| self.has_produced(artifact)))
    }

    /// Whether the artifact was produced since the run's first failure.
    #[must_use]
    pub fn has_produced(&self, artifact: &str) -> bool {
        self.artifacts.iter().any(|known| &**known == artifact)
    }
}

impl NodeTrack {
    fn new(lane: Lane<'_>, name: Option<&str>) -> Self {
        Self {
            route: lane.route.clone(),
            schema: lane.schema.map(Into::into),
            ambiguous: false,
            name: name.map(Into::into),
            last_failed: 0,
            last_shape: 0,
            last_facts: Facts::default(),
            failed_since_boundary: false,
            shapes: Vec::new(),
        }
    }

    fn is(&self, lane: Lane<'_>, name: Option<&str>) -> bool {
        self.name.as_deref() == name && self.is_on(lane)
    }

    fn is_on(&self, lane: Lane<'_>) -> bool {
        self.route == *lane.route && self.schema.as_deref() == lane.schema
    }
}
