//! What gives a name, a value or a function another meaning behind the back of a proxy: everything must come out as without one.

use crate::freed::{EV, K, ROWS, Step, TWO, expect_same, insert, insert_into, play};
use crate::support::message::{self, Value};
use crate::support::{Database, Proxy, cluster};
use Step::{Bytes, Sql};

const FREE: &str = "CREATE FUNCTION free() RETURNS text LANGUAGE plpgsql VOLATILE AS 'begin delete from ev; return ''x''; end';
    CREATE FUNCTION freed(text) RETURNS bool LANGUAGE plpgsql VOLATILE AS 'begin delete from ev; return true; end';";

const OF_BOTH: &str = "SELECT 'a', * FROM a.ev UNION ALL SELECT 'b', * FROM b.ev ORDER BY 1, 3";

fn query(text: impl AsRef<str>) -> Step {
    Bytes(message::query(text.as_ref().replace("{K}", K)))
}

/// Statements one by one.
fn queries(texts: &[&str]) -> Vec<Step> {
    texts.iter().map(query).collect()
}

/// The transaction in which two statements use the key.
const IN_ONE: &[&str] = &["INSERT INTO ev (id, v) VALUES ('{K}', 'a'), ('{K}', 'b')"];

#[test]
fn a_row_that_its_own_table_makes_room_for_is_no_twin() {
    let cases = [
        ("a default", "ALTER TABLE ev ADD w text DEFAULT free()"),
        ("a default of a domain", "CREATE DOMAIN d AS text DEFAULT free(); ALTER TABLE ev ADD w d"),
        ("a CHECK", "ALTER TABLE ev ADD CHECK (freed(v))"),
        ("a CHECK of a domain", "CREATE DOMAIN d AS text CHECK (freed(VALUE)); ALTER TABLE ev ALTER v TYPE d"),
        (
            "a CHECK of a domain over a domain in an array",
            "CREATE DOMAIN d AS text CHECK (freed(VALUE)); CREATE DOMAIN e AS d; ALTER TABLE ev ADD w e[] DEFAULT '{x}'",
        ),
        (
            "a CHECK of a domain in a composite type",
            "CREATE DOMAIN d AS text CHECK (freed(VALUE)); CREATE TYPE c AS (x d); ALTER TABLE ev ADD w c DEFAULT '(x)'",
        ),
        (
            "a generated column",
            "CREATE FUNCTION sly(text) RETURNS bool LANGUAGE sql IMMUTABLE AS 'select public.freed($1)';
             ALTER TABLE ev ADD w bool GENERATED ALWAYS AS (sly(v)) STORED",
        ),
        (
            "an index on an expression",
            "CREATE FUNCTION sly(text) RETURNS bool LANGUAGE sql IMMUTABLE AS 'select public.freed($1)'; CREATE INDEX ON ev (sly(v))",
        ),
        (
            "a partial index",
            "CREATE FUNCTION sly(text) RETURNS bool LANGUAGE sql IMMUTABLE AS 'select public.freed($1)'; CREATE INDEX ON ev (v) WHERE sly(v)",
        ),
        (
            "an operator of a CHECK",
            "CREATE FUNCTION is_freed(text, text) RETURNS bool LANGUAGE sql AS 'select freed($1)';
             CREATE OPERATOR === (FUNCTION = is_freed, LEFTARG = text, RIGHTARG = text); ALTER TABLE ev ADD CHECK (v === 'x')",
        ),
        (
            "a WHEN of a trigger",
            "CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS 'begin return new; end';
             CREATE TRIGGER t BEFORE INSERT ON ev FOR EACH ROW WHEN (freed(NEW.v)) EXECUTE FUNCTION t()",
        ),
        (
            "a function that only calls another",
            "CREATE FUNCTION calls() RETURNS text LANGUAGE sql STABLE AS 'select free()'; ALTER TABLE ev ADD w text DEFAULT calls()",
        ),
        (
            "a function that inserts where a trigger frees",
            "CREATE TABLE q (a int); CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS 'begin delete from ev; return new; end';
             CREATE TRIGGER t BEFORE INSERT ON q FOR EACH ROW EXECUTE FUNCTION t();
             CREATE FUNCTION queue() RETURNS text LANGUAGE sql AS 'insert into q values (1) returning a::text';
             ALTER TABLE ev ADD w text DEFAULT queue()",
        ),
        (
            "a function with a parsed body",
            "CREATE FUNCTION calls() RETURNS text LANGUAGE sql STABLE RETURN free(); ALTER TABLE ev ADD w text DEFAULT calls()",
        ),
    ];
    for (name, tables) in cases {
        expect_same(name, &format!("{EV} {FREE} {tables}"), &queries(IN_ONE), ROWS);
    }
}

