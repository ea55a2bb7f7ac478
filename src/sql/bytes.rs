//! Classes of bytes, and where blanks, comments and literals end, as `scan.l` has it. Knows no token.

use memchr::{memchr, memchr2};

const SPACE: u8 = 1;
pub(super) const WORD_START: u8 = 2;
pub(super) const WORD: u8 = 4;
pub(super) const DIGIT: u8 = 8;
pub(super) const OPERATOR: u8 = 16;
/// Operator characters of SQL's own operators: `+` and `-` may not end a longer one made of these.
pub(super) const SQL_OPERATOR: u8 = 32;

/// The classes a byte belongs to.
const CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => SPACE,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80..=0xff => WORD_START | WORD,
            b'0'..=b'9' => DIGIT | WORD,
            b'$' => WORD,
            b'+' | b'-' | b'*' | b'/' | b'<' | b'>' | b'=' => OPERATOR | SQL_OPERATOR,
            b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'%' => OPERATOR,
            _ => 0,
        };
        byte += 1;
    }
    table
};

pub(super) fn is(byte: u8, class: u8) -> bool {
    CLASS[usize::from(byte)] & class != 0
}

/// Position of the first byte from `at` on that is not of the class.
pub(super) fn skip(text: &[u8], at: usize, class: u8) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|&byte| !is(byte, class)).unwrap_or(rest.len())
}

/// The number of a parameter, if the protocol can carry it.
pub(super) fn parameter(digits: &[u8]) -> Option<u16> {
    let number = digits.iter().try_fold(0u16, |number, &digit| {
        number.checked_mul(10)?.checked_add(u16::from(digit.checked_sub(b'0')?))
    })?;
    (number > 0).then_some(number)
}

/// Position of the next token from `at` on, past white space and comments.
///
/// # Errors
///
/// The position of a `/*` that is never closed.
pub(super) fn skip_blank(text: &[u8], mut at: usize) -> Result<usize, usize> {
    loop {
        at = match (text.get(at), text.get(at + 1)) {
            (Some(&byte), _) if is(byte, SPACE) => at + 1,
            (Some(b'-'), Some(b'-')) => line_end(text, at + 2),
            (Some(b'/'), Some(b'*')) => comment_end(text, at + 2).ok_or(at)?,
            _ => return Ok(at),
        }
    }
}

fn line_end(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())
}

/// Position after the `*/` of a comment whose content begins at `at`. Comments nest.
fn comment_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 1usize;
    while depth > 0 {
        at += memchr2(b'*', b'/', text.get(at..)?)?;
        match (text.get(at), text.get(at + 1)) {
            (Some(b'*'), Some(b'/')) => (depth, at) = (depth - 1, at + 2),
            (Some(b'/'), Some(b'*')) => (depth, at) = (depth + 1, at + 2),
            _ => at += 1,
        }
    }
    Some(at)
}

/// From the first byte of a literal's content: the position of its closing quote, and whether the
/// content holds doubled quotes, backslashes or a continuation. `None` if it never ends.
pub(super) fn string_end(
    text: &[u8],
    start: usize,
    backslashes: bool,
    doubling: bool,
) -> Option<(usize, bool)> {
    let (mut at, mut escaped) = (start, false);
    loop {
        let rest = text.get(at..)?;
        let hit = at + if backslashes { memchr2(b'\'', b'\\', rest) } else { memchr(b'\'', rest) }?;
        let next = text.get(hit + 1);
        if text.get(hit) == Some(&b'\\') || doubling && next == Some(&b'\'') {
            at = hit + 2;
        } else if let Some(content) = continuation(text, hit + 1) {
            at = content;
        } else {
            return Some((hit, escaped));
        }
        escaped = true;
    }
}

/// SQL joins two literals that have nothing but white space with a line break between them (4.1.2.1).
/// From the position after a closing quote: the position after the quote that opens it again.
pub(super) fn continuation(text: &[u8], mut at: usize) -> Option<usize> {
    let mut line_break = false;
    loop {
        match text.get(at)? {
            b'\n' | b'\r' => line_break = true,
            b'-' if text.get(at + 1) == Some(&b'-') => {
                at = line_end(text, at);
                continue;
            }
            b'\'' => return line_break.then_some(at + 1),
            &byte if is(byte, SPACE) => {}
            _ => return None,
        }
        at += 1;
    }
}

pub(super) fn digits(text: &[u8], mut at: usize) -> usize {
    let digit = |at: usize| text.get(at).is_some_and(|&byte| is(byte, DIGIT));
    while digit(at) || text.get(at) == Some(&b'_') && digit(at + 1) {
        at += 1;
    }
    at
}
