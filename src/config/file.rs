//! Reads `untwin.toml`. Every fault is told with its file, line and column.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use super::Error;
use super::settings::Settings;

/// Reads the settings of a file.
pub(super) fn read(path: &Path) -> Result<Settings, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::Read { path: path.display().to_string(), source })?;
    parse(&text).map_err(|Fault { at, message }| {
        let (line, column) = position(&text, at);
        Error::File { path: path.display().to_string(), line, column, message }
    })
}

/// What is wrong, and where: an offset in bytes.
#[derive(Debug)]
struct Fault {
    at: usize,
    message: String,
}

fn parse(text: &str) -> Result<Settings, Fault> {
    let settings: Settings = toml::from_str(text).map_err(|error| Fault {
        at: error.span().map_or(0, |span| span.start),
        message: error.message().to_owned(),
    })?;
    check_names(&settings)?;
    Ok(settings)
}

/// Each name has one section, and a `*` ends the name of an application.
fn check_names(settings: &Settings) -> Result<(), Fault> {
    for (key, sections) in
        [("database", &settings.database), ("user", &settings.user), ("application", &settings.application)]
    {
        check_unique(key, sections.iter().map(|section| (section.name.get_ref(), section.name.span())))?;
    }
    check_unique(
        "table",
        settings.table.iter().map(|section| (&section.name.get_ref().table, section.name.span())),
    )?;
    for name in settings.application.iter().map(|section| &section.name) {
        let start = name.get_ref().strip_suffix('*').unwrap_or(name.get_ref());
        if start.contains('*') {
            return Err(Fault {
                at: name.span().start,
                message: "a `*` may only end an application name".to_owned(),
            });
        }
    }
    Ok(())
}

fn check_unique<T: std::hash::Hash + Eq>(
    key: &str,
    names: impl Iterator<Item = (T, Range<usize>)>,
) -> Result<(), Fault> {
    let mut seen = HashSet::new();
    for (name, span) in names {
        if !seen.insert(name) {
            return Err(Fault { at: span.start, message: format!("a second [[{key}]] with this name") });
        }
    }
    Ok(())
}

/// Line and column, both from 1; columns are counted in characters.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}
