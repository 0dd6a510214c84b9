//! Decisions of people: who, why, and what became of them. Shared by the verbs that send commands.

use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::engine_config::config;
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::cli::table::clean;
use crate::engine::Config;
use crate::engine::operator::orders::{Answer, Owner, Sent, send};
use crate::engine::operator::registry_topic::{Versions, versions};
use crate::record::command::{Command, Verb};

/// Longest reason and author, in characters; over: refused.
const REASON_CHARS_MAX: usize = 1000;
const AUTHOR_CHARS_MAX: usize = 200;

/// Who decides, and why.
#[derive(Clone, Debug, clap::Args)]
pub struct Why {
    /// Why, in your words: it is in the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Who decides [default: the user of this machine]
    #[arg(long, value_name = "NAME", env = "REFLEX_AUTHOR")]
    pub author: Option<String>,
}

/// How long answers are waited for.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Wait {
    /// Do not wait for what becomes of it
    #[arg(long)]
    pub no_wait: bool,
    /// Longest wait in seconds; over: exit 75, and it is done as soon as the tasks read it
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=600))]
    pub wait: u16,
}

impl Wait {
    fn limit(self) -> Option<Duration> {
        (!self.no_wait).then(|| Duration::from_secs(u64::from(self.wait)))
    }
}

impl Why {
    /// Reason and author, checked.
    ///
    /// # Errors
    /// Exit 64 where one is empty, too long, or holds control characters.
    pub fn checked(&self) -> Result<(String, String), Failure> {
        let user = || ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
        let nobody = || format!("uid {}", rustix::process::getuid().as_raw());
        let author = self.author.clone().or_else(user).unwrap_or_else(nobody);
        let check = |flag: &str, text: &str, chars_max: usize| {
            let text = text.trim();
            let problem = if text.is_empty() {
                "it must not be empty"
            } else if text.chars().count() > chars_max {
                "it is too long"
            } else if clean(text) != text {
                "it holds control characters"
            } else {
                return Ok(text.to_owned());
            };
            Err(Failure::new(Exit::Usage, format_args!("{flag}: {problem}")))
        };
        Ok((check("--reason", &self.reason, REASON_CHARS_MAX)?, check("--author", &author, AUTHOR_CHARS_MAX)?))
    }
}

/// A command with an id of its own.
///
/// # Errors
/// Exit 64 for a reason or an author that is not accepted.
pub fn command(verb: Verb, target: &str, content_hash: Option<String>, why: &Why) -> Result<Command, Failure> {
    let (reason, author) = why.checked()?;
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| Failure::new(Exit::TryAgain, format_args!("making an id: {error}")))?;
    let command_id = uuid::Builder::from_random_bytes(bytes).into_uuid().to_string();
    Ok(Command { command_id, verb, target: target.to_owned(), content_hash, order: None, reason, author })
}

/// The configuration of a verb that is no member of the group.
///
/// # Errors
/// As [`config`].
pub fn operator(resolved: &Resolved) -> Result<Config, Failure> {
    config(&resolved.settings, "operator")
}

/// Sends a command, waits for what becomes of it, and tells.
///
/// # Errors
/// Exit 69 without broker or topic, 75 where it did not go through, or where not every task has answered in time.
pub fn decide(
    resolved: &Resolved,
    owner: &Owner,
    command: &Command,
    wait: Wait,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let config = operator(resolved)?;
    let sent = send(&config, owner, command)?;
    tell(resolved, &config, &sent, command, wait, out)
}

/// Waits for what becomes of a command that was sent, and tells.
///
/// # Errors
/// As [`decide`].
pub fn tell(
    resolved: &Resolved,
    config: &Config,
    sent: &Sent,
    command: &Command,
    wait: Wait,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let Some(limit) = wait.limit() else {
        show(resolved.settings.output, command, sent.tasks(), None, out)?;
        return Ok(Exit::Done);
    };
    let answers = sent.answers(config, limit)?;
    let limits = if answers.iter().any(|answer| limit_of(answer).is_some()) { in_force(config) } else { Value::Null };
    show(resolved.settings.output, command, sent.tasks(), Some((&answers, &limits)), out)?;
    if answers.len() < sent.tasks() {
        let silent = sent.silent(&answers);
        let named = if silent.is_empty() { String::new() } else { format!(" ({})", silent.join(", ")) };
        let message = format!(
            "{} of {} tasks have not answered within {} s{named}: is `reflex run` running? It is done as soon as they read \
             it",
            sent.tasks() - answers.len(),
            sent.tasks(),
            limit.as_secs()
        );
        return Err(Failure::new(Exit::TryAgain, message));
    }
    Ok(if answers.iter().all(|answer| answer.is_done) { Exit::Done } else { Exit::Found })
}

/// The limit a command was refused by.
fn limit_of(answer: &Answer) -> Option<&str> {
    answer.reason.as_deref().filter(|_| !answer.is_done)?.strip_prefix("limit:")
}

