//! What `insert` reads, as tables of cases and properties.

use super::*;
use crate::sql::lex::Options;
use crate::sql::statement::{Statement, classify};

/// The one INSERT that the text is.
fn parsed(text: &str) -> Insert {
    match classify(text.as_bytes(), 0..text.len(), Options::default()) {
        Statement::Insert(mut inserts) if inserts.len() == 1 => inserts.remove(0),
        other => panic!("{text}: {other:?}"),
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn the_head_names_table_alias_and_columns() {
    for (text, schema, table, alias, columns) in [
        ("insert into ev values (1)", None, "ev", None, None),
        ("INSERT INTO Ev(ID, v)VALUES(1,2)", None, "ev", None, Some(vec!["id", "v"])),
        ("insert into \"S\".\"T\" as x (\"Id\") values (1)", Some("S"), "T", Some("x"), Some(vec!["Id"])),
        ("insert into db.s.t (values) values (1)", Some("s"), "t", None, Some(vec!["values"])),
        (
            "insert /* c */ into t -- x\n (a[1], b.c, d) overriding system value values (1, 2, 3)",
            None,
            "t",
            None,
            Some(vec!["a", "b", "d"]),
        ),
        ("insert into t default values", None, "t", None, None),
        ("insert into t (values (1))", None, "t", None, None),
        ("insert into t (select 1)", None, "t", None, None),
        ("insert into t ((select 1))", None, "t", None, None),
    ] {
        let insert = parsed(text);
        assert_eq!(insert.table.schema.as_deref(), schema, "{text}");
        assert_eq!(insert.table.name, table, "{text}");
        assert_eq!(insert.alias.as_deref(), alias, "{text}");
        assert_eq!(insert.columns, columns.map(|columns| owned(&columns)), "{text}");
        assert!(!insert.overriding_user, "{text}");
    }
    assert!(parsed("insert into t overriding user value values (1)").overriding_user);
}

#[test]
fn rows_reach_from_the_first_parenthesis_to_the_last() {
    for (text, rows) in [
        ("insert into t values (1), (2)", "(1), (2)"),
        ("insert into t(a)values(')', '(''');", "(')', '(''')"),
        (
            "insert into t values (1) /* c */ , -- (3)\n (f(2, ')')) on conflict do nothing",
            "(1) /* c */ , -- (3)\n (f(2, ')'))",
        ),
        (
            "insert into t values ($1, array[1,2], '{\"a\":[1]}'::jsonb) returning id",
            "($1, array[1,2], '{\"a\":[1]}'::jsonb)",
        ),
        ("insert into t (values (1), (2))", "(1), (2)"),
        ("insert into t ((values (1)))", "(1)"),
    ] {
        let text_part = text.trim_end_matches(';');
        match parsed(text_part).source {
            Source::Values { rows: range } => assert_eq!(&text[range], rows, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn what_follows_the_rows_must_be_a_tail() {
    for text in [
        "insert into t values (1) union all values (2)",
        "insert into t values (1) order by 1",
        "insert into t values (1), (2) limit 1",
        "insert into t values (1) offset 1",
        "insert into t values (1),",
        "insert into t values",
        "insert into t values (1",
        "insert into t values ('a)",
        "insert into t values ()",
        "insert into t values (1,)",
        "insert into t values (1 ])",
        "insert into t values (1) (2)",
        "insert into t (values (1) limit 1)",
        "insert into t (values (1)) limit 1",
        "insert into t values (generate_series(1, 3), $1)",
    ] {
        let statement = classify(text.as_bytes(), 0..text.len(), Options::default());
        let followed = match &statement {
            Statement::Insert(inserts) => {
                !matches!(inserts[..], [Insert { source: Source::Uninspected(_), .. }])
            }
            other => *other != Statement::Unknown,
        };
        assert!(!followed, "{text}: {statement:?}");
    }
    // In several rows the server refuses a set, so that it is none.
    assert!(matches!(
        parsed("insert into t values (f(1)), (generate_series(1, 2))").source,
        Source::Values { .. }
    ));
}

#[test]
fn conflict_and_returning_are_read() {
    let update = |columns: &[&str]| Some(Conflict::Update(owned(columns)));
    for (tail, conflict, returning) in [
        ("", None, None),
        ("on conflict do nothing", Some(Conflict::Nothing), None),
        ("ON CONFLICT (id) DO NOTHING RETURNING *", Some(Conflict::Nothing), Some("*")),
        ("on conflict on constraint c do update set v = excluded.v, \"N\" = 1", update(&["v", "N"]), None),
        (
            "on conflict (id) where a > 1 do update set (v, w) = (1, 2) where t.v is distinct from 'x' returning id, v as x",
            update(&["v", "w"]),
            Some("id, v as x"),
        ),
        ("on conflict (id) do update set a is odd", update(&[]), None),
        ("on conflict (id) do select returning id", update(&[]), Some("id")),
        ("returning t.id", None, Some("t.id")),
    ] {
        for source in ["values (1)", "select 1", "default values"] {
            let text = format!("insert into t {source} {tail}");
            let insert = parsed(&text);
            assert_eq!(insert.conflict, conflict, "{text}");
            assert_eq!(insert.returning.map(|range| text[range].to_owned()).as_deref(), returning, "{text}");
            assert!(!matches!(insert.source, Source::Uninspected(_)), "{text}");
        }
    }
}
