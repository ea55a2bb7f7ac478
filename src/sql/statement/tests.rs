//! What `statement` reads, as tables of cases and properties.

use super::*;
use crate::sql::insert::Source;
use crate::sql::split;
use proptest::prelude::*;

fn classified(text: &str) -> Statement {
    classify(text.as_bytes(), 0..text.len(), Options::default())
}

fn name(text: &str) -> Name {
    match text.split_once('.') {
        Some((schema, name)) => Name { schema: Some(schema.to_owned()), name: name.to_owned() },
        None => Name { schema: None, name: text.to_owned() },
    }
}

fn check(cases: &[(&str, Statement)]) {
    for (text, expected) in cases {
        assert_eq!(classified(text), *expected, "{text}");
    }
}

#[test]
fn transactions() {
    use Statement::{
        Begin, Commit, Harmless, PrepareTransaction, Release, Rollback, RollbackTo, Savepoint, Unknown,
    };
    check(&[
        ("begin", Begin),
        ("BEGIN WORK", Begin),
        ("/* c */ begin transaction isolation level repeatable read, read only not deferrable", Begin),
        ("BEGIN READ WRITE", Begin),
        ("start transaction isolation level serializable", Begin),
        ("start", Unknown),
        ("begin atomic", Unknown),
        ("commit", Commit { chain: false }),
        ("COMMIT WORK AND CHAIN", Commit { chain: true }),
        ("commit transaction and no chain", Commit { chain: false }),
        ("end", Commit { chain: false }),
        ("end and chain", Commit { chain: true }),
        ("commit nonsense", Unknown),
        ("commit prepared 'x'", Harmless),
        ("rollback prepared 'x'", Harmless),
        ("commit prepared", Unknown),
        ("rollback", Rollback { chain: false }),
        ("abort work", Rollback { chain: false }),
        ("ROLLBACK TRANSACTION AND CHAIN", Rollback { chain: true }),
        ("rollback and", Unknown),
        ("savepoint S1", Savepoint("s1".into())),
        ("SAVEPOINT \"S 1\"", Savepoint("S 1".into())),
        ("savepoint s1 s2", Unknown),
        ("savepoint", Unknown),
        ("rollback to savepoint s1", RollbackTo("s1".into())),
        ("ROLLBACK WORK TO \"S\"", RollbackTo("S".into())),
        ("rollback transaction to savepoint savepoint", RollbackTo("savepoint".into())),
        ("rollback to s1", RollbackTo("s1".into())),
        ("release savepoint s1", Release("s1".into())),
        ("release s1", Release("s1".into())),
        ("prepare transaction 'x'", PrepareTransaction),
        ("prepare transaction", Unknown),
    ]);
}

