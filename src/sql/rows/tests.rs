//! What `rows` reads, as tables of cases and properties.

use super::*;
use proptest::prelude::*;

/// The cells of the rows: kind, text of the range, cast.
fn scanned(text: &str) -> Vec<Vec<(CellKind, &str, Cast)>> {
    let mut scanner = RowScanner::new(text.as_bytes(), 0..text.len(), Options::default());
    let (mut rows, mut cells) = (Vec::new(), Vec::new());
    while scanner.next_row(&mut cells).is_some() {
        rows.push(cells.iter().map(|cell| (cell.kind, &text[cell.range.clone()], cell.cast)).collect());
    }
    rows
}

#[test]
fn cells_are_what_they_are_written_as() {
    use CellKind::{Bool, Default, Escaped, Null, Number, Other, Param, String};
    for (cell, kind, range, cast) in [
        ("'a'", String, "a", Cast::None),
        ("''", String, "", Cast::None),
        ("'a,b)'", String, "a,b)", Cast::None),
        ("'it''s'", Escaped, "'it''s'", Cast::None),
        ("'it''s'::text", Escaped, "'it''s'::text", Cast::Text),
        ("'a'\n'b'", Escaped, "'a'\n'b'", Cast::None),
        (r"'a\'", String, r"a\", Cast::None),
        ("E'a'", String, "a", Cast::None),
        (r"E'a\n'", Escaped, r"E'a\n'", Cast::None),
        ("U&'a'", Escaped, "U&'a'", Cast::None),
        ("U&'a' UESCAPE '!'", Other, "U&'a' UESCAPE '!'", Cast::None),
        ("$$a'b$$", String, "a'b", Cast::None),
        ("$q$a$q$::uuid", String, "a", Cast::Uuid),
        ("B'1'", Other, "B'1'", Cast::None),
        ("N'a'", Other, "N'a'", Cast::None),
        ("'a'::uuid", String, "a", Cast::Uuid),
        ("'a'::uuid::UUID", String, "a", Cast::Uuid),
        ("'a' :: uuid", String, "a", Cast::Uuid),
        ("'a'::pg_catalog.uuid", String, "a", Cast::Uuid),
        ("'a'::\"uuid\"", String, "a", Cast::Uuid),
        ("'a'::\"UUID\"", String, "a", Cast::Other),
        ("'a'::public.uuid", String, "a", Cast::Other),
        ("'a'::text", String, "a", Cast::Text),
        ("'a'::varchar::text", String, "a", Cast::Text),
        ("'a'::character varying", String, "a", Cast::Text),
        ("'a'::public.citext", String, "a", Cast::Text),
        ("'a'::text::uuid", String, "a", Cast::TextThenUuid),
        ("'a'::uuid::text", String, "a", Cast::UuidThenText),
        ("'a'::text::uuid::text", String, "a", Cast::Other),
        ("'a'::varchar(36)", String, "a", Cast::Other),
        ("'a'::char(36)::uuid", String, "a", Cast::Other),
        ("'a'::char", String, "a", Cast::Other),
        ("'a'::uuid[]", String, "a", Cast::Other),
        ("'a'::my_domain", String, "a", Cast::Other),
        ("'2020-01-01'::timestamp with time zone", String, "2020-01-01", Cast::Other),
        ("'1'::double precision", String, "1", Cast::Other),
        ("cast('a' as uuid)", String, "a", Cast::Uuid),
        ("CAST( CAST('a' AS text) AS uuid )", String, "a", Cast::TextThenUuid),
        ("uuid 'a'", String, "a", Cast::Uuid),
        ("UUID E'a\\''", Escaped, "UUID E'a\\''", Cast::Uuid),
        ("pg_catalog.uuid 'a'::text", String, "a", Cast::UuidThenText),
        ("('a'::uuid)", String, "a", Cast::Uuid),
        ("(('a')::uuid)", String, "a", Cast::Uuid),
        ("('a'::text)::uuid", String, "a", Cast::TextThenUuid),
        ("$1", Param(1), "$1", Cast::None),
        ("$65535", Param(65535), "$65535", Cast::None),
        ("$65536", Other, "$65536", Cast::None),
        ("$1::uuid::text", Param(1), "$1", Cast::UuidThenText),
        ("CAST($2 AS uuid)", Param(2), "$2", Cast::Uuid),
        ("($3)", Param(3), "$3", Cast::None),
        ("1", Number, "1", Cast::None),
        ("-1.5", Number, "-1.5", Cast::None),
        ("- 1", Number, "- 1", Cast::None),
        ("+1e5::int", Number, "+1e5::int", Cast::Other),
        ("1.2.3", Other, "1.2.3", Cast::None),
        (".5", Number, ".5", Cast::None),
        ("TRUE", Bool, "TRUE", Cast::None),
        ("false", Bool, "false", Cast::None),
        ("NULL", Null, "NULL", Cast::None),
        ("null::uuid", Null, "null::uuid", Cast::Uuid),
        ("DEFAULT", Default, "DEFAULT", Cast::None),
        ("nullif('a', '')", Other, "nullif('a', '')", Cast::None),
        ("trueish", Other, "trueish", Cast::None),
        ("'a' || 'b'", Other, "'a' || 'b'", Cast::None),
        ("'a'::uuid || 'b'", Other, "'a'::uuid || 'b'", Cast::None),
        ("'a' COLLATE \"C\"", Other, "'a' COLLATE \"C\"", Cast::None),
        ("'a' 'b'", Other, "'a' 'b'", Cast::None),
        ("$1 + 1", Other, "$1 + 1", Cast::None),
        ("1 - 1", Other, "1 - 1", Cast::None),
        ("f('a', (1, 2), ARRAY[3, 4])", Other, "f('a', (1, 2), ARRAY[3, 4])", Cast::None),
        ("case when a then ',' else b end", Other, "case when a then ',' else b end", Cast::None),
        ("(select x from y where z in (1, 2))", Other, "(select x from y where z in (1, 2))", Cast::None),
        ("gen_random_uuid()", Other, "gen_random_uuid()", Cast::None),
        ("interval '1' day", Other, "interval '1' day", Cast::None),
        ("((((((((('a')))))))))", Other, "((((((((('a')))))))))", Cast::None),
    ] {
        // Alone, among others, with and without blanks and comments around.
        for (before, after) in [("(", ")"), ("(1,", ",$9)"), ("( 'x' , ", " , 'y' )"), ("(/*,*/", "--)\n)")] {
            let text = format!("{before}{cell}{after}");
            let rows = scanned(&text);
            let found = rows.first().and_then(|row| row.iter().find(|found| **found == (kind, range, cast)));
            assert!(found.is_some() && rows.len() == 1, "{text}: {rows:?}");
        }
    }
}

#[test]
fn backslashes_hide_a_quote_while_strings_are_not_standard_conforming() {
    let text = br"('a\', 'b', $1)";
    let mut cells = Vec::new();
    let mut off = RowScanner::new(text, 0..text.len(), Options { standard_conforming_strings: false });
    assert_eq!(off.next_row(&mut cells), None);
    let mut on = RowScanner::new(text, 0..text.len(), Options::default());
    assert_eq!(on.next_row(&mut cells), Some(0..text.len()));
    assert_eq!(cells.len(), 3);
}

#[test]
fn what_is_no_row_ends_the_scan() {
    for (text, rows, end) in [
        ("", 0, None),
        ("x", 0, None),
        ("(1)", 1, Some(3)),
        ("(1) , ( 2 ) returning", 2, Some(11)),
        ("(1),", 1, Some(3)),
        ("(1),(2", 1, None),
        ("(1),('2)", 1, None),
        ("(1),(2 /* )", 1, None),
        ("(1]", 0, None),
        ("()", 0, None),
        ("(1,,2)", 0, None),
    ] {
        let mut scanner = RowScanner::new(text.as_bytes(), 0..text.len(), Options::default());
        let (mut cells, mut count) = (Vec::new(), 0);
        while scanner.next_row(&mut cells).is_some() {
            count += 1;
        }
        assert_eq!((count, scanner.end()), (rows, end), "{text}");
    }
}

/// A cell as text, with its kind and the part that its range must give.
fn any_cell() -> impl Strategy<Value = (String, CellKind, String)> {
    let content = r#"[a-zäß漢0-9 ,()\[\];:$"{}\n-]{0,12}"#;
    let quoted = |text: &String| format!("'{text}'");
    let plain = content.prop_map(move |text| (quoted(&text), CellKind::String, text));
    let doubled = (content, content).prop_map(|(a, b)| {
        let text = format!("'{a}''{b}'");
        (text.clone(), CellKind::Escaped, text)
    });
    let escaped = (content, content).prop_map(|(a, b)| {
        let text = format!(r"E'{a}\'{b}'");
        (text.clone(), CellKind::Escaped, text)
    });
    let dollar = r#"[a-z'",()\n ]{0,12}"#.prop_map(|text| (format!("$q${text}$q$"), CellKind::String, text));
    let param =
        (1u16..).prop_map(|number| (format!("${number}"), CellKind::Param(number), format!("${number}")));
    let number = (-1e6..1e6f64).prop_map(|number| {
        let text = format!("{number:.3}");
        (text.clone(), CellKind::Number, text)
    });
    let other = content.prop_map(|text| {
        let text = format!("lower('{text}') || (1, ')')::text");
        (text.clone(), CellKind::Other, text)
    });
    let word = prop_oneof![
        Just(("NULL", CellKind::Null)),
        Just(("true", CellKind::Bool)),
        Just(("Default", CellKind::Default)),
    ]
    .prop_map(|(text, kind)| (text.to_owned(), kind, text.to_owned()));
    prop_oneof![plain, doubled, escaped, dollar, param, number, other, word]
}

fn blank_text() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(""), Just(" "), Just("\n\t"), Just("/* ,'( */"), Just("--)'\n")]
}

