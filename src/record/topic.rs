//! Names of the topics this crate reads and writes.

/// A topic a stage publishes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// The Intervention Log (compact).
    Interventions,
    /// What runtimes resolve against (compact).
    Overrides,
    /// Packages for people (delete).
    Escalations,
    /// Every transition, hash-chained (delete).
    Audit,
    /// From the session stage to the fleet stage (delete).
    Fleet,
}

impl Topic {
    /// Every output topic.
    pub const ALL: [Self; 5] = [Self::Interventions, Self::Overrides, Self::Escalations, Self::Audit, Self::Fleet];

    /// The topic's default name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interventions => "reflex.interventions",
            Self::Overrides => "reflex.overrides",
            Self::Escalations => "reflex.escalations",
            Self::Audit => "reflex.audit",
            Self::Fleet => FLEET,
        }
    }
}

/// Default name of the input topic of runtime events.
pub const EVENTS: &str = "reflex.events";
/// Default name of the input topic of decisions on one session.
pub const SESSION_COMMANDS: &str = "reflex.session-commands";
/// Default name of the topic between the stages.
pub const FLEET: &str = "reflex.fleet";
/// Default name of the input topic of decisions on cohorts and of what concerns every task.
pub const COMMANDS: &str = "reflex.commands";
/// Default name of the topic of registry versions (compact).
pub const REGISTRY: &str = "reflex.registry";
/// Default name of the tape of the session stage.
pub const TAPE_SESSION: &str = "reflex.tape.session";
/// Default name of the tape of the fleet stage.
pub const TAPE_FLEET: &str = "reflex.tape.fleet";
/// Default name of the changelog of the session stage (compact).
pub const STATE_SESSION: &str = "reflex.state.session";
/// Default name of the changelog of the fleet stage (compact).
pub const STATE_FLEET: &str = "reflex.state.fleet";
/// What follows an input topic's name in the name of its dead-letter topic.
pub const DEAD_LETTER_SUFFIX: &str = ".dlq";