#[test]
fn settings() {
    use Statement::{Harmless, ResetAll, SetConstraints, SetRole, Unknown};
    let set = |local, name: &str, values: &[&str]| Statement::Set {
        local,
        name: name.into(),
        values: Some(values.iter().map(|&value| value.to_owned()).collect()),
    };
    let reset = |local, name: &str| Statement::Set { local, name: name.into(), values: None };
    check(&[
        (
            "set search_path to A, \"B\", 'c d', public",
            set(false, "search_path", &["a", "B", "c d", "public"]),
        ),
        ("SET SESSION Search_Path = ''", set(false, "search_path", &[""])),
        ("set local statement_timeout = 100", set(true, "statement_timeout", &["100"])),
        ("set local x.y to -1.5", set(true, "x.y", &["-1.5"])),
        ("SET LOCAL untwin.mode = 'observe'", set(true, "untwin.mode", &["observe"])),
        (r"set standard_conforming_strings = E'o\x66f'", set(false, "standard_conforming_strings", &["off"])),
        ("set x to on", set(false, "x", &["on"])),
        ("set x to default", reset(false, "x")),
        ("set local x = default", reset(true, "x")),
        ("set time zone 'Europe/Rome'", set(false, "timezone", &["Europe/Rome"])),
        ("set local time zone -3", set(true, "timezone", &["-3"])),
        ("set time zone interval '-08:00' hour to minute", set(false, "timezone", &["-08:00"])),
        ("set time zone local", reset(false, "timezone")),
        ("set names 'utf8'", set(false, "client_encoding", &["utf8"])),
        ("set names", reset(false, "client_encoding")),
        ("set names default", reset(false, "client_encoding")),
        ("set schema 'x'", set(false, "search_path", &["x"])),
        ("set local schema 'x'", set(true, "search_path", &["x"])),
        ("set xml option document", set(false, "xmloption", &["document"])),
        ("set role none", SetRole),
        ("set local role \"R\"", SetRole),
        ("set session role r", SetRole),
        ("set role = r", SetRole),
        ("set session authorization x", SetRole),
        ("set local session authorization default", SetRole),
        ("set session session authorization x", SetRole),
        ("set session characteristics as transaction read only", Harmless),
        ("set transaction isolation level serializable", Harmless),
        ("set constraints all deferred", Harmless),
        ("set constraints a.b, \"immediate\" deferred", Harmless),
        ("SET CONSTRAINTS a.b, c IMMEDIATE", SetConstraints),
        ("set x", Unknown),
        ("set x to", Unknown),
        ("set x to 1 2", Unknown),
        ("set x to U&'a'", Unknown),
        ("reset search_path", reset(false, "search_path")),
        ("reset X.Y", reset(false, "x.y")),
        ("reset time zone", reset(false, "timezone")),
        ("reset all", ResetAll),
        ("reset role", SetRole),
        ("reset session authorization", SetRole),
        ("reset", Unknown),
    ]);
}

#[test]
fn prepared_statements() {
    let text = "prepare p (uuid, numeric(3, 1)) as insert into t values ($1, $2)";
    check(&[
        (
            text,
            Statement::Prepare {
                name: "p".into(),
                types: vec!["uuid".into(), "numeric(3, 1)".into()],
                body: 35..text.len(),
            },
        ),
        ("prepare \"P\" as select 1", Statement::Prepare { name: "P".into(), types: vec![], body: 15..23 }),
        ("prepare p as", Statement::Unknown),
        ("execute p", Statement::Execute { name: "p".into(), arguments: vec![] }),
        (
            "EXECUTE p ( 'a,b' , f(1, 2), $1::uuid )",
            Statement::Execute { name: "p".into(), arguments: vec![12..17, 20..27, 29..37] },
        ),
        ("execute p (1", Statement::Unknown),
        ("deallocate p", Statement::Deallocate("p".into())),
        ("DEALLOCATE PREPARE p", Statement::Deallocate("p".into())),
        ("deallocate all", Statement::DeallocateAll),
        ("deallocate prepare all", Statement::DeallocateAll),
        ("deallocate \"all\"", Statement::Deallocate("all".into())),
        ("deallocate prepare", Statement::Deallocate("prepare".into())),
        ("deallocate", Statement::Unknown),
    ]);
}

#[test]
fn explain_runs_its_body_only_with_analyze() {
    for (text, analyze, body) in [
        ("explain select 1", false, "select 1"),
        ("EXPLAIN ANALYZE insert into t values (1)", true, "insert into t values (1)"),
        ("explain analyze verbose select 1", true, "select 1"),
        ("explain verbose select 1", false, "select 1"),
        ("explain (analyze, format json) select 1", true, "select 1"),
        ("explain (FORMAT json, ANALYZE false) select 1", false, "select 1"),
        ("explain (analyze off, verbose) select 1", false, "select 1"),
        ("explain (analyze 0) select 1", false, "select 1"),
        ("explain (analyze 'off') select 1", false, "select 1"),
        ("explain (analyze false, analyze true) select 1", true, "select 1"),
        ("explain (costs) (select 1)", false, "(select 1)"),
        ("explain (select 1)", false, "(select 1)"),
        ("explain analyze (select 1)", true, "(select 1)"),
        ("explain ((select 1))", false, "((select 1))"),
    ] {
        let at = text.len() - body.len();
        assert_eq!(classified(text), Statement::Explain { analyze, body: at..text.len() }, "{text}");
    }
    check(&[("explain", Statement::Unknown), ("explain (analyze", Statement::Unknown)]);
}

