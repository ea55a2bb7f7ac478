//! Expressions of which a row is made, token by token: what is a plain value with casts around it, and
//! what is any other expression. Knows no table.

use super::cursor::Cursor;
use super::insert::{Cell, CellKind};
use super::lex::{Kind, Literal, Style};
use super::types::{self, Type, Types};
use std::ops::Range;

/// Parentheses and CASTs around a value are followed that deep.
const DEEPEST: usize = 8;

/// One expression of a list, up to the comma, closing parenthesis or bracket, or end that follows it.
/// `None` if there is none, or if something in it never ends.
pub(super) fn cell(cursor: &mut Cursor<'_>) -> Option<Cell> {
    let mut ahead = cursor.clone();
    if let Some(value) = value(&mut ahead)
        && ends_cell(&ahead)
    {
        *cursor = ahead;
        return Some(value);
    }
    let range = cursor.skip_to(|_, token| token.kind == Kind::Symbol(b','))?;
    (!range.is_empty()).then(|| Cell { kind: CellKind::Other, range, cast: types::cast(&[]) })
}

fn ends_cell(cursor: &Cursor<'_>) -> bool {
    match cursor.peek() {
        None => true,
        Some(token) => matches!(token.kind, Kind::Symbol(b',' | b')' | b']')),
    }
}

/// A plain value with casts and parentheses, if one begins here. What follows it is the caller's business.
pub(super) fn value(cursor: &mut Cursor<'_>) -> Option<Cell> {
    let start = cursor.position();
    if cursor.is("default") {
        cursor.advance();
        let range = start..cursor.last_end();
        return Some(Cell { kind: CellKind::Default, range, cast: types::cast(&[]) });
    }
    let ((kind, inner, own), outer) = wrapped(cursor, 0, &mut leaf)?;
    let casts: Types = own.into_iter().chain(outer).collect();
    let range = inner.unwrap_or(start..cursor.last_end());
    Some(Cell { kind, range, cast: types::cast(&casts) })
}

/// What `leaf` reads, with parentheses, `CAST(… AS …)` and `::` around it; the casts innermost first.
pub(super) fn wrapped<'a, T, F>(cursor: &mut Cursor<'a>, depth: usize, leaf: &mut F) -> Option<(T, Types)>
where
    F: FnMut(&mut Cursor<'a>) -> Option<T>,
{
    if depth > DEEPEST {
        return None;
    }
    let opened = cursor.is_symbol(b'(');
    let cast = cursor.is("cast");
    if cast {
        cursor.advance();
    }
    let (value, mut casts) = if opened || cast {
        if !cursor.accept_symbol(b'(') {
            return None;
        }
        let (value, mut casts) = wrapped(cursor, depth + 1, leaf)?;
        if cast {
            if !cursor.accept("as") {
                return None;
            }
            casts.push(types::type_name(cursor)?);
        }
        if !cursor.accept_symbol(b')') {
            return None;
        }
        (value, casts)
    } else {
        (leaf(cursor)?, Types::new())
    };
    while cursor.accept_kind(Kind::Typecast) {
        casts.push(types::type_name(cursor)?);
    }
    Some((value, casts))
}

/// A value without casts: its kind, its own range where that is not the whole expression, and the type of
/// `type 'literal'`.
type Leaf = (CellKind, Option<Range<usize>>, Option<Type>);

fn leaf(cursor: &mut Cursor<'_>) -> Option<Leaf> {
    let token = cursor.peek()?;
    match token.kind {
        Kind::String(literal) => {
            cursor.advance();
            let (kind, range) = string(literal)?;
            Some((kind, range, None))
        }
        Kind::Param(number) => {
            cursor.advance();
            Some((CellKind::Param(number), Some(token.range()), None))
        }
        Kind::Number => {
            cursor.advance();
            Some((CellKind::Number, None, None))
        }
        Kind::Symbol(b'+' | b'-') => {
            cursor.advance();
            cursor.accept_kind(Kind::Number).then_some((CellKind::Number, None, None))
        }
        Kind::Word if cursor.accept("null") => Some((CellKind::Null, None, None)),
        Kind::Word if cursor.accept("true") || cursor.accept("false") => Some((CellKind::Bool, None, None)),
        Kind::Word | Kind::Quoted { .. } => {
            // A call. (A type with a length before a literal looks alike, and nobody writes it.)
            if cursor.peek_second()?.kind == Kind::Symbol(b'(') {
                return None;
            }
            let of = types::type_name(cursor)?;
            let (kind, range) = string(cursor.string()?)?;
            Some((kind, range, Some(of)))
        }
        _ => None,
    }
}

/// Bit strings and `N'…'` are not of type text, so their bytes tell nothing.
fn string(literal: Literal) -> Option<(CellKind, Option<Range<usize>>)> {
    match literal.style {
        Style::Bit | Style::Hex | Style::National => None,
        _ if literal.escaped => Some((CellKind::Escaped, None)),
        _ => Some((CellKind::String, Some(literal.start..literal.end))),
    }
}
