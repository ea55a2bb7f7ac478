//! What `copy` reads, as tables of cases and properties.

use super::*;
use crate::sql::lex;
use crate::sql::statement::classify;

fn copied(text: &str) -> CopyIn {
    match classify(text.as_bytes(), 0..text.len(), lex::Options::default()) {
        Statement::CopyIn(copy) => copy,
        other => panic!("{text}: {other:?}"),
    }
}

/// Delimiter, NULL, header and DEFAULT of a text COPY without an obstacle.
fn text_format(text: &str) -> (u8, String, bool, Option<String>) {
    let copy = copied(text);
    assert_eq!(copy.obstacle, None, "{text}");
    let string = |bytes| String::from_utf8(bytes).unwrap();
    match copy.format {
        CopyFormat::Text { delimiter, null, header, default } => {
            (delimiter, string(null), header, default.map(string))
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn table_and_columns_are_read() {
    for (text, schema, table, columns) in [
        ("copy ev from stdin", None, "ev", None),
        ("COPY \"S\".\"Ev\"(\"Id\",V) FROM STDIN", Some("S"), "Ev", Some(vec!["Id", "v"])),
        ("copy binary ev from stdin", None, "ev", None),
        ("copy binary from stdin", None, "binary", None),
        ("copy ev ( id ) from stdout", None, "ev", Some(vec!["id"])),
    ] {
        let copy = copied(text);
        assert_eq!((copy.table.schema.as_deref(), copy.table.name.as_str()), (schema, table), "{text}");
        assert_eq!(
            copy.columns,
            columns.map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>()),
            "{text}"
        );
        assert_eq!(copy.obstacle, None, "{text}");
    }
}

#[test]
fn text_options_are_read() {
    let null = || r"\N".to_owned();
    for (options, expected) in [
        ("", (b'\t', null(), false, None)),
        ("with (format text)", (b'\t', null(), false, None)),
        ("(FORMAT 'text', DELIMITER '|', NULL 'x', HEADER)", (b'|', "x".to_owned(), true, None)),
        (
            r"with (delimiter E'\t', null E'\\N', header match, freeze, default '\D')",
            (b'\t', null(), true, Some(r"\D".to_owned())),
        ),
        ("WITH DELIMITER AS '|' NULL AS ''", (b'|', String::new(), false, None)),
        ("delimiter '|' null 'x'", (b'|', "x".to_owned(), false, None)),
        ("using delimiters ';' with null as 'x'", (b';', "x".to_owned(), false, None)),
        ("delimiters ';'", (b';', null(), false, None)),
        ("with (header off, encoding 'UTF-8')", (b'\t', null(), false, None)),
        ("with (header 1, freeze false, encoding latin1)", (b'\t', null(), true, None)),
        ("encoding 'EUC_JP' freeze", (b'\t', null(), false, None)),
        ("with (null $$x$$)", (b'\t', "x".to_owned(), false, None)),
    ] {
        assert_eq!(text_format(&format!("copy ev from stdin {options}")), expected, "{options}");
    }
}

#[test]
fn csv_options_are_read() {
    let csv = |delimiter, quote, escape, null: &str, header, force_null, force_not_null| CopyFormat::Csv {
        delimiter,
        quote,
        escape,
        null: null.into(),
        header,
        force_null,
        force_not_null,
        default: None,
    };
    let some = |names: &[&str]| ForceColumns::Some(names.iter().map(|&name| name.to_owned()).collect());
    let none = ForceColumns::None;
    for (options, expected) in [
        ("with (format csv)", csv(b',', b'"', b'"', "", false, none.clone(), none.clone())),
        ("csv header", csv(b',', b'"', b'"', "", true, none.clone(), none.clone())),
        (
            "with csv header quote as '''' delimiter ';'",
            csv(b';', b'\'', b'\'', "", true, none.clone(), none.clone()),
        ),
        (
            r#"WITH CSV QUOTE '"' ESCAPE AS '\' NULL 'n' FORCE NOT NULL a, b FORCE NULL c"#,
            csv(b',', b'"', b'\\', "n", false, some(&["c"]), some(&["a", "b"])),
        ),
        (
            "(format csv, force_null (a, \"B\"), force_not_null *, header true)",
            csv(b',', b'"', b'"', "", true, some(&["a", "B"]), ForceColumns::All),
        ),
        ("csv force not null *", csv(b',', b'"', b'"', "", false, none.clone(), ForceColumns::All)),
    ] {
        let copy = copied(&format!("copy ev from stdin {options}"));
        assert_eq!((copy.format, copy.obstacle), (expected, None), "{options}");
    }
}

#[test]
fn binary_is_read_in_every_place() {
    for text in [
        "copy ev from stdin binary",
        "copy ev from stdin with binary",
        "copy ev from stdin with (format binary)",
        "copy ev from stdin (format 'binary', freeze true)",
        "copy binary ev from stdin",
        "copy \"T\" ( \"id\" ) from stdin binary",
    ] {
        let copy = copied(text);
        assert_eq!((copy.format, copy.obstacle), (CopyFormat::Binary, None), "{text}");
    }
}

#[test]
fn what_changes_the_data_on_the_way_is_an_obstacle() {
    for options in [
        "where id > 1",
        "with (format csv) where id > 1",
        "csv where id > 1",
        "with (on_error ignore)",
        "with (format csv, log_verbosity verbose)",
        "with (reject_limit 3)",
        "with (encoding 'SJIS')",
        "encoding 'gb18030'",
        "with (encoding 'no such')",
        "with (delimiter 'ab')",
        "with (delimiter ',', )",
        "with (format xml)",
        "with (header 2)",
        "with (null U&'x')",
        "with (unheard_of)",
        "with (format csv) and more",
        "csv unheard of",
        "using csv",
    ] {
        assert!(copied(&format!("copy ev from stdin {options}")).obstacle.is_some(), "{options}");
    }
}

#[test]
fn other_copies_name_the_table_they_fill() {
    for (text, into) in [
        ("copy ev to stdout", Some(None)),
        ("copy ev (id) to '/tmp/x'", Some(None)),
        ("copy (select 1) to stdout", Some(None)),
        ("copy (values (1)) to program 'x'", Some(None)),
        ("copy ev from '/tmp/x' csv", Some(Some("ev"))),
        ("copy s.ev (id) from program 'x'", Some(Some("ev"))),
        ("copy (delete from ev returning *) to stdout", None),
        ("copy (with x as (delete from ev returning *) select * from x) to stdout", None),
        ("copy ((with x as (delete from ev returning *) select * from x)) to stdout", None),
        ("copy ev", None),
    ] {
        let found = match classify(text.as_bytes(), 0..text.len(), lex::Options::default()) {
            Statement::CopyOther { into } => Some(into.map(|name| name.name)),
            Statement::Unknown => None,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(found, into.map(|into| into.map(str::to_owned)), "{text}");
    }
}
