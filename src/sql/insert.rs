//! What an INSERT says: the table, the columns, and where each row's values stand.

use super::cell;
use super::cursor::Cursor;
use super::dml;
use super::lex::{Kind, Options};
use super::name::{Ident, Name};
use super::{scalar, select};
use std::ops::Range;

pub use super::rows::RowScanner;

/// One INSERT. Ranges are byte positions in the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    /// The target.
    pub table: Name,
    /// The name the table goes by in RETURNING and ON CONFLICT, if it has an alias.
    pub alias: Option<Ident>,
    /// `None`: every column in the table's order (fewer values than columns: the rest gets defaults).
    pub columns: Option<Vec<Ident>>,
    /// `OVERRIDING USER VALUE`: values for identity columns are ignored.
    pub overriding_user: bool,
    /// Where the rows come from.
    pub source: Source,
    /// `ON CONFLICT …`: what the clause does.
    pub conflict: Option<Conflict>,
    /// What stands after `RETURNING`.
    pub returning: Option<Range<usize>>,
}

/// What `ON CONFLICT` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// `DO NOTHING`.
    Nothing,
    /// `DO UPDATE SET` these columns (empty if it could not be read).
    Update(Vec<Ident>),
}

/// Where the rows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `DEFAULT VALUES`.
    DefaultValues,
    /// `VALUES (…), (…)`: scan `rows` with [`RowScanner`]. One cell a column.
    Values {
        /// From the first row's parenthesis to that after the last row.
        rows: Range<usize>,
    },
    /// `SELECT exprs FROM (VALUES …) AS t(names)`: scan `rows`; `outputs` maps INSERT columns to cells.
    DerivedValues {
        /// As in [`Source::Values`].
        rows: Range<usize>,
        /// One an INSERT column; indexes into the cells of a row.
        outputs: Vec<Output>,
    },
    /// `SELECT a, b [UNION ALL SELECT c, d …]` without FROM.
    Selects {
        /// The cells of each row.
        rows: Vec<Vec<Cell>>,
    },
    /// `SELECT … FROM unnest(…)`, or unnest in the select list. The longest array gives the number of
    /// rows, the others are filled up with NULL.
    Unnest {
        /// The arguments in their order. An array without any cast may hold rows of a composite type,
        /// if the type declared for its parameter says so.
        arrays: Vec<Array>,
        /// One an INSERT column; indexes into `arrays`.
        outputs: Vec<Output>,
    },
    /// `SELECT … FROM json[b]_to_recordset(doc) AS x(…)`, `json[b]_populate_recordset(null::t, doc)`, or
    /// `json[b]_array_elements(doc)` with `->>`. The document is an array of objects.
    Json {
        /// Where the document is.
        document: Document,
        /// Names of members of the objects.
        members: Vec<String>,
        /// One an INSERT column; indexes into `members`. With `members` empty as well (`SELECT * FROM
        /// json_populate_recordset(null::t, …)`, `t` the target): the members are named like the
        /// target's columns, in the table's order.
        outputs: Vec<Output>,
    },
    /// Not of a shape that can be followed; the reason goes into the counters.
    Uninspected(&'static str),
}

/// What one INSERT column gets from a derived source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The source's column, with these casts around it (outermost last).
    Column {
        /// Which of the source's columns.
        index: usize,
        /// For a column of `json_to_recordset` its declared type counts as the first cast.
        cast: Cast,
    },
    /// The same value for every row.
    Constant(Cell),
    /// An expression, or a column that the rows are sorted by.
    Other,
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What kind of value it is.
    pub kind: CellKind,
    /// `String`: what stands between the quotes. `Param`: `$n`. Otherwise the whole expression.
    pub range: Range<usize>,
    /// The casts around it.
    pub cast: Cast,
}

/// What a cell is, casts and parentheses aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
    /// A quoted literal whose bytes are its value: no doubled quote, no backslash escape, no `U&` escape.
    String,
    /// A quoted literal that holds escapes: its bytes are not its value.
    Escaped,
    /// `$n`, from 1.
    Param(u16),
    /// A number with or without sign.
    Number,
    /// `TRUE` or `FALSE`.
    Bool,
    /// `NULL`.
    Null,
    /// `DEFAULT`.
    Default,
    /// Any other expression.
    Other,
}

/// The casts around a cell, as far as they matter to a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cast {
    /// No cast.
    #[default]
    None,
    /// Every cast is to `uuid`.
    Uuid,
    /// Every cast is to `text`, `varchar`, `char varying`, `citext` without a length.
    Text,
    /// First to text, in the end to uuid (`$1::text::uuid`).
    TextThenUuid,
    /// First to uuid, in the end to text: the value is printed anew.
    UuidThenText,
    /// Another type, a length, a domain: the value may change on the way.
    Other,
}

/// An argument of unnest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Array {
    /// `$n`, cast or not.
    Param(u16),
    /// `'{…}'`: what stands between the quotes. It holds no escapes of the SQL literal but doubled
    /// quotes, which stand as two.
    Literal(Range<usize>),
    /// `ARRAY[…]`: one cell an element.
    Elements(Vec<Cell>),
    /// Anything else, also a literal with other escapes, and an array whose casts may change the values.
    Other,
}

/// The argument of a JSON function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// `$n`, cast or not.
    Param(u16),
    /// `'[…]'`: what stands between the quotes, as in [`Array::Literal`].
    Literal(Range<usize>),
    /// Anything else.
    Other,
}

