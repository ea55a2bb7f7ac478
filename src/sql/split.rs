//! Cuts the text of a simple Query into its statements, as the grammar of the server does. Knows nothing
//! of what they mean.

use super::lex::{Kind, Lexer, Options, Token};
use std::ops::Range;

/// The statements of `text`: ranges from the first token to the last, without the `;`. Pieces without
/// tokens are left out, and what lies between the ranges is white space, comments and `;` alone.
pub fn statements(text: &[u8], options: Options) -> impl Iterator<Item = Range<usize>> {
    let single = only_statement_end(text);
    let mut lexer = Lexer::new(text, 0..single.unwrap_or(text.len()), options);
    std::iter::from_fn(move || {
        loop {
            let first = lexer.next()?;
            if let Some(end) = single {
                lexer = Lexer::new(text, end..end, options);
                return Some(first.start..end);
            }
            if first.kind != Kind::Symbol(b';') {
                return Some(first.start..end(text, first, &mut lexer));
            }
        }
    })
}

/// Where the only statement ends, if the text surely holds no more than one: there is no `;` but at its end.
/// A long INSERT is not read just to find that out. Its range may hold a comment at its end.
fn only_statement_end(text: &[u8]) -> Option<usize> {
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii_end();
    memchr::memchr(b';', text).is_none().then_some(text.len())
}

/// Takes the rest of the statement that begins with `first`, its `;` included; position after its last token.
fn end(text: &[u8], first: Token, lexer: &mut Lexer<'_>) -> usize {
    let word = |token: Token, keyword: &str| {
        let bytes = text.get(token.range()).unwrap_or_default();
        token.kind == Kind::Word && bytes.eq_ignore_ascii_case(keyword.as_bytes())
    };
    // Only CREATE [OR REPLACE] {FUNCTION | PROCEDURE} can have a body of statements.
    let mut routine = Routine::starts(word(first, "create"));
    let (mut parentheses, mut blocks) = (0usize, 0usize);
    let mut previous = first;
    if first.kind == Kind::Symbol(b'(') {
        parentheses = 1;
    }
    for token in lexer.by_ref() {
        // `AS end` and `x.end` are names.
        let named = word(previous, "as") || previous.kind == Kind::Symbol(b'.');
        match token.kind {
            Kind::Symbol(b'(') => parentheses += 1,
            Kind::Symbol(b')') => parentheses = parentheses.saturating_sub(1),
            Kind::Symbol(b';') if parentheses == 0 && blocks == 0 => break,
            Kind::Word if named => {}
            Kind::Word if routine == Routine::Yes => {
                if blocks == 0 {
                    blocks = usize::from(word(previous, "begin") && word(token, "atomic"));
                } else if word(token, "case") {
                    blocks += 1;
                } else if word(token, "end") {
                    blocks -= 1;
                }
            }
            _ => {}
        }
        routine = routine.after(|keyword| word(token, keyword));
        previous = token;
    }
    previous.end
}

/// Whether the statement creates a function or procedure.
#[derive(Clone, Copy, PartialEq)]
enum Routine {
    AfterCreate,
    Yes,
    No,
}

impl Routine {
    fn starts(create: bool) -> Self {
        if create { Self::AfterCreate } else { Self::No }
    }

    fn after(self, is: impl Fn(&str) -> bool) -> Self {
        match self {
            Self::AfterCreate if is("or") || is("replace") => Self::AfterCreate,
            Self::AfterCreate if is("function") || is("procedure") => Self::Yes,
            Self::AfterCreate => Self::No,
            settled => settled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(text: &str) -> Vec<&str> {
        statements(text.as_bytes(), Options::default()).map(|range| &text[range]).collect()
    }

    #[test]
    fn semicolons_cut_only_between_statements() {
        for (text, expected) in [
            ("", vec![]),
            (" ;; -- nothing\n ; /* ; */", vec![]),
            ("select 1", vec!["select 1"]),
            (
                "begin; insert into t values (';'); commit;",
                vec!["begin", "insert into t values (';')", "commit"],
            ),
            (
                "select ';' -- ;\n, \"a;b\", $$;$$, E'\\';' ; select 2 ",
                vec!["select ';' -- ;\n, \"a;b\", $$;$$, E'\\';'", "select 2"],
            ),
            (
                "create rule r as on insert to t do also (delete from a; delete from b); select 1",
                vec!["create rule r as on insert to t do also (delete from a; delete from b)", "select 1"],
            ),
            (
                "create function f() returns int language sql begin atomic select 1; select case when true then 2 end; end; select 3",
                vec![
                    "create function f() returns int language sql begin atomic select 1; select case when true then 2 end; end",
                    "select 3",
                ],
            ),
            (
                "create or replace procedure p() BEGIN ATOMIC insert into t values (1); select 1 as end; END ; select 3",
                vec![
                    "create or replace procedure p() BEGIN ATOMIC insert into t values (1); select 1 as end; END",
                    "select 3",
                ],
            ),
            (
                "create table begin (atomic int); select 1",
                vec!["create table begin (atomic int)", "select 1"],
            ),
            (
                "begin; select case when a then 1 end; end",
                vec!["begin", "select case when a then 1 end", "end"],
            ),
            ("select 1; select 'open; select 2", vec!["select 1", "select 'open; select 2"]),
            ("(select 1; select 2); x", vec!["(select 1; select 2)", "x"]),
        ] {
            assert_eq!(pieces(text), expected, "{text}");
        }
    }

    #[test]
    fn backslashes_hide_quotes_while_strings_are_not_standard_conforming() {
        let text = br"select 'a\'; b";
        assert_eq!(count_of(text, true), 2);
        assert_eq!(count_of(text, false), 1);
    }

    fn count_of(text: &[u8], on: bool) -> usize {
        statements(text, Options { standard_conforming_strings: on }).count()
    }

    proptest! {
        #[test]
        fn nothing_but_blanks_and_semicolons_is_left_out(
            parts in proptest::collection::vec(prop_oneof![
                "[ -~]{0,12}", Just(";".to_owned()), Just("$$".to_owned()), Just("'".to_owned()), Just("/*".to_owned()),
                Just("--\n".to_owned()), Just("create function begin atomic ".to_owned()), Just(" end ".to_owned()),
            ], 0..30),
            on: bool,
        ) {
            let text = parts.concat();
            let options = Options { standard_conforming_strings: on };
            let mut last = 0;
            for range in statements(text.as_bytes(), options) {
                prop_assert!(range.start >= last && range.end > range.start && range.end <= text.len());
                let gap = Lexer::new(text.as_bytes(), last..range.start, options);
                prop_assert!(gap.into_iter().all(|token| token.kind == Kind::Symbol(b';')));
                last = range.end;
            }
            let gap = Lexer::new(text.as_bytes(), last..text.len(), options);
            prop_assert!(gap.into_iter().all(|token| token.kind == Kind::Symbol(b';')));
        }

        #[test]
        fn any_bytes_are_cut(text: Vec<u8>) {
            for range in statements(&text, Options::default()) {
                prop_assert!(text.get(range).is_some_and(|piece| !piece.is_empty()));
            }
        }
    }
}
