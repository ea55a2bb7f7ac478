//! What scenarios cannot say by statements alone (pipelines, arrays, COPY), played in every mode.

use std::fmt::Write as _;

use crate::expect::{LETTERS, NONE_SURVIVES, expect_rekeyed_at, is_random, rows_fit, sixteen_bytes};
use crate::modes::{Play, empty_tables};
use crate::scenario::EV;
use crate::support::message::{self, Value, text};
use crate::support::wire::Reply;
use crate::support::{Database, Proxy, Wire, wire};

const STORED: &str = "SELECT id, v FROM ev ORDER BY ctid";
const INSERT: &str = "INSERT INTO ev(id,v) VALUES($1,$2)";
const THREE: &[&str] = &["K|a", "L|b", "U|c"];

/// A conversation in bytes.
struct Conversation<'a> {
    name: &'a str,
    /// What is sent in one write, and how many times the server becomes ready for it.
    exchanges: Vec<(Vec<u8>, usize)>,
    /// In mode `rewrite`.
    outcomes: &'a [&'a str],
    stored: &'a [&'a str],
    rekeyed: &'a [&'a str],
}

/// What most of them come to.
const PLAIN: Conversation<'static> =
    Conversation { name: "", exchanges: Vec::new(), outcomes: &[], stored: THREE, rekeyed: &[] };

impl Conversation<'_> {
    fn play(&self) {
        let database = Database::fresh(EV);
        let play = Play {
            place: self.name.to_owned(),
            database: &database,
            arguments: &[],
            stored: STORED,
            say: &|connect| self.say(connect),
        };
        let bare = play.bare();
        play.observe(&bare, self.rekeyed);
        self.play_through(&Proxy::before(&database), &database, "rewrite");
        self.play_through(&play.strict(), &database, "strict");
    }

    fn say(&self, connect: &dyn Fn() -> Wire) -> Vec<Vec<Reply>> {
        let mut client = connect();
        self.exchanges.iter().map(|(bytes, ready)| client.converse(bytes, *ready)).collect()
    }

    fn play_through(&self, proxy: &Proxy, database: &Database, mode: &str) {
        empty_tables(database);
        let place = format!("{} in mode {mode}", self.name);
        let replies = self.say(&|| proxy.connect()).concat();
        assert_eq!(wire::outcomes(&replies), self.outcomes, "{place}");
        let rows = database.stored(STORED);
        let fits = rows_fit(self.stored, &rows, &LETTERS.iter().copied().collect(), is_random);
        assert!(fits, "{place}: {rows:#?} instead of {:#?}", self.stored);
        expect_rekeyed_at(&place, self.rekeyed, proxy);
    }
}

/// The spelling of a key of [`LETTERS`].
fn spelled(letter: &str) -> &'static str {
    LETTERS.iter().find(|(name, _)| *name == letter).expect("the letter is one of them").1
}

fn key(letter: &str) -> Value {
    Value::Binary(sixteen_bytes(spelled(letter)))
}

/// Bind of the unnamed statement to a row, and Execute.
fn row(letter: &str, v: &str) -> Vec<u8> {
    [message::bind("", "", &[key(letter), text(v)]), message::execute("", 0)].concat()
}

/// Parse, and a row each.
fn rows(rows: &[(&str, &str)]) -> Vec<u8> {
    let rows: Vec<Vec<u8>> = rows.iter().map(|(letter, v)| row(letter, v)).collect();
    [message::parse("", INSERT, &[]), rows.concat()].concat()
}

/// Parse, Bind, Execute of a statement without parameters, and a Sync.
fn command(sql: &str) -> Vec<u8> {
    [message::extended(sql, &[]), message::sync()].concat()
}

#[test]
fn implicit_transactions_come_out_right_in_every_mode() {
    let array = format!("{{{},{},{}}}", spelled("K"), spelled("L"), spelled("K"));
    let unnest = message::extended(
        "INSERT INTO ev(id,v) SELECT * FROM unnest($1::uuid[],$2::text[])",
        &[text(&array), text("{a,b,c}")],
    );
    let pipeline = rows(&[("K", "a"), ("L", "b"), ("K", "c")]);
    Conversation {
        name: "T03 three Binds before one Sync",
        exchanges: vec![([pipeline, message::sync()].concat(), 1)],
        outcomes: &["INSERT 0 1"; 3],
        rekeyed: &["3.1<1.1 committed"],
        ..PLAIN
    }
    .play();
    Conversation {
        name: "T03 one Bind of arrays",
        exchanges: vec![([unnest, message::sync()].concat(), 1)],
        outcomes: &["INSERT 0 3"],
        rekeyed: &["1.3<1.1 committed"],
        ..PLAIN
    }
    .play();
}

#[test]
fn pipelines_come_out_right_in_every_mode() {
    let one_write =
        [command("BEGIN"), rows(&[("K", "a"), ("L", "b"), ("K", "c")]), message::sync(), command("COMMIT")];
    let insert =
        |letter: &str, v: &str| format!("INSERT INTO ev(id,v) VALUES ('{}','{v}');", spelled(letter));
    let in_one_query = [insert("K", "a"), insert("L", "b"), insert("K", "c")].concat();
    Conversation {
        name: "T04 (a) BEGIN, rows and COMMIT in one write",
        exchanges: vec![(one_write.concat(), 3)],
        outcomes: &["BEGIN", "INSERT 0 1", "INSERT 0 1", "INSERT 0 1", "COMMIT"],
        rekeyed: &["3.1<1.1 committed"],
        ..PLAIN
    }
    .play();
    Conversation {
        name: "T04 (b) one Query",
        exchanges: vec![(message::query(in_one_query), 1)],
        outcomes: &["INSERT 0 1"; 3],
        rekeyed: &["3.1<1.1 committed"],
        ..PLAIN
    }
    .play();
    let bad = [message::bind("", "", &[text("no uuid"), text("x")]), message::execute("", 0)].concat();
    let failing = [rows(&[("K", "a")]), bad, row("K", "b"), message::sync()].concat();
    Conversation {
        name: "T16 (b) an error within a pipeline",
        exchanges: vec![(failing, 1), ([rows(&[("K", "c")]), message::sync()].concat(), 1)],
        outcomes: &["INSERT 0 1", "!22P02", "INSERT 0 1"],
        stored: &["K|c"],
        rekeyed: NONE_SURVIVES,
    }
    .play();
}