#[test]
fn a_row_that_a_policy_makes_room_for_is_no_twin() {
    let tables = format!(
        "{EV} {FREE} DO 'begin create role guest; exception when duplicate_object or unique_violation then end';
         ALTER TABLE ev ENABLE ROW LEVEL SECURITY; ALTER FUNCTION freed(text) SECURITY DEFINER;
         GRANT ALL ON ev TO guest; GRANT USAGE ON SCHEMA public TO guest;
         CREATE POLICY p ON ev USING (true) WITH CHECK (freed(v))"
    );
    let steps = [
        vec![Sql("SET ROLE guest")],
        queries(&["INSERT INTO public.ev (id, v) VALUES ('{K}', 'a'), ('{K}', 'b')"]),
    ];
    expect_same("a policy", &tables, &steps.into_iter().flatten().collect::<Vec<_>>(), ROWS);
}

#[test]
fn a_table_whose_default_frees_nothing_is_protected() {
    let functions = "
        CREATE FUNCTION new_code() RETURNS text LANGUAGE plpgsql VOLATILE AS
            'begin return encode(uuid_send(gen_random_uuid()), ''hex''); end';
        CREATE FUNCTION code() RETURNS text LANGUAGE sql STABLE AS 'select new_code()';
        CREATE FUNCTION short(text) RETURNS bool LANGUAGE sql IMMUTABLE RETURN length($1) < 100;
        CREATE TABLE noted (at timestamptz);
        CREATE FUNCTION note() RETURNS text LANGUAGE sql VOLATILE AS 'insert into noted values (now()) returning at::text';
        CREATE TABLE ev (id uuid PRIMARY KEY, v text CHECK (short(v)), w text DEFAULT code(), x text DEFAULT note())";
    let database = Database::fresh(functions);
    let proxy = Proxy::before(&database);
    proxy.connect().run(&IN_ONE[0].replace("{K}", K));
    assert_eq!(database.stored("SELECT count(DISTINCT id) FROM ev"), ["2"]);
}

#[test]
fn a_function_that_is_not_volatile_may_call_one_that_is() {
    let between = |call: &'static str| {
        [vec![Sql("BEGIN"), insert("a")], vec![Sql(call)], vec![insert("b"), Sql("COMMIT")]]
            .into_iter()
            .flatten()
    };
    let cases = [
        ("STABLE", "CREATE FUNCTION f() RETURNS text LANGUAGE sql STABLE AS 'select free()'", "SELECT f()"),
        ("IMMUTABLE", "CREATE FUNCTION f() RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'begin return free(); end'", "SELECT f()"),
        (
            "dynamic",
            "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql STABLE AS $$begin execute 'select fr' || 'ee()'; end$$",
            "SELECT f()",
        ),
        (
            "two deep",
            "CREATE FUNCTION g() RETURNS text LANGUAGE sql STABLE AS 'select free()';
             CREATE FUNCTION f() RETURNS text LANGUAGE sql IMMUTABLE AS 'select public.g()'",
            "SELECT f()",
        ),
        (
            "by a view",
            "CREATE VIEW w AS SELECT free(); CREATE FUNCTION f() RETURNS text LANGUAGE sql STABLE AS 'table w'",
            "SELECT f()",
        ),
        (
            "by an aggregate",
            "CREATE FUNCTION g(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS 'select free()';
             CREATE AGGREGATE f (text) (SFUNC = g, STYPE = text)",
            "SELECT f('x')",
        ),
        ("a query as text", "", "SELECT query_to_xml('select free()', false, false, '')"),
        (
            "a cast",
            "CREATE TYPE c AS (x int); CREATE FUNCTION f(c) RETURNS text LANGUAGE sql IMMUTABLE AS 'select free()';
             CREATE CAST (c AS text) WITH FUNCTION f(c) AS ASSIGNMENT; CREATE TABLE t (x text)",
            "INSERT INTO t SELECT ROW(1)::c",
        ),
        (
            "a type's default in another table",
            "CREATE DOMAIN d AS text DEFAULT free(); CREATE TABLE t (a int, x d)",
            "INSERT INTO t (a) VALUES (1)",
        ),
    ];
    for (name, tables, call) in cases {
        if name == "a query as text" && cluster::shared().version() >= 180_000 {
            continue; // A server may be built without XML.
        }
        let steps: Vec<Step> = between(call).collect();
        expect_same(name, &format!("{EV} {FREE} {tables}"), &steps, ROWS);
    }
}

