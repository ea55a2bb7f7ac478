//! Rows that refer to a rekeyed row: they follow their parent, or the transaction fails rather than store a wrong one.

use crate::scenario::{PLAIN, SIMPLE, Scenario, play};
use crate::support::{Database, Proxy};

const FAMILY: &str = "CREATE TABLE par (id uuid PRIMARY KEY, v text);
                      CREATE TABLE ch (n int PRIMARY KEY, pid uuid REFERENCES par)";

const CHILDREN: &str =
    "SELECT par.id, par.v, ch.n, ch.pid FROM par LEFT JOIN ch ON ch.pid = par.id ORDER BY n";

#[test]
fn a_child_follows_the_parent_before_it() {
    let steps = |last: &'static str, commit: &'static str| {
        [
            ("BEGIN", "BEGIN"),
            ("INSERT INTO par VALUES ({K},'A')", "INSERT 0 1"),
            ("INSERT INTO ch VALUES (1,{K})", "INSERT 0 1"),
            ("INSERT INTO par VALUES ({K},'B')", last),
            ("INSERT INTO ch VALUES (2,{K})", if last.starts_with('!') { "!25P02" } else { "INSERT 0 1" }),
            ("COMMIT", commit),
        ]
    };
    play(&[
        Scenario {
            name: "T13 (a) parent, child, parent, child",
            tables: FAMILY,
            steps: &steps("INSERT 0 1", "COMMIT"),
            stored: (CHILDREN, &["K|A|1|K", "U|B|2|U"]),
            rekeyed: &["3.1<1.1 committed"],
            bare: "23505",
            ..PLAIN
        },
        Scenario {
            name: "T13 (a) strict",
            tables: FAMILY,
            steps: &steps("!23505", "ROLLBACK"),
            stored: (CHILDREN, &[]),
            forwarded: true,
            bare: "23505",
            arguments: &["--mode", "strict"],
            ..PLAIN
        },
    ]);
}

#[test]
fn an_upsert_of_a_shared_key_fails_also_where_it_names_one_of_another_table_first() {
    let tables =
        "CREATE TABLE one (id uuid PRIMARY KEY, v text); CREATE TABLE two (id uuid PRIMARY KEY, v text)";
    play(&[Scenario {
        name: "two tables with shared keys",
        tables,
        steps: &[
            ("BEGIN", "BEGIN"),
            ("INSERT INTO one VALUES ({K},'a'),({K},'b')", "INSERT 0 2"),
            ("INSERT INTO two VALUES ({L},'a'),({L},'b')", "INSERT 0 2"),
            (
                "INSERT INTO two VALUES ({K},'c'),({L},'d') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v",
                "!23505 ambiguous",
            ),
            ("COMMIT", "ROLLBACK"),
        ],
        stored: ("SELECT v FROM one UNION ALL SELECT v FROM two", &[]),
        rekeyed: &["1.2<1.1 rolled_back", "2.2<2.1 rolled_back"],
        bare: "23505",
        ..PLAIN
    }]);
}

#[test]
fn an_ambiguous_reference_fails_the_transaction() {
    play(&[
        Scenario {
            name: "T13 (b) both parents first",
            tables: FAMILY,
            steps: &[
                ("BEGIN", "BEGIN"),
                ("INSERT INTO par VALUES ({K},'A')", "INSERT 0 1"),
                ("INSERT INTO par VALUES ({K},'B')", "INSERT 0 1"),
                ("INSERT INTO ch VALUES (1,{K})", "!23505 ambiguous"),
                ("COMMIT", "ROLLBACK"),
            ],
            stored: (CHILDREN, &[]),
            rekeyed: &["2.1<1.1 rolled_back"],
            bare: "23505",
            ..PLAIN
        },
        Scenario {
            name: "T13 (c) an UPDATE names the key",
            steps: &[
                ("BEGIN", "BEGIN"),
                ("INSERT INTO ev(id,v) VALUES ({K},'a')", "INSERT 0 1"),
                ("INSERT INTO ev(id,v) VALUES ({K},'c')", "INSERT 0 1"),
                ("UPDATE ev SET v='c2' WHERE id={K}", "!23505 ambiguous"),
                ("COMMIT", "ROLLBACK"),
            ],
            stored: ("SELECT id, v FROM ev", &[]),
            rekeyed: &["2.1<1.1 rolled_back"],
            bare: "23505",
            ..PLAIN
        },
        Scenario {
            name: "T13 (c) a DELETE names the key",
            steps: &[
                ("BEGIN", "BEGIN"),
                ("INSERT INTO ev(id,v) VALUES ({K},'a'),({K},'c')", "INSERT 0 2"),
                ("DELETE FROM ev WHERE id={K}", "!23505 ambiguous"),
                ("COMMIT", "ROLLBACK"),
            ],
            stored: ("SELECT id, v FROM ev", &[]),
            rekeyed: &["1.2<1.1 rolled_back"],
            bare: "23505",
            ..PLAIN
        },
    ]);
}

