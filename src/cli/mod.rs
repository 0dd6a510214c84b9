//! The program `reflex`: one file per verb.
//!
//! A new verb is three lines here: its module, its variant of `Verb`, its arm in `dispatch`.

pub mod bench;
pub mod config;
pub mod decide;
pub mod demo;
pub mod dlq;
pub mod doctor;
pub mod engine_config;
pub mod exit;
mod failure;
pub mod freeze;
pub mod http;
pub mod import;
mod lines;
mod logging;
mod order;
mod pipe;
pub mod publish;
pub mod ready;
pub mod records;
pub mod registry;
pub mod replay;
pub mod resolve;
pub mod run;
pub mod settings;
mod table;
pub mod test;
pub mod token;
pub mod topics;
pub mod trail;
pub mod validate;
pub mod verify;

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, Parser, Subcommand};

use crate::record::command;
use crate::registry::Registry;
use exit::{Exit, Failure};
use settings::model::Output;
use settings::{Flags, Resolved, environment};

/// Runtime recovery for agent fleets, an event-stream processor over Kafka.
#[derive(Debug, Parser)]
#[command(name = "reflex", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

const AFTER_HELP: &str = "\
Every setting is also a key in config/reflex.toml and a variable REFLEX_… (topics.events: REFLEX_TOPICS_EVENTS).
A flag wins over the environment, that over the file, that over the default: `reflex config show`.

Exit codes: 0 done, 1 a check failed, 64 usage, 65 bad input, 66 input not found, 69 broker not reachable or something
is missing there, 70 bug, 75 try again, 77 not permitted, 78 configuration.";

/// Flags of every verb.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Settings")]
#[allow(clippy::doc_markdown, reason = "these comments are shown to users as they are")]
struct Common {
    /// Settings file [REFLEX_CONFIG; default: config/reflex.toml where it exists]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder of the registry [REFLEX_REGISTRY]
    #[arg(long, global = true, value_name = "DIR")]
    registry: Option<String>,
    /// Brokers, host:port,… [REFLEX_BOOTSTRAP_SERVERS]
    #[arg(long, global = true, value_name = "LIST")]
    bootstrap_servers: Option<String>,
    /// Folder of what the process keeps [REFLEX_DATA_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<String>,
    /// Worker threads [REFLEX_WORKERS]
    #[arg(long, global = true, value_name = "N")]
    workers: Option<String>,
    /// Consumer group [REFLEX_GROUP]
    #[arg(long, global = true, value_name = "ID")]
    group: Option<String>,
    /// Name of this process in the group [REFLEX_INSTANCE]
    #[arg(long, global = true, value_name = "NAME")]
    instance: Option<String>,
    /// Address of the HTTP service [REFLEX_HTTP]
    #[arg(long, global = true, value_name = "ADDR")]
    http: Option<String>,
    /// One copy of everything is enough: a single broker, to try things on [REFLEX_DEV]
    #[arg(long, global = true)]
    dev: bool,
    /// Any setting, or a limit of the registry: limits.NAME=VALUE
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// How results are written: table, json, ndjson [REFLEX_OUTPUT]
    #[arg(short, long, global = true, value_name = "FORMAT")]
    output: Option<String>,
}

