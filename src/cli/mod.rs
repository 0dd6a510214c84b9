//! The program `reflex`: one file per verb.

pub mod exit;
pub mod validate;

use std::process::ExitCode;

use exit::Exit;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    Exit::Done.into()
}
