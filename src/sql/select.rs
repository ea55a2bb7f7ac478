//! The SELECTs whose rows can be followed into the table: every source row inserted exactly once, and
//! nothing else reads its columns. What is not surely so is refused with a reason.

use super::argument;
use super::cell::{self, wrapped};
use super::cursor::Cursor;
use super::insert::{self, Array, Cell, CellKind, Insert, Output, Source};
use super::lex::{Kind, Token};
use super::name::Ident;
use super::relation::{self, Reason};
use super::{outputs, scalar, types};
use std::ops::Range;

/// Parentheses around the whole query are taken off that often.
const DEEPEST: usize = 8;

/// One expression of the select list.
pub(super) struct Item {
    pub(super) range: Range<usize>,
    /// The name after AS.
    pub(super) label: Option<Ident>,
}

/// The source of an INSERT that is a query; the cursor's part is the query and nothing else.
pub(super) fn source(mut cursor: Cursor<'_>, insert: &Insert) -> Result<Source, Reason> {
    for _ in 0..DEEPEST {
        if !cursor.is_symbol(b'(') {
            break;
        }
        let inside = cursor.parentheses().ok_or("unbalanced")?;
        if !cursor.at_end() {
            return Err(reason(&cursor));
        }
        cursor = cursor.within(inside);
    }
    if cursor.is("values") {
        let source = insert::values(&mut cursor).ok_or("VALUES")?;
        return if cursor.at_end() { Ok(source) } else { Err("VALUES with more") };
    }
    select(&mut cursor, insert)
}

fn select(cursor: &mut Cursor<'_>, insert: &Insert) -> Result<Source, Reason> {
    let mut rows = Vec::new();
    loop {
        let items = list(cursor)?;
        if rows.is_empty() && cursor.accept("from") {
            let relation = relation::from_item(cursor, insert)?;
            return outputs::source(cursor, relation, &items, insert);
        }
        if rows.is_empty() && cursor.at_end() && items.iter().any(|item| calls_unnest(cursor, item)) {
            return unnest_in_list(cursor, &items);
        }
        rows.push(items.iter().map(|item| constant(cursor, item)).collect::<Result<Vec<_>, _>>()?);
        if cursor.at_end() {
            return Ok(Source::Selects { rows });
        }
        if !cursor.accept_all(&["union", "all"]) {
            return Err(reason(cursor));
        }
    }
}

/// `SELECT [ALL] a, b AS c, …`; the cursor is left at the clause after the list.
fn list(cursor: &mut Cursor<'_>) -> Result<Vec<Item>, Reason> {
    if !cursor.accept("select") {
        return Err(reason(cursor));
    }
    cursor.accept("all");
    if cursor.is("distinct") {
        return Err("DISTINCT");
    }
    let mut items = Vec::new();
    loop {
        let mut previous = None;
        let range = cursor
            .skip_to(|cursor, token| {
                let before: Option<Token> = previous.replace(token);
                let named = before.is_some_and(|before| before.kind == Kind::Symbol(b'.'));
                token.kind == Kind::Symbol(b',') || !named && ends_item(cursor, token)
            })
            .ok_or("unbalanced")?;
        if range.is_empty() || ends_in_distinct(cursor, &range) {
            return Err("select list");
        }
        let label = if cursor.accept("as") { Some(cursor.ident().ok_or("select list")?) } else { None };
        items.push(Item { range, label });
        if !cursor.accept_symbol(b',') {
            return Ok(items);
        }
    }
}

/// All of these are reserved words.
const CLAUSES: [&str; 15] = [
    "as",
    "from",
    "where",
    "group",
    "having",
    "window",
    "union",
    "intersect",
    "except",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "into",
];

fn ends_item(cursor: &Cursor<'_>, token: Token) -> bool {
    CLAUSES.iter().any(|keyword| cursor.token_is(Some(token), keyword))
}

/// `a IS DISTINCT FROM b` is one expression, whose FROM is not the clause.
fn ends_in_distinct(cursor: &Cursor<'_>, range: &Range<usize>) -> bool {
    let text = cursor.text().get(range.clone()).unwrap_or_default();
    text.len()
        .checked_sub(8)
        .and_then(|at| text.get(at..))
        .is_some_and(|end| end.eq_ignore_ascii_case(b"distinct"))
}

/// An expression without FROM: its value, or that it is exactly one value.
fn constant(cursor: &Cursor<'_>, item: &Item) -> Result<Cell, Reason> {
    let mut part = cursor.within(item.range.clone());
    let cell = cell::cell(&mut part).filter(|_| part.at_end()).ok_or("select list")?;
    if cell.kind == CellKind::Other && !scalar::is_scalar(&cursor.within(item.range.clone())) {
        return Err("function in the select list");
    }
    Ok(cell)
}

/// Whether the item is `unnest(…)`, perhaps cast.
fn calls_unnest(cursor: &Cursor<'_>, item: &Item) -> bool {
    unnest_call(&mut cursor.within(item.range.clone())).is_some()
}

fn unnest_call(part: &mut Cursor<'_>) -> Option<(Array, types::Types)> {
    wrapped(part, 0, &mut |part| {
        let unnest = part.name()?.is_builtin("unnest") && part.accept_symbol(b'(');
        let (array, _) = if unnest {
            argument::array(part)?
        } else {
            return None;
        };
        part.accept_symbol(b')').then_some(array)
    })
    .filter(|_| part.at_end())
}

/// `SELECT unnest(a), unnest(b), constant`: since Postgres 10 the calls go in step like unnest(a, b).
fn unnest_in_list(cursor: &Cursor<'_>, items: &[Item]) -> Result<Source, Reason> {
    let (mut arrays, mut outputs) = (Vec::new(), Vec::new());
    for item in items {
        if let Some((array, casts)) = unnest_call(&mut cursor.within(item.range.clone())) {
            outputs.push(Output::Column { index: arrays.len(), cast: types::cast(&casts) });
            arrays.push(array);
            continue;
        }
        let cell = constant(cursor, item)?;
        outputs.push(if cell.kind == CellKind::Other { Output::Other } else { Output::Constant(cell) });
    }
    Ok(Source::Unnest { arrays, outputs })
}

/// What stands in the way, by the word at which reading stopped.
pub(super) fn reason(cursor: &Cursor<'_>) -> Reason {
    const REASONS: [(&str, Reason); 24] = [
        ("where", "WHERE"),
        ("group", "GROUP BY"),
        ("having", "HAVING"),
        ("window", "WINDOW"),
        ("union", "UNION"),
        ("intersect", "INTERSECT"),
        ("except", "EXCEPT"),
        ("order", "ORDER BY"),
        ("limit", "LIMIT"),
        ("offset", "LIMIT"),
        ("fetch", "LIMIT"),
        ("for", "FOR UPDATE"),
        ("from", "FROM"),
        ("join", "JOIN"),
        ("inner", "JOIN"),
        ("left", "JOIN"),
        ("right", "JOIN"),
        ("full", "JOIN"),
        ("cross", "JOIN"),
        ("natural", "JOIN"),
        ("with", "WITH"),
        ("table", "TABLE"),
        ("tablesample", "TABLESAMPLE"),
        ("into", "INTO"),
    ];
    if cursor.is_symbol(b',') {
        return "several FROM items";
    }
    REASONS.iter().find(|(keyword, _)| cursor.is(keyword)).map_or("not understood", |(_, reason)| reason)
}

#[cfg(test)]
mod tests;
