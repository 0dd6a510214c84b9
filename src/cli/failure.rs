//! What a cause within the engine means to the caller of the program.

use crate::cli::exit::{Exit, Failure};
use crate::cli::table::clean;
use crate::engine::EngineError;
use crate::serve::ServeError;

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let exit = match &error {
            EngineError::Unreachable { .. }
            | EngineError::TopicMissing(_)
            | EngineError::TopicsMissing(_)
            | EngineError::OffsetLost(_) => Exit::Unavailable,
            EngineError::Unfit(_)
            | EngineError::TopicRecreated { .. }
            | EngineError::State { .. }
            | EngineError::RegistryMissing { .. }
            | EngineError::Unpublishable(_)
            | EngineError::TapeVersion(_)
            | EngineError::TooFewBrokers(_)
            | EngineError::Locked(_)
            | EngineError::File { .. }
            | EngineError::Fenced { .. }
            | EngineError::Client(_) => Exit::Configuration,
            EngineError::NotPermitted(_) => Exit::NotPermitted,
            EngineError::NoSuchTask(_) => Exit::Usage,
            EngineError::Undecided(_) => Exit::Bug,
            EngineError::Outage(_) | EngineError::Kafka { .. } => Exit::TryAgain,
        };
        Self::new(exit, error)
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let exit = match &error {
            ServeError::BadAddress { .. }
            | ServeError::BadHost(_)
            | ServeError::InUse(_)
            | ServeError::Tokens { .. }
            | ServeError::Tls { .. } => Exit::Configuration,
            ServeError::NotPermitted(_) => Exit::NotPermitted,
            ServeError::System { .. } => Exit::TryAgain,
        };
        Self::new(exit, error)
    }
}

/// Output that cannot be written; a closed pipe never comes here (`pipe`).
#[allow(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
pub fn unwritable(error: std::io::Error) -> Failure {
    Failure::new(Exit::TryAgain, format_args!("writing the result: {error}"))
}

/// Refuses a word of a filter that no record of this release can have: an empty list would say that there is none.
///
/// # Errors
/// Exit 64, with the words there are.
pub fn known(flag: &str, given: Option<&str>, words: &[&str]) -> Result<(), Failure> {
    match given {
        Some(word) if !words.contains(&word) => {
            let what = flag.trim_start_matches('-');
            let message = format!("{flag} {}: no such {what}; there are {}", clean(word), words.join(", "));
            Err(Failure::new(Exit::Usage, message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_must_set_right_is_a_configuration_error() {
        let recreated =
            EngineError::TopicRecreated { topic: "t".into(), was: "a".into(), is: "b".into(), group: "g".into() };
        for error in [recreated, EngineError::Unfit(Vec::new())] {
            assert_eq!(Failure::from(error).exit, Exit::Configuration);
        }
        assert_eq!(Failure::from(EngineError::TopicsMissing(vec!["t".into()])).exit, Exit::Unavailable);
    }
}
