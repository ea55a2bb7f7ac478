//! Plays a scenario, kept as data, through every protocol a driver may use, and compares what is stored, answered and journalled.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::expect::{LETTERS, expect_rekeyed_at, is_random, rows_fit, sixteen_bytes};
use crate::modes::{Play, Strict, empty_tables};
use crate::support::message::{self, Value};
use crate::support::wire::Reply;
use crate::support::{Database, Proxy, Wire, program, wire};

/// The table most scenarios use.
pub const EV: &str = "CREATE TABLE ev (id uuid PRIMARY KEY, v text, src text)";

/// A conversation and all that must come of it.
#[derive(Clone, Copy)]
pub struct Scenario<'a> {
    /// What failure messages call it.
    pub name: &'a str,
    /// SQL that makes its tables.
    pub tables: &'a str,
    /// Keys besides [`LETTERS`], each with its spelling.
    pub keys: &'a [(&'a str, &'a str)],
    /// Statements and what becomes of each: a command tag, or `!` with SQLSTATE and a word of the message. `{K}` is the key K:
    /// a literal, or a parameter where the protocol has some. `c2> ` in front makes it the statement of a second connection.
    pub steps: &'a [(&'a str, &'a str)],
    /// A query and its rows. `K` is that key; `U`, `U1`, … are fresh keys: alike names are equal, others differ.
    pub stored: (&'a str, &'a [&'a str]),
    /// The rewrites on record: `statement.row<statement.row fate`, the holder of the key after `<`.
    pub rekeyed: &'a [&'a str],
    /// Whether a twin that was forwarded must be on record, too.
    pub forwarded: bool,
    /// The SQLSTATE of the first failure without untwin, empty if there is none.
    pub bare: &'a str,
    /// What a fresh key looks like.
    pub fresh: fn(&str) -> bool,
    /// How keys travel in binary.
    pub binary: fn(&str) -> Vec<u8>,
    /// Arguments of the proxy.
    pub arguments: &'a [&'a str],
    /// The protocols it makes sense for.
    pub protocols: &'a [Protocol],
    /// What mode `strict` makes of it.
    pub strict: Strict,
}

/// What scenarios have in common.
pub const PLAIN: Scenario<'static> = Scenario {
    name: "",
    tables: EV,
    keys: &[],
    steps: &[],
    stored: ("SELECT id, v FROM ev ORDER BY ctid", &[]),
    rekeyed: &[],
    forwarded: false,
    bare: "",
    fresh: is_random,
    binary: sixteen_bytes,
    arguments: &[],
    protocols: ALL,
    strict: Strict::AsMarked,
};

/// How a statement travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A script of psql.
    Psql,
    /// A Query each.
    Simple,
    /// All Query messages in one write.
    SimplePipelined,
    /// Parse, Bind, Describe, Execute, Sync each, keys as literals of the Parse.
    Literals,
    /// Keys as text parameters.
    TextParameters,
    /// Keys as binary parameters.
    BinaryParameters,
    /// Binary parameters, all messages in one write, a Sync after each statement.
    Pipelined,
}

/// Every protocol.
pub const ALL: &[Protocol] = &[
    Protocol::Psql,
    Protocol::Simple,
    Protocol::SimplePipelined,
    Protocol::Literals,
    Protocol::TextParameters,
    Protocol::BinaryParameters,
    Protocol::Pipelined,
];

/// Where one statement is sent, answered, and then the next: scenarios of two connections, and of statements that return rows.
pub const ONE_BY_ONE: &[Protocol] =
    &[Protocol::Simple, Protocol::Literals, Protocol::TextParameters, Protocol::BinaryParameters];

/// Several statements in one Query.
pub const SIMPLE: &[Protocol] = &[Protocol::Simple, Protocol::SimplePipelined];

/// Keys as literals and as parameters: what the modes besides `rewrite` are played with.
const TWO: [Protocol; 2] = [Protocol::Simple, Protocol::BinaryParameters];

