//! Reads the variables `UNTWIN_…`. Knows them from the settings' own names.

use std::ffi::OsString;

use clap::{Args, FromArgMatches};

use super::Error;
use super::settings::Settings;

const PREFIX: &str = "UNTWIN_";
/// Names the file to read.
pub(super) const CONFIG: &str = "UNTWIN_CONFIG";

/// Reads the settings of the variables, each as its flag would be read. An empty one counts as unset.
pub(super) fn read(variables: &[(OsString, OsString)]) -> Result<Settings, Error> {
    let command = Settings::augment_args(clap::Command::new("environment").no_binary_name(true));
    let mut settings = Settings::default();
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| concerns_us(name)) else {
            continue;
        };
        let setting = name[PREFIX.len()..].to_lowercase();
        if !command.get_arguments().any(|argument| argument.get_id() == setting.as_str()) {
            return Err(unknown(name, &command));
        }
        if !value.is_empty() {
            settings = one(name, &setting, value, &command)?.over(settings);
        }
    }
    Ok(settings)
}

fn concerns_us(name: &str) -> bool {
    name.starts_with(PREFIX) && name != CONFIG && !is_of_a_service(name)
}

/// Kubernetes gives every container variables for each service, `UNTWIN_SERVICE_HOST`, `UNTWIN_PORT`,
/// `UNTWIN_PORT_6432_TCP` and so on where the service is called untwin.
fn is_of_a_service(name: &str) -> bool {
    let rest = &name[PREFIX.len()..];
    rest == "PORT" || rest.starts_with("PORT_") || rest.starts_with("SERVICE_")
}

fn one(name: &str, setting: &str, value: &OsString, command: &clap::Command) -> Result<Settings, Error> {
    let mut flag = OsString::from(format!("--{}=", setting.replace('_', "-")));
    flag.push(value);
    let matches = command.clone().try_get_matches_from([flag]);
    let settings = matches.and_then(|matches| Settings::from_arg_matches(&matches));
    settings.map_err(|error| Error::Variable { name: name.to_owned(), message: reason(&error) })
}

/// What the value's own type says of it; clap would speak of a flag that nobody gave.
fn reason(error: &clap::Error) -> String {
    if let Some(source) = std::error::Error::source(error) {
        return source.to_string();
    }
    let text = error.to_string();
    match error.get(clap::error::ContextKind::ValidValue) {
        Some(valid) => format!("write one of {valid}"),
        None => text.lines().next().unwrap_or_default().to_owned(),
    }
}

fn unknown(name: &str, command: &clap::Command) -> Error {
    let variable = |argument: &clap::Arg| format!("{PREFIX}{}", argument.get_id().as_str().to_uppercase());
    let known: Vec<_> =
        std::iter::once(CONFIG.to_owned()).chain(command.get_arguments().map(variable)).collect();
    Error::UnknownVariable { name: name.to_owned(), known: known.join(", ") }
}
