//! The commands. Parses the command line and hands on; what a command finds and how it is printed are
//! apart.

pub mod args;
pub mod banner;
mod check;
mod config;
mod log;
pub mod logging;
mod notify;
mod run;
mod table;

use std::io::{self, Write};
use std::process::ExitCode;

use args::{Arguments, Command};

/// Does what the command line says.
#[must_use]
pub fn execute(arguments: Arguments) -> ExitCode {
    let done = match arguments.into_command() {
        Command::Run(run) => return run::run(run.sources()),
        Command::Log(arguments) => log::log(&arguments, &mut io::stdout().lock()),
        Command::Check(arguments) => check::check(&arguments, &mut io::stdout().lock()),
        Command::Config(arguments) => config::config(arguments, &mut io::stdout().lock()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => fail(failure),
    }
}

/// Why a command could not do what was asked.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The configuration is not understood.
    #[error(transparent)]
    Config(#[from] crate::config::Error),
    /// The output does not take what is printed. A reader that went away is no fault.
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
    /// Anything else, with the next step.
    #[error("{0}")]
    Told(String),
}

fn fail(failure: impl std::fmt::Display) -> ExitCode {
    // There is no one left to tell when stderr is closed.
    let _ = writeln!(io::stderr(), "untwin: {failure}");
    ExitCode::FAILURE
}
