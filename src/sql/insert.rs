//! What an INSERT says: the table, the columns, and where each row's values stand.

use super::name::{Ident, Name};
use std::ops::Range;

/// One INSERT. Ranges are byte positions in the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    pub table: Name,
    /// The name the table goes by in RETURNING and ON CONFLICT, if it has an alias.
    pub alias: Option<Ident>,
    /// `None`: every column in the table's order (fewer values than columns: the rest gets defaults).
    pub columns: Option<Vec<Ident>>,
    /// `OVERRIDING USER VALUE`: values for identity columns are ignored.
    pub overriding_user: bool,
    pub source: Source,
    /// `ON CONFLICT …`: what the clause does.
    pub conflict: Option<Conflict>,
    pub returning: Option<Range<usize>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    Nothing,
    /// `DO UPDATE SET` these columns (empty if it could not be read).
    Update(Vec<Ident>),
}

/// Where the rows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    DefaultValues,
    /// `VALUES (…), (…)`: scan `rows` with [`RowScanner`]. One cell a column.
    Values {
        rows: Range<usize>,
    },
    /// `SELECT exprs FROM (VALUES …) AS t(names)`: scan `rows`; `outputs` maps INSERT columns to cells.
    DerivedValues {
        rows: Range<usize>,
        outputs: Vec<Output>,
    },
    /// `SELECT a, b [UNION ALL SELECT c, d …]` without FROM: the cells of each row.
    Selects {
        rows: Vec<Vec<Cell>>,
    },
    /// `SELECT … FROM unnest(…)`: `outputs` index into `arrays`.
    Unnest {
        arrays: Vec<Array>,
        outputs: Vec<Output>,
    },
    /// `SELECT … FROM json[b]_to_recordset(doc) AS x(…)`, `json[b]_populate_recordset(null::t, doc)`, or
    /// `json[b]_array_elements(doc)` with `->>`: `outputs` index into `members`.
    Json {
        document: Document,
        members: Vec<String>,
        outputs: Vec<Output>,
    },
    /// Not of a shape that can be followed; the reason goes into the counters.
    Uninspected(&'static str),
}

/// What one INSERT column gets from a derived source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The source's column, with these casts around it (outermost last).
    Column { index: usize, cast: Cast },
    /// The same value for every row.
    Constant(Cell),
    /// An expression.
    Other,
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub kind: CellKind,
    /// `String`: what stands between the quotes. `Param`: `$n`. Otherwise the whole expression.
    pub range: Range<usize>,
    pub cast: Cast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
    /// A quoted literal whose bytes are its value: no doubled quote, no backslash escape, no `U&` escape.
    String,
    /// A quoted literal that holds escapes: its bytes are not its value.
    Escaped,
    /// `$n`, from 1.
    Param(u16),
    Number,
    Bool,
    Null,
    Default,
    /// Any other expression.
    Other,
}

/// The casts around a cell, as far as they matter to a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cast {
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Array {
    /// `$n`, cast or not.
    Param(u16),
    /// `'{…}'`: what stands between the quotes, without escapes of the SQL literal.
    Literal(Range<usize>),
    /// `ARRAY[…]`: one cell an element.
    Elements(Vec<Cell>),
    /// Anything else, also a literal with SQL escapes.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    Param(u16),
    Literal(Range<usize>),
    Other,
}
