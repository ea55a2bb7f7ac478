//! Rows that refer to a rekeyed row: they follow their parent, or the transaction fails rather than store a wrong one.

use crate::scenario::{PLAIN, Scenario, play};

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