#[test]
fn a_grandchild_follows_the_row_between() {
    play(&[Scenario {
        name: "a table whose key is its parent's",
        tables: "CREATE TABLE par (id uuid PRIMARY KEY, v text); CREATE TABLE one (id uuid PRIMARY KEY REFERENCES par);
                 CREATE TABLE leaf (n int, oid uuid REFERENCES one)",
        steps: &[
            ("BEGIN", "BEGIN"),
            ("INSERT INTO par VALUES ({K},'A')", "INSERT 0 1"),
            ("INSERT INTO one VALUES ({K})", "INSERT 0 1"),
            ("INSERT INTO leaf VALUES (1,{K})", "INSERT 0 1"),
            ("INSERT INTO par VALUES ({K},'B')", "INSERT 0 1"),
            ("INSERT INTO one VALUES ({K})", "INSERT 0 1"),
            ("INSERT INTO leaf VALUES (2,{K})", "INSERT 0 1"),
            ("COMMIT", "COMMIT"),
        ],
        stored: ("SELECT par.id, v, one.id, n FROM par JOIN one USING (id) JOIN leaf ON oid = id ORDER BY n", &["K|A|K|1", "U|B|U|2"]),
        rekeyed: &["4.1<1.1 committed"],
        bare: "23505",
        ..PLAIN
    }]);
}

#[test]
fn what_cannot_be_followed_fails_and_what_only_reads_does_not() {
    let cases = [
        ("INSERT INTO par VALUES ({K},'C') ON CONFLICT (id) DO UPDATE SET v=EXCLUDED.v", "!23505 ambiguous"),
        ("SELECT adopt({K})", "!23505 ambiguous"),
        ("INSERT INTO log SELECT {K}::text WHERE true", "INSERT 0 1"),
    ];
    for (statement, outcome) in cases {
        let fails = outcome.starts_with('!');
        play(&[Scenario {
            name: statement,
            tables: "CREATE TABLE par (id uuid PRIMARY KEY, v text); CREATE TABLE ch (n int, pid uuid REFERENCES par);
                     CREATE TABLE log (x text);
                     CREATE FUNCTION adopt(uuid) RETURNS void LANGUAGE sql AS 'INSERT INTO ch VALUES (1, $1)'",
            steps: &[
                ("BEGIN", "BEGIN"),
                ("INSERT INTO par VALUES ({K},'A')", "INSERT 0 1"),
                ("INSERT INTO par VALUES ({K},'B')", "INSERT 0 1"),
                (statement, outcome),
                ("COMMIT", if fails { "ROLLBACK" } else { "COMMIT" }),
            ],
            stored: ("SELECT id, v FROM par ORDER BY v", if fails { &[] } else { &["K|A", "U|B"] }),
            rekeyed: if fails { &["2.1<1.1 rolled_back"] } else { &["2.1<1.1 committed"] },
            bare: "23505",
            protocols: SIMPLE,
            ..PLAIN
        }]);
    }
}

#[test]
fn a_copy_that_cannot_be_read_brings_no_children_of_a_shared_key() {
    let tables =
        "CREATE TABLE par (id uuid PRIMARY KEY, v text); CREATE TABLE ch (n int, pid uuid REFERENCES par)";
    let (database, key) = (Database::fresh(tables), "11111111-1111-4111-8111-111111111111");
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    wire.run(&format!("BEGIN; INSERT INTO par VALUES ('{key}','A'); INSERT INTO par VALUES ('{key}','B')"));
    let failed = wire.query("COPY ch FROM STDIN WHERE n > 0");
    assert!(failed[0].field(b'M').is_some_and(|message| message.contains("ambiguous")), "{failed:?}");
}

#[test]
fn a_row_that_refers_to_itself_follows_itself() {
    play(&[Scenario {
        name: "a tree of roots",
        tables: "CREATE TABLE node (id uuid PRIMARY KEY, root uuid REFERENCES node, v text)",
        steps: &[("INSERT INTO node VALUES ({K},{K},'a'),({K},{K},'b')", "INSERT 0 2")],
        stored: ("SELECT * FROM node ORDER BY ctid", &["K|K|a", "U|U|b"]),
        rekeyed: &["1.2<1.1 committed"],
        bare: "23505",
        ..PLAIN
    }]);
}

#[test]
fn an_update_or_delete_by_the_name_of_an_inherited_table_is_ambiguous_too() {
    let change = |statement: &'static str| {
        [
            ("BEGIN", "BEGIN"),
            ("INSERT INTO heir VALUES ({K},'a'), ({K},'b')", "INSERT 0 2"),
            (statement, "!23505 ambiguous"),
            ("COMMIT", "ROLLBACK"),
        ]
    };
    for statement in ["UPDATE base SET v = 'c' WHERE id = {K}", "DELETE FROM base WHERE id = {K}"] {
        play(&[Scenario {
            name: statement,
            tables: "CREATE TABLE base (id uuid PRIMARY KEY, v text);
                     CREATE TABLE heir (PRIMARY KEY (id)) INHERITS (base)",
            steps: &change(statement),
            stored: ("SELECT id, v FROM base", &[]),
            rekeyed: &["1.2<1.1 rolled_back"],
            bare: "23505",
            ..PLAIN
        }]);
    }
}

#[test]
fn a_copy_that_is_not_looked_at_brings_no_children_of_a_shared_key() {
    play(&[Scenario {
        name: "behind the COPY stands another statement",
        tables: FAMILY,
        steps: &[
            ("BEGIN", "BEGIN"),
            ("INSERT INTO par VALUES ({K},'A'), ({K},'B')", "INSERT 0 2"),
            ("COPY ch FROM STDIN; SELECT 1", "!23505 ambiguous"),
            ("COMMIT", "ROLLBACK"),
        ],
        stored: (CHILDREN, &[]),
        rekeyed: &["1.2<1.1 rolled_back"],
        bare: "23505",
        protocols: SIMPLE,
        ..PLAIN
    }]);
}
