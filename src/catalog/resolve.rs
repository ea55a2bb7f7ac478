//! Which table a name means in a session, as Postgres finds it (`RangeVarGetRelid`). It knows what the
//! session's scope is only as far as it is told.

use super::load::Error;
use super::model::Table;
use super::raw;
use super::snapshot::Catalog;
use crate::sql::name::Name;
use serde::Deserialize;
use std::collections::HashSet;
use std::sync::Arc;

pub(super) const PG_CATALOG: &str = "pg_catalog";
pub(super) const INFORMATION_SCHEMA: &str = "information_schema";

/// Where a session looks for bare names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub path: Path,
    pub temporary: Temporary,
}

impl Scope {
    /// A scope of which nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            path: Path::Unknown,
            temporary: Temporary::Unknown,
        }
    }
}

/// The `search_path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// Schemas in order, `"$user"` replaced, without those that do not exist or that the role may not
    /// use, and without those that Postgres adds by itself (`pg_temp`, `pg_catalog`).
    Known(Vec<String>),
    Unknown,
}

/// The relations in the session's temporary schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Temporary {
    Known(HashSet<String>),
    Unknown,
}

/// What a name means.
#[derive(Clone, Copy, Debug)]
pub enum Resolution<'a> {
    Table(&'a Arc<Table>),
    /// No such relation is known.
    NotFound,
    /// A relation of the session's own temporary schema.
    Temporary,
    /// It depends on what is not known of the session.
    Unknown,
}

impl Catalog {
    /// The relation that a statement of a session with this scope means by `name`.
    #[must_use]
    pub fn resolve(&self, name: &Name, scope: &Scope) -> Resolution<'_> {
        let namesakes = self.namesakes(&name.name);
        match &name.schema {
            Some(schema) if is_temporary(schema) => Resolution::Temporary,
            Some(schema) => found(namesakes.iter().find(|table| table.schema == *schema)),
            None => bare(namesakes, &name.name, scope),
        }
    }
}

fn bare<'a>(namesakes: &'a [Arc<Table>], name: &str, scope: &Scope) -> Resolution<'a> {
    let Temporary::Known(temporary) = &scope.temporary else {
        return Resolution::Unknown;
    };
    let is_temporary = temporary.contains(name);
    let Path::Known(path) = &scope.path else {
        return without_path(namesakes, is_temporary);
    };
    if !is_temporary && let Some(table) = only(namesakes) {
        return Resolution::Table(table);
    }
    let order = search_order(path);
    let steps = order.iter().filter_map(|schema| match schema {
        Place::Temporary => is_temporary.then_some(Resolution::Temporary),
        Place::Schema(schema) => namesakes
            .iter()
            .find(|table| table.schema == *schema)
            .map(Resolution::Table),
    });
    steps.into_iter().next().unwrap_or(Resolution::NotFound)
}

fn without_path(namesakes: &[Arc<Table>], is_temporary: bool) -> Resolution<'_> {
    match (is_temporary, only(namesakes)) {
        (true, _) if namesakes.is_empty() => Resolution::Temporary,
        // The path may list pg_temp after the schema of a namesake.
        (true, _) => Resolution::Unknown,
        (false, Some(table)) => Resolution::Table(table),
        (false, None) if namesakes.is_empty() => Resolution::NotFound,
        (false, None) => Resolution::Unknown,
    }
}

/// The one relation that bears the name. Those of `information_schema` do not count: a statement
/// that meant one of them would not change any row.
fn only(namesakes: &[Arc<Table>]) -> Option<&Arc<Table>> {
    let mut reachable = namesakes
        .iter()
        .filter(|table| table.schema != INFORMATION_SCHEMA);
    let first = reachable.next()?;
    reachable.next().is_none().then_some(first)
}

enum Place<'a> {
    Temporary,
    Schema(&'a str),
}

/// The path with what Postgres searches first unless it is listed.
fn search_order(path: &[String]) -> Vec<Place<'_>> {
    let mut order = Vec::with_capacity(path.len() + 2);
    if !path.iter().any(|schema| is_temporary(schema)) {
        order.push(Place::Temporary);
    }
    if !path.iter().any(|schema| schema == PG_CATALOG) {
        order.push(Place::Schema(PG_CATALOG));
    }
    let listed = path.iter().map(|schema| match schema.as_str() {
        schema if is_temporary(schema) => Place::Temporary,
        schema => Place::Schema(schema),
    });
    order.extend(listed);
    order
}

/// `pg_temp` is the session's own temporary schema; so is the one `pg_temp_N` that it may use.
fn is_temporary(schema: &str) -> bool {
    schema == "pg_temp" || schema.starts_with("pg_temp_")
}

fn found(table: Option<&Arc<Table>>) -> Resolution<'_> {
    table.map_or(Resolution::NotFound, Resolution::Table)
}

/// The statement that asks a session for its scope: one row, one text column, for [`parse_scope`].
#[must_use]
pub const fn default_path_probe() -> &'static str {
    include_str!("scope.sql")
}

#[derive(Deserialize)]
struct Answer {
    path: Vec<String>,
    temporary_listed: bool,
    temporary: Option<HashSet<String>>,
}

/// Reads the answer to [`default_path_probe`].
///
/// # Errors
/// The text is not such an answer.
pub fn parse_scope(json: &str) -> Result<Scope, Error> {
    let answer: Answer = raw::read(json)?;
    // Where pg_temp stands in the path is told only once there is a temporary schema.
    let hidden = answer.temporary_listed && !answer.path.iter().any(|schema| is_temporary(schema));
    Ok(Scope {
        path: if hidden {
            Path::Unknown
        } else {
            Path::Known(answer.path)
        },
        temporary: Temporary::Known(answer.temporary.unwrap_or_default()),
    })
}
