//! Random parents with shared keys and children of theirs: a child is stored under its own parent, or nothing is stored at all.

use std::collections::BTreeMap;

use crate::differential::random::Random;
use crate::support::message::{self, text};
use crate::support::{Database, Proxy, Wire, wire};

fn key(number: u32) -> String {
    format!("1111111{number}-1111-4111-8111-11111111111{number}")
}

const TABLES: &str = "CREATE TABLE par (id uuid PRIMARY KEY, v int);
                      CREATE TABLE ch (n int PRIMARY KEY, pid uuid REFERENCES par)";

/// A parent with the number of its key, and how many children follow it at once.
#[derive(Clone, Copy, Debug)]
struct Family {
    key: u32,
    children: u32,
}

/// Whether the order of a batch shows which parent each child belongs to: no twin before the children of the last one.
fn order_shows_it(families: &[Family]) -> bool {
    let mut childless: BTreeMap<u32, u32> = BTreeMap::new();
    families.iter().all(|family| {
        let waiting = childless.entry(family.key).or_default();
        let clear = family.children == 0 || *waiting == 0;
        *waiting = if family.children == 0 { *waiting + 1 } else { 0 };
        clear
    })
}

/// The statements of a batch; parent number `p` has `v` = p, and its children are numbered from 10 p on.
fn statements(families: &[Family]) -> Vec<(&'static str, [String; 2])> {
    let mut statements = Vec::new();
    for (number, family) in (0_u32..).zip(families) {
        statements.push(("INSERT INTO par(id, v) VALUES ($1, $2)", [key(family.key), number.to_string()]));
        let child = |n: u32| {
            ("INSERT INTO ch(pid, n) VALUES ($1, $2)", [key(family.key), (10 * number + n).to_string()])
        };
        statements.extend((0..family.children).map(child));
    }
    statements
}

/// BEGIN, the batch, COMMIT: by simple queries, or all of it in one write through the extended protocol.
fn play(wire: &mut Wire, families: &[Family], pipelined: bool) -> Vec<String> {
    let simple = |(sql, [key, value]): &(&str, [String; 2])| {
        message::query(sql.replace("$1", &format!("'{key}'")).replace("$2", value))
    };
    let extended = |(sql, [key, value]): &(&str, [String; 2])| {
        [message::extended(sql, &[text(key), text(value)]), message::sync()].concat()
    };
    let batch = statements(families);
    let mut messages = vec![message::query("BEGIN")];
    messages.extend(batch.iter().map(|one| if pipelined { extended(one) } else { simple(one) }));
    messages.push(message::query("COMMIT"));
    let replies = if pipelined {
        wire.converse(&messages.concat(), messages.len())
    } else {
        messages.iter().flat_map(|bytes| wire.converse(bytes, 1)).collect()
    };
    wire::outcomes(&replies)
}

#[test]
fn children_are_stored_under_their_own_parents_or_not_at_all() {
    let database = Database::fresh(TABLES);
    let proxy = Proxy::before(&database);
    let mut through = proxy.connect();
    let mut keeper = database.connect();
    let mut random = Random::new(20_260_102);
    let (mut saved, mut refused) = (0, 0);
    for _ in 0..400 {
        keeper.run("TRUNCATE par, ch");
        let family =
            |random: &mut Random| Family { key: random.below(3), children: random.pick(&[0, 1, 1, 1, 2]) };
        let families: Vec<Family> = (0..1 + random.below(5)).map(|_| family(&mut random)).collect();
        let pipelined = random.below(2) == 0;
        let outcomes = play(&mut through, &families, pipelined);
        let place = format!("{families:?}, pipelined {pipelined}: {outcomes:?}");

        let astray =
            keeper.rows("SELECT count(*) FROM ch JOIN par ON par.id = ch.pid WHERE ch.n / 10 <> par.v");
        assert_eq!(astray, ["0"], "children under the wrong parent: {place}");
        let children: u32 = families.iter().map(|family| family.children).sum();
        let everything = [format!("{}|{children}", families.len())];
        let stored = keeper.rows("SELECT (SELECT count(*) FROM par), (SELECT count(*) FROM ch)");
        if order_shows_it(&families) {
            assert!(outcomes.iter().all(|outcome| !outcome.starts_with('!')), "{place}");
            assert_eq!(stored, everything, "{place}");
            saved += 1;
        } else {
            assert!(outcomes.iter().any(|outcome| outcome == "!23505"), "{place}");
            assert_eq!(stored, ["0|0"], "{place}");
            refused += 1;
        }
    }
    assert!(saved > 50 && refused > 50, "{saved} saved, {refused} refused: too few cases of one kind");
}
