//! Which task, which input: the numbers and names that the engine goes by.

use std::fmt;

/// One of the two stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageName {
    /// From events to overrides of sessions.
    Session,
    /// From what sessions add up to.
    Fleet,
}

impl StageName {
    /// Both, in order of the dataflow.
    pub const ALL: [Self; 2] = [Self::Session, Self::Fleet];

    /// The word as it stands in names of tasks.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Fleet => "fleet",
        }
    }
}

/// One task: a stage's share of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId {
    /// Its stage.
    pub stage: StageName,
    /// Its partition, the same in every topic it reads or keeps something in.
    pub partition: i32,
}

impl TaskId {
    /// The task of that name, as [`fmt::Display`] writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (stage, partition) = text.split_once('/')?;
        let stage = StageName::ALL.into_iter().find(|known| known.as_str() == stage)?;
        partition.parse().ok().filter(|partition| *partition >= 0).map(|partition| Self { stage, partition })
    }

    /// One of its inputs.
    #[must_use]
    pub fn input(self, role: Role) -> Input {
        let stage = match self.stage {
            StageName::Session => 0,
            StageName::Fleet => 2,
        };
        Input { topic: stage + role.slot(), partition: self.partition }
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stage.as_str(), self.partition)
    }
}

/// What an input is to its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Events of sessions, or what sessions add up to.
    Records,
    /// What people decided.
    Commands,
}

impl Role {
    /// Both, by slot.
    pub const ALL: [Self; 2] = [Self::Records, Self::Commands];

    /// Its number within a task.
    #[must_use]
    pub fn slot(self) -> usize {
        match self {
            Self::Records => 0,
            Self::Commands => 1,
        }
    }
}

/// One input partition. By number: every record looks it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Input {
    /// Which input, as in [`TopicNames::inputs`](crate::engine::TopicNames::inputs).
    pub topic: usize,
    /// Its partition.
    pub partition: i32,
}

impl Input {
    /// The task that reads it.
    #[must_use]
    pub fn task(self) -> TaskId {
        let stage = if self.topic < 2 { StageName::Session } else { StageName::Fleet };
        TaskId { stage, partition: self.partition }
    }

    /// What it is to its task.
    #[must_use]
    pub fn role(self) -> Role {
        if self.topic.is_multiple_of(2) { Role::Records } else { Role::Commands }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_and_tasks_lead_to_each_other() {
        for topic in 0..4 {
            let input = Input { topic, partition: 3 };
            assert_eq!(input.task().input(input.role()), input);
        }
        let task = TaskId { stage: StageName::Fleet, partition: 12 };
        assert_eq!(TaskId::parse(&task.to_string()), Some(task));
        for wrong in ["fleet", "fleet/", "fleet/-1", "other/1", "session/x"] {
            assert_eq!(TaskId::parse(wrong), None, "{wrong}");
        }
    }
}
