//! What `select` reads, as tables of cases and properties.

use super::*;
use crate::sql::insert::{Cast, Document};
use crate::sql::lex::Options;
use crate::sql::statement::{Statement, classify};

/// The source of the INSERT with this text after the table's name.
fn source_of(text: &str) -> (String, Source) {
    let text = format!("insert into ev {text}");
    match classify(text.as_bytes(), 0..text.len(), Options::default()) {
        Statement::Insert(mut inserts) if inserts.len() == 1 => (text, inserts.remove(0).source),
        other => panic!("{text}: {other:?}"),
    }
}

/// Outputs in short: `0`, `1:Uuid` for columns, the text of constants, `?` for expressions.
fn shown(text: &str, outputs: &[Output]) -> String {
    let show = |output: &Output| match output {
        Output::Column { index, cast: Cast::None } => index.to_string(),
        Output::Column { index, cast } => format!("{index}:{cast:?}"),
        Output::Constant(cell) => text[cell.range.clone()].to_owned(),
        Output::Other => "?".to_owned(),
    };
    outputs.iter().map(show).collect::<Vec<_>>().join(" ")
}

fn shown_array(text: &str, array: &Array) -> String {
    match array {
        Array::Param(number) => format!("${number}"),
        Array::Literal(range) => text[range.clone()].to_owned(),
        Array::Elements(cells) => {
            let cells = cells.iter().map(|cell| format!("{}:{:?}", &text[cell.range.clone()], cell.cast));
            format!("[{}]", cells.collect::<Vec<_>>().join(","))
        }
        Array::Other => "?".to_owned(),
    }
}

#[test]
fn selects_without_from_are_rows() {
    for (text, expected) in [
        ("select $1, 'a'", "Param(1) String"),
        ("SELECT ALL $1::uuid AS id, now() as t, 1 n", "Param(1) Other Other"),
        (
            "select $1, $2 union all select $3, null UNION ALL SELECT 'x', default",
            "Param(1) Param(2) / Param(3) Null / String Default",
        ),
        ("(select $1, (select x from y))", "Param(1) Other"),
        ("select coalesce($1, $2), case when $3 then 1 else 2 end", "Other Other"),
        ("select 'a' as \"from\", 1 as select", "String Number"),
    ] {
        let (text, source) = source_of(text);
        let Source::Selects { rows } = source else { panic!("{text}: {source:?}") };
        let rows = rows
            .iter()
            .map(|row| row.iter().map(|cell| format!("{:?}", cell.kind)).collect::<Vec<_>>().join(" "));
        assert_eq!(rows.collect::<Vec<_>>().join(" / "), expected, "{text}");
    }
}