/// Distinct v4 keys, in 16 bytes; the last one is the sixth again.
fn numbered(n: u32, last: u32) -> Vec<u8> {
    let mut bytes = [0x44; 16];
    bytes[..4].copy_from_slice(&(if n == last { 5 } else { n }).to_be_bytes());
    bytes[8] = 0x84;
    bytes.to_vec()
}

#[test]
fn long_batches_come_out_right_in_every_mode() {
    // T04 (c). One row a Bind, or one Bind for all of 32,767 rows.
    const BINDS: u32 = 70_000;
    const ROWS: u32 = 32_767;
    let value = |n: u32| text(&n.to_string());
    let bound = |n: u32| {
        let values = [Value::Binary(numbered(n, BINDS - 1)), value(n)];
        [message::bind("", "", &values), message::execute("", 0)].concat()
    };
    let binds = (0..BINDS).flat_map(bound).collect::<Vec<u8>>();
    let mut insert = "INSERT INTO ev(id,v) VALUES ($1,$2)".to_owned();
    (1..ROWS).for_each(|n| write!(insert, ",(${},${})", 2 * n + 1, 2 * n + 2).expect("memory takes it"));
    let values: Vec<Value> =
        (0..ROWS).flat_map(|n| [Value::Binary(numbered(n, ROWS - 1)), value(n)]).collect();
    let forms = [
        ([message::parse("", INSERT, &[]), binds, message::sync()].concat(), BINDS, "70000.1<6.1"),
        ([message::extended(insert, &values), message::sync()].concat(), ROWS, "1.32767<1.6"),
    ];
    for (bytes, count, place) in forms {
        let database = Database::fresh(EV);
        let say = |connect: &dyn Fn() -> Wire| vec![connect().converse(&bytes, 1)];
        let play = Play {
            place: format!("T04 (c) {count} rows"),
            database: &database,
            arguments: &[],
            stored: "SELECT count(*), count(DISTINCT id) FROM ev",
            say: &say,
        };
        let bare = play.bare();
        assert_eq!(bare.1, ["0|0"]);
        play.observe(&bare, &[&format!("{place} committed")]);
        // Mode rewrite is played by `pipelines`.
        let proxy = play.strict();
        empty_tables(&database);
        say(&|| proxy.connect());
        assert_eq!(database.stored(play.stored), [format!("{count}|{count}")]);
        expect_rekeyed_at(place, &[&format!("{place} committed")], &proxy);
    }
}

/// The rows K a, L b, K c as COPY statements and their data.
fn copies() -> Vec<(&'static str, Vec<u8>)> {
    let text = |line: &str| line.replace('K', spelled("K")).replace('L', spelled("L")).into_bytes();
    let field =
        |bytes: &[u8]| [&u32::try_from(bytes.len()).expect("short").to_be_bytes()[..], bytes].concat();
    let binary = [("K", "a"), ("L", "b"), ("K", "c")].map(|(letter, v)| {
        [vec![0, 2], field(&sixteen_bytes(spelled(letter))), field(v.as_bytes())].concat()
    });
    let header = [&b"PGCOPY\n\xff\r\n\0"[..], &[0; 8]].concat();
    vec![
        ("COPY ev(id,v) FROM STDIN", text("K\ta\nL\tb\nK\tc\n")),
        ("COPY ev(id,v) FROM STDIN (FORMAT csv, HEADER)", text("id,v\n{K},\"a\"\n\"{L}\",b\nK,c\n")),
        ("COPY ev(id,v) FROM STDIN (FORMAT binary)", [header, binary.concat(), vec![0xff, 0xff]].concat()),
    ]
}

#[test]
fn copies_come_out_right_in_every_mode() {
    for (sql, data) in copies() {
        let halves = data.split_at(data.len() / 2);
        let data = [message::copy_data(halves.0), message::copy_data(halves.1)].concat();
        Conversation {
            name: sql,
            exchanges: vec![([message::query(sql), data.clone(), message::copy_done()].concat(), 1)],
            outcomes: &["COPY 3"],
            rekeyed: &["1.3<1.1 committed"],
            ..PLAIN
        }
        .play();
        let failing = [message::query(sql), data, message::copy_fail("no more")].concat();
        Conversation {
            name: &format!("{sql}, ended by CopyFail"),
            exchanges: vec![(failing, 1), (message::query("SELECT 1"), 1)],
            outcomes: &["!57014", "SELECT 1"],
            stored: &[],
            rekeyed: &["1.3<1.1 rolled_back"],
        }
        .play();
    }
}

#[test]
fn what_was_delivered_twice_is_left_to_postgres_in_strict_mode() {
    let database = Database::fresh(EV);
    let twice = rows(&[("K", "a"), ("L", "b"), ("K", "a")]);
    let say =
        |connect: &dyn Fn() -> Wire| vec![connect().converse(&[&twice[..], &message::sync()].concat(), 1)];
    let play = Play {
        place: "one row twice".to_owned(),
        database: &database,
        arguments: &[],
        stored: STORED,
        say: &say,
    };
    let bare = play.bare();
    play.forward(&bare, true);
}
