//! The binary: the command line, and nothing else.

use std::process::ExitCode;

use untwin::cli;

fn main() -> ExitCode {
    cli::execute(cli::args::Arguments::read())
}
