//! The log: on standard error, text or JSON.

use std::io::stderr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::cli::colours;
use crate::cli::exit::{Exit, Failure};
use crate::cli::settings::model::{Log, LogFormat};

/// Starts the log of a program that runs for long.
pub fn start(log: &Log) -> Result<(), Failure> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let problem = |error: &dyn std::fmt::Display| Failure::new(Exit::Configuration, format_args!("log.level: {error}"));
    // A single word that is no level would be taken for the name of a part of the program, and silence the rest.
    if !log.level.contains(['=', ',']) && !LEVELS.contains(&log.level.to_lowercase().as_str()) {
        return Err(problem(&format_args!("`{}` is none of {}", log.level, LEVELS.join(", "))));
    }
    // What the libraries of local stores tell of their files is for who asks for it.
    let level = format!("fjall=warn,lsm_tree=warn,sled=warn,{}", log.level);
    let filter = EnvFilter::try_new(level).map_err(|error| problem(&error))?;
    let builder = fmt().with_writer(stderr).with_env_filter(filter).with_ansi(colours());
    match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(|error| problem(&error))
}