#[test]
fn what_is_called_by_a_trigger_or_default_may_move_the_path() {
    let twice = "INSERT INTO ev (id, v) VALUES ('{K}', 'a'), ('{K}', 'b')";
    let tables = "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE a.ev (id uuid PRIMARY KEY, v text); CREATE TABLE b.ev (id uuid, v text);
        CREATE TABLE public.q (a int);
        CREATE FUNCTION public.t() RETURNS trigger LANGUAGE plpgsql AS $$begin perform set_config('search_path', 'b, public', false); return new; end$$;
        CREATE TRIGGER t BEFORE INSERT ON q FOR EACH ROW EXECUTE FUNCTION t();
        CREATE FUNCTION public.f() RETURNS int LANGUAGE sql STABLE AS $$select length(set_config('search_path', 'b, public', false))$$;
        CREATE TABLE public.r (a int, b int DEFAULT f())";
    for moves in ["INSERT INTO q VALUES (1)", "INSERT INTO r VALUES (1)", "SELECT f()"] {
        let steps = queries(&["SET search_path = a, public", "BEGIN", moves, twice, "COMMIT"]);
        expect_same(moves, tables, &steps, OF_BOTH);
    }
}

/// Makes another table of the name between PREPARE and two uses of the key, which the bare server may refuse.
#[test]
fn a_prepared_statement_inserts_where_the_server_says() {
    let tables = "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE b.ev (id uuid, v text); CREATE TABLE a.other (); CREATE TABLE b.other ()";
    let keyed = "CREATE TABLE a.ev (id uuid PRIMARY KEY, v text)";
    let temporary = "CREATE TEMP TABLE ev (id uuid PRIMARY KEY, v text)";
    let changes: [&[&str]; 6] = [
        &[keyed],
        &[temporary],
        &["CREATE TEMP TABLE first (a int)", temporary],
        &[keyed, "SET search_path = b", "SET search_path = a, b"],
        &[keyed, "CREATE INDEX ON b.ev (v)"],
        &["ALTER TABLE b.ev RENAME TO was", "CREATE TABLE b.ev (id uuid PRIMARY KEY, v text)"],
    ];
    let bound = |v: &str| {
        let values = [Value::Text(K.into()), Value::Text(v.into())];
        Bytes([message::bind("", "s", &values), message::execute("", 0), message::sync()].concat())
    };
    let before = [
        "SET search_path = a, b",
        "CREATE TEMP TABLE zero (a int)",
        "PREPARE s (uuid, text) AS INSERT INTO ev (id, v) VALUES ($1, $2)",
    ];
    let first = "EXECUTE s ('22222222-2222-4222-8222-222222222222', 'w')";
    let mut compared = 0;
    for (change, executed_before) in changes.into_iter().flat_map(|change| [(change, false), (change, true)])
    {
        let by_text = queries(&["EXECUTE s ('{K}', 'a')", "EXECUTE s ('{K}', 'b')"]);
        for execute in [by_text, vec![bound("a"), bound("b")]] {
            let mut steps = queries(&before);
            steps.extend(executed_before.then(|| query(first)));
            steps.extend(queries(change));
            steps.push(Sql("BEGIN"));
            steps.extend(execute);
            steps.push(Sql("COMMIT"));
            let direct = Database::fresh(tables);
            let expected = play(&steps, &direct, || direct.connect(), "SELECT");
            if expected.iter().flatten().all(|outcome| outcome != "!23505") {
                let name = format!("{change:?}, executed before: {executed_before}");
                expect_same(&name, tables, &steps, "SELECT id, v FROM b.ev ORDER BY 1, 2");
                compared += 1;
            }
        }
    }
    assert!(compared >= 8, "{compared}");
}

