//! Exit codes: stable, scripts rely on them.

use std::fmt;
use std::process::ExitCode;

/// How a verb ended. The numbers are those of `sysexits.h`, with 1 for a check that found something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// A check failed, or something was found.
    Found = 1,
    /// The command line is wrong.
    Usage = 64,
    /// An input is malformed.
    BadInput = 65,
    /// An input does not exist.
    NoInput = 66,
    /// The broker cannot be reached, or lacks something.
    Unavailable = 69,
    /// A bug of this program.
    Bug = 70,
    /// A passing fault: try again.
    TryAgain = 75,
    /// Not permitted.
    NotPermitted = 77,
    /// The configuration or the registry is wrong.
    Configuration = 78,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a verb gave up: words for a person, and the exit code.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// One or more lines, without a trailing newline.
    pub message: String,
}

impl Failure {
    /// A failure with its words.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: message.to_string() }
    }
}
