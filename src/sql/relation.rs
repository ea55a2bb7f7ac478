//! What can stand after FROM so that its rows can be followed: VALUES, unnest, the JSON functions.

use super::argument::{arguments, document};
use super::cursor::Cursor;
use super::insert::{self, Array, Cast, Document, Insert, RowScanner, Source};
use super::lex::Kind;
use super::name::{Ident, Name};
use super::types;
use std::ops::Range;

/// Why a source cannot be followed: goes into the counters.
pub(super) type Reason = &'static str;

/// The one item after FROM.
#[derive(Debug)]
pub(super) struct Relation {
    pub(super) feed: Feed,
    pub(super) alias: Option<Ident>,
    /// In order. Empty for `Populate`, whose columns only the catalog knows.
    pub(super) columns: Vec<Column>,
    /// A column from here on is certain by its position in `*`, not by its name: an array before it may
    /// be of a composite type, which counts for several columns.
    pub(super) named_until: usize,
}

#[derive(Debug)]
pub(super) enum Feed {
    Values {
        rows: Range<usize>,
    },
    Unnest {
        arrays: Vec<Array>,
    },
    Recordset {
        document: Document,
        members: Vec<String>,
    },
    /// `json_populate_recordset`: every name is a member.
    Populate {
        document: Document,
    },
    /// `json_array_elements`: the first column is the whole object.
    Elements {
        document: Document,
    },
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: Option<Ident>,
    /// Its place in the feed. `None` for an ordinality.
    pub(super) index: Option<usize>,
    /// By the type it is declared with.
    pub(super) cast: Cast,
}

impl Column {
    fn new(name: Option<Ident>, index: usize) -> Self {
        Self { name, index: Some(index), cast: Cast::None }
    }
}

/// Words that end the item and so are no alias.
const NO_ALIAS: [&str; 23] = [
    "cross",
    "except",
    "fetch",
    "for",
    "full",
    "group",
    "having",
    "inner",
    "intersect",
    "join",
    "left",
    "limit",
    "natural",
    "offset",
    "on",
    "order",
    "returning",
    "right",
    "tablesample",
    "union",
    "using",
    "where",
    "window",
];

/// Reads the item; the cursor is left after its alias.
pub(super) fn from_item(cursor: &mut Cursor<'_>, insert: &Insert) -> Result<Relation, Reason> {
    if cursor.is_symbol(b'(') {
        let second = cursor.peek_second();
        return if cursor.token_is(second, "values") { derived(cursor) } else { payload(cursor) };
    }
    if cursor.accept_all(&["rows", "from"]) {
        return rows_from(cursor);
    }
    cursor.accept("lateral");
    let name = cursor.name().ok_or("FROM")?;
    if !cursor.is_symbol(b'(') {
        return Err("FROM a table");
    }
    let is = |plain: &str, binary: &str| name.is_builtin(plain) || name.is_builtin(binary);
    if name.is_builtin("unnest") {
        unnest(cursor)
    } else if is("json_to_recordset", "jsonb_to_recordset") {
        recordset(cursor)
    } else if is("json_populate_recordset", "jsonb_populate_recordset") {
        populate(cursor, &name, &insert.table)
    } else if is("json_array_elements", "jsonb_array_elements") {
        elements(cursor, &name)
    } else {
        Err("FROM a function")
    }
}

/// `(VALUES …) [AS] alias [(names)]`
fn derived(cursor: &mut Cursor<'_>) -> Result<Relation, Reason> {
    let inside = cursor.parentheses().ok_or("unbalanced")?;
    let mut inner = cursor.within(inside);
    let Some(Source::Values { rows }) = insert::values(&mut inner) else {
        return Err("VALUES");
    };
    if !inner.at_end() {
        return Err("VALUES with more");
    }
    let mut cells = Vec::new();
    RowScanner::new(cursor.text(), rows.clone(), cursor.options()).next_row(&mut cells);
    let columns = (0..cells.len()).map(|at| Column::new(Some(format!("column{}", at + 1)), at)).collect();
    let mut relation =
        Relation { feed: Feed::Values { rows }, alias: None, columns, named_until: cells.len() };
    relation.take_alias(cursor)?;
    Ok(relation)
}

