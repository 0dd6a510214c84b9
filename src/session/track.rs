//! Runs with a failure: attempts per node, artifacts, and what was signed. Healthy runs are not here.

use crate::record::event::Route;
use crate::record::position::Evidence;
use crate::session::normalise::Facts;

/// One run that failed somewhere, or went past an irreversible node.
#[derive(Debug)]
pub struct Run {
    /// The graph as given to `resolve`.
    pub graph: Box<str>,
    /// The run's id, where the runtime has one.
    pub run_id: Option<Box<str>>,
    /// Whether this is a shadow's run: kept apart.
    pub shadow: bool,
    /// Whether an irreversible node completed.
    pub irreversible: bool,
    nodes: Vec<NodeTrack>,
    artifacts: Vec<Box<str>>,
    /// Failures so far: order among the nodes.
    sequence: u32,
    previous: Option<Previous>,
}

/// The run's previous failure, to know a repetition of it.
#[derive(Debug, PartialEq, Eq)]
struct Previous {
    node: usize,
    shape: usize,
    attempt: u32,
}

/// What a run knows of one node on one route: a swap starts afresh.
#[derive(Debug)]
pub struct NodeTrack {
    route: Route,
    /// The node; none where an event names none.
    pub name: Option<Box<str>>,
    /// Sequence of its last failure; 0: none since its last reset.
    last_failed: u32,
    last_shape: usize,
    /// Of its last failure, for comparison with the graph's.
    pub last_facts: Facts,
    /// Whether it failed since its last `node_started` or `node_completed`.
    failed_since_boundary: bool,
    shapes: Vec<ShapeTrack>,
}

/// What a run knows of one shape of a node.
#[derive(Debug)]
pub struct ShapeTrack {
    /// The failure shape.
    pub shape: Box<str>,
    /// Identical failures since the last reset.
    pub count: u32,
    /// Whether a signature was given since the last reset.
    pub signed: bool,
    rowed: bool,
    /// The counted failures, oldest first, bounded.
    pub evidence: Vec<Evidence>,
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
    /// The route it happened on.
    pub route: &'a Route,
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
        evidence: Evidence,
        shapes_max: usize,
        evidence_max: usize,
    ) -> Option<Filed> {
        let place = self.place(failure.route, failure.node, failure.shape, shapes_max)?;
        let previous = failure.attempt.map(|attempt| Previous { node: place.node, shape: place.shape, attempt });
        let repeated = failure.may_repeat && previous.is_some() && previous == self.previous;
        self.previous = previous;
        self.touch(place, failure.facts);
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
        route: &Route,
        node: Option<&str>,
        own: impl FnOnce() -> (String, Facts),
        shapes_max: usize,
    ) -> Option<Place> {
        let failing = self.nodes.iter().position(|track| track.is(route, node) && track.last_failed > 0);
        if let Some(node) = failing {
            return Some(Place { node, shape: self.nodes[node].last_shape });
        }
        let (shape, facts) = own();
        let place = self.place(route, node, &shape, shapes_max)?;
        self.touch(place, facts);
        Some(place)
    }

    fn place(&mut self, route: &Route, node: Option<&str>, shape: &str, shapes_max: usize) -> Option<Place> {
        let known = self.nodes.iter().position(|track| track.is(route, node));
        if let Some(node) = known
            && let Some(shape) = self.nodes[node].shapes.iter().position(|track| &*track.shape == shape)
        {
            return Some(Place { node, shape });
        }
        if self.nodes.iter().map(|track| track.shapes.len()).sum::<usize>() >= shapes_max {
            return None;
        }
        let node = known.unwrap_or_else(|| {
            self.nodes.push(NodeTrack::new(route, node));
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

    /// The last node that failed on a route and was not reset since, with its last shape.
    #[must_use]
    pub fn last_failing(&self, route: &Route) -> Option<Place> {
        let failing = self.nodes.iter().enumerate().filter(|(_, node)| node.route == *route && node.last_failed > 0);
        failing.max_by_key(|(_, node)| node.last_failed).map(|(at, node)| Place { node: at, shape: node.last_shape })
    }

    /// `node_started`.
    pub fn started(&mut self, route: &Route, node: Option<&str>) {
        if let Some(track) = self.nodes.iter_mut().find(|track| track.is(route, node)) {
            track.failed_since_boundary = false;
        }
    }

    /// `node_completed`: a reset, if the node reported no failure since its last start or completion.
    pub fn completed(&mut self, route: &Route, node: Option<&str>) {
        let Some(at) = self.nodes.iter().position(|track| track.is(route, node)) else { return };
        if !std::mem::replace(&mut self.nodes[at].failed_since_boundary, false) {
            self.reset_node(at);
        }
    }

    /// `progress` or `artifact_produced`: resets that node, without a node the whole run.
    pub fn progressed(&mut self, route: &Route, node: Option<&str>) {
        match node {
            Some(_) => {
                if let Some(at) = self.nodes.iter().position(|track| track.is(route, node)) {
                    self.reset_node(at);
                }
            }
            None => (0..self.nodes.len()).for_each(|at| self.reset_node(at)),
        }
    }

    fn reset_node(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.last_failed = 0;
        for shape in &mut node.shapes {
            shape.count = 0;
            shape.signed = false;
            shape.evidence.clear();
        }
        if self.previous.as_ref().is_some_and(|previous| previous.node == at) {
            self.previous = None;
        }
    }

    /// Remembers an artifact produced since the run's first failure.
    pub fn produced(&mut self, artifact: &str, artifacts_max: usize) {
        if self.sequence > 0 && self.artifacts.len() < artifacts_max && !self.has_produced(artifact) {
            self.artifacts.push(artifact.into());
        }
    }

    /// Whether the artifact was produced since the run's first failure.
    #[must_use]
    pub fn has_produced(&self, artifact: &str) -> bool {
        self.artifacts.iter().any(|known| &**known == artifact)
    }
}

impl NodeTrack {
    fn new(route: &Route, name: Option<&str>) -> Self {
        let nothing = Facts { event_type: String::new(), classes: Vec::new(), codes: Vec::new(), message: None };
        Self {
            route: route.clone(),
            name: name.map(Into::into),
            last_failed: 0,
            last_shape: 0,
            last_facts: nothing,
            failed_since_boundary: false,
            shapes: Vec::new(),
        }
    }

    fn is(&self, route: &Route, name: Option<&str>) -> bool {
        self.name.as_deref() == name && self.route == *route
    }
}