#[test]
fn a_prepared_delete_frees_the_keys_of_the_table_it_was_prepared_for() {
    let tables = "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE b.ev (id uuid PRIMARY KEY, v text); CREATE TABLE a.other (); CREATE TABLE b.other ()";
    let steps = |execute: Vec<Step>| -> Vec<Step> {
        let before = [
            "SET search_path = a, b",
            "PREPARE d AS DELETE FROM ev",
            "CREATE TABLE a.ev (id uuid PRIMARY KEY, v text)",
            "SELECT 1",
            "BEGIN",
        ];
        queries(&before)
            .into_iter()
            .chain([insert_into("b.ev", "a")])
            .chain(execute)
            .chain([insert_into("b.ev", "b"), Sql("COMMIT")])
            .collect()
    };
    let bound = [message::bind("", "d", &[]), message::execute("", 0), message::sync()].concat();
    for execute in [vec![Sql("EXECUTE d")], vec![Bytes(bound)]] {
        expect_same("a prepared DELETE", tables, &steps(execute), "SELECT id, v FROM b.ev");
    }
}

#[test]
fn schemas_that_the_role_may_not_use_are_not_on_its_path() {
    let tables = "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE a.ev (id uuid PRIMARY KEY, v text); CREATE TABLE b.ev (id uuid, v text);
        DO 'begin create role guest; exception when duplicate_object or unique_violation then end';
        GRANT USAGE ON SCHEMA b TO guest; GRANT ALL ON ALL TABLES IN SCHEMA a, b TO guest;";
    let both = "INSERT INTO ev (id, v) VALUES ('{K}', 'a'), ('{K}', 'b')";
    let cases: [&[&str]; 9] = [
        &["SET ROLE guest", "SET search_path = a, b", both],
        &["SET SESSION AUTHORIZATION guest", "SET search_path = a, b", both],
        &["SET search_path = a, b", "SET ROLE guest", both],
        &["SET search_path = a, b", "BEGIN", "SET LOCAL ROLE guest", both, "COMMIT"],
        &["BEGIN", "SET LOCAL ROLE guest", "SET LOCAL search_path = a, b", both, "COMMIT"],
        &["SET ROLE guest", "BEGIN", "SET LOCAL search_path = a, b", both, "COMMIT"],
        &["SET ROLE guest", "SELECT 1", "BEGIN", "SET LOCAL search_path = a, b", both, "COMMIT"],
        &["SELECT set_config('role', 'guest', false)", "SET search_path = a, b", both],
        &["SET role = 'guest'", "SELECT set_config('search_path', 'a, b', false)", both],
    ];
    for case in cases {
        expect_same(&format!("{case:?}"), tables, &queries(case), OF_BOTH);
        let one = case.join("; ");
        expect_same(&one, tables, &queries(&[&one]), OF_BOTH);
    }
}

#[test]
fn statements_that_a_block_prepares_anew_are_not_taken_for_the_old_ones() {
    let tables = format!(
        "{EV} CREATE TABLE w (id uuid, v text);
         CREATE FUNCTION anew() RETURNS void LANGUAGE plpgsql AS $$begin
            execute 'deallocate s'; execute 'prepare s (uuid, text) as insert into w values ($1, $2)'; end$$;
         CREATE PROCEDURE anew_by_call() LANGUAGE plpgsql AS $$begin
            execute 'deallocate s'; execute 'prepare s (uuid, text) as insert into w values ($1, $2)'; end$$"
    );
    let block = "DO $$begin execute 'deallocate s'; execute 'prepare s (uuid, text) as insert into w values ($1, $2)'; end$$";
    for anew in [block, "SELECT anew()", "CALL anew_by_call()"] {
        let steps = queries(&[
            "PREPARE s (uuid, text) AS INSERT INTO ev (id, v) VALUES ($1, $2)",
            anew,
            "BEGIN",
            "EXECUTE s ('{K}', 'a')",
            "EXECUTE s ('{K}', 'b')",
            "COMMIT",
        ]);
        expect_same(anew, &tables, &steps, "SELECT id, v FROM w ORDER BY v");
    }
}