#[test]
fn arrays_are_followed_to_the_columns_they_feed() {
    for (text, arrays, outputs) in [
        ("select * from unnest($1::uuid[], $2::text[])", "$1 $2", "0 1"),
        ("SELECT * FROM UNNEST($1::uuid[], $2::int[]) AS t(a, b)", "$1 $2", "0 1"),
        ("select b, a::text from unnest($1::uuid[], $2::int[]) t(a, b)", "$1 $2", "1 0:Text"),
        ("select t.a, t.* from pg_catalog.unnest($1, $2) as t(a, b)", "$1 $2", "0 0 1"),
        ("select id, now(), 5, $3::int from unnest($1::uuid[]) as id", "$1", "0 ? 5 $3"),
        ("select u.id from unnest($1::uuid[]) as u(id)", "$1", "0"),
        ("select unnest from unnest($1::uuid[])", "$1", "0"),
        ("select unnest($1::uuid[]), unnest($2::text[]), 7", "$1 $2", "0 1 7"),
        ("select unnest($1)::uuid, pg_catalog.unnest($2) as v", "$1 $2", "0:Uuid 1"),
        ("select * from rows from (unnest($1::uuid[]), unnest($2::int[])) as t(a, b)", "$1 $2", "0 1"),
        (
            "select a, ord from unnest($1::uuid[], $2::int[]) with ordinality as t(a, b, ord) order by ord",
            "$1 $2",
            "0 ?",
        ),
        ("select * from unnest($1::uuid[]) with ordinality", "$1", "0 ?"),
        (
            "select a, b from unnest($1::uuid[], $2::int[]) as t(a, b) order by b desc nulls last, 2",
            "$1 $2",
            "0 ?",
        ),
        (
            "select a, b as c, c as b from unnest($1::uuid[], $2::int[], $3::int[]) as t(a, b, c) order by b",
            "$1 $2 $3",
            "0 1 ?",
        ),
        ("select a, b from unnest($1::uuid[], $2::int[]) as t(a, b) order by 1", "$1 $2", "? 1"),
        (
            "select * from unnest(('{x,y}'::uuid[])::uuid[], ('{1,2}'::int4[])::integer[], ( E'{\"a''\"}')::text[])",
            "x,y 1,2 ?",
            "0 1 2",
        ),
        (
            "select * from unnest((array['x'::uuid,'y'])::uuid[], ARRAY[1, f(2)]::int[], array[]::text[])",
            "[x:Uuid,y:Uuid] [1:Other,f(2):Other] []",
            "0 1 2",
        ),
        (
            "select * from unnest('{a,it''s}'::text[], '{b'\n'}'::text[], E'{a\\b}'::text[], U&'{a}'::text[])",
            "a,it''s ? ? ?",
            "0 1 2 3",
        ),
        ("select * from unnest(array['x','y'])", "[x:None,y:None]", "0"),
        (
            "select * from unnest($1::text[]::uuid[], $2::uuid[]::text[], $3::varchar(9)[], $4::int[], $5::timestamp with time zone[])",
            "$1 ? ? $4 $5",
            "0 1 2 3 4",
        ),
        // A composite type would have several columns, which makes the names after it uncertain.
        ("select id, v from unnest($1::uuid[], $2::mood[], $3::text[]) as t(id, m, v)", "$1 ? $3", "0 ?"),
        ("select id, lower(v) from unnest($1::uuid[], $2::text[]) as t(id, v)", "$1 $2", "0 ?"),
        ("(id, v, w) select * from unnest($1::uuid[], $2::mood[], $3::text[])", "$1 ? $3", "0 1 2"),
        ("select (id)::uuid, cast(v as text) from unnest($1, $2) as t(id, v)", "$1 $2", "0:Uuid 1:Text"),
    ] {
        let (text, source) = source_of(text);
        let Source::Unnest { arrays: found, outputs: columns } = source else { panic!("{text}: {source:?}") };
        let found = found.iter().map(|array| shown_array(&text, array).trim_matches(['{', '}']).to_owned());
        assert_eq!(found.collect::<Vec<_>>().join(" "), arrays, "{text}");
        assert_eq!(shown(&text, &columns), outputs, "{text}");
    }
}

#[test]
fn values_in_from_are_followed_to_the_columns_they_feed() {
    for (text, rows, outputs) in [
        (
            "(id, v) SELECT p0::UUID, p1::VARCHAR FROM (VALUES ('x'::uuid, 'a', 0), ('y', 'b', 1)) AS imp_sen(p0, p1, sen_counter) ORDER BY sen_counter RETURNING id",
            "('x'::uuid, 'a', 0), ('y', 'b', 1)",
            "0:Uuid 1:Text",
        ),
        ("select * from (values ($1, $2), ($3, $4)) t", "($1, $2), ($3, $4)", "0 1"),
        ("select column2, t.column1 from (values ($1, $2)) as t", "($1, $2)", "1 0"),
        ("select b, 'k', a from ( values ($1, $2) ) t (a, b)", "($1, $2)", "1 k 0"),
        ("select a, b from (values ($1, $2)) t (a, b) order by t.b", "($1, $2)", "0 ?"),
        ("select * from (values ($1, $2))", "($1, $2)", "0 1"),
    ] {
        let (text, source) = source_of(text);
        let Source::DerivedValues { rows: range, outputs: columns } = source else {
            panic!("{text}: {source:?}")
        };
        assert_eq!(&text[range], rows, "{text}");
        assert_eq!(shown(&text, &columns), outputs, "{text}");
    }
}