proptest! {
    #[test]
    fn generated_rows_give_back_their_cells(
        rows in proptest::collection::vec(proptest::collection::vec((any_cell(), blank_text(), blank_text()), 1..5), 1..5),
        between in blank_text(),
    ) {
        let row = |cells: &Vec<((String, CellKind, String), &str, &str)>| {
            let cells = cells.iter().map(|((text, ..), before, after)| format!("{before}{text}{after}"));
            format!("({})", cells.collect::<Vec<_>>().join(","))
        };
        let text = rows.iter().map(row).collect::<Vec<_>>().join(&format!("{between},{between}"));
        let found: Vec<Vec<_>> = scanned(&text)
            .into_iter()
            .map(|row| row.into_iter().map(|(kind, range, _)| (kind, range.to_owned())).collect())
            .collect();
        let expected: Vec<Vec<_>> = rows
            .into_iter()
            .map(|row| row.into_iter().map(|((_, kind, range), ..)| (kind, range)).collect())
            .collect();
        prop_assert_eq!(found, expected, "{}", text);
    }

    #[test]
    fn cells_lie_in_their_row_one_after_another(
        text in r#"(\(|\)|,|'[a-z]{0,3}'|''|\$[0-9]|\$\$|::uuid|NULL|\[|\]|--|/\*|\*/|[a-z0-9 \n'"E\\-]){0,60}"#,
        on: bool,
    ) {
        lies_in_order(text.as_bytes(), on)?;
    }

    #[test]
    fn any_bytes_are_scanned(mut text: Vec<u8>, on: bool) {
        text.insert(0, b'(');
        lies_in_order(&text, on)?;
    }
}

fn lies_in_order(text: &[u8], on: bool) -> Result<(), TestCaseError> {
    let options = Options { standard_conforming_strings: on };
    let mut scanner = RowScanner::new(text, 0..text.len(), options);
    let (mut cells, mut last) = (Vec::new(), 0);
    while let Some(row) = scanner.next_row(&mut cells) {
        prop_assert!(row.start >= last && row.end <= text.len());
        last = row.start;
        for cell in &cells {
            prop_assert!(
                last < cell.range.start.max(1)
                    && cell.range.start <= cell.range.end
                    && cell.range.end < row.end
            );
            last = cell.range.end;
        }
        last = row.end;
    }
    Ok(())
}