/// `(a, b, …)` after `unnest`.
fn unnest(cursor: &mut Cursor<'_>) -> Result<Relation, Reason> {
    let arguments = arguments(cursor)?;
    Relation::of_arrays(cursor, arguments)
}

/// `(unnest(a), unnest(b))` after `ROWS FROM`.
fn rows_from(cursor: &mut Cursor<'_>) -> Result<Relation, Reason> {
    let mut all = Vec::new();
    if !cursor.accept_symbol(b'(') {
        return Err("ROWS FROM");
    }
    loop {
        if !cursor.name().is_some_and(|name| name.is_builtin("unnest")) {
            return Err("ROWS FROM");
        }
        all.append(&mut arguments(cursor)?);
        if cursor.accept_symbol(b')') {
            return Relation::of_arrays(cursor, all);
        }
        if !cursor.accept_symbol(b',') {
            return Err("ROWS FROM");
        }
    }
}

/// `(doc) AS x(id uuid, v text)` after `json_to_recordset`.
fn recordset(cursor: &mut Cursor<'_>) -> Result<Relation, Reason> {
    let document = sole_document(cursor)?;
    definitions(cursor, document)
}

fn definitions(cursor: &mut Cursor<'_>, document: Document) -> Result<Relation, Reason> {
    cursor.accept("as");
    let alias = if cursor.is_symbol(b'(') { None } else { cursor.ident() };
    let (mut columns, mut members) = (Vec::new(), Vec::new());
    if !cursor.accept_symbol(b'(') {
        return Err("record without columns");
    }
    loop {
        let (Some(name), Some(of)) = (cursor.ident(), types::type_name(cursor)) else {
            return Err("record without columns");
        };
        columns.push(Column {
            name: Some(name.clone()),
            index: Some(members.len()),
            cast: types::cast(&[of]),
        });
        members.push(name);
        if cursor.accept_symbol(b')') {
            break;
        }
        if !cursor.accept_symbol(b',') {
            return Err("record without columns");
        }
    }
    let named_until = columns.len();
    Ok(Relation { feed: Feed::Recordset { document, members }, alias, columns, named_until })
}

/// `(null::t, doc)` after `json_populate_recordset`; `t` has to be the target of the INSERT, so that a
/// member's value is not changed on the way.
fn populate(cursor: &mut Cursor<'_>, function: &Name, target: &Name) -> Result<Relation, Reason> {
    let row = cursor.accept_symbol(b'(') && cursor.accept("null") && cursor.accept_kind(Kind::Typecast);
    let of = if row { cursor.name() } else { None };
    let same = of.is_some_and(|of| {
        of.name == target.name
            && (of.schema == target.schema || of.schema.is_none() || target.schema.is_none())
    });
    if !same || !cursor.accept_symbol(b',') {
        return Err("another row type");
    }
    let document = document(cursor).filter(|_| cursor.accept_symbol(b')')).ok_or("document")?;
    let (feed, alias) = (Feed::Populate { document }, Some(function.name.clone()));
    let mut relation = Relation { feed, alias, columns: Vec::new(), named_until: 0 };
    relation.take_alias(cursor)?;
    Ok(relation)
}

/// `(doc) [WITH ORDINALITY] [AS] e [(names)]` after `json_array_elements`.
fn elements(cursor: &mut Cursor<'_>, function: &Name) -> Result<Relation, Reason> {
    let document = sole_document(cursor)?;
    // The function's result has that name, whatever the alias.
    let columns = vec![Column::new(Some("value".to_owned()), 0)];
    let (feed, alias) = (Feed::Elements { document }, Some(function.name.clone()));
    let mut relation = Relation { feed, alias, columns, named_until: usize::MAX };
    relation.take_ordinality(cursor);
    relation.take_alias(cursor)?;
    Ok(relation)
}

fn sole_document(cursor: &mut Cursor<'_>) -> Result<Document, Reason> {
    if !cursor.accept_symbol(b'(') {
        return Err("document");
    }
    document(cursor).filter(|_| cursor.accept_symbol(b')')).ok_or("document")
}