/// After `INSERT`, up to the end of the cursor's part. `None`: not understood at all, not even the table.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Option<Insert> {
    if !cursor.accept("into") {
        return None;
    }
    let table = cursor.name()?;
    let alias = if cursor.accept("as") { Some(cursor.ident()?) } else { None };
    let columns = if begins_columns(cursor) { Some(columns(cursor)?) } else { None };
    let overriding_user = cursor.accept_all(&["overriding", "user", "value"]);
    if !overriding_user {
        cursor.accept_all(&["overriding", "system", "value"]);
    }
    let mut insert = Insert {
        table,
        alias,
        columns,
        overriding_user,
        source: Source::DefaultValues,
        conflict: None,
        returning: None,
    };
    insert.source = source(cursor, &insert)?;
    tail(cursor, &mut insert);
    Some(insert)
}

/// Whether the parenthesis that comes opens a list of columns, not a query.
fn begins_columns(cursor: &Cursor<'_>) -> bool {
    let mut ahead = cursor.clone();
    if !ahead.accept_symbol(b'(') || ahead.is_symbol(b'(') || ahead.is_any(&["select", "with", "table"]) {
        return false;
    }
    // `values` can be a column's name.
    let values = ahead.accept("values");
    !values || ahead.is_symbol(b',') || ahead.is_symbol(b')')
}

/// `(a, b, …)`. A column with a subscript or field is named by its first part: the cells still go one by one.
fn columns(cursor: &mut Cursor<'_>) -> Option<Vec<Ident>> {
    if !cursor.accept_symbol(b'(') {
        return None;
    }
    let mut columns = Vec::new();
    loop {
        columns.push(cursor.ident()?);
        cursor.skip_to(|_, token| token.kind == Kind::Symbol(b','))?;
        if cursor.accept_symbol(b')') {
            return Some(columns);
        }
        if !cursor.accept_symbol(b',') {
            return None;
        }
    }
}

/// The source; the cursor is left after it.
fn source(cursor: &mut Cursor<'_>, insert: &Insert) -> Option<Source> {
    if cursor.accept_all(&["default", "values"]) {
        return Some(Source::DefaultValues);
    }
    if cursor.is("values") {
        let mut ahead = cursor.clone();
        let source = values(&mut ahead);
        if begins_tail(&ahead) && source.is_some() {
            *cursor = ahead;
            return source;
        }
    }
    let query = cursor.skip_to(|cursor, token| {
        cursor.token_is(Some(token), "returning") || token.kind == Kind::Word && begins_conflict(cursor)
    })?;
    Some(select::source(cursor.within(query), insert).unwrap_or_else(Source::Uninspected))
}

/// `VALUES (…), (…)`; the cursor is left after the last row. `None` if a row cannot be read.
pub(super) fn values(cursor: &mut Cursor<'_>) -> Option<Source> {
    let text = cursor.text();
    cursor.accept("values");
    let start = cursor.position();
    let mut scanner = RowScanner::new(text, start..text.len(), cursor.options());
    let (mut cells, mut rows) = (Vec::new(), 0usize);
    let mut first = Vec::new();
    while scanner.next_row(&mut cells).is_some() {
        rows += 1;
        if rows == 1 {
            first = cells.clone();
        }
    }
    let end = scanner.end()?;
    cursor.jump(end);
    // A single row may hold functions that return sets, and then is any number of rows.
    let others = first.iter().filter(|cell| rows == 1 && cell.kind == CellKind::Other);
    for cell in others {
        if scalar::may_return_set(&cursor.within(cell.range.clone())) {
            return Some(Source::Uninspected("set-returning function"));
        }
    }
    Some(Source::Values { rows: start..end })
}

fn begins_tail(cursor: &Cursor<'_>) -> bool {
    cursor.at_end() || cursor.is("returning") || begins_conflict(cursor)
}

/// `JOIN … ON conflict = …` is none.
fn begins_conflict(cursor: &Cursor<'_>) -> bool {
    let mut ahead = cursor.clone();
    ahead.accept_all(&["on", "conflict"]) && (ahead.is_symbol(b'(') || ahead.is_any(&["on", "do"]))
}

/// `[ON CONFLICT …] [RETURNING …]` up to the end.
fn tail(cursor: &mut Cursor<'_>, insert: &mut Insert) {
    if begins_conflict(cursor) {
        insert.conflict = Some(conflict(cursor).unwrap_or(Conflict::Update(Vec::new())));
        if cursor.skip_to(|cursor, token| cursor.token_is(Some(token), "returning")).is_none() {
            return;
        }
    }
    if cursor.accept("returning") {
        insert.returning = cursor.skip_to(|_, _| false);
    }
}

/// `ON CONFLICT [target] DO {NOTHING | UPDATE SET …}`
fn conflict(cursor: &mut Cursor<'_>) -> Option<Conflict> {
    cursor.accept_all(&["on", "conflict"]);
    cursor.skip_to(|cursor, token| cursor.token_is(Some(token), "do"))?;
    cursor.accept("do");
    if cursor.accept("nothing") {
        return Some(Conflict::Nothing);
    }
    let set = cursor.accept_all(&["update", "set"]);
    set.then(|| Conflict::Update(dml::assigned(cursor).unwrap_or_default()))
}

/// Reads one expression that stands alone, an argument of EXECUTE, as a cell.
#[must_use]
pub fn argument(text: &[u8], range: Range<usize>, options: Options) -> Option<Cell> {
    let mut cursor = Cursor::new(text, range, options);
    let cell = cell::cell(&mut cursor)?;
    cursor.peek().is_none().then_some(cell)
}

#[cfg(test)]
mod tests;