/// Plays scenarios, each on a bare server first, then through untwin by each of its protocols; and unless its arguments
/// choose a mode, through untwin in the other modes.
pub fn play(scenarios: &[Scenario<'_>]) {
    for scenario in scenarios {
        scenario.play();
    }
}

impl Scenario<'_> {
    fn play(&self) {
        let database = Database::fresh(self.tables);
        self.expect_bare_failure(&database);
        let mut rewritten = Vec::new();
        for protocol in self.protocols {
            empty_tables(&database);
            let proxy = Proxy::with(&database, self.arguments);
            rewritten = self.play_through(*protocol, &proxy, &database);
        }
        if self.arguments.contains(&"--mode") {
            return;
        }
        let strict = self.strict.decide(&database, &rewritten);
        let common: Vec<Protocol> = TWO.into_iter().filter(|one| self.protocols.contains(one)).collect();
        for protocol in if common.is_empty() { self.protocols } else { &common } {
            self.play_in_other_modes(*protocol, &database, strict);
        }
    }

    /// Plays it by one protocol and compares all that comes of it. Returns the journal.
    fn play_through(&self, protocol: Protocol, proxy: &Proxy, database: &Database) -> Vec<Json> {
        let place = format!("{} by {protocol:?}", self.name);
        let answers = if protocol == Protocol::Psql {
            self.answers_of_psql(proxy, database)
        } else {
            answers(&self.say(protocol, &|| proxy.connect()))
        };
        self.compare_answers(&place, &answers);
        let rows = database.stored(self.stored.0);
        let fits = rows_fit(self.stored.1, &rows, &self.letters(), self.fresh);
        assert!(fits, "{place}: stored {rows:#?}, expected {:#?}", self.stored.1);
        self.compare_journal(&place, proxy);
        proxy.settled_journal()
    }

    fn play_in_other_modes(&self, protocol: Protocol, database: &Database, strict: Strict) {
        let play = Play {
            place: format!("{} by {protocol:?}", self.name),
            database,
            arguments: self.arguments,
            stored: self.stored.0,
            say: &|connect| self.say(protocol, connect),
        };
        let bare = play.bare();
        play.observe(&bare, self.rekeyed);
        if strict == Strict::Forwards {
            return play.forward(&bare, !self.rekeyed.is_empty());
        }
        empty_tables(database);
        self.play_through(protocol, &play.strict(), database);
    }

    fn expect_bare_failure(&self, database: &Database) {
        let protocol =
            if self.protocols.contains(&Protocol::Simple) { Protocol::Simple } else { Protocol::Literals };
        let answers = answers(&self.say(protocol, &|| database.connect()));
        let failed =
            answers.iter().find_map(|(outcome, _)| outcome.rsplit(';').find_map(|one| one.strip_prefix('!')));
        assert_eq!(failed.unwrap_or_default(), self.bare, "{} without untwin", self.name);
    }

    fn letters(&self) -> BTreeMap<&str, &str> {
        LETTERS.iter().chain(self.keys).copied().collect()
    }

    /// The replies to each step.
    fn say(&self, protocol: Protocol, connect: &dyn Fn() -> Wire) -> Vec<Vec<Reply>> {
        let mut connections = [connect(), connect()];
        let sent: Vec<(usize, Vec<u8>)> =
            self.steps.iter().map(|(step, _)| self.bytes(step, protocol)).collect();
        if matches!(protocol, Protocol::Pipelined | Protocol::SimplePipelined) {
            let [first, _] = &mut connections;
            first.send(&sent.iter().flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<u8>>());
            return sent.iter().map(|_| first.until_ready(1)).collect();
        }
        let mut exchange = |(connection, bytes): &(usize, Vec<u8>)| {
            connections[*connection].send(bytes);
            connections[*connection].until_ready(1)
        };
        sent.iter().map(&mut exchange).collect()
    }

    /// The connection a step belongs to and what it sends.
    fn bytes(&self, step: &str, protocol: Protocol) -> (usize, Vec<u8>) {
        let (connection, sql) = step.strip_prefix("c2> ").map_or((0, step), |rest| (1, rest));
        let takes_parameters =
            ["INSERT", "UPDATE", "DELETE", "SELECT", "MERGE"].iter().any(|verb| sql.starts_with(verb));
        let value: fn(&Self, &str) -> Value = match protocol {
            Protocol::TextParameters => |_, key| message::text(key),
            Protocol::BinaryParameters | Protocol::Pipelined => {
                |scenario, key| Value::Binary((scenario.binary)(key))
            }
            _ => return (connection, self.without_parameters(sql, protocol)),
        };
        if !takes_parameters {
            return (connection, self.without_parameters(sql, protocol));
        }
        let mut values = Vec::new();
        let sql = self.substitute(sql, |key| {
            values.push(value(self, key));
            format!("${}", values.len())
        });
        (connection, [message::extended(sql, &values), message::sync()].concat())
    }

    fn without_parameters(&self, sql: &str, protocol: Protocol) -> Vec<u8> {
        let sql = self.substitute(sql, |key| format!("'{key}'"));
        match protocol {
            Protocol::Simple | Protocol::SimplePipelined => message::query(sql),
            _ => [message::extended(sql, &[]), message::sync()].concat(),
        }
    }

    fn substitute(&self, sql: &str, mut with: impl FnMut(&str) -> String) -> String {
        let letters = self.letters();
        let mut pieces = sql.split('{');
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (name, rest) = piece.split_once('}').expect("a step closes its braces");
            text.push_str(&with(letters[name]));
            text.push_str(rest);
        }
        text
    }

    /// What psql prints: command tags on stdout, SQLSTATEs on stderr; in the end all it can tell is which failed.
    fn answers_of_psql(&self, proxy: &Proxy, database: &Database) -> Vec<(String, String)> {
        let script: String = self
            .steps
            .iter()
            .map(|(sql, _)| self.substitute(sql, |key| format!("'{key}'")) + ";\n")
            .collect();
        let target = format!("host=127.0.0.1 port={} dbname={}", proxy.address.port(), database.name);
        let output =
            program::run(&program::find("psql"), &["-X", "-v", "VERBOSITY=sqlstate", "-d", &target], &script);
        let tags = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut tags = tags.lines().map(str::to_owned);
        let mut errors =
            errors.lines().filter_map(|line| Some(format!("!{}", line.split_once("ERROR:  ")?.1)));
        let answer = |(_, expected): &(&str, &str)| {
            let next = if expected.starts_with('!') { errors.next() } else { tags.next() };
            (next.unwrap_or_else(|| "nothing".to_owned()), (*expected).to_owned())
        };
        let answers = self.steps.iter().map(answer).collect();
        assert_eq!(
            tags.chain(errors).collect::<Vec<_>>(),
            Vec::<String>::new(),
            "{}: more than expected",
            self.name
        );
        answers
    }

    fn compare_answers(&self, place: &str, answers: &[(String, String)]) {
        for ((step, expected), (outcome, message)) in self.steps.iter().zip(answers) {
            let (expected, word) = match expected.strip_prefix('!').and_then(|rest| rest.split_once(' ')) {
                Some((state, word)) => (format!("!{state}"), word),
                None => ((*expected).to_owned(), ""),
            };
            assert_eq!(*outcome, expected, "{place}: {step}: {message}");
            assert!(message.contains(word), "{place}: {step}: {message:?} does not say {word:?}");
        }
    }

    fn compare_journal(&self, place: &str, proxy: &Proxy) {
        expect_rekeyed_at(place, self.rekeyed, proxy);
        let records = proxy.settled_journal();
        let reasoned = |record: &Json| {
            record["action"] == "forwarded"
                && record["reason"].as_str().is_some_and(|reason| !reason.is_empty())
        };
        assert!(
            !self.forwarded || records.iter().any(reasoned),
            "{place}: nothing forwarded in {records:#?}"
        );
    }
}

/// The outcome of each step and the messages of its errors.
fn answers(replies: &[Vec<Reply>]) -> Vec<(String, String)> {
    let message = |replies: &Vec<Reply>| {
        let errors = replies.iter().filter(|reply| reply.tag == b'E');
        errors.filter_map(|error| error.field(b'M')).collect::<Vec<_>>().join(";")
    };
    replies.iter().map(|replies| (wire::outcomes(replies).join(";"), message(replies))).collect()
}