/// `(SELECT doc AS c) p, LATERAL (SELECT names FROM json_to_recordset(p.c) AS _(…)) b`, as PostgREST writes.
fn payload(cursor: &mut Cursor<'_>) -> Result<Relation, Reason> {
    const REASON: Reason = "FROM a subquery";
    let mut first = cursor.parentheses().map(|inside| cursor.within(inside)).ok_or(REASON)?;
    if !first.accept("select") {
        return Err(REASON);
    }
    let document = document(&mut first).ok_or(REASON)?;
    first.accept("as");
    let column = first.ident().filter(|_| first.at_end());
    cursor.accept("as");
    let alias = cursor.ident();
    let argument = alias.zip(column).map(|(alias, column)| Name { schema: Some(alias), name: column });
    if argument.is_none() || !cursor.accept_symbol(b',') || !cursor.accept("lateral") {
        return Err(REASON);
    }
    let mut second = cursor.parentheses().map(|inside| cursor.within(inside)).ok_or(REASON)?;
    let mut relation = body(&mut second, argument, document).ok_or(REASON)?;
    relation.alias = None;
    relation.take_alias(cursor)?;
    Ok(relation)
}

/// `SELECT names FROM json_to_recordset(argument) AS _(…)`
fn body(cursor: &mut Cursor<'_>, argument: Option<Name>, document: Document) -> Option<Relation> {
    if !cursor.accept("select") {
        return None;
    }
    let mut names = vec![cursor.ident()?];
    while cursor.accept_symbol(b',') {
        names.push(cursor.ident()?);
    }
    let function = if cursor.accept("from") {
        cursor.name()?
    } else {
        return None;
    };
    if !function.is_builtin("json_to_recordset") && !function.is_builtin("jsonb_to_recordset") {
        return None;
    }
    if !cursor.accept_symbol(b'(') || cursor.name() != argument || !cursor.accept_symbol(b')') {
        return None;
    }
    let mut relation = definitions(cursor, document).ok().filter(|_| cursor.at_end())?;
    let defined = std::mem::take(&mut relation.columns);
    for name in names {
        let column = defined.iter().find(|column| column.name.as_ref() == Some(&name))?;
        relation.columns.push(Column { name: Some(name), index: column.index, cast: column.cast });
    }
    relation.named_until = relation.columns.len();
    Some(relation)
}

impl Relation {
    fn of_arrays(cursor: &mut Cursor<'_>, arguments: Vec<(Array, bool)>) -> Result<Self, Reason> {
        let composite = arguments.iter().position(|(_, scalar)| !scalar);
        let columns =
            (0..arguments.len()).map(|at| Column::new(Some("unnest".to_owned()), at)).collect::<Vec<_>>();
        let mut relation = Self {
            feed: Feed::Unnest { arrays: arguments.into_iter().map(|(array, _)| array).collect() },
            alias: Some("unnest".to_owned()),
            named_until: composite.unwrap_or(usize::MAX),
            columns,
        };
        let single = relation.columns.len() == 1;
        relation.take_ordinality(cursor);
        let named = relation.take_alias(cursor)?;
        // The alias of a single function is its column's name, too.
        if let ([column, ..], true, false) = (relation.columns.as_mut_slice(), single, named) {
            column.name.clone_from(&relation.alias);
        }
        Ok(relation)
    }

    fn take_ordinality(&mut self, cursor: &mut Cursor<'_>) {
        if cursor.accept_all(&["with", "ordinality"]) {
            let name = Some("ordinality".to_owned());
            self.columns.push(Column { name, index: None, cast: Cast::None });
        }
    }

    /// `[AS] alias [(names)]`, if any; whether columns were named.
    fn take_alias(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Reason> {
        if !cursor.accept("as") && (cursor.at_end() || cursor.is_any(&NO_ALIAS)) {
            return Ok(false);
        }
        // What is no identifier is for the caller to stumble over.
        let Some(alias) = cursor.ident() else {
            return Ok(false);
        };
        self.alias = Some(alias);
        if !cursor.is_symbol(b'(') {
            return Ok(false);
        }
        let names = cursor.ident_list().ok_or("names of columns")?;
        if names.len() > self.columns.len() {
            return Err("names of columns");
        }
        for (column, name) in self.columns.iter_mut().zip(names) {
            column.name = Some(name);
        }
        Ok(true)
    }
}