#[test]
fn changes_of_rows_and_schema() {
    use Statement::{Ddl, Delete, DiscardAll, DiscardOther, Fetch, Harmless, Merge, Opaque, Unknown, Update};
    let truncate = |tables: &[&str], cascade| Statement::Truncate {
        tables: tables.iter().map(|table| name(table)).collect(),
        cascade,
    };
    let created = |table: &str, temporary| Statement::CreateRelation { name: name(table), temporary };
    check(&[
        ("delete from T where id = 1", Delete(name("t"))),
        ("DELETE FROM ONLY s.t * AS x USING y", Delete(name("s.t"))),
        ("delete t", Unknown),
        ("update t set a = 1", Update { table: name("t"), columns: vec!["a".into()] }),
        ("merge into s.t using x on a = b when matched then delete", Merge(name("s.t"))),
        ("merge into only t as y using x on true when not matched then insert values (1)", Merge(name("t"))),
        ("truncate t", truncate(&["t"], false)),
        ("TRUNCATE TABLE ONLY a, s.b * RESTART IDENTITY CASCADE", truncate(&["a", "s.b"], true)),
        ("truncate a continue identity restrict", truncate(&["a"], false)),
        ("truncate a nonsense", Unknown),
        ("create table s.t (id uuid primary key)", created("s.t", false)),
        ("CREATE TEMP TABLE IF NOT EXISTS t AS SELECT 1", created("t", true)),
        ("create global temporary table t (a int) on commit drop", created("t", true)),
        ("create unlogged table t (a int)", created("t", false)),
        ("create table pg_temp.t (a int)", created("pg_temp.t", true)),
        ("create table t as with x as (select 1) select * from x", created("t", false)),
        ("create view v as select 1", created("v", false)),
        ("create temp sequence q", created("q", true)),
        ("create table t partition of p for values in (1)", Ddl),
        ("create table t (a int) inherits (p)", Ddl),
        ("create table t (a uuid references p)", Ddl),
        ("create or replace view v as select 1", Ddl),
        ("create index i on t (a)", Ddl),
        ("create materialized view v as select 1", Ddl),
        ("create table t as execute p", Unknown),
        ("create table t as with d as (delete from x returning *) select * from d", Unknown),
        ("create function f() returns int language sql begin atomic select 1; end", Ddl),
        ("alter table t add column a int", Ddl),
        ("drop table t", Ddl),
        ("grant select on t to x", Ddl),
        ("comment on table t is 'x'", Ddl),
        ("do $$begin end$$", Opaque),
        ("call p(1)", Opaque),
        ("fetch all from c", Fetch),
        ("move c", Fetch),
        ("discard all", DiscardAll),
        ("discard temp", DiscardOther),
        ("show search_path", Harmless),
        ("listen x", Harmless),
        ("lock table t", Harmless),
        ("declare c cursor for select 1", Harmless),
        ("vacuum t", Harmless),
        ("analyze", Harmless),
        ("load 'x'", Unknown),
        ("nonsense", Unknown),
        ("'x'", Unknown),
        ("a_very_long_word_that_is_no_keyword", Unknown),
        ("\"select\" 1", Unknown),
    ]);
}