/// Observed twins die as without untwin, so long as the session has not really become less careful.
#[test]
fn a_mode_that_was_set_in_vain_does_not_hold() {
    let reset = |sql: &str| {
        [message::extended("SELECT 1/0", &[]), message::extended(sql, &[]), message::sync()].concat()
    };
    let undone = |sql: &str| {
        [message::extended(sql, &[]), message::extended("SELECT 1/0", &[]), message::sync()].concat()
    };
    let cases = [
        ("skipped", Bytes(reset("RESET untwin.mode"))),
        ("undone", Bytes(undone("RESET untwin.mode"))),
        ("skipped", Bytes(reset("SET untwin.mode = 'rewrite'"))),
        ("undone", Bytes(undone("SET untwin.mode = 'rewrite'"))),
        ("all", Bytes(undone("RESET ALL"))),
        ("discarded", Bytes(reset("DISCARD ALL"))),
        ("one message", Sql("RESET untwin.mode; SELECT 1/0")),
        ("one message, in vain", Sql("SELECT 1/0; RESET untwin.mode")),
        ("a value that is refused", Sql("BEGIN; SELECT 1/0; SET untwin.mode = 'rewrite'; COMMIT")),
    ];
    for (name, bytes) in cases {
        let end = if name.starts_with("a value") { Sql("ROLLBACK") } else { Sql("SELECT 1") };
        let steps = [Sql("SET untwin.mode = 'observe'"), bytes, end].into_iter().chain(queries(IN_ONE));
        expect_same(name, EV, &steps.collect::<Vec<_>>(), ROWS);
    }
}

#[test]
fn a_mode_that_was_undone_is_the_old_one_again() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    let undone = [
        message::extended("SET untwin.mode = 'observe'", &[]),
        message::extended("SELECT 1/0", &[]),
        message::sync(),
    ];
    wire.converse(&undone.concat(), 1);
    wire.query("SELECT 1");
    wire.run(&IN_ONE[0].replace("{K}", K));
    assert_eq!(database.stored("SELECT count(DISTINCT id) FROM ev"), ["2"]);
}

#[test]
fn a_path_that_was_undone_is_the_old_one_again() {
    let undone = [
        message::extended("SET search_path = b", &[]),
        message::extended("SELECT 1/0", &[]),
        message::sync(),
    ];
    let steps = [
        Sql("SET search_path = a"),
        Bytes(undone.concat()),
        Sql("BEGIN"),
        insert_into("a.ev", "a"),
        Sql("DELETE FROM ev"),
        insert_into("a.ev", "b"),
        Sql("COMMIT"),
    ];
    expect_same("a path", TWO, &steps, OF_BOTH);
}