#[test]
fn documents_are_followed_to_the_columns_their_members_feed() {
    for (text, document, members, outputs) in [
        (
            "select id, v from jsonb_to_recordset($1) as x(id uuid, n int, v text)",
            "$1",
            "id n v",
            "0:Uuid 2:Text",
        ),
        (
            "select * from json_to_recordset('[{}]'::json) x (\"Id\" uuid, v varchar(3))",
            "[{}]",
            "Id v",
            "0:Uuid 1:Other",
        ),
        ("select x.* from json_to_recordset($1::text::json) as x(a uuid)", "$1", "a", "0:Uuid"),
        (
            "select * from json_to_recordset('[{\"v\": \"it''s\"}]') as x(v text)",
            "[{\"v\": \"it''s\"}]",
            "v",
            "0:Text",
        ),
        ("select * from json_populate_recordset(null::ev, $1)", "$1", "", ""),
        (
            "select v, id::text from jsonb_populate_recordset(NULL::public.ev, $1::jsonb) as r",
            "$1",
            "v id",
            "0 1:Text",
        ),
        ("(a, b) select r.id, now() from json_populate_recordset(null::ev, $1) r", "$1", "id now", "0 ?"),
        (
            "select (e->>'id')::uuid, e->>'v', (e->'n')::int from jsonb_array_elements($1) as e",
            "$1",
            "id v n",
            "0:Uuid 1 ?",
        ),
        ("select (value ->> 'id')::uuid, 1 from json_array_elements($1::json)", "$1", "id", "0:Uuid 1"),
        (
            "select (j.e->>'id')::uuid, ord from jsonb_array_elements($1) with ordinality as j(e, ord) order by ord",
            "$1",
            "id",
            "0:Uuid ?",
        ),
        (
            "(id, v) select id, \"v\" from (select $1 as json_data) pgrst_payload, lateral (select \"id\", \"v\" from json_to_recordset(pgrst_payload.json_data) as _(\"v\" text, \"id\" uuid)) pgrst_body returning 1",
            "$1",
            "v id",
            "1:Uuid 0:Text",
        ),
        (
            "(id) select \"pgrst_body\".\"id\" from (select '[1]'::json as json_data) pgrst_payload, lateral (select id from json_to_recordset(pgrst_payload.json_data) as _(id uuid)) pgrst_body",
            "[1]",
            "id",
            "0:Uuid",
        ),
    ] {
        let (text, source) = source_of(text);
        let Source::Json { document: found, members: names, outputs: columns } = source else {
            panic!("{text}: {source:?}")
        };
        let found = match found {
            Document::Param(number) => format!("${number}"),
            Document::Literal(range) => text[range].to_owned(),
            Document::Other => "?".to_owned(),
        };
        assert_eq!((found.as_str(), names.join(" ").as_str()), (document, members), "{text}");
        assert_eq!(shown(&text, &columns), outputs, "{text}");
    }
}

