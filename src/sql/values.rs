//! The value of a literal: quotes un-doubled, backslashes and continuation lines resolved.

use super::bytes;
use super::lex::{Literal, Style};

/// The bytes that a literal of type text stands for. `None` for bit strings, for `U&'…'`, and for escapes that
/// the server refuses.
///
/// `text` is the text the literal was found in.
#[must_use]
pub fn decode(text: &[u8], literal: &Literal) -> Option<Vec<u8>> {
    let content = text.get(literal.start..literal.end)?;
    match literal.style {
        Style::Bit | Style::Hex | Style::Unicode | Style::National => None,
        _ if !literal.escaped => Some(content.to_vec()),
        _ => unescape(text, literal),
    }
}

/// The value as a string. `None` if it is not UTF-8 either.
#[must_use]
pub fn decode_string(text: &[u8], literal: &Literal) -> Option<String> {
    String::from_utf8(decode(text, literal)?).ok()
}

fn unescape(text: &[u8], literal: &Literal) -> Option<Vec<u8>> {
    let text = text.get(..literal.end)?;
    let mut value = Vec::new();
    let mut at = literal.start;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\'' if text.get(at + 1) == Some(&b'\'') => {
                value.push(b'\'');
                at += 2;
            }
            b'\'' => at = bytes::continuation(text, at + 1)?,
            b'\\' if literal.style == Style::Escape => at = backslash(text, at + 1, &mut value)?,
            _ => {
                value.push(byte);
                at += 1;
            }
        }
    }
    Some(value)
}

/// One escape of section 4.1.2.2 whose letter is at `at`; the position after it.
fn backslash(text: &[u8], at: usize, value: &mut Vec<u8>) -> Option<usize> {
    let letter = *text.get(at)?;
    let (radix, first, most, least) = match letter {
        b'0'..=b'7' => (8, at, 3, 1),
        b'x' => (16, at + 1, 2, 0),
        b'u' => (16, at + 1, 4, 4),
        b'U' => (16, at + 1, 8, 8),
        _ => {
            value.push(match letter {
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => 11,
                other => other,
            });
            return Some(at + 1);
        }
    };
    let digits = text.get(first..)?.iter().take(most).map_while(|&byte| char::from(byte).to_digit(radix));
    let (length, number) = digits
        .fold((0usize, 0u32), |(length, number), digit| (length + 1, number.wrapping_mul(radix) + digit));
    match letter {
        _ if length < least => return None,
        // `\x` without digits is the letter.
        b'x' if length == 0 => value.push(b'x'),
        b'u' | b'U' => value.extend(char::from_u32(number)?.to_string().bytes()),
        // Postgres keeps the low byte of `\777`.
        _ => value.push((number & 0xff) as u8),
    }
    Some(first + length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::lex::{Kind, Lexer, Options};

    fn value(text: &str, on: bool) -> Option<String> {
        let options = Options { standard_conforming_strings: on };
        let mut tokens = Lexer::new(text.as_bytes(), 0..text.len(), options);
        let Some(Kind::String(literal)) = tokens.next().map(|token| token.kind) else {
            panic!("no literal: {text}");
        };
        assert_eq!(tokens.next(), None, "{text}");
        decode_string(text.as_bytes(), &literal)
    }

    #[test]
    fn literals_stand_for_what_postgres_reads() {
        for (text, expected) in [
            ("''", ""),
            ("'a''b'", "a'b"),
            (r"'a\nb'", r"a\nb"),
            (r"E'a\tb\\\'\101\x41\u00fc\U0001F600\q'", "a\tb\\'AA\u{fc}\u{1F600}q"),
            (r"E'\x\xg'", "xxg"),
            ("'a' \n 'b'", "ab"),
            ("'a' -- it's a comment\n'b''c'\n\n'd'", "ab'cd"),
            ("e'\\n'\n'\\t'", "\n\t"),
            ("$$a''\\b$$", "a''\\b"),
            ("$t$ $$ $t$", " $$ "),
        ] {
            assert_eq!(value(text, true).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(value(r"'a\tb'", false).as_deref(), Some("a\tb"));
    }

    #[test]
    fn what_is_no_text_or_no_valid_escape_has_no_value() {
        for text in ["B'01'", "X'1f'", "U&'a'", r"E'\u12'", r"E'\ud800'", r"E'\xff'"] {
            assert_eq!(value(text, true), None, "{text}");
        }
    }
}