#[test]
fn queries() {
    use Statement::{Empty, Select, Unknown};
    let created = |table: &str, temporary| Statement::CreateRelation { name: name(table), temporary };
    check(&[
        ("", Empty),
        (" -- nothing\n /* at all */", Empty),
        (";", Empty),
        ("select 1", Select),
        ("((select 1) union select 2)", Select),
        ("values (1)", Select),
        ("TABLE t", Select),
        ("with x as (select 1) select * from x", Select),
        ("with recursive x(a, b) as not materialized (values (1, 2)), y as (table z) (select 1)", Select),
        (
            "with x as (select 1) search depth first by a, b set c cycle a, b set d using e, y as (select 2) select 1",
            Select,
        ),
        ("select 1 as into, t.into from t", Select),
        ("select 'into x'", Select),
        ("select * into s.t from x", created("s.t", false)),
        ("select a into temp table T from x", created("t", true)),
        ("with x as (select 1) select * into unlogged t from x", created("t", false)),
        ("select 'open", Unknown),
        ("with x as (select 1", Unknown),
        ("with x as select 1", Unknown),
        ("with x", Unknown),
    ]);
}

#[test]
fn data_modifying_ctes() {
    let tables = |statement: &Statement| match statement {
        Statement::Insert(inserts) => {
            inserts.iter().map(|insert| insert.table.name.clone()).collect::<Vec<_>>().join(" ")
        }
        Statement::Mixed { inserts, deletes, updates, merges } => {
            let inserts = inserts.iter().map(|insert| format!("+{}", insert.table.name));
            let deletes = deletes.iter().map(|table| format!("-{}", table.name));
            let updates =
                updates.iter().map(|(table, columns)| format!("={}({})", table.name, columns.join(",")));
            let merges = merges.iter().map(|table| format!("~{}", table.name));
            inserts.chain(deletes).chain(updates).chain(merges).collect::<Vec<_>>().join(" ")
        }
        other => format!("{other:?}"),
    };
    for (text, expected) in [
        (
            "with p as (insert into par values ('K') returning id) insert into ch select 1, id from p",
            "par ch",
        ),
        ("with a as (insert into x values (1)), b as (insert into y values (2)) select 1", "x y"),
        ("(with a as (insert into x values (1) returning *) select * from a)", "x"),
        ("with i as (select 1) insert into t values (1)", "t"),
        ("with a as (with b as (select 1) insert into x select * from b) select 1", "x"),
        ("with d as (delete from a returning *) insert into b select * from d", "+b -a"),
        (
            "with u as (update a set v = 1, w = 2 where x returning *), i as (insert into b values (1)) merge into c using u on true when matched then do nothing",
            "+b =a(v,w) ~c",
        ),
        ("with d as (delete from a), e as (delete from b) select 1", "-a -b"),
        ("with x as (select 1) delete from a", "Delete(Name { schema: None, name: \"a\" })"),
        ("with i as (insert into a values (1) returning *) select * into b from i", "Unknown"),
        ("with i as (insert into 'a' values (1)) select 1", "Unknown"),
    ] {
        assert_eq!(tables(&classified(text)), expected, "{text}");
    }
}

#[test]
fn the_shape_of_postgrest() {
    let text = r#"WITH pgrst_source AS (INSERT INTO "api"."ev"("id", "v") SELECT "pgrst_body"."id", "pgrst_body"."v" FROM (SELECT $1 AS json_data) pgrst_payload, LATERAL (SELECT "id", "v" FROM json_to_recordset(pgrst_payload.json_data) AS _("id" uuid, "v" text) ) pgrst_body RETURNING "api"."ev".*) SELECT '' AS total_result_set, pg_catalog.count(_postgrest_t) AS page_total FROM (SELECT "ev".* FROM "pgrst_source" AS "ev") _postgrest_t"#;
    let Statement::Insert(inserts) = classified(text) else { panic!("not inserts") };
    assert!(
        matches!(&inserts[..], [insert] if matches!(insert.source, Source::Json { .. }) && insert.returning.is_some())
    );
}

