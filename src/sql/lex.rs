//! A byte lexer for Postgres SQL: kinds and byte ranges of tokens, cut as `scan.l` cuts them. Knows no
//! grammar, allocates nothing, and takes any bytes.

use super::bytes::{
    DIGIT, OPERATOR, SQL_OPERATOR, WORD, WORD_START, digits, is, parameter, skip, skip_blank, string_end,
};
use memchr::{memchr, memmem};
use std::ops::Range;

/// What the session's settings say about literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Off: a plain `'…'` has backslash escapes, as `E'…'` has.
    pub standard_conforming_strings: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { standard_conforming_strings: true }
    }
}

/// One token: `text[start..end]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Position of its first byte.
    pub start: usize,
    /// Position after its last byte.
    pub end: usize,
}

impl Token {
    /// Where the token stands.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

/// The kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A keyword or an identifier without quotes.
    Word,
    /// `"…"`; `unicode` for `U&"…"`.
    Quoted {
        /// `U&"…"`: may hold escapes.
        unicode: bool,
    },
    /// A string or bit string literal of any style.
    String(Literal),
    /// A number without sign.
    Number,
    /// `$n`, 1 to 65535.
    Param(u16),
    /// One of `, ( ) [ ] . ; : + - * / % ^ < > =` on its own.
    Symbol(u8),
    /// `::`
    Typecast,
    /// Any other operator, and `:=`, `..`, `=>`.
    Operator,
    /// A byte that begins no token, or a parameter number out of range.
    Other,
    /// Begins a comment, literal or quoted identifier that never ends; reaches to the end of the text.
    Error,
}

/// The inside of a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Literal {
    /// How it is written.
    pub style: Style,
    /// The bytes of the content are not the value: doubled quotes, backslashes, continuation on
    /// another line, anything in `U&'…'`.
    pub escaped: bool,
    /// Position of the content's first byte.
    pub start: usize,
    /// Position after the content's last byte.
    pub end: usize,
}

/// How a literal is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `'…'`
    Plain,
    /// `E'…'`, and `'…'` while `standard_conforming_strings` is off.
    Escape,
    /// `U&'…'`
    Unicode,
    /// `B'…'`: a bit string.
    Bit,
    /// `X'…'`: a bit string.
    Hex,
    /// `N'…'`: of type `char`.
    National,
    /// `$tag$…$tag$`
    Dollar,
}

/// The tokens of a part of a text.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    /// Ends where the part ends; positions are those of the whole text.
    text: &'a [u8],
    at: usize,
    options: Options,
}

impl<'a> Lexer<'a> {
    /// Reads `text[range]`. Token positions count from the start of `text`.
    #[must_use]
    pub fn new(text: &'a [u8], range: Range<usize>, options: Options) -> Self {
        let text = text.get(..range.end).unwrap_or(text);
        Self { text, at: range.start.min(text.len()), options }
    }

    fn token(&mut self, kind: Kind, end: usize) -> Token {
        let start = std::mem::replace(&mut self.at, end);
        Token { kind, start, end }
    }

    fn error(&mut self) -> Token {
        self.token(Kind::Error, self.text.len())
    }

    fn byte(&self, offset: usize) -> Option<u8> {
        self.text.get(self.at + offset).copied()
    }

    fn word_like(&mut self, first: u8) -> Token {
        let style = match (first, self.byte(1), self.byte(2)) {
            (b'e' | b'E', Some(b'\''), _) => Style::Escape,
            (b'b' | b'B', Some(b'\''), _) => Style::Bit,
            (b'x' | b'X', Some(b'\''), _) => Style::Hex,
            (b'n' | b'N', Some(b'\''), _) => Style::National,
            (b'u' | b'U', Some(b'&'), Some(b'\'')) => Style::Unicode,
            (b'u' | b'U', Some(b'&'), Some(b'"')) => return self.quoted(3, true),
            _ => return self.token(Kind::Word, skip(self.text, self.at, WORD)),
        };
        self.string(if style == Style::Unicode { 3 } else { 2 }, style)
    }

    fn quoted(&mut self, opening: usize, unicode: bool) -> Token {
        let mut at = self.at + opening;
        loop {
            let Some(found) = self.text.get(at..).and_then(|rest| memchr(b'"', rest)) else {
                return self.error();
            };
            at += found + 1;
            if self.text.get(at) != Some(&b'"') {
                return self.token(Kind::Quoted { unicode }, at);
            }
            at += 1;
        }
    }

    /// A literal in single quotes whose content begins `opening` bytes from here.
    fn string(&mut self, opening: usize, style: Style) -> Token {
        let lenient = !self.options.standard_conforming_strings;
        let backslashes =
            style == Style::Escape || lenient && matches!(style, Style::Plain | Style::National);
        let doubling = !matches!(style, Style::Bit | Style::Hex);
        let start = self.at + opening;
        let Some((end, escapes)) = string_end(self.text, start, backslashes, doubling) else {
            return self.error();
        };
        let style = if backslashes && style == Style::Plain { Style::Escape } else { style };
        let escaped = escapes || style == Style::Unicode;
        self.token(Kind::String(Literal { style, escaped, start, end }), end + 1)
    }

