//! What `lex` reads, as tables of cases and properties.

use super::*;
use proptest::prelude::*;

/// The tokens of a text, each as a letter for its kind and its bytes.
fn tokens(text: &str) -> String {
    tokens_with(text, Options::default())
}

fn tokens_with(text: &str, options: Options) -> String {
    let show = |token: Token| {
        let bytes = &text[token.range()];
        match token.kind {
            Kind::Word => format!("w {bytes}"),
            Kind::Quoted { unicode } => format!("{} {bytes}", if unicode { "uq" } else { "q" }),
            Kind::String(literal) => {
                let mark = if literal.escaped { "!" } else { "" };
                format!("{:?}{mark} {}", literal.style, &text[literal.start..literal.end])
            }
            Kind::Number => format!("n {bytes}"),
            Kind::Param(number) => format!("p {number}"),
            Kind::Symbol(_) => bytes.to_owned(),
            Kind::Typecast => "cast".to_owned(),
            Kind::Operator => format!("op {bytes}"),
            Kind::Other => format!("? {bytes}"),
            Kind::Error => format!("error {bytes}"),
        }
    };
    Lexer::new(text.as_bytes(), 0..text.len(), options).map(show).collect::<Vec<_>>().join(" | ")
}

#[test]
fn words_numbers_and_punctuation() {
    for (text, expected) in [
        ("", ""),
        (" \t\r\n\x0c", ""),
        ("Select a_1, b$2 FROM tä", "w Select | w a_1 | , | w b$2 | w FROM | w tä"),
        ("\"a\"\"b\".\"c d\"", "q \"a\"\"b\" | . | q \"c d\""),
        ("U&\"d\\0061\" u&x e x'1", "uq U&\"d\\0061\" | w u | op & | w x | w e | error x'1"),
        (
            "1 1.5 .5 1. 1e5 1.5E-3 1e+ 0x1F 1_000 1..2",
            "n 1 | n 1.5 | n .5 | n 1. | n 1e5 | n 1.5E-3 | n 1 | w e | + | n 0x1F | n 1_000 | n 1 | op .. | n 2",
        ),
        ("$1 $65535 $65536 $0 $ a$1", "p 1 | p 65535 | ? $65536 | ? $0 | ? $ | w a$1"),
        ("a[1]::int;(b)", "w a | [ | n 1 | ] | cast | w int | ; | ( | w b | )"),
        ("{\\}", "? { | ? \\ | ? }"),
    ] {
        assert_eq!(tokens(text), expected, "{text}");
    }
}

#[test]
fn operators_end_as_the_server_ends_them() {
    for (text, expected) in [
        ("a->>'b'", "w a | op ->> | Plain b"),
        ("a:=b=>c", "w a | op := | w b | op => | w c"),
        ("1--2", "n 1"),
        ("1-/*x*/-2", "n 1 | - | - | n 2"),
        ("a+--x\n-b", "w a | + | - | w b"),
        ("a*/*c*/b", "w a | * | w b"),
        ("a=-1", "w a | = | - | n 1"),
        ("a*-+1", "w a | * | - | + | n 1"),
        ("a@-1 a@@-b ||-", "w a | op @- | n 1 | w a | op @@- | w b | op ||-"),
        ("a<>b!=c<=d", "w a | op <> | w b | op != | w c | op <= | w d"),
        ("a ~ b | c ? d", "w a | op ~ | w b | op | | w c | op ? | w d"),
        ("<->", "op <->"),
        ("+-", "+ | -"),
    ] {
        assert_eq!(tokens(text), expected, "{text}");
    }
}

#[test]
fn comments_nest_and_hide_everything() {
    for (text, expected) in [
        ("a -- b ; 'c\n d", "w a | w d"),
        ("a -- b\r d", "w a | w d"),
        ("a /* b /* c */ ' */ d", "w a | w d"),
        ("a /* b /* c */ d", "w a | error /* b /* c */ d"),
        ("/*/ a */ b", "w b"),
        ("/**/b/***/", "w b"),
        ("--", ""),
        ("/*", "error /*"),
    ] {
        assert_eq!(tokens(text), expected, "{text}");
    }
}

