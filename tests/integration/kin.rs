//! Foreign keys of every shape: a child that could be either row's is told by the order, or fails; one that could not is left alone.

use crate::expect::LETTERS;
use crate::scenario::{ONE_BY_ONE, PLAIN, SIMPLE, Scenario, play};
use crate::support::message::{self, text};
use crate::support::{Database, Proxy, wire};

/// Parents, and what their children are seen with.
const FAMILY: &str = "CREATE TABLE par (id uuid PRIMARY KEY, v text);
                      CREATE TABLE ch (n int PRIMARY KEY, pid uuid REFERENCES par);";
const CHILDREN: &str = "SELECT n, v FROM ch JOIN par ON par.id = pid ORDER BY n";

/// BEGIN, steps of which each succeeds but perhaps the last, and COMMIT.
fn transaction<'a>(steps: &[&'a str], fails: bool) -> Vec<(&'a str, &'a str)> {
    let (last, before) = steps.split_last().expect("a transaction does something");
    let outcome = |step: &str| if step.starts_with("UPDATE") { "UPDATE 1" } else { "INSERT 0 1" };
    let mut all = vec![("BEGIN", "BEGIN")];
    all.extend(before.iter().map(|step| (*step, outcome(step))));
    all.push((last, if fails { "!23505 ambiguous" } else { outcome(last) }));
    all.push(("COMMIT", if fails { "ROLLBACK" } else { "COMMIT" }));
    all
}

/// Steps that all succeed.
fn told<'a>(
    name: &'a str,
    tables: &'a str,
    steps: &'a [(&'a str, &'a str)],
    stored: (&'a str, &'a [&'a str]),
    rekeyed: &'a [&'a str],
) -> Scenario<'a> {
    Scenario { name, tables, steps, stored, rekeyed, bare: "23505", ..PLAIN }
}

#[test]
fn a_child_names_one_of_several_keys_of_its_parent() {
    for (name, parents, children) in [
        (
            "a key besides the primary key",
            "n int PRIMARY KEY, code uuid UNIQUE",
            "code uuid REFERENCES par(code)",
        ),
        (
            "a key with a column more than the one that clashes",
            "tenant int, code uuid PRIMARY KEY, n int, UNIQUE (tenant, code)",
            "tenant int DEFAULT 1, code uuid, FOREIGN KEY (tenant, code) REFERENCES par(tenant, code)",
        ),
        (
            "a key with a column less than the one that clashes first",
            "tenant int, code uuid UNIQUE, n int, PRIMARY KEY (tenant, code)",
            "code uuid REFERENCES par(code)",
        ),
        (
            "a key of two columns",
            "tenant int, code uuid, n int, PRIMARY KEY (tenant, code)",
            "tenant int, code uuid, FOREIGN KEY (code, tenant) REFERENCES par(code, tenant)",
        ),
    ] {
        let tables = format!("CREATE TABLE par ({parents}); CREATE TABLE ch (m int PRIMARY KEY, {children})");
        let has_tenant = |columns: &str| columns.contains("tenant");
        let par = |n: u32| match has_tenant(parents) {
            true => format!("INSERT INTO par(tenant,n,code) VALUES (1,{n},{{K}})"),
            false => format!("INSERT INTO par(n,code) VALUES ({n},{{K}})"),
        };
        let ch = |m: u32| match has_tenant(children) {
            true => format!("INSERT INTO ch(m,tenant,code) VALUES ({m},1,{{K}})"),
            false => format!("INSERT INTO ch(m,code) VALUES ({m},{{K}})"),
        };
        let stored = "SELECT m, n FROM ch JOIN par USING (code) ORDER BY m";
        let (first, second, one, two) = (par(1), par(2), ch(1), ch(2));
        let in_order = transaction(&[&first, &one, &second, &two], false);
        let parents_first = transaction(&[&first, &second, &two], true);
        play(&[
            told(name, &tables, &in_order, (stored, &["1|1", "2|2"]), &["3.1<1.1 committed"]),
            told(name, &tables, &parents_first, (stored, &[]), &["2.1<1.1 rolled_back"]),
        ]);
    }
}

