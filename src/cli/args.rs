//! The command line's shape. Knows what may be said, not what it does.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use jiff::Timestamp;

use crate::config::Sources;
use crate::config::settings::Settings;
use crate::config::upstream::Upstream;
use crate::config::value::Period;
use crate::journal::filter::Filter;
use crate::journal::record::Fate;
use crate::rekey::table_name::TableName;

const NOTES: &str = "\
Every option is also a variable (--max-statement-bytes is UNTWIN_MAX_STATEMENT_BYTES) and a setting in untwin.toml
(max_statement_bytes). Options win over variables, variables over the file.

Signals: SIGHUP reads the file, certificates, keys and users again. SIGTERM lets nobody in any more (after
drain_delay) and ends each session outside its transaction, all of them after drain_timeout. SIGINT (Ctrl-C) ends
all of them at once.";

/// A Postgres proxy that gives the later of two rows with one UUID key a fresh key
#[derive(Clone, Debug, Parser)]
#[command(name = "untwin", version, args_conflicts_with_subcommands = true, after_help = NOTES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

impl Arguments {
    /// Reads the command line of this process. Ends the process after a fault, `--help` or `--version`.
    #[must_use]
    pub fn read() -> Self {
        let mut matches = with_defaults(Self::command()).get_matches();
        Self::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.exit())
    }

    /// The command; `run` where none is named.
    #[must_use]
    pub fn into_command(self) -> Command {
        self.command.unwrap_or(Command::Run(Box::new(self.run)))
    }
}

/// Tells each setting's default in its help.
fn with_defaults(command: clap::Command) -> clap::Command {
    let defaults = serde_json::to_value(Settings::defaults()).unwrap_or_default();
    let tell = |argument: clap::Arg| {
        let default = match defaults.get(argument.get_id().as_str()) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(serde_json::Value::Number(number)) => number.to_string(),
            Some(serde_json::Value::Bool(truth)) => truth.to_string(),
            _ => return argument,
        };
        let help = format!("{} [default: {default}]", argument.get_help().cloned().unwrap_or_default());
        argument.help(help)
    };
    let run = |command: clap::Command| command.mut_args(tell);
    let config = |command: clap::Command| command.mut_subcommand("show", run);
    command.mut_args(tell).mut_subcommand("run", run).mut_subcommand("config", config)
}

/// What untwin can do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Stand in front of a database (also without this word)
    #[command(after_help = NOTES)]
    Run(Box<RunArgs>),
    /// Show the journal: what was rekeyed, and what became of it
    Log(LogArgs),
    /// Show every UUID key of the database: protected, or why not. Logs in by itself
    Check(Box<CheckArgs>),
    /// Show the settings in force, or the schema of untwin.toml
    Config(ConfigArgs),
}

/// `untwin run`.
#[derive(Clone, Debug, Default, Args)]
pub struct RunArgs {
    /// The file of settings [default: untwin.toml, if it exists]
    #[arg(long, value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// Settings given as flags.
    #[command(flatten)]
    pub settings: Settings,
}

impl RunArgs {
    /// Where the settings come from.
    #[must_use]
    pub fn sources(self) -> Sources {
        Sources { flags: self.settings, file: self.config, environment: std::env::vars_os().collect() }
    }
}

/// How a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people
    Table,
    /// One JSON object a line
    Json,
}

/// `untwin log`.
#[derive(Clone, Debug, Args)]
pub struct LogArgs {
    /// The journal's file [default: that of the configuration]
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// The file of settings that names the journal [default: untwin.toml, if it exists]
    #[arg(long, value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Go on with what is recorded from now on
    #[arg(long, short)]
    pub follow: bool,
    /// Only what is newer: 15m, 2h, 3d, or a time such as 2026-01-02T03:04:05Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<Since>,
    /// Only this table: ev or public.ev
    #[arg(long)]
    pub table: Option<TableName>,
    /// Only records whose old key, new key or own id this is
    #[arg(long, value_name = "UUID")]
    pub id: Option<Uuid>,
    /// Only this fate: pending, committed, rolled_back or unknown
    #[arg(long)]
    pub fate: Option<Fate>,
}

