//! `(…), (…)`: the rows of a VALUES, scanned bytewise. The shapes that nearly every cell has are read here,
//! the others by `cell`. Knows no table.

use super::bytes;
use super::cell;
use super::cursor::Cursor;
use super::insert::{Cast, Cell, CellKind};
use super::lex::Options;
use super::types::{self, Base};
use memchr::memchr;
use std::ops::Range;

/// Goes through the rows of a VALUES, one at a time, without allocation.
#[derive(Clone, Debug)]
pub struct RowScanner<'a> {
    text: &'a [u8],
    at: usize,
    first: bool,
    broken: bool,
    options: Options,
}

impl<'a> RowScanner<'a> {
    /// Scans `text[rows]`, which begins at the first row's parenthesis or white space before it.
    #[must_use]
    pub fn new(text: &'a [u8], rows: Range<usize>, options: Options) -> Self {
        let text = text.get(..rows.end).unwrap_or(text);
        Self { text, at: rows.start, first: true, broken: false, options }
    }

    /// The next row: its range with both parentheses. `cells` is emptied and filled with the row's cells.
    /// `None` after the last row, and where the text is not rows any more.
    pub fn next_row(&mut self, cells: &mut Vec<Cell>) -> Option<Range<usize>> {
        cells.clear();
        let open = self.opening()?;
        // Until the row is complete.
        self.broken = true;
        let mut at = open + 1;
        loop {
            let (cell, end) = next_cell(self.text, at, self.options)?;
            cells.push(cell);
            at = end + 1;
            match self.text.get(end) {
                Some(b',') => {}
                Some(b')') => break,
                _ => return None,
            }
        }
        (self.at, self.first, self.broken) = (at, false, false);
        Some(open..at)
    }

    /// Position of the next row's parenthesis.
    fn opening(&self) -> Option<usize> {
        if self.broken {
            return None;
        }
        let mut at = blank(self.text, self.at)?;
        if !self.first {
            if self.text.get(at) != Some(&b',') {
                return None;
            }
            at = blank(self.text, at + 1)?;
        }
        (self.text.get(at) == Some(&b'(')).then_some(at)
    }

    /// Position after the last row read. `None` if a row began and could not be read.
    pub(super) fn end(&self) -> Option<usize> {
        (!self.broken && !self.first).then_some(self.at)
    }
}

/// Position of the next byte that is neither white space nor in a comment.
fn blank(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b' ' | b'\t' | b'\n' | b'\r' | b'-' | b'/' | 0x0b | 0x0c => bytes::skip_blank(text, at).ok(),
        _ => Some(at),
    }
}

/// The cell from `at` on, and the position of the `,` or `)` after it.
fn next_cell(text: &[u8], at: usize, options: Options) -> Option<(Cell, usize)> {
    let at = blank(text, at)?;
    if let Some(found) = plain(text, at, options) {
        return Some(found);
    }
    let mut cursor = Cursor::new(text, at..text.len(), options);
    let cell = cell::cell(&mut cursor)?;
    Some((cell, cursor.position()))
}

/// A literal, parameter, number or keyword that ends right at the `,` or `)`, perhaps with simple casts and a space.
/// `None`: of another shape, which does not mean that it is wrong.
fn plain(text: &[u8], at: usize, options: Options) -> Option<(Cell, usize)> {
    match text.get(at)? {
        b'\'' => literal(text, at, options),
        b'$' => parameter(text, at),
        b'-' => number(text, at, at + 1),
        b'0'..=b'9' => number(text, at, at),
        b'n' | b'N' => keyword(text, at, b"null", CellKind::Null),
        b't' | b'T' => keyword(text, at, b"true", CellKind::Bool),
        b'f' | b'F' => keyword(text, at, b"false", CellKind::Bool),
        b'd' | b'D' => keyword(text, at, b"default", CellKind::Default),
        _ => None,
    }
}

fn literal(text: &[u8], quote: usize, options: Options) -> Option<(Cell, usize)> {
    let start = quote + 1;
    let (mut end, mut doubled) = (start, false);
    loop {
        end += memchr(b'\'', text.get(end..)?)?;
        if text.get(end + 1) != Some(&b'\'') {
            break;
        }
        (end, doubled) = (end + 2, true);
    }
    if !options.standard_conforming_strings && memchr(b'\\', text.get(start..end)?).is_some() {
        return None;
    }
    // A continuation is no end of a cell and so is left to the general way.
    let (cast, last, next) = casts(text, end + 1)?;
    let (kind, range) =
        if doubled { (CellKind::Escaped, quote..last) } else { (CellKind::String, start..end) };
    Some((Cell { kind, range, cast }, next))
}

fn parameter(text: &[u8], start: usize) -> Option<(Cell, usize)> {
    let digits = text.get(start + 1..)?;
    let length = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    let kind = CellKind::Param(bytes::parameter(digits.get(..length)?)?);
    let end = start + 1 + length;
    let (cast, _, next) = casts(text, end)?;
    Some((Cell { kind, range: start..end, cast }, next))
}

fn number(text: &[u8], start: usize, digits: usize) -> Option<(Cell, usize)> {
    let rest = text.get(digits..)?;
    let mut dots = 0;
    let length = rest.iter().position(|byte| {
        dots += usize::from(*byte == b'.');
        !byte.is_ascii_digit() && *byte != b'.'
    })?;
    let plain = length > dots && dots <= 1;
    if plain { bare(text, CellKind::Number, start..digits + length) } else { None }
}

fn keyword(text: &[u8], start: usize, keyword: &[u8], kind: CellKind) -> Option<(Cell, usize)> {
    let range = start..start + keyword.len();
    let found = text.get(range.clone())?.eq_ignore_ascii_case(keyword);
    if found { bare(text, kind, range) } else { None }
}

/// A cell without casts.
fn bare(text: &[u8], kind: CellKind, range: Range<usize>) -> Option<(Cell, usize)> {
    let next = cell_end(text, range.end)?;
    Some((Cell { kind, range, cast: Cast::None }, next))
}

/// Position of the `,` or `)` that is here or after one space.
fn cell_end(text: &[u8], at: usize) -> Option<usize> {
    let ends = |at: usize| matches!(text.get(at), Some(b',' | b')')).then_some(at);
    ends(at).or_else(|| if text.get(at) == Some(&b' ') { ends(at + 1) } else { None })
}

/// `::uuid::text …` with types of one word: their sum, the position after them, and that of the cell's end.
fn casts(text: &[u8], mut at: usize) -> Option<(Cast, usize, usize)> {
    let mut cast = Cast::None;
    while text.get(at) == Some(&b':') {
        if text.get(at + 1) != Some(&b':') {
            return None;
        }
        let rest = text.get(at + 2..)?;
        let length = rest.iter().position(|byte| !byte.is_ascii_alphanumeric())?;
        cast = types::then(cast, one_word_type(rest.get(..length)?)?);
        at += 2 + length;
    }
    Some((cast, at, cell_end(text, at)?))
}

fn one_word_type(word: &[u8]) -> Option<Base> {
    let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
    match word.first()?.to_ascii_lowercase() {
        b'u' if is(b"uuid") => Some(Base::Uuid),
        b't' if is(b"text") => Some(Base::Text),
        b'v' if is(b"varchar") => Some(Base::Text),
        b'c' if is(b"citext") => Some(Base::Text),
        b'a'..=b'z' => Some(Base::Unknown),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