#[test]
fn a_child_of_another_tenant_is_no_child_of_the_twins() {
    let tables = "CREATE TABLE par (tenant int, id uuid, v text, PRIMARY KEY (tenant, id));
                  CREATE TABLE ch (n int PRIMARY KEY, tenant int DEFAULT 2, pid uuid,
                                   FOREIGN KEY (tenant, pid) REFERENCES par(tenant, id))";
    let parents = [
        "INSERT INTO par VALUES (2,{K},'other')",
        "INSERT INTO par VALUES (1,{K},'A')",
        "INSERT INTO par VALUES (1,{K},'B')",
    ];
    let stored = "SELECT n, v FROM ch JOIN par ON par.id = pid AND par.tenant = ch.tenant ORDER BY n";
    let with = |last| transaction(&[parents[0], parents[1], parents[2], last], false);
    let (other, none) = (
        with("INSERT INTO ch(n,tenant,pid) VALUES (1,2,{K})"),
        with("INSERT INTO ch(n,tenant,pid) VALUES (1,NULL,{K})"),
    );
    // Which tenant's it is cannot be told.
    let unknown =
        transaction(&[parents[0], parents[1], parents[2], "INSERT INTO ch(n,pid) VALUES (1,{K})"], true);
    let rekeyed: &[&str] = &["3.1<2.1 committed"];
    play(&[
        told("the other tenant's", tables, &other, (stored, &["1|other"]), rekeyed),
        told("nobody's", tables, &none, (stored, &[]), rekeyed),
        told("a default's", tables, &unknown, (stored, &[]), &["3.1<2.1 rolled_back"]),
    ]);
}

#[test]
fn each_foreign_key_of_a_row_goes_its_own_way() {
    let tables = "CREATE TABLE par (id uuid PRIMARY KEY, v text); CREATE TABLE tag (id uuid PRIMARY KEY);
                  CREATE TABLE ch (n int PRIMARY KEY, pid uuid REFERENCES par, other uuid REFERENCES par, tag uuid REFERENCES tag)";
    let steps = transaction(
        &[
            "INSERT INTO tag VALUES ({K})",
            "INSERT INTO par VALUES ({L},'other')",
            "INSERT INTO par VALUES ({K},'A')",
            "INSERT INTO ch VALUES (1,{K},{L},{K})",
            "INSERT INTO par VALUES ({K},'B')",
            "INSERT INTO ch VALUES (2,{K},{L},{K})",
            "INSERT INTO ch VALUES (3,{L},{K},NULL)",
        ],
        false,
    );
    let stored =
        "SELECT n, a.v, b.v, tag FROM ch JOIN par a ON a.id = pid JOIN par b ON b.id = other ORDER BY n";
    let rows: &[&str] = &["1|A|other|K", "2|B|other|K", "3|other|B|\\N"];
    play(&[told("two parents and a namesake", tables, &steps, (stored, rows), &["5.1<3.1 committed"])]);
}

#[test]
fn partitions_are_one_family() {
    let tables = "CREATE TABLE par (id uuid PRIMARY KEY, v text) PARTITION BY HASH (id);
                  CREATE TABLE par_0 PARTITION OF par FOR VALUES WITH (MODULUS 1, REMAINDER 0);
                  CREATE TABLE ch (n int, pid uuid REFERENCES par) PARTITION BY LIST (n);
                  CREATE TABLE ch_1 PARTITION OF ch FOR VALUES IN (1);
                  CREATE TABLE ch_2 PARTITION OF ch DEFAULT";
    let steps = transaction(
        &[
            "INSERT INTO par VALUES ({K},'A')",
            "INSERT INTO ch_1 VALUES (1,{K})",
            "INSERT INTO par_0 VALUES ({K},'B')",
            "INSERT INTO ch VALUES (2,{K})",
        ],
        false,
    );
    play(&[told("by any name", tables, &steps, (CHILDREN, &["1|A", "2|B"]), &["3.1<1.1 committed"])]);
}