impl LogArgs {
    /// What is asked for, at `now`.
    #[must_use]
    pub fn filter(&self, now: Timestamp) -> Filter {
        Filter {
            since: self.since.map(|since| since.at(now)),
            table: self.table.clone(),
            id: self.id.map(|id| id.0),
            fate: self.fate,
        }
    }
}

/// A point in time, or how long ago it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// So long ago.
    Ago(Duration),
    /// Then.
    At(Timestamp),
}

impl Since {
    /// The point in time, seen from `now`; the earliest there is, if that lies before it.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(ago) => now.checked_sub(ago).unwrap_or(Timestamp::MIN),
            Self::At(at) => at,
        }
    }
}

/// A text is neither a length of time nor a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a length of time such as 15m, 2h or 3d, or a time such as 2026-01-02T03:04:05Z")]
pub struct NotATime;

impl FromStr for Since {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        if let Ok(Period(ago)) = text.parse() {
            return Ok(Self::Ago(ago));
        }
        text.parse().map(Self::At).map_err(|_| NotATime)
    }
}

/// A UUID in any spelling that Postgres reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uuid(pub u128);

/// A text is no UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a UUID such as 11111111-1111-4111-8111-111111111111")]
pub struct NotAUuid;

impl FromStr for Uuid {
    type Err = NotAUuid;

    fn from_str(text: &str) -> Result<Self, NotAUuid> {
        crate::key::parse(text.as_bytes()).map(Self).ok_or(NotAUuid)
    }
}

/// `untwin check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// The database, with user, password and name: postgres://user:password@host:port/name [default: that of the configuration]
    #[arg(long, value_name = "URL")]
    pub upstream: Option<Upstream>,
    /// The file of settings [default: untwin.toml, if it exists]
    #[arg(long, value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

impl CheckArgs {
    /// Where the settings come from.
    #[must_use]
    pub fn sources(&self) -> Sources {
        let settings = Settings { upstream: self.upstream.clone(), ..Settings::default() };
        RunArgs { config: self.config.clone(), settings }.sources()
    }
}

/// `untwin config`.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    /// What to show.
    #[command(subcommand)]
    pub what: ConfigCommand,
}

/// What `untwin config` can show.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// The JSON schema of untwin.toml
    Schema,
    /// The settings in force, as a file; without passwords
    Show(Box<RunArgs>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rekey::policy::Mode;

    fn parse(words: &str) -> Result<Command, clap::Error> {
        Arguments::try_parse_from(words.split_whitespace()).map(Arguments::into_command)
    }

    #[test]
    fn the_shape_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn help_tells_the_defaults() {
        let mut command = with_defaults(Arguments::command());
        for help in [
            command.render_help().to_string(),
            command.find_subcommand_mut("run").unwrap().render_help().to_string(),
            command
                .find_subcommand_mut("config")
                .unwrap()
                .find_subcommand_mut("show")
                .unwrap()
                .render_help()
                .to_string(),
        ] {
            assert!(
                help.contains("The largest statement whose text is inspected [default: 64MiB]"),
                "{help}"
            );
        }
    }

    #[test]
    fn no_command_is_run() {
        for words in ["untwin --mode strict", "untwin run --mode strict"] {
            let Ok(Command::Run(run)) = parse(words) else { panic!("{words}") };
            assert_eq!(run.settings.mode, Some(Mode::Strict));
        }
    }

    #[test]
    fn values_are_checked_and_unknown_flags_refused() {
        for words in [
            "untwin --mode bold",
            "untwin --modus strict",
            "untwin --mode strict log",
            "untwin log --since yesterday",
            "untwin log --id 5",
            "untwin log --fate lost",
            "untwin log --table a.b.c",
            "untwin config",
            "untwin fly",
        ] {
            assert!(parse(words).is_err(), "{words}");
        }
    }

    #[test]
    fn since_is_a_length_of_time_or_a_point_in_it() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for (text, at) in [
            ("15m", "2026-01-02T02:49:05Z"),
            ("3d", "2025-12-30T03:04:05Z"),
            ("2026-01-01T00:00:00+01:00", "2025-12-31T23:00:00Z"),
        ] {
            assert_eq!(text.parse::<Since>().unwrap().at(now).to_string(), at, "{text}");
        }
        assert_eq!(Since::Ago(Duration::MAX).at(now), Timestamp::MIN);
    }
}
