//! What looks like a function call in a statement, and where its parameters stand. Knows no function.

use super::cursor::Cursor;
use super::lex::{Kind, Lexer, Options, Token};
use super::name::Name;
use std::ops::Range;

/// Every possibly qualified identifier before a parenthesis in `text[range]`, keywords and tables included.
/// A name that is written `U&"…"` or is not UTF-8 has U+FFFD as its last part.
pub fn calls(text: &[u8], range: Range<usize>, options: Options) -> impl Iterator<Item = Name> {
    chains(text, range, options, false)
}

/// Every possibly qualified identifier in `text[range]`, called or not, and every operator; otherwise as
/// [`calls`].
pub fn names(text: &[u8], range: Range<usize>, options: Options) -> impl Iterator<Item = Name> {
    chains(text, range, options, true)
}

/// Identifiers joined by dots; `all`: also those that no parenthesis follows.
fn chains(text: &[u8], range: Range<usize>, options: Options, all: bool) -> impl Iterator<Item = Name> {
    let mut cursor = Cursor::new(text, range, options);
    std::iter::from_fn(move || {
        loop {
            // The last two identifiers of the chain: only a name that is wanted costs memory.
            let (mut before, mut last) = (None, None);
            while matches!(cursor.peek()?.kind, Kind::Word | Kind::Quoted { .. }) {
                (before, last) = (last, Some(cursor.advance()?));
                if !cursor.accept_symbol(b'.') {
                    break;
                }
            }
            let Some(last) = last else {
                let token = cursor.advance()?;
                if all && is_operator(token) {
                    let name = String::from_utf8_lossy(cursor.bytes(token)).into_owned();
                    return Some(Name { schema: None, name });
                }
                continue;
            };
            if all || cursor.is_symbol(b'(') {
                let unreadable = || "\u{fffd}".to_owned();
                let schema = before.map(|token| cursor.ident_of(token).unwrap_or_else(unreadable));
                return Some(Name { schema, name: cursor.ident_of(last).unwrap_or_else(unreadable) });
            }
        }
    })
}

fn is_operator(token: Token) -> bool {
    match token.kind {
        Kind::Operator => true,
        Kind::Symbol(byte) => b"+-*/%^<>=".contains(&byte),
        _ => false,
    }
}

/// Every `$n` in `text[range]` and the position of its `$`.
pub fn parameter_uses(
    text: &[u8],
    range: Range<usize>,
    options: Options,
) -> impl Iterator<Item = (u16, usize)> {
    Lexer::new(text, range, options).filter_map(|token| match token.kind {
        Kind::Param(number) => Some((number, token.start)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_before_parentheses_are_calls() {
        for (text, expected) in [
            ("select 1", ""),
            ("select F(1), s.g (2), \"H\"\"i\" /* c */ (3)", "f s.g H\"i"),
            ("insert into s.t (a) values ($1, lower(b))", "s.t values lower"),
            ("select 'f(1)', $$ g(1) $$ -- h(1)", ""),
            ("select db.s.f(1), x.y, u&\"\\0066\"(1)", "s.f \u{fffd}"),
            ("a . b(c.d(e))", "a.b c.d"),
            ("f(", "f"),
        ] {
            let found = calls(text.as_bytes(), 0..text.len(), Options::default())
                .map(|name| name.schema.map(|schema| schema + ".").unwrap_or_default() + &name.name);
            assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{text}");
        }
    }

    #[test]
    fn parameters_are_found_outside_literals_and_comments() {
        let text = "select $1, '$2', $3::uuid -- $4\n where a = $1 and b = $70000 and c$5 = 1";
        let found = parameter_uses(text.as_bytes(), 0..text.len(), Options::default());
        assert_eq!(found.collect::<Vec<_>>(), [(1, 7), (3, 17), (1, 43)]);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_end(text: Vec<u8>) {
            calls(&text, 0..text.len(), Options::default()).count();
            parameter_uses(&text, 0..text.len() + 1, Options::default()).count();
        }
    }
}