#[test]
fn positions_count_from_the_start_of_the_whole_text() {
    let text = b"begin; insert into t values ('K') returning id; commit";
    let mut statements = split::statements(text, Options::default());
    let range = statements.nth(1).unwrap();
    let Statement::Insert(inserts) = classify(text, range, Options::default()) else { panic!("no insert") };
    let Source::Values { rows } = inserts[0].source.clone() else { panic!("no values") };
    assert_eq!(&text[rows], b"('K')");
    assert_eq!(&text[inserts[0].returning.clone().unwrap()], b"id");
}

#[test]
fn a_semicolon_at_the_end_changes_nothing() {
    for text in [
        "begin",
        "commit and chain",
        "release savepoint",
        "savepoint s",
        "rollback to s",
        "set x to a, b",
        "reset all",
        "deallocate all",
        "execute p (1, 2)",
        "discard all",
        "truncate a, b cascade",
        "delete from t",
        "update t set a = 1, b = 2",
        "select 1",
        "select 1 into x",
        "copy t from stdin csv header",
        "copy t (a) from stdin with (format csv)",
        "insert into t values (1), ('2')",
        "insert into t (a) select $1",
        "insert into t select * from unnest($1::uuid[])",
        "insert into t values (1) on conflict (a) do update set b = 1",
        "insert into t values (1) returning a, b",
        "insert into t default values",
        "with x as (insert into t values (1)) select 1",
        "create temp table t (a int)",
    ] {
        for end in [";", " ; ", ";;", "; -- done", ";\n/* done; */ ;"] {
            assert_eq!(classified(&format!("{text}{end}")), classified(text), "{text}{end}");
        }
        assert_ne!(classified(text), Statement::Unknown, "{text}");
    }
}

#[test]
fn no_text_takes_more_than_linear_time() {
    let begins = [
        "",
        "select ",
        "insert into t values (",
        "insert into t select * from unnest(",
        "with x as (",
        "copy t from stdin ",
    ];
    let repeated = [
        "+",
        ";",
        "(",
        "((",
        "'a''",
        "'a' ",
        "'a'\n",
        "$a",
        "$a$",
        "\"",
        "/*",
        "--",
        "[",
        ",",
        "(1),",
        "a.",
        "::uuid",
        "case ",
        "not ",
        "union all select 1 ",
        "x as (select 1), ",
        "on ",
        "as ",
    ];
    let start = std::time::Instant::now();
    for begin in begins {
        for piece in repeated {
            let text = format!("{begin}{} x", piece.repeat(20_000));
            survives(text.as_bytes(), true);
        }
    }
    // Some ten seconds for each text if anything were quadratic.
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

/// Pieces that statements are made of.
fn soup() -> impl Strategy<Value = String> {
    let words = "insert into values select from where with as on conflict do nothing update set delete merge returning \
        unnest ( ) ( ) [ ] , , . ; :: = * t a b 'x' '' $1 $2 1 null default uuid text array json_to_recordset \
        jsonb_array_elements json_populate_recordset e ->> -> 'id' \" ' $$ -- /* */ copy stdin begin atomic end case \
        create table function prepare execute explain analyze all union order by lateral rows ordinality cast only \
        truncate cascade temp search_path to csv header force not declare \u{fc}";
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).chain(["\n".to_owned()]).collect();
    proptest::collection::vec(proptest::sample::select(words), 0..40).prop_map(|words| words.join(" "))
}

fn survives(text: &[u8], on: bool) {
    let options = Options { standard_conforming_strings: on };
    for range in split::statements(text, options) {
        let _ = classify(text, range, options);
    }
    let _ = classify(text, 0..text.len(), options);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_classified(text: Vec<u8>, on: bool) {
        survives(&text, on);
    }

    #[test]
    fn any_words_are_classified(text in soup(), start in 0usize..8, on: bool) {
        let starts = ["", "insert into t ", "insert into t select ", "with x as (", "copy t from stdin ", "set ", "insert into t select * from unnest(", "explain "];
        survives(format!("{}{text}", starts[start]).as_bytes(), on);
    }
}
