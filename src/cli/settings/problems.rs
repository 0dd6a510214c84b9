//! Everything that is wrong with settings beyond types, all at once.

use crate::cli::settings::{Resolved, Source};
use crate::engine::cluster::client::pinned;
use crate::engine::home::is_name;

/// Most worker threads of a process.
const WORKERS_MAX: u32 = 64;

/// Topics are told apart by their names: two uses of one name would feed outputs back as inputs.
fn topic_problems(resolved: &Resolved, refuse: &mut impl FnMut(&str, &str)) {
    let topics = resolved.values.iter().filter(|(key, _)| key.starts_with("topics."));
    let named: Vec<(&str, &str)> =
        topics.filter_map(|(key, value)| value.as_str().map(|name| (key.as_str(), name))).collect();
    let dead_letters = [&resolved.settings.topics.events, &resolved.settings.topics.session_commands]
        .map(|input| crate::engine::config::dead_letters_of(input));
    for (index, (key, name)) in named.iter().enumerate() {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        // An input's dead letters have a suffix of four characters more.
        if name.is_empty() || name.len() > 245 || !name.chars().all(legal) || [".", ".."].contains(name) {
            refuse(key, "not a topic name: letters, digits, `.`, `_` and `-`, at most 245");
        }
        if let Some((other, _)) = named[..index].iter().find(|(_, taken)| taken == name) {
            refuse(key, &format!("the same topic as {other}"));
        }
        if dead_letters.iter().any(|taken| taken == name) {
            refuse(key, "the dead-letter topic of an input");
        }
    }
}

/// All of it, a line each.
pub fn problems(resolved: &Resolved) -> Vec<String> {
    let settings = &resolved.settings;
    let mut problems = Vec::new();
    let mut refuse = |key: &str, what: &str| {
        let source = resolved.sources.get(key).unwrap_or(&Source::Default);
        problems.push(format!("{key} ({source}): {what}"));
    };
    if !(1..=WORKERS_MAX).contains(&settings.workers) {
        refuse("workers", "from 1 to 64 threads; start more processes to scale out");
    }
    if !is_name(&settings.group) {
        refuse("group", "letters, digits, `-`, `_` and `.` only, at most 100");
    }
    if !settings.instance.is_empty() && !is_name(&settings.instance) {
        refuse("instance", "letters, digits, `-`, `_` and `.` only, at most 100");
    }
    topic_problems(resolved, &mut refuse);
    for (key, number) in [
        ("commit_interval_ms", settings.commit_interval_ms),
        ("broker_timeout_ms", settings.broker_timeout_ms),
        ("broker_outage_ms_max", settings.broker_outage_ms_max),
        ("batch_events_max", u64::from(settings.batch_events_max)),
        ("http_connections_max", u64::from(settings.http_connections_max)),
        ("http_waiting_max", u64::from(settings.http_waiting_max)),
        ("http_waiting_per_client_max", u64::from(settings.http_waiting_per_client_max)),
        ("http_rate_per_second_max", u64::from(settings.http_rate_per_second_max)),
    ] {
        if number == 0 {
            refuse(key, "0 would stop everything");
        }
    }
    if settings.http_waiting_max > settings.http_connections_max {
        refuse("http_waiting_max", "more than http_connections_max: those who ask quickly need a place too");
    }
    if settings.http_waiting_per_client_max > settings.http_waiting_max {
        refuse(
            "http_waiting_per_client_max",
            "more than http_waiting_max: one client could hold every place; lower it as well",
        );
    }
    if settings.http_tls_certificate.is_empty() != settings.http_tls_key.is_empty() {
        refuse("http_tls_key", "certificate and key go together");
    }
    // A transaction is open for as long as a commit takes; the group must not give up on a member that waits.
    if settings.commit_interval_ms > 30_000 {
        refuse("commit_interval_ms", "at most 30000");
    }
    if settings.commit_gap_ms_min > settings.commit_interval_ms {
        refuse("commit_gap_ms_min", "more than commit_interval_ms");
    }
    for property in settings.kafka.0.keys() {
        if let Some(reason) = pinned(property) {
            refuse(&format!("kafka.{property}"), &format!("cannot be set: {reason}"));
        }
    }
    problems
}
