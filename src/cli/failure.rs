//! What a cause within the engine means to the caller of the program.

use crate::cli::exit::{Exit, Failure};
use crate::engine::EngineError;

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let exit = match &error {
            EngineError::Unreachable { .. } | EngineError::TopicMissing(_) | EngineError::OffsetLost(_) => {
                Exit::Unavailable
            }
            EngineError::NotAppendTime(..)
            | EngineError::NotCompacted(..)
            | EngineError::Forgetful { .. }
            | EngineError::State { .. }
            | EngineError::Partitions(..)
            | EngineError::TooFewBrokers(_)
            | EngineError::Locked(_)
            | EngineError::File { .. }
            | EngineError::Fenced { .. }
            | EngineError::Client(_) => Exit::Configuration,
            EngineError::NotPermitted(_) => Exit::NotPermitted,
            EngineError::Undecided(_) => Exit::Bug,
            EngineError::Outage(_) | EngineError::Kafka { .. } => Exit::TryAgain,
        };
        Self::new(exit, error)
    }
}

/// Output that cannot be written; a closed pipe never comes here (`pipe`).
#[allow(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
pub fn unwritable(error: std::io::Error) -> Failure {
    Failure::new(Exit::TryAgain, format_args!("writing the result: {error}"))
}
