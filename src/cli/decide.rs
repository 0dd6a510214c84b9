//! Decisions of people: who, why, and what became of them. Shared by the verbs that send commands.

use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use serde_json::json;

use crate::cli::engine_config::config;
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::cli::table::clean;
use crate::engine::Config;
use crate::engine::operator::orders::{Answer, Owner, Sent, send};
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
    show(resolved.settings.output, command, sent.tasks(), Some(&answers), out)?;
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

fn show(
    output: Output,
    command: &Command,
    tasks: usize,
    answers: Option<&[Answer]>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Command { command_id, verb, target, .. } = command;
    let verb = verb.as_str();
    let written = if output == Output::Table {
        let told = match answers {
            None => writeln!(out, "{verb} {target}: sent to {tasks} tasks ({command_id})"),
            Some(answers) => {
                let done = answers.iter().filter(|answer| answer.is_done).count();
                writeln!(out, "{verb} {target}: done by {done} of {tasks} tasks ({command_id})")
            }
        };
        told.and_then(|()| {
            answers.into_iter().flatten().filter(|answer| !answer.is_done).try_for_each(|answer| {
                let reason = clean(answer.reason.as_deref().unwrap_or("no reason given"));
                writeln!(out, "{} refused: {reason}", clean(&answer.task))
            })
        })
    } else {
        let answers = answers.map(|answers| {
            let one = |answer: &Answer| {
                json!({ "task": answer.task, "outcome": if answer.is_done { "done" } else { "refused" }, "reason": answer.reason })
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
    fn every_command_has_an_id_of_its_own() {
        let why = Why { reason: "r".into(), author: Some("a".into()) };
        let id = || command(Verb::Freeze, "*", None, &why).expect("a command").command_id;
        assert_ne!(id(), id());
    }
}