#[test]
fn literals_of_every_style() {
    for (text, expected) in [
        ("'a' ''", "Plain a | Plain "),
        ("'it''s'", "Plain! it''s"),
        (r"'a\' 'b'", r"Plain a\ | Plain b"),
        (r"E'a' e'a\'b' E'it''s'", r"Escape a | Escape! a\'b | Escape! it''s"),
        ("U&'a' u&'\\0061'", "Unicode! a | Unicode! \\0061"),
        ("B'01' x'1F' N'a'", "Bit 01 | Hex 1F | National a"),
        ("B'0''1'", "Bit 0 | Plain 1"),
        ("$$a'b$$ $t$ $$ $u$ $t$ $ä1$x$ä1$", "Dollar a'b | Dollar  $$ $u$  | Dollar x"),
        ("$a$b$a$$a$c$a$", "Dollar b | Dollar c"),
        ("$1a$x", "p 1 | w a$x"),
        ("$a-1", "? $ | w a | - | n 1"),
        ("'a' 'b'", "Plain a | Plain b"),
        ("'a'\n'b' , 'c' \t -- x'y\n\n 'd'", "Plain! a'\n'b | , | Plain! c' \t -- x'y\n\n 'd"),
        ("'a' -- x\n, 'b'", "Plain a | , | Plain b"),
        ("'a' /* x\n */ 'b'", "Plain a | Plain b"),
        ("$$a$$\n'b'", "Dollar a | Plain b"),
        ("E'a'\n'\\''", "Escape! a'\n'\\'"),
        ("'open", "error 'open"),
        ("'open''", "error 'open''"),
        (r"E'open\'", r"error E'open\'"),
        ("$a$open$b$", "error $a$open$b$"),
        ("\"open", "error \"open"),
        ("'a'\n'open", "error 'a'\n'open"),
    ] {
        assert_eq!(tokens(text), expected, "{text}");
    }
}

#[test]
fn backslashes_escape_in_plain_literals_only_if_the_setting_says_so() {
    let off = Options { standard_conforming_strings: false };
    assert_eq!(
        tokens_with(r"'a\'b' N'\'' $$\$$ 'c'", off),
        r"Escape! a\'b | National! \' | Dollar \ | Escape c"
    );
    assert_eq!(tokens_with(r#""a\" B'1'"#, off), r#"q "a\" | Bit 1"#);
}

#[test]
fn bytes_that_are_not_utf8_are_parts_of_words() {
    let text = b"\xff\xfe = '\x80'";
    let kinds: Vec<_> =
        Lexer::new(text, 0..text.len(), Options::default()).map(|token| token.range()).collect();
    assert_eq!(kinds, [0..2, 3..4, 5..8]);
}

#[test]
fn a_part_is_read_on_its_own() {
    let mut part = Lexer::new(b"aa 'bb' cc", 3..7, Options::default());
    assert_eq!(part.next().map(|token| token.range()), Some(3..7));
    assert_eq!(part.next(), None);
    assert_eq!(Lexer::new(b"aa", 5..9, Options::default()).next(), None);
}

proptest! {
    #[test]
    fn tokens_of_any_bytes_are_in_order_and_not_empty(text: Vec<u8>, on: bool) {
        in_order(&text, on)?;
    }

    #[test]
    fn tokens_of_sql_like_text_are_in_order_and_not_empty(
        text in r#"([-+*/<>=~!@#%^&|`?$'"a-zEUN0-9._:;,()\[\]\\ \n]|--|/\*|\*/|\$\$|::){0,60}"#,
        on: bool,
    ) {
        in_order(text.as_bytes(), on)?;
    }
}

fn in_order(text: &[u8], on: bool) -> Result<(), TestCaseError> {
    let mut last = 0;
    for token in Lexer::new(text, 0..text.len(), Options { standard_conforming_strings: on }) {
        prop_assert!(token.start >= last && token.end > token.start && token.end <= text.len(), "{token:?}");
        if let Kind::String(literal) = token.kind {
            prop_assert!(
                token.start < literal.start && literal.start <= literal.end && literal.end < token.end
            );
        }
        last = token.end;
    }
    Ok(())
}