impl Common {
    fn flags(self) -> Flags {
        let named = [
            ("registry", "--registry", self.registry),
            ("bootstrap_servers", "--bootstrap-servers", self.bootstrap_servers),
            ("data_dir", "--data-dir", self.data_dir),
            ("workers", "--workers", self.workers),
            ("group", "--group", self.group),
            ("instance", "--instance", self.instance),
            ("http", "--http", self.http),
            ("dev", "--dev", self.dev.then(|| "true".to_owned())),
            ("output", "--output", self.output),
        ];
        let named = named.into_iter().filter_map(|(key, flag, text)| text.map(|text| (key, flag, text))).collect();
        Flags { config: self.config, named, set: self.set }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Verb {
    /// See a failing session saved: embedded broker, sample fleet; ends by itself.
    Demo(demo::Args),
    /// Read events, publish interventions and overrides, until stopped.
    Run,
    /// Answer over HTTP at --http, and decide nothing: any number of these may run.
    Serve,
    /// Make a token for HTTP, and its entry for the file of tokens.
    Token(token::Args),
    /// Decide again what the tape says was decided, and compare every byte: exit 1 where something differs.
    Verify(verify::Args),
    /// Ask the process of `reflex run` at --http whether it is ready: exit 0 yes, 1 no.
    Ready(ready::Args),
    /// Does everything work? Brokers, topics, permissions, clocks, registry, processor, and one round trip.
    Doctor(doctor::Args),
    /// Check the registry: every problem of every file at once.
    Validate(validate::Args),
    /// Check scenario files against a registry.
    Test(test::Args),
    /// Run recorded events through the stages: no broker, nothing published.
    Replay(replay::Args),
    /// What a runtime computes: which schema to run, for a context now on the broker, or for recorded cases.
    Resolve(resolve::Args),
    /// Create, configure and check the topics.
    #[command(subcommand)]
    Topics(topics::Verb),
    /// Versions of the registry: check, compare, push, activate.
    #[command(subcommand)]
    Registry(registry::Verb),
    /// What runtimes resolve against: list, show, lift, force, deny.
    #[command(subcommand)]
    Overrides(records::OverrideVerb),
    /// The Intervention Log: list, show, approve, reject.
    #[command(subcommand)]
    Interventions(records::InterventionVerb),
    /// Every transition of every record: list.
    #[command(subcommand)]
    Audit(trail::AuditVerb),
    /// What a person was asked to take over: list, show.
    #[command(subcommand)]
    Escalations(trail::EscalationVerb),
    /// What could not be used: list, show, send again.
    #[command(subcommand)]
    Dlq(dlq::Verb),
    /// Stop all new automation in every task; lifting and expiring go on.
    Freeze(freeze::Args),
    /// Let automation go on.
    Unfreeze(freeze::Args),
    /// Write recorded events to the events topic.
    Publish(publish::Args),
    /// Measure throughput or latency of the engine on a broker, with a fleet whose overrides are known.
    Bench(bench::Args),
    /// Show the settings in force.
    #[command(subcommand)]
    Config(config::Verb),
}

fn dispatch(verb: Verb, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    match verb {
        Verb::Demo(args) => demo::run(&args, resolved.settings.output != Output::Table, &run::stop_flag()?, out),
        Verb::Run => run::run(resolved),
        Verb::Serve => http::run(resolved),
        Verb::Token(args) => token::run(&args, resolved.settings.output != Output::Table, out),
        Verb::Verify(args) => verify::run(&args, resolved, out),
        Verb::Ready(args) => ready::run(&args, &resolved.settings, out),
        Verb::Doctor(args) => doctor::run(args, resolved, out),
        Verb::Validate(args) => {
            let json = resolved.settings.output != Output::Table;
            validate::run(Path::new(&resolved.settings.registry), &resolved.limits, args.deny_warnings, json)
        }
        Verb::Test(args) => test::run(&args, &|file, scenario| scenario_registry(resolved, file, scenario), out),
        Verb::Replay(args) => {
            let shape = match resolved.settings.output {
                Output::Table => replay::Shape::Table,
                Output::Json => replay::Shape::Json,
                Output::Ndjson => replay::Shape::Ndjson,
            };
            let second = args.diff.as_deref().map(|folder| load_registry(folder, resolved)).transpose()?;
            replay::run(&args, &registry(resolved)?, second.as_ref(), shape, out)
        }
        Verb::Resolve(args) => resolve::run(&args, resolved, out),
        Verb::Topics(verb) => topics::run(&verb, resolved, out),
        Verb::Registry(verb) => registry::run(&verb, resolved, out),
        Verb::Overrides(verb) => records::overrides(&verb, resolved, out),
        Verb::Interventions(verb) => records::interventions(&verb, resolved, out),
        Verb::Audit(verb) => trail::audit(&verb, resolved, out),
        Verb::Escalations(verb) => trail::escalations(&verb, resolved, out),
        Verb::Dlq(verb) => dlq::run(&verb, resolved, out),
        Verb::Freeze(args) => freeze::run(command::Verb::Freeze, &args, resolved, out),
        Verb::Unfreeze(args) => freeze::run(command::Verb::Unfreeze, &args, resolved, out),
        Verb::Publish(args) => publish::run(&args, resolved, out),
        Verb::Bench(args) => bench::run(&args, resolved, out),
        Verb::Config(verb) => config::run(&verb, resolved, out),
    }
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version come this way too; nothing can be done about a closed standard output.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    let colours = colours();
    let names = environment::variables().map(|(name, _)| name);
    for name in environment::unknown(names, &variables_of(&Arguments::command())) {
        eprintln!("warning: {}: no setting has this variable; `reflex config show` lists them", table::clean(&name));
    }
    let ended = settings::resolve(&arguments.common.flags(), environment::variables(), colours).and_then(|resolved| {
        // In large pieces: a replay prints a line for each record.
        let mut out = std::io::BufWriter::with_capacity(65_536, pipe::Tolerant::new(std::io::stdout().lock()));
        let ended = dispatch(arguments.verb, &resolved, &mut out);
        let flushed = out.flush().map_err(failure::unwritable);
        ended.and_then(|exit| flushed.map(|()| exit))
    });
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => {
            let (red, plain) = if colours { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
            eprintln!("{red}error{plain}: {}", failure.message);
            failure.exit.into()
        }
    }
}

/// The variables of flags that are no settings.
fn variables_of(command: &clap::Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter_map(|argument| argument.get_env());
    let own = own.map(|name| name.to_string_lossy().into_owned());
    own.chain(command.get_subcommands().flat_map(variables_of)).collect()
}

/// Whether standard error may be coloured.
fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The registry of `--registry`, with the limits of `--set`.
fn registry(resolved: &Resolved) -> Result<Arc<Registry>, Failure> {
    load_registry(Path::new(&resolved.settings.registry), resolved)
}

fn load_registry(folder: &Path, resolved: &Resolved) -> Result<Arc<Registry>, Failure> {
    let registry = validate::load_folder(folder)?
        .registry
        .with_settings(&resolved.limits)
        .map_err(|problem| Failure::new(Exit::Configuration, problem))?;
    Ok(Arc::new(registry))
}

/// A scenario names its registry relative to its own file, and may set limits of its own.
fn scenario_registry(
    resolved: &Resolved,
    file: &Path,
    scenario: &test::scenario::Scenario,
) -> Result<Arc<Registry>, Failure> {
    let base = match &scenario.registry {
        Some(folder) => load_registry(&file.parent().unwrap_or(Path::new(".")).join(folder), resolved)?,
        None => registry(resolved)?,
    };
    let registry = base.with_settings(&scenario.settings).map_err(|problem| Failure::new(Exit::BadInput, problem))?;
    Ok(Arc::new(registry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_are_no_settings_have_variables_too() {
        let found = variables_of(&Arguments::command());
        assert!(found.contains("REFLEX_AUTHOR") && found.contains("REFLEX_DENY_WARNINGS"), "{found:?}");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_word_that_no_record_can_have_is_refused_with_those_there_are_before_a_broker_is_asked() {
        let kafka = "bootstrap_servers=127.0.0.1:1";
        for (verb, known) in [
            ("interventions list --status nonsense", "awaiting_approval, provisioning, applied"),
            ("overrides list --status applied", "active"),
            ("audit list --entity nonsense", "intervention, override"),
            ("dlq list --code nonsense", "not_json, not_object"),
            ("dlq list --topic nonsense", "reflex.events, reflex.events.dlq, reflex.session-commands"),
            ("dlq list --since nonsense", "RFC 3339"),
            ("dlq redrive --all --code nonsense", "not_json"),
        ] {
            let words = ["reflex", "--set", kafka].into_iter().chain(verb.split(' '));
            let arguments = Arguments::try_parse_from(words).expect("valid");
            let resolved = settings::resolve(&arguments.common.flags(), std::iter::empty(), false).expect("settings");
            let failure = dispatch(arguments.verb, &resolved, &mut Vec::new()).expect_err(verb);
            assert_eq!(failure.exit, Exit::Usage, "{verb}: {}", failure.message);
            assert!(failure.message.contains(known), "{verb}: {}", failure.message);
        }
    }

    #[test]
    fn every_flag_of_its_own_is_a_setting() {
        let arguments = Arguments::try_parse_from(["reflex", "run", "--http", "x", "-o", "json", "--workers", "1"]);
        let flags = arguments.expect("valid").common.flags();
        let defaults = settings::defaults();
        assert_eq!(flags.named.len(), 3);
        assert!(flags.named.iter().all(|(key, ..)| defaults.contains_key(*key)));
    }
}
