//! Arguments of unnest and of the JSON functions: arrays and documents. Knows no FROM.

use super::cell::{cell, wrapped};
use super::cursor::Cursor;
use super::insert::{Array, Cast, Document};
use super::lex::{Kind, Literal, Style};
use super::relation::Reason;
use super::types::{self, Base, Type, Types};
use memchr::memchr;

/// The arguments of one `unnest`, each with whether its elements are surely of a scalar type.
pub(super) fn arguments(cursor: &mut Cursor<'_>) -> Result<Vec<(Array, bool)>, Reason> {
    if !cursor.accept_symbol(b'(') {
        return Err("unnest");
    }
    let mut arrays = Vec::new();
    loop {
        arrays.push(array(cursor).ok_or("unnest")?);
        if cursor.accept_symbol(b')') {
            return Ok(arrays);
        }
        if !cursor.accept_symbol(b',') {
            return Err("unnest");
        }
    }
}

/// An array up to the comma or parenthesis after it.
pub(super) fn array(cursor: &mut Cursor<'_>) -> Option<(Array, bool)> {
    let mut ahead = cursor.clone();
    if let Some((array, casts)) = wrapped(&mut ahead, 0, &mut array_leaf)
        && (ahead.is_symbol(b',') || ahead.is_symbol(b')'))
    {
        *cursor = ahead;
        return Some(with_casts(array, &casts));
    }
    let range = cursor.skip_to(|_, token| token.kind == Kind::Symbol(b','))?;
    (!range.is_empty()).then_some((Array::Other, false))
}

fn array_leaf(cursor: &mut Cursor<'_>) -> Option<Array> {
    if cursor.accept("array") {
        return elements_of(cursor);
    }
    match cursor.advance()?.kind {
        Kind::Param(number) => Some(Array::Param(number)),
        Kind::String(literal) if is_raw(cursor, literal) => Some(Array::Literal(literal.start..literal.end)),
        Kind::String(_) => Some(Array::Other),
        _ => None,
    }
}

/// Whether the content's bytes are the value, doubled quotes aside: a quote is no syntax of arrays and JSON,
/// so that structure and keys stand as they are.
fn is_raw(cursor: &Cursor<'_>, literal: Literal) -> bool {
    match literal.style {
        Style::Plain => !literal.escaped || has_pairs_only(cursor.text().get(literal.start..literal.end)),
        Style::Dollar | Style::Escape => !literal.escaped,
        _ => false,
    }
}

/// Whether every quote is doubled, so that the literal is not continued on another line.
fn has_pairs_only(content: Option<&[u8]>) -> bool {
    let mut rest = content.unwrap_or_default();
    while let Some(at) = memchr(b'\'', rest) {
        match rest.get(at + 1..) {
            Some([b'\'', after @ ..]) => rest = after,
            _ => return false,
        }
    }
    true
}

/// `[…]` after `ARRAY`.
fn elements_of(cursor: &mut Cursor<'_>) -> Option<Array> {
    if !cursor.accept_symbol(b'[') {
        return None;
    }
    let mut cells = Vec::new();
    while !cursor.accept_symbol(b']') {
        if !cells.is_empty() && !cursor.accept_symbol(b',') {
            return None;
        }
        // Within more brackets it is an array of arrays.
        if cursor.is_symbol(b'[') {
            return None;
        }
        cells.push(cell(cursor)?);
    }
    Some(Array::Elements(cells))
}

fn with_casts(array: Array, casts: &Types) -> (Array, bool) {
    let scalar = casts.last().is_none_or(|last| last.base != Base::Unknown);
    let array = match array {
        Array::Elements(mut cells) if casts.iter().all(|step| step.array) => {
            for cell in &mut cells {
                cell.cast = casts.iter().fold(cell.cast, |cast, step| types::then(cast, step.base));
            }
            Array::Elements(cells)
        }
        Array::Elements(_) => Array::Other,
        plain => match types::array_cast(casts) {
            Cast::Other | Cast::UuidThenText => Array::Other,
            _ => plain,
        },
    };
    (array, scalar)
}

/// A parameter or literal, with casts between text, json and jsonb.
pub(super) fn document(cursor: &mut Cursor<'_>) -> Option<Document> {
    let (document, casts) = wrapped(cursor, 0, &mut |cursor| match array_leaf(cursor)? {
        Array::Param(number) => Some(Document::Param(number)),
        Array::Literal(range) => Some(Document::Literal(range)),
        _ => None,
    })?;
    let plain = |step: &Type| !step.array && matches!(step.base, Base::Text | Base::Scalar);
    casts.iter().all(plain).then_some(document)
}
