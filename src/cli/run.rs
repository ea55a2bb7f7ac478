//! `untwin run`: starts the log and the journal, then serves.

use std::process::ExitCode;

use super::{fail, logging};
use crate::config::Config;
use crate::journal::writer::Journal;

/// Runs untwin until it is told to stop.
pub(super) fn run(config: Config) -> ExitCode {
    if let Err(error) = logging::start(&config.log) {
        return fail(error);
    }
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    match Journal::open(&config.journal) {
        Ok(journal) => fail(format!(
            "nothing serves yet; the journal would be {}",
            journal.path().display()
        )),
        Err(error) => fail(error),
    }
}