#[test]
fn a_table_whose_key_is_its_parents_goes_with_it() {
    let tables = "CREATE TABLE par (id uuid PRIMARY KEY, v text); CREATE TABLE derived (id uuid PRIMARY KEY REFERENCES par, w text);
                  CREATE TABLE further (id uuid PRIMARY KEY REFERENCES derived, x text)";
    let in_order = transaction(
        &[
            "INSERT INTO par VALUES ({K},'A')",
            "INSERT INTO derived VALUES ({K},'a')",
            "INSERT INTO further VALUES ({K},'1')",
            "INSERT INTO par VALUES ({K},'B')",
            "INSERT INTO derived VALUES ({K},'b')",
            "INSERT INTO further VALUES ({K},'2')",
        ],
        false,
    );
    let by_table = transaction(
        &[
            "INSERT INTO par VALUES ({K},'A')",
            "INSERT INTO par VALUES ({K},'B')",
            "INSERT INTO derived VALUES ({K},'a')",
        ],
        true,
    );
    let alone = [
        ("BEGIN", "BEGIN"),
        ("INSERT INTO par VALUES ({K},'A')", "INSERT 0 1"),
        ("INSERT INTO derived VALUES ({K},'a')", "INSERT 0 1"),
        ("INSERT INTO derived VALUES ({K},'b')", "!23505"),
        ("COMMIT", "ROLLBACK"),
    ];
    let stored = "SELECT v, w, x FROM par JOIN derived USING (id) JOIN further USING (id) ORDER BY v";
    play(&[
        told("row by row", tables, &in_order, (stored, &["A|a|1", "B|b|2"]), &["4.1<1.1 committed"]),
        told("table by table", tables, &by_table, (stored, &[]), &["2.1<1.1 rolled_back"]),
        told("without a twin of its parent", tables, &alone, (stored, &[]), &[]),
    ]);
}

#[test]
fn trees_are_told_by_the_order_of_their_rows() {
    let tables = "CREATE TABLE node (id uuid PRIMARY KEY, up uuid REFERENCES node, v text)";
    let stored = "SELECT n.v, up.v FROM node n LEFT JOIN node up ON up.id = n.up ORDER BY n.v";
    let (a, b, c) = ("({K},NULL,'a')", "({K},NULL,'c')", "({M},{K},'d')");
    let in_order = format!("INSERT INTO node VALUES {a},({{L}},{{K}},'b'),{b},{c}");
    let roots_first = format!("INSERT INTO node VALUES {a},{b},{c}");
    let child_first = format!("INSERT INTO node VALUES {c},{a},{b}");
    let itself = "INSERT INTO node VALUES ({K},{K},'a'),({L},{K},'b'),({K},{K},'c'),({M},{K},'d')";
    let one = |sql| [(sql, "INSERT 0 4")];
    let fails = |sql| [(sql, "!23505 ambiguous")];
    let (in_order, itself) = (one(in_order.as_str()), one(itself));
    let (roots_first, child_first) = (fails(roots_first.as_str()), fails(child_first.as_str()));
    let one_by_one = transaction(
        &[
            "INSERT INTO node VALUES ({K},NULL,'a')",
            "INSERT INTO node VALUES ({L},{K},'b')",
            "INSERT INTO node VALUES ({K},NULL,'c')",
            "INSERT INTO node VALUES ({M},{K},'d')",
        ],
        false,
    );
    let rows: &[&str] = &["a|\\N", "b|a", "c|\\N", "d|c"];
    play(&[
        told("in order", tables, &in_order, (stored, rows), &["1.3<1.1 committed"]),
        told("one by one", tables, &one_by_one, (stored, rows), &["3.1<1.1 committed"]),
        told(
            "roots that refer to themselves",
            tables,
            &itself,
            (stored, &["a|a", "b|a", "c|c", "d|c"]),
            &["1.3<1.1 committed"],
        ),
        told("roots first", tables, &roots_first, (stored, &[]), &["1.2<1.1 rolled_back"]),
        told("a child first", tables, &child_first, (stored, &[]), &[]),
    ]);
}

#[test]
fn a_child_that_came_before_its_parent_could_be_either_rows() {
    let tables = "CREATE TABLE par (id uuid PRIMARY KEY, v text);
                  CREATE TABLE ch (n int PRIMARY KEY, pid uuid REFERENCES par DEFERRABLE INITIALLY DEFERRED)";
    let (a, b) = ("INSERT INTO par VALUES ({K},'A')", "INSERT INTO par VALUES ({K},'B')");
    let (one, two) = ("INSERT INTO ch VALUES (1,{K})", "INSERT INTO ch VALUES (2,{K})");
    let children_first = transaction(&[one, a, two, b], true);
    let all_children_first = transaction(&[one, two, a, b], true);
    let in_order = transaction(&[a, one, b, two], false);
    let no_twin = [
        ("BEGIN", "BEGIN"),
        (one, "INSERT 0 1"),
        (a, "INSERT 0 1"),
        (two, "INSERT 0 1"),
        ("COMMIT", "COMMIT"),
    ];
    let undone = [
        ("BEGIN", "BEGIN"),
        ("SAVEPOINT s", "SAVEPOINT"),
        (one, "INSERT 0 1"),
        ("ROLLBACK TO s", "ROLLBACK"),
        ("RELEASE s", "RELEASE"),
        (a, "INSERT 0 1"),
        (one, "INSERT 0 1"),
        (b, "INSERT 0 1"),
        (two, "INSERT 0 1"),
        ("COMMIT", "COMMIT"),
    ];
    let rows: &[&str] = &["1|A", "2|B"];
    play(&[
        told("child, parent, child, parent", tables, &children_first, (CHILDREN, &[]), &[]),
        told("children, parents", tables, &all_children_first, (CHILDREN, &[]), &[]),
        told("parent, child, parent, child", tables, &in_order, (CHILDREN, rows), &["3.1<1.1 committed"]),
        told("the first child is undone", tables, &undone, (CHILDREN, rows), &["7.1<5.1 committed"]),
        Scenario { bare: "", ..told("one parent", tables, &no_twin, (CHILDREN, &["1|A", "2|A"]), &[]) },
    ]);
}

