//! The log: lines on stderr, for people or as JSON. Knows no more than the configuration's level and format.

use std::io::{self, IsTerminal};

use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::Log;
use crate::config::value::LogFormat;

/// Starts the log of this process.
///
/// # Errors
/// When it was started before.
pub fn start(log: &Log) -> Result<(), TryInitError> {
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let lines = match log.format {
        LogFormat::Human => lines.with_ansi(io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(log.level.targets.clone())).try_init()
}