    /// `$1`, `$tag$…$tag$`, or a lone `$`.
    fn dollar(&mut self) -> Token {
        let after = self.at + 1;
        if self.byte(1).is_some_and(|byte| is(byte, DIGIT)) {
            let end = skip(self.text, after, DIGIT);
            let kind = match parameter(self.text.get(after..end).unwrap_or_default()) {
                Some(number) => Kind::Param(number),
                None => Kind::Other,
            };
            return self.token(kind, end);
        }
        let mut tag = after;
        while self.text.get(tag).is_some_and(|&byte| byte != b'$' && is(byte, WORD)) {
            tag += 1;
        }
        if self.text.get(tag) != Some(&b'$') {
            return self.token(Kind::Other, after);
        }
        let start = tag + 1;
        let (Some(delimiter), Some(rest)) = (self.text.get(self.at..start), self.text.get(start..)) else {
            return self.error();
        };
        let Some(length) = memmem::find(rest, delimiter) else {
            return self.error();
        };
        let end = start + length;
        let literal = Literal { style: Style::Dollar, escaped: false, start, end };
        self.token(Kind::String(literal), end + delimiter.len())
    }

    fn number(&mut self) -> Token {
        let radix = self.byte(0) == Some(b'0')
            && matches!(self.byte(1), Some(b'x' | b'X' | b'o' | b'O' | b'b' | b'B'))
            && self.byte(2).is_some_and(|byte| byte.is_ascii_hexdigit() || byte == b'_');
        if radix {
            let digits = self.text.get(self.at + 2..).unwrap_or_default();
            let length = digits.iter().position(|byte| !byte.is_ascii_hexdigit() && *byte != b'_');
            return self.token(Kind::Number, self.at + 2 + length.unwrap_or(digits.len()));
        }
        let mut end = digits(self.text, self.at);
        // `1..2` is a range, not `1.` and `.2`.
        if self.text.get(end) == Some(&b'.') && self.text.get(end + 1) != Some(&b'.') {
            end = digits(self.text, end + 1);
        }
        if matches!(self.text.get(end), Some(b'e' | b'E')) {
            let signed = matches!(self.text.get(end + 1), Some(b'+' | b'-'));
            let exponent = end + 1 + usize::from(signed);
            if self.text.get(exponent).is_some_and(|&byte| is(byte, DIGIT)) {
                end = digits(self.text, exponent);
            }
        }
        self.token(Kind::Number, end)
    }

    /// The longest operator, less what the rules of section 4.1.3 take from its end.
    fn operator(&mut self) -> Token {
        // The server refuses operators of more than 63 bytes, so that no longer run has to be told apart.
        let longest = (self.at + 128).min(self.text.len());
        let end = skip(self.text.get(..longest).unwrap_or_default(), self.at, OPERATOR);
        let run = self.text.get(self.at..end).unwrap_or_default();
        let comment = run.windows(2).position(|pair| pair == b"--" || pair == b"/*");
        let mut operator = run.get(..comment.unwrap_or(run.len())).unwrap_or(run);
        if operator.iter().all(|&byte| is(byte, SQL_OPERATOR)) {
            while let [shorter @ .., b'+' | b'-'] = operator {
                if shorter.is_empty() {
                    break;
                }
                operator = shorter;
            }
        }
        let kind = match operator {
            [byte @ (b'+' | b'-' | b'*' | b'/' | b'%' | b'^' | b'<' | b'>' | b'=')] => Kind::Symbol(*byte),
            _ => Kind::Operator,
        };
        self.token(kind, self.at + operator.len().max(1))
    }

    fn punctuation(&mut self, first: u8) -> Token {
        let (kind, length) = match (first, self.byte(1)) {
            (b':', Some(b':')) => (Kind::Typecast, 2),
            (b':', Some(b'=')) | (b'.', Some(b'.')) => (Kind::Operator, 2),
            (b'(' | b')' | b'[' | b']' | b',' | b';' | b'.' | b':', _) => (Kind::Symbol(first), 1),
            _ => (Kind::Other, 1),
        };
        self.token(kind, self.at + length)
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        match skip_blank(self.text, self.at) {
            Ok(at) => self.at = at,
            Err(at) => {
                self.at = at;
                return Some(self.error());
            }
        }
        let first = self.byte(0)?;
        Some(match first {
            b'\'' => self.string(1, Style::Plain),
            b'"' => self.quoted(1, false),
            b'$' => self.dollar(),
            b'.' if self.byte(1).is_some_and(|byte| is(byte, DIGIT)) => self.number(),
            _ if is(first, WORD_START) => self.word_like(first),
            _ if is(first, DIGIT) => self.number(),
            _ if is(first, OPERATOR) => self.operator(),
            _ => self.punctuation(first),
        })
    }
}

#[cfg(test)]
mod tests;