#[test]
fn parts_of_one_statement_have_an_order_too() {
    let par = |name: &str, v: &str| format!("{name} AS (INSERT INTO par VALUES ({{K}},'{v}'))");
    let ch = |name: &str, n: u32| format!("{name} AS (INSERT INTO ch VALUES ({n},{{K}}))");
    let with = |parts: [String; 4]| format!("WITH {} SELECT", parts.join(", "));
    let in_order = with([par("a", "A"), ch("b", 1), par("c", "B"), ch("d", 2)]);
    let child_first = with([ch("b", 1), par("a", "A"), par("c", "B"), ch("d", 2)]);
    let update = format!("WITH {}, {} UPDATE par SET v = 'x' WHERE id = {{K}}", par("a", "A"), par("b", "B"));
    let (in_order, child_first) =
        ([(in_order.as_str(), "SELECT 1")], [(child_first.as_str(), "!23505 ambiguous")]);
    let update = [(update.as_str(), "!23505 ambiguous")];
    play(&[
        Scenario {
            protocols: ONE_BY_ONE,
            ..told("in order", FAMILY, &in_order, (CHILDREN, &["1|A", "2|B"]), &["1.1<1.1 committed"])
        },
        Scenario {
            protocols: ONE_BY_ONE,
            ..told("a child first", FAMILY, &child_first, (CHILDREN, &[]), &[])
        },
        Scenario {
            protocols: ONE_BY_ONE,
            ..told("an UPDATE beside", FAMILY, &update, (CHILDREN, &[]), &["1.1<1.1 rolled_back"])
        },
    ]);
}

#[test]
fn children_follow_by_every_carrier() {
    for (carrier, child) in [
        ("VALUES", "INSERT INTO ch VALUES ({N},{K})"),
        ("upper case", "INSERT INTO ch VALUES ({N},'11111111-1111-4111-8111-11111111ABCD')"),
        ("SELECT", "INSERT INTO ch SELECT {N}, {K}::uuid"),
        ("VALUES in FROM", "INSERT INTO ch SELECT n, id FROM (VALUES ({N},{K}::uuid)) AS x(n, id)"),
        ("an array", "INSERT INTO ch SELECT {N}, one FROM unnest(ARRAY[{K}]::uuid[]) AS one"),
        (
            "a CTE",
            "WITH one AS (INSERT INTO ch VALUES ({N},{K}) RETURNING n) INSERT INTO done SELECT n FROM one",
        ),
        ("an upsert", "INSERT INTO ch VALUES ({N},{K}) ON CONFLICT (n) DO UPDATE SET pid = EXCLUDED.pid"),
        ("an insert or nothing", "INSERT INTO ch VALUES ({N},{K}) ON CONFLICT DO NOTHING"),
    ] {
        let child =
            |n: &str| child.replace("{N}", n).replace("'11111111-1111-4111-8111-11111111ABCD'", "{C}");
        let key = if carrier == "upper case" { "{C}" } else { "{K}" };
        let par = |v: &str| format!("INSERT INTO par VALUES ({key},'{v}')");
        let (a, b, one, two) = (par("A"), par("B"), child("1"), child("2"));
        let steps = transaction(&[&a, &one, &b, &two], false);
        let tables = format!("{FAMILY} CREATE TABLE done (n int)");
        play(&[Scenario {
            keys: &[("C", "11111111-1111-4111-8111-11111111ABCD")],
            fresh: |key| crate::expect::is_random(&key.to_lowercase()),
            ..told(carrier, &tables, &steps, (CHILDREN, &["1|A", "2|B"]), &["3.1<1.1 committed"])
        }]);
    }
}