/// The limits of the active version by name; null where it is not known.
fn in_force(config: &Config) -> Value {
    let found = versions(config).ok();
    let active = found.as_ref().and_then(Versions::active).and_then(|version| version.registry.as_ref().ok());
    active.and_then(|registry| serde_json::to_value(&registry.limits).ok()).unwrap_or_default()
}

/// How much a limit allows that a command was refused by, and in words.
fn most(answer: &Answer, limits: &Value) -> Option<(u64, String)> {
    let name = limit_of(answer)?;
    let most = limits.get(name)?.as_u64()?;
    let long = humantime::format_duration(Duration::from_millis(most));
    let words = if name.ends_with("_ms_max") { format!("{most} ms = {long}") } else { most.to_string() };
    Some((most, format!(": at most {words} ([limits] of the active registry)")))
}

fn show(
    output: Output,
    command: &Command,
    tasks: usize,
    answers: Option<(&[Answer], &Value)>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Command { command_id, verb, target, .. } = command;
    let verb = verb.as_str();
    let written = if output == Output::Table {
        let told = match answers {
            None => writeln!(out, "{verb} {target}: sent to {tasks} tasks ({command_id})"),
            Some((answers, _)) => {
                let done = answers.iter().filter(|answer| answer.is_done).count();
                writeln!(out, "{verb} {target}: done by {done} of {tasks} tasks ({command_id})")
            }
        };
        told.and_then(|()| {
            let Some((answers, limits)) = answers else { return Ok(()) };
            answers.iter().filter(|answer| !answer.is_done).try_for_each(|answer| {
                let reason = clean(answer.reason.as_deref().unwrap_or("no reason given"));
                let most = most(answer, limits).map(|(_, words)| words).unwrap_or_default();
                writeln!(out, "{} refused: {reason}{most}", clean(&answer.task))
            })
        })
    } else {
        let answers = answers.map(|(answers, limits)| {
            let one = |answer: &Answer| {
                let outcome = if answer.is_done { "done" } else { "refused" };
                let limit = most(answer, limits).map(|(limit, _)| limit);
                json!({ "task": answer.task, "outcome": outcome, "reason": answer.reason, "limit": limit })
            };
            answers.iter().map(one).collect::<Vec<_>>()
        });
        let told =
            json!({ "command_id": command_id, "verb": verb, "target": target, "tasks": tasks, "answers": answers });
        writeln!(out, "{told}")
    };
    written.map_err(unwritable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_authors_are_checked() {
        let why = |reason: &str, author: &str| {
            let why = Why { reason: reason.into(), author: Some(author.into()) };
            why.checked().map_err(|failure| (failure.exit, failure.message))
        };
        assert_eq!(why(" fixed in 6.4.2 ", "ann"), Ok(("fixed in 6.4.2".into(), "ann".into())));
        for (reason, author, flag) in [
            ("", "ann", "--reason"),
            ("  ", "ann", "--reason"),
            ("a\u{1b}[0m", "ann", "--reason"),
            ("r", " ", "--author"),
        ] {
            let (exit, message) = why(reason, author).expect_err("refused");
            assert_eq!(exit, Exit::Usage);
            assert!(message.starts_with(flag), "{message}");
        }
        assert!(why(&"x".repeat(1001), "ann").is_err());
    }

    #[test]
    fn a_command_that_a_limit_refused_is_told_how_much_it_allows() {
        use crate::registry::Limits;
        let limits = serde_json::to_value(Limits::default()).expect("JSON");
        let told = |reason: &str, limits: &Value| {
            let answers = [Answer { task: "fleet/0".into(), is_done: false, reason: Some(reason.into()) }];
            let why = Why { reason: "r".into(), author: Some("a".into()) };
            let command = command(Verb::Force, "g", None, &why).expect("a command");
            [Output::Table, Output::Json].map(|output| {
                let mut out = Vec::new();
                show(output, &command, 1, Some((&answers, limits)), &mut out).expect("written");
                String::from_utf8(out).expect("text")
            })
        };
        let [table, json] = told("limit:operator_override_ms_max", &limits);
        let words = "fleet/0 refused: limit:operator_override_ms_max: at most 604800000 ms = 7days";
        assert!(table.contains(words) && json.contains("\"limit\":604800000"), "{table}{json}");
        let [table, _] = told("limit:operator_overrides_live_max", &limits);
        assert!(table.contains("operator_overrides_live_max: at most 1000 ("), "{table}");
        let [table, json] = told("bad_scope", &limits);
        assert!(table.ends_with("refused: bad_scope\n") && json.contains("\"limit\":null"), "{table}{json}");
        let [table, _] = told("limit:operator_override_ms_max", &Value::Null);
        assert!(table.ends_with("refused: limit:operator_override_ms_max\n"), "{table}");
    }

    #[test]
    fn every_command_has_an_id_of_its_own() {
        let why = Why { reason: "r".into(), author: Some("a".into()) };
        let id = || command(Verb::Freeze, "*", None, &why).expect("a command").command_id;
        assert_ne!(id(), id());
    }
}
