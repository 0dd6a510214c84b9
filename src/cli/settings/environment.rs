//! Variables of the environment: ours, those of others that begin alike, and those that nobody knows.

use std::collections::BTreeSet;

use crate::cli::settings::{ENVIRONMENT_PREFIX, defaults, setting_of};

/// Beginnings of variables that are of tests and builds with failpoints.
const OF_TESTS: [&str; 4] = ["TEST_", "CI_", "HARNESS_", "FAILPOINT"];

/// The variables of this process that are text.
pub fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Variables that begin like ours, and that no setting and no flag of `flags` has: typing errors, most likely.
pub fn unknown(names: impl Iterator<Item = String>, flags: &BTreeSet<String>) -> Vec<String> {
    let defaults = defaults();
    let is_known = |name: &str, rest: &str| {
        name == "REFLEX_CONFIG"
            // Of runtimes' clients.
            || name == "REFLEX_DISABLE"
            || flags.contains(name)
            || setting_of(name, &defaults).is_some()
            || OF_TESTS.iter().any(|start| rest.starts_with(start))
            || is_of_service(rest)
    };
    let ours = names.filter(|name| name.strip_prefix(ENVIRONMENT_PREFIX).is_some_and(|rest| !is_known(name, rest)));
    ours.collect::<BTreeSet<_>>().into_iter().collect()
}

/// What a cluster tells every process about services whose names begin with reflex: `SERVICE_HOST`, `X_SERVICE_PORT`,
/// `PORT`, `PORT_80_TCP_ADDR` and the like.
fn is_of_service(rest: &str) -> bool {
    let part = |word: &str| rest == word || rest.ends_with(&format!("_{word}"));
    let protocol = |rest: &str| ["_TCP", "_UDP", "_SCTP"].iter().any(|word| rest.contains(word));
    part("SERVICE_HOST")
        || part("PORT")
        || rest.starts_with("SERVICE_PORT")
        || rest.contains("_SERVICE_PORT")
        || (rest.contains("PORT_") && protocol(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_named_and_what_others_set_is_not() {
        let flags = BTreeSet::from(["REFLEX_AUTHOR".to_owned()]);
        let found = |names: &[&str]| unknown(names.iter().map(|name| (*name).to_owned()), &flags);
        assert_eq!(
            found(&["REFLEX_GRUOP", "REFLEX_GROUP", "REFLEX_TOPICS_EVENT", "REFLEX_GRUOP", "PATH"]),
            ["REFLEX_GRUOP", "REFLEX_TOPICS_EVENT"]
        );
        let others = [
            "REFLEX_CONFIG",
            "REFLEX_AUTHOR",
            "REFLEX_KAFKA_SASL_PASSWORD",
            "REFLEX_AVRO_SCHEMA_IDS_7",
            "REFLEX_KAFKA_SERVICE_PORT",
            "REFLEX_SERVICE_HOST",
            "REFLEX_PORT",
            "REFLEX_PORT_8080_TCP_ADDR",
            "REFLEX_CONSOLE_SERVICE_PORT_HTTP",
            "REFLEX_TEST_BOOTSTRAP_SERVERS",
            "REFLEX_FAILPOINT",
        ];
        assert_eq!(found(&others), Vec::<String>::new());
    }
}