#[test]
fn json_and_prepared_statements_carry_children_too() {
    let json = |n: u32| {
        format!(
            "INSERT INTO ch SELECT * FROM json_to_recordset('[{{\"n\":{n},\"pid\":\"11111111-1111-4111-8111-111111111111\"}}]') AS x(n int, pid uuid)"
        )
    };
    let prepare = "PREPARE child(int, uuid) AS INSERT INTO ch VALUES ($1,$2)";
    let execute = |n: u32| format!("EXECUTE child({n},'11111111-1111-4111-8111-111111111111')");
    let par = |v: &str| format!("INSERT INTO par VALUES ('11111111-1111-4111-8111-111111111111','{v}')");
    let database = Database::fresh(FAMILY);
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    wire.run(prepare);
    for child in [&json as &dyn Fn(u32) -> String, &execute] {
        wire.run(
            &["BEGIN".to_owned(), par("A"), child(1), par("B"), child(2), "COMMIT".to_owned()].join(";"),
        );
        assert_eq!(wire.rows(CHILDREN), ["1|A", "2|B"], "{}", child(1));
        wire.run("TRUNCATE par, ch");
    }
}

#[test]
fn a_delete_that_cascades_names_no_shared_key() {
    let tables = "CREATE TABLE grand (g int PRIMARY KEY);
                  CREATE TABLE par (id uuid PRIMARY KEY, v text, g int REFERENCES grand ON DELETE CASCADE);
                  CREATE TABLE ch (n int PRIMARY KEY, pid uuid REFERENCES par ON DELETE CASCADE)";
    let steps = [
        ("BEGIN", "BEGIN"),
        ("INSERT INTO grand VALUES (1),(2)", "INSERT 0 2"),
        ("INSERT INTO par VALUES ({K},'A',1)", "INSERT 0 1"),
        ("INSERT INTO ch VALUES (1,{K})", "INSERT 0 1"),
        ("INSERT INTO par VALUES ({K},'B',2)", "INSERT 0 1"),
        ("INSERT INTO ch VALUES (2,{K})", "INSERT 0 1"),
        ("DELETE FROM grand WHERE g = 1", "DELETE 1"),
        ("COMMIT", "COMMIT"),
    ];
    play(&[Scenario {
        protocols: SIMPLE,
        ..told("the first and its child go", tables, &steps, (CHILDREN, &["2|B"]), &["4.1<2.1 committed"])
    }]);
}

#[test]
fn a_child_whose_record_cannot_be_written_is_not_stored() {
    let key = LETTERS[0].1;
    let query = |sql: &str| message::query(sql.replace("'K'", &format!("'{key}'")));
    let data = [message::copy_data(format!("2\t{key}\n").as_bytes()), message::copy_done()].concat();
    let bound = [message::extended("INSERT INTO ch VALUES (2,$1)", &[text(key)]), message::sync()].concat();
    let child = "INSERT INTO ch VALUES (2,'K')";
    for (form, bytes, in_order, state) in [
        ("by Query", query(&format!("SELECT 1; {child}; SELECT 2")), true, "!23505"),
        ("by Bind", bound.clone(), true, "!23505"),
        ("by COPY", [query("COPY ch FROM STDIN"), data].concat(), true, "!57014"),
        ("ambiguous, by Query", query(child), false, "!23505"),
        ("ambiguous, by Bind", bound, false, "!23505"),
    ] {
        let database = Database::fresh(FAMILY);
        let proxy = Proxy::before(&database);
        let mut client = proxy.connect();
        client.converse(&query("BEGIN; INSERT INTO par VALUES ('K','A')"), 1);
        if in_order {
            client.converse(&query("INSERT INTO ch VALUES (1,'K')"), 1);
        }
        client.converse(&query("INSERT INTO par VALUES ('K','B')"), 1);
        proxy.fill_disk();
        let replies = client.converse(&bytes, 1);
        assert_eq!(wire::outcomes(&replies).last().map(String::as_str), Some(state), "{form}: {replies:?}");
        let next = [message::query("COMMIT"), message::extended("SELECT 1", &[]), message::sync()].concat();
        assert_eq!(wire::outcomes(&client.converse(&next, 2)), ["ROLLBACK", "SELECT 1"], "{form}");
        assert_eq!(database.stored("SELECT count(*) FROM par"), ["0"], "{form}");
    }
}
