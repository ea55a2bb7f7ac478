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
    /// Its search path.
    pub path: Path,
    /// Its temporary relations.
    pub temporary: Temporary,
    /// The schemas that its role may not use, if they are known.
    pub closed: Option<Arc<HashSet<String>>>,
}

impl Scope {
    /// A scope of which nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self { path: Path::Unknown, temporary: Temporary::Unknown, closed: None }
    }
}

/// The `search_path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// Schemas in order, `"$user"` replaced, without those that do not exist or that the role may not
    /// use, and without those that Postgres adds by itself (`pg_temp`, `pg_catalog`).
    Known(Vec<String>),
    /// It may be any.
    Unknown,
}

/// The relations in the session's temporary schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Temporary {
    /// Their names.
    Known(HashSet<String>),
    /// There may be any.
    Unknown,
}

/// What a name means.
#[derive(Clone, Copy, Debug)]
pub enum Resolution<'a> {
    /// This relation, perhaps one without keys.
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

impl Catalog {
    /// Whether no relation but one bears the name, temporary ones of the session included: what it was taken for
    /// at any time is that one.
    #[must_use]
    pub fn is_borne_once(&self, name: &str, scope: &Scope) -> bool {
        matches!(&scope.temporary, Temporary::Known(names) if !names.contains(name))
            && only(self.namesakes(name)).is_some()
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
        Place::Schema(schema) => {
            namesakes.iter().find(|table| table.schema == *schema).map(Resolution::Table)
        }
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
    let mut reachable = namesakes.iter().filter(|table| table.schema != INFORMATION_SCHEMA);
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
    closed: Option<HashSet<String>>,
    mode: Option<String>,
}

/// What a session tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Where it looks for names.
    pub scope: Scope,
    /// Its setting `untwin.mode`, as it is spelled there.
    pub mode: Option<String>,
}

/// Reads the answer to [`default_path_probe`].
///
/// # Errors
/// The text is not such an answer.
pub fn parse_scope(json: &str) -> Result<Told, Error> {
    let answer: Answer = raw::read(json)?;
    // Where pg_temp stands in the path is told only once there is a temporary schema.
    let hidden = answer.temporary_listed && !answer.path.iter().any(|schema| is_temporary(schema));
    let scope = Scope {
        path: if hidden { Path::Unknown } else { Path::Known(answer.path) },
        temporary: Temporary::Known(answer.temporary.unwrap_or_default()),
        closed: Some(Arc::new(answer.closed.unwrap_or_default())),
    };
    Ok(Told { scope, mode: answer.mode })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Schemas and names; oids are positions.
    const RELATIONS: &str = r#"{"schemas": [[1, "a"], [2, "b"], [3, "pg_catalog"], [4, "information_schema"]],
        "relations": [[10, 1, "twice", "r"], [11, 2, "twice", "r"], [12, 2, "once", "r"], [13, 3, "pg_class", "r"],
                      [14, 1, "pg_class", "r"], [15, 4, "columns", "v"], [16, 1, "columns", "r"]]}"#;

    fn known(path: &[&str]) -> Path {
        Path::Known(path.iter().map(|schema| (*schema).to_owned()).collect())
    }

    fn told(name: &str, path: &Path, temporary: Option<&str>) -> String {
        let catalog = super::super::load::parse(RELATIONS, 1).unwrap();
        let temporary = temporary.map_or(Temporary::Unknown, |names| {
            Temporary::Known(names.split_whitespace().map(str::to_owned).collect())
        });
        let scope = Scope { path: path.clone(), temporary, closed: None };
        let name = match name.split_once('.') {
            Some((schema, name)) => Name { schema: Some(schema.into()), name: name.into() },
            None => Name { schema: None, name: name.into() },
        };
        match catalog.resolve(&name, &scope) {
            Resolution::Table(table) => table.display.clone(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_name_means_what_postgres_would_find_or_nothing_is_said() {
        let (ab, ba, unknown) = (known(&["a", "b"]), known(&["b", "a"]), Path::Unknown);
        let cases = [
            // name, path, temporary relations, meaning
            ("a.twice", &unknown, None, "a.twice"),
            ("a.once", &unknown, None, "NotFound"),
            ("pg_temp.twice", &ab, Some(""), "Temporary"),
            ("pg_temp_3.twice", &ab, Some(""), "Temporary"),
            ("twice", &ab, Some(""), "a.twice"),
            ("twice", &ba, Some(""), "b.twice"),
            ("twice", &known(&["c"]), Some(""), "NotFound"),
            ("twice", &unknown, Some(""), "Unknown"),
            ("twice", &ab, None, "Unknown"),
            ("twice", &ab, Some("twice"), "Temporary"),
            ("twice", &known(&["a", "pg_temp"]), Some("twice"), "a.twice"),
            ("twice", &known(&["c", "pg_temp_7"]), Some("twice"), "Temporary"),
            ("twice", &unknown, Some("twice"), "Unknown"),
            ("once", &unknown, Some(""), "b.once"),
            ("once", &known(&["c"]), Some(""), "b.once"),
            ("once", &unknown, None, "Unknown"),
            ("once", &known(&["b", "pg_temp"]), Some("once"), "b.once"),
            ("new", &unknown, Some("new"), "Temporary"),
            ("new", &ab, Some(""), "NotFound"),
            ("pg_class", &ab, Some(""), "pg_catalog.pg_class"),
            ("pg_class", &known(&["a", "pg_catalog"]), Some(""), "a.pg_class"),
            ("columns", &unknown, Some(""), "a.columns"),
            ("Twice", &ab, Some(""), "NotFound"),
        ];
        for (name, path, temporary, expected) in cases {
            assert_eq!(told(name, path, temporary), expected, "{name} in {path:?} with {temporary:?}");
        }
        let catalog = super::super::load::parse(RELATIONS, 1).unwrap();
        let of = |temporary| Scope { temporary, ..Scope::unknown() };
        let none = || Temporary::Known(HashSet::new());
        let one = Temporary::Known(HashSet::from(["once".to_owned()]));
        let borne =
            [("once", none()), ("twice", none()), ("columns", none()), ("new", none()), ("once", one)]
                .map(|(name, temporary)| catalog.is_borne_once(name, &of(temporary)));
        assert_eq!(borne, [true, false, true, false, false]);
    }

    #[test]
    fn the_answer_of_the_probe_is_a_scope_and_hides_no_place_of_pg_temp() {
        let scope = |text: &str| parse_scope(text).unwrap().scope;
        let plain = scope(r#"{"path": ["a"], "temporary_listed": false, "temporary": null}"#);
        assert_eq!(
            plain,
            Scope {
                path: known(&["a"]),
                temporary: Temporary::Known(HashSet::new()),
                closed: Some(Arc::default())
            }
        );
        let told = r#"{"path": ["a"], "temporary_listed": false, "temporary": null, "closed": ["b"], "mode": "strict"}"#;
        let told = parse_scope(told).unwrap();
        assert!(
            told.scope.closed.is_some_and(|closed| closed.contains("b"))
                && told.mode.as_deref() == Some("strict")
        );
        let hidden = scope(r#"{"path": ["a"], "temporary_listed": true, "temporary": null}"#);
        assert_eq!(hidden.path, Path::Unknown);
        let shown = scope(r#"{"path": ["a", "pg_temp_3"], "temporary_listed": true, "temporary": ["t"]}"#);
        assert_eq!(shown.path, known(&["a", "pg_temp_3"]));
        assert!(parse_scope("oops").is_err() && parse_scope("{}").is_err());
    }
}
