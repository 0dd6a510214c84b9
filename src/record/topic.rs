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
}

impl Topic {
    /// Every output topic.
    pub const ALL: [Self; 4] = [Self::Interventions, Self::Overrides, Self::Escalations, Self::Audit];

    /// The topic's default name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interventions => "reflex.interventions",
            Self::Overrides => "reflex.overrides",
            Self::Escalations => "reflex.escalations",
            Self::Audit => "reflex.audit",
        }
    }
}

/// Default name of the input topic of runtime events.
pub const EVENTS: &str = "reflex.events";
/// Default name of the input topic of decisions on one session.
pub const SESSION_COMMANDS: &str = "reflex.session-commands";
/// Default name of the changelog of the session stage (compact).
pub const STATE_SESSION: &str = "reflex.state.session";
/// What follows an input topic's name in the name of its dead-letter topic.
pub const DEAD_LETTER_SUFFIX: &str = ".dlq";