#[test]
fn what_may_change_the_rows_or_read_the_key_is_refused() {
    for (text, reason) in [
        ("select * from other", "FROM a table"),
        ("select $1, $2 where not exists (select 1 from ev where id = $1)", "WHERE"),
        ("select $1 limit 1", "LIMIT"),
        ("select $1 union select $2", "UNION"),
        ("select $1 union all select $2 order by 1", "ORDER BY"),
        ("select $1 union all select id from other", "FROM"),
        ("select $1 except select $2", "EXCEPT"),
        ("select distinct $1", "DISTINCT"),
        ("select distinct * from unnest($1::uuid[])", "DISTINCT"),
        ("select $1, generate_series(1, 3)", "function in the select list"),
        ("select $1, mine($2)", "function in the select list"),
        ("select $1, public.now()", "function in the select list"),
        ("select * from unnest($1::uuid[]) as t(a) where a is not null", "WHERE"),
        ("select a from unnest($1::uuid[]) as t(a) group by a", "GROUP BY"),
        ("select a from unnest($1::uuid[]) as t(a) limit 5", "LIMIT"),
        ("select a from unnest($1::uuid[]) as t(a) offset 5", "LIMIT"),
        ("select a from unnest($1::uuid[]) as t(a) fetch first row only", "LIMIT"),
        ("select a from unnest($1::uuid[]) as t(a) for update", "FOR UPDATE"),
        ("select a from unnest($1::uuid[]) as t(a) join b on b.x = a", "JOIN"),
        ("select a from unnest($1::uuid[]) as t(a) left join b using (a)", "JOIN"),
        ("select a from unnest($1::uuid[]) as t(a), b", "several FROM items"),
        ("select a from unnest($1::uuid[]) as t(a) union all select $2", "UNION"),
        ("select a from unnest($1::uuid[]) as t(a) order by lower(a)", "ORDER BY an expression"),
        ("select a from unnest($1::uuid[]) as t(a) order by a collate \"C\"", "not understood"),
        ("select a from unnest($1::uuid[]) as t(a) order by 1 + 1", "not understood"),
        ("select a, md5(a::text) from unnest($1::uuid[]) as t(a)", "column used twice"),
        (
            "select a, (select count from b where b.x = t.a) from unnest($1::uuid[]) as t(a)",
            "column used twice",
        ),
        ("select a, to_jsonb(t) from unnest($1::uuid[], $2::int[]) as t(a, b)", "row as a whole"),
        (
            "select a, row_number() over (order by a) from unnest($1::uuid[]) as t(a)",
            "function in the select list",
        ),
        ("select count(a) from unnest($1::uuid[]) as t(a)", "function in the select list"),
        ("select a, unnest($2) from unnest($1::uuid[]) as t(a)", "function in the select list"),
        ("select (r).* from unnest($1::ev[]) as r", "row as a whole"),
        ("select * from unnest($1::ev[])", "array of an unknown type"),
        ("select * from unnest($1::uuid[], $2::mood[], $3::text[])", "array of an unknown type"),
        ("select * from unnest(array[[1,2],[3,4]])", "array of an unknown type"),
        ("select $1, (select max(x) from y)", "function in the select list"),
        ("select * from public.unnest($1)", "FROM a function"),
        ("select * from generate_series(1, 3)", "FROM a function"),
        ("select * from rows from (unnest($1), generate_series(1, 3))", "ROWS FROM"),
        ("select * from only ev", "FROM a table"),
        ("select * from (select * from other) x", "FROM a subquery"),
        ("select * from (values (1), (2) limit 1) x", "VALUES with more"),
        ("select * from json_populate_recordset(null::other, $1)", "another row type"),
        ("(id, v) select * from json_populate_recordset(null::ev, $1)", "* of a table's columns"),
        ("select (e->>'id')::uuid, e from jsonb_array_elements($1) as e", "document as a whole"),
        (
            "select (e->>'id')::uuid, to_jsonb(e.value) from jsonb_array_elements($1) as e",
            "document as a whole",
        ),
        ("select (e->>'id')::uuid, md5(e->>'id') from jsonb_array_elements($1) as e", "column used twice"),
        ("select id from json_to_recordset(f($1)) as x(id uuid)", "document"),
        ("with x as (select 1) select * from x", "WITH"),
        ("table other", "TABLE"),
        ("select $1 is distinct from $2", "select list"),
        ("select $1 into x", "INTO"),
        ("((select 1) union all (select 2))", "UNION"),
    ] {
        let (text, source) = source_of(text);
        let refused = match source {
            Source::Uninspected(found) => found,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(refused, reason, "{text}");
    }
}