#[test]
fn a_mode_that_does_not_exist_is_warned_about_once() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    wire.run("SET untwin.mode = 'obsrve'");
    wire.run("SET untwin.mode = 'obsrve'");
    wire.run("SELECT 1");
    let warnings = || {
        proxy
            .stderr()
            .lines()
            .filter(|line| line.contains("untwin.mode"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert!(crate::support::eventually(|| !warnings().is_empty()), "{}", proxy.stderr());
    let warnings = warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for value in ["rewrite", "strict", "observe"] {
        assert!(warnings[0].contains(value), "{warnings:?}");
    }
    assert!(!warnings[0].contains("obsrve"));
}

/// Text that comes to mean another value.
#[test]
fn equal_text_is_an_equal_value_only_while_it_is_read_alike() {
    let stamp = "CREATE TABLE ev (id uuid, t timestamptz, PRIMARY KEY (id, t))";
    let row = "INSERT INTO ev VALUES ('{K}', '2024-03-04 05:06:07')";
    let cases: &[(&str, &str, &[&str])] = &[
        ("TimeZone", stamp, &["BEGIN", row, "SET TimeZone = 'Asia/Tokyo'", row, "COMMIT"]),
        ("SET LOCAL", stamp, &["BEGIN", row, "SET LOCAL TIME ZONE 'Asia/Tokyo'", row, "COMMIT"]),
        (
            "set_config",
            stamp,
            &["BEGIN", row, "SELECT set_config('TimeZone', 'Asia/Tokyo', true)", row, "COMMIT"],
        ),
        ("RESET", stamp, &["SET TimeZone = 'Asia/Tokyo'", "BEGIN", row, "RESET TimeZone", row, "COMMIT"]),
        (
            "abbreviations",
            stamp,
            &[
                "BEGIN",
                "INSERT INTO ev VALUES ('{K}', '2024-03-04 05:06:07 EST')",
                "SET timezone_abbreviations = 'Australia'",
                "INSERT INTO ev VALUES ('{K}', '2024-03-04 05:06:07 EST')",
                "COMMIT",
            ],
        ),
        (
            "DateStyle",
            "CREATE TABLE ev (id uuid, t date, PRIMARY KEY (id, t))",
            &[
                "BEGIN",
                "INSERT INTO ev VALUES ('{K}', '03/04/2024')",
                "SET DateStyle = 'ISO, DMY'",
                "INSERT INTO ev VALUES ('{K}', '03/04/2024')",
                "COMMIT",
            ],
        ),
        (
            "IntervalStyle",
            "CREATE TABLE ev (id uuid, t interval, PRIMARY KEY (id, t))",
            &[
                "BEGIN",
                "INSERT INTO ev VALUES ('{K}', '-1 2:03:04')",
                "SET IntervalStyle = 'sql_standard'",
                "INSERT INTO ev VALUES ('{K}', '-1 2:03:04')",
                "COMMIT",
            ],
        ),
        (
            "array_nulls",
            "CREATE TABLE ev (id uuid, t text[], PRIMARY KEY (id, t))",
            &[
                "BEGIN",
                "INSERT INTO ev VALUES ('{K}', '{NULL}')",
                "SET array_nulls = off",
                "INSERT INTO ev VALUES ('{K}', '{NULL}')",
                "COMMIT",
            ],
        ),
        (
            "client_encoding",
            "CREATE TABLE ev (id uuid, t text, PRIMARY KEY (id, t))",
            &[
                "BEGIN",
                "INSERT INTO ev VALUES ('{K}', 'é')",
                "SET client_encoding = 'LATIN1'",
                "INSERT INTO ev VALUES ('{K}', 'é')",
                "COMMIT",
            ],
        ),
        (
            "regclass",
            "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE a.x (); CREATE TABLE b.x (); CREATE TABLE public.ev (id uuid, t regclass, PRIMARY KEY (id, t))",
            &[
                "BEGIN",
                "SET search_path = a, public",
                "INSERT INTO ev VALUES ('{K}', 'x')",
                "SET search_path = b, public",
                "INSERT INTO ev VALUES ('{K}', 'x')",
                "COMMIT",
            ],
        ),
        (
            "regclass in an array",
            "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE a.x (); CREATE TABLE b.x (); CREATE TABLE public.ev (id uuid, t regclass[], PRIMARY KEY (id, t))",
            &[
                "BEGIN",
                "SET search_path = a, public",
                "INSERT INTO public.ev VALUES ('{K}', '{x}')",
                "SET search_path = b, public",
                "INSERT INTO public.ev VALUES ('{K}', '{x}')",
                "COMMIT",
            ],
        ),
        (
            "a temporary table hides the regclass",
            "CREATE TABLE x (); CREATE DOMAIN d AS regclass; CREATE TABLE ev (id uuid, t d, PRIMARY KEY (id, t))",
            &[
                "BEGIN",
                "INSERT INTO ev VALUES ('{K}', 'x')",
                "CREATE TEMP TABLE x ()",
                "INSERT INTO ev VALUES ('{K}', 'x')",
                "COMMIT",
            ],
        ),
        (
            "a literal prepared under another zone",
            stamp,
            &[
                "PREPARE p (uuid) AS INSERT INTO ev VALUES ($1, '2024-03-04 05:06:07')",
                "SET TimeZone = 'Asia/Tokyo'",
                "BEGIN",
                "EXECUTE p ('{K}')",
                row,
                "COMMIT",
            ],
        ),
        (
            "a clock",
            stamp,
            &[
                "BEGIN",
                "INSERT INTO ev VALUES ('{K}', clock_timestamp())",
                "INSERT INTO ev VALUES ('{K}', clock_timestamp())",
                "COMMIT",
            ],
        ),
        (
            "two clocks in one statement",
            stamp,
            &["INSERT INTO ev VALUES ('{K}', clock_timestamp()), ('{K}', clock_timestamp())"],
        ),
        (
            "timeofday",
            stamp,
            &["INSERT INTO ev VALUES ('{K}', timeofday()::timestamptz), ('{K}', timeofday()::timestamptz)"],
        ),
    ];
    for (name, tables, statements) in cases {
        expect_same(name, tables, &queries(statements), "SELECT id FROM public.ev");
    }
}

#[test]
fn now_in_a_prepared_literal_is_the_time_it_was_prepared() {
    let tables = "CREATE TABLE ev (id uuid, t timestamptz, PRIMARY KEY (id, t))";
    let literal = || {
        let values = [Value::Text(K.into())];
        Bytes([message::bind("", "p", &values), message::execute("", 0), message::sync()].concat())
    };
    let prepare = [message::parse("p", "INSERT INTO ev VALUES ($1, 'now')", &[]), message::sync()].concat();
    let steps = [
        Bytes(prepare),
        Sql("BEGIN"),
        literal(),
        query("INSERT INTO ev VALUES ('{K}', 'now')"),
        Sql("COMMIT"),
    ];
    expect_same("a prepared now", tables, &steps, "SELECT id FROM ev");
}

#[test]
fn a_literal_is_not_read_again_by_other_settings() {
    let tables = "CREATE TABLE ev (id uuid PRIMARY KEY, t timestamptz)";
    let text = format!("INSERT INTO ev VALUES ('{K}', '2024-03-04 05:06:07')");
    let run = [message::bind("", "p", &[]), message::execute("", 0), message::sync()].concat();
    for setting in ["SET TimeZone = 'Asia/Tokyo'", "SELECT set_config('TimeZone', 'Asia/Tokyo', false)"] {
        let prepare = [message::parse("p", &text, &[]), message::sync()].concat();
        let steps = [
            Bytes(prepare),
            Sql(setting),
            Sql("BEGIN"),
            query("INSERT INTO ev VALUES ('{K}', 'epoch')"),
            Bytes(run.clone()),
            Sql("COMMIT"),
        ];
        expect_same(setting, tables, &steps, "SELECT * FROM ev");
    }
}

#[test]
fn a_portal_keeps_the_values_it_was_bound_with() {
    let tables = "CREATE TABLE ev (id uuid, t timestamptz, PRIMARY KEY (id, t))";
    let insert = "INSERT INTO ev VALUES ($1, $2)";
    let values = [Value::Text(K.into()), Value::Text("2024-03-04 05:06:07".into())];
    let steps = [
        Sql("BEGIN"),
        Bytes(
            [
                message::parse("i", insert, &[]),
                message::bind("first", "i", &values),
                message::extended("SET TimeZone = 'Asia/Tokyo'", &[]),
                message::execute("first", 0),
                message::close(b'P', "first"),
                message::sync(),
            ]
            .concat(),
        ),
        Bytes([message::extended(insert, &values), message::sync()].concat()),
        Sql("COMMIT"),
    ];
    expect_same("a portal", tables, &steps, "SELECT id FROM ev");
}

#[test]
fn a_function_that_mentions_what_it_prepares_leaves_prepared_statements_alone() {
    let tables = format!(
        "{EV} CREATE FUNCTION calm() RETURNS int LANGUAGE plpgsql AS $$begin /* prepare the answer */ return 1; end$$"
    );
    let database = Database::fresh(&tables);
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    let statements = [
        "PREPARE s (uuid, text) AS INSERT INTO ev (id, v) VALUES ($1, $2)",
        "SELECT calm()",
        "BEGIN",
        "EXECUTE s ('{K}', 'a')",
        "EXECUTE s ('{K}', 'b')",
        "COMMIT",
    ];
    statements.iter().for_each(|text| wire.run(&text.replace("{K}", K)));
    assert_eq!(database.stored("SELECT count(DISTINCT id) FROM ev"), ["2"]);
}

#[test]
fn equal_times_are_twins_while_nothing_changes_how_they_are_read() {
    let cases = [
        ("timestamptz", "2024-03-04 05:06:07"),
        ("date", "2024-03-04"),
        ("timestamptz", "now"),
        ("numeric", "1.50"),
        ("text[]", "{a}"),
        ("int4range", "[1,2)"),
    ];
    for (kind, value) in cases {
        let database =
            Database::fresh(&format!("CREATE TABLE ev (id uuid, t {kind}, v text, PRIMARY KEY (id, t))"));
        let proxy = Proxy::before(&database);
        let mut wire = proxy.connect();
        let row = |v: &str| format!("INSERT INTO ev VALUES ('{K}', '{value}', '{v}')");
        wire.run("BEGIN");
        wire.run(&row("a"));
        wire.run(&row("b"));
        wire.run("COMMIT");
        wire.run("BEGIN");
        for v in ["c", "d"] {
            let values = [Value::Text(K.replace('1', "3")), Value::Text(value.into()), Value::Text(v.into())];
            wire.converse(
                &[message::extended("INSERT INTO ev VALUES ($1, $2, $3)", &values), message::sync()].concat(),
                1,
            );
        }
        wire.run("COMMIT");
        assert_eq!(database.stored("SELECT count(DISTINCT id) FROM ev"), ["4"], "{kind}");
    }
}
