//! What modes `strict` and `observe` must leave of a conversation: the outcome of the bare server, or that of `rewrite`.

use serde_json::Value as Json;

use crate::expect::{NONE_SURVIVES, outlines};
use crate::support::wire::Reply;
use crate::support::{Database, Proxy, Wire};

/// What mode `strict` makes of a conversation with twins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strict {
    /// What the marks of the twins in mode `rewrite` say, and whether a foreign key names their tables.
    AsMarked,
    /// The same as `rewrite`.
    Rewrites,
    /// The same as the bare server, each twin on record with a reason.
    Forwards,
}

impl Strict {
    /// Decides [`Strict::AsMarked`] by the journal of mode `rewrite`: only twins that differ in a column that is not
    /// volatile, in tables that nothing references, are rekeyed.
    pub fn decide(self, database: &Database, rewritten: &[Json]) -> Strict {
        let is_mark = |record: &Json, mark: &str| record[mark].as_bool() == Some(true);
        let is_left = |record: &&Json| {
            let referenced = format!(
                "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND confrelid = '{}'::regclass",
                record["table"].as_str().expect("a record names its table")
            );
            is_mark(record, "identical")
                || is_mark(record, "suspected_redelivery")
                || database.stored(&referenced) != ["0"]
        };
        match self {
            Strict::AsMarked => {
                let of = |action: &str| -> Vec<&Json> {
                    rewritten.iter().filter(|record| record["action"] == action).collect()
                };
                // A twin that would have been refused is one of a table that is referenced.
                let twins =
                    Some(of("rekeyed")).filter(|twins| !twins.is_empty()).unwrap_or_else(|| of("failed"));
                let left = twins.iter().filter(|twin| is_left(twin)).count();
                assert!(left == 0 || left == twins.len(), "strict leaves some twins: say what it comes to");
                if left == 0 { Strict::Rewrites } else { Strict::Forwards }
            }
            decided => decided,
        }
    }
}

/// Something that is said to a server, and what is stored afterwards; it can be played again and again.
pub struct Play<'a> {
    /// What failure messages call it.
    pub place: String,
    pub database: &'a Database,
    /// Arguments of the proxy besides its mode.
    pub arguments: &'a [&'a str],
    /// The query for what is stored.
    pub stored: &'a str,
    /// Says it over connections that `connect` makes.
    pub say: &'a Say<'a>,
}

/// Says something over connections made by what it is given; the replies to each part of it.
pub type Say<'a> = dyn Fn(&dyn Fn() -> Wire) -> Vec<Vec<Reply>> + 'a;

/// Every reply and every row.
type Outcome = (Vec<Vec<Reply>>, Vec<String>);

impl Play<'_> {
    /// On the bare server, its tables emptied first.
    pub fn bare(&self) -> Outcome {
        self.outcome(&|| self.database.connect())
    }

    /// In mode `observe`: the outcome of the bare server byte for byte, and on record what `rewrite` has on record up to
    /// the statement that fails without it.
    pub fn observe(&self, bare: &Outcome, rekeyed: &[&str]) {
        let proxy = Proxy::with(self.database, &[self.arguments, &["--mode", "observe"]].concat());
        let outcome = self.outcome(&|| proxy.connect());
        assert_eq!(outcome, *bare, "{} observed", self.place);
        let records = proxy.settled_journal();
        let observed = outlines("observed", &records);
        if rekeyed == NONE_SURVIVES {
            let is_gone = |outline: &String| outline.ends_with(" rolled_back");
            assert!(observed.iter().all(is_gone), "{} observed: {records:#?}", self.place);
        } else {
            assert_eq!(observed, observed_of(rekeyed), "{} observed: {records:#?}", self.place);
        }
        let touched = |record: &Json| record["action"] != "observed" && record["action"] != "forwarded";
        assert!(!records.iter().any(touched), "{} observed: {records:#?}", self.place);
    }

    /// In mode `strict` where it leaves every twin: the outcome of the bare server, and a reason on record.
    pub fn forward(&self, bare: &Outcome, twins: bool) {
        let proxy = self.strict();
        let outcome = self.outcome(&|| proxy.connect());
        assert_eq!(outcome, *bare, "{} strict", self.place);
        let records = proxy.settled_journal();
        let forwarded = |record: &Json| {
            record["action"] == "forwarded"
                && record["reason"].as_str().is_some_and(|reason| !reason.is_empty())
        };
        assert!(records.iter().all(forwarded), "{} strict: {records:#?}", self.place);
        assert!(!twins || !records.is_empty(), "{} strict: nothing on record", self.place);
    }

    /// In front of the same database in mode `strict`.
    pub fn strict(&self) -> Proxy {
        Proxy::with(self.database, &[self.arguments, &["--mode", "strict"]].concat())
    }

    fn outcome(&self, connect: &dyn Fn() -> Wire) -> Outcome {
        empty_tables(self.database);
        ((self.say)(connect), self.database.stored(self.stored))
    }
}

/// Deletes every row of the tables in schema public, and starts their sequences again.
pub fn empty_tables(database: &Database) {
    let names = "SELECT string_agg(oid::regclass::text, ',') FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace";
    database.run(&format!("TRUNCATE {} RESTART IDENTITY CASCADE", database.stored(names)[0]));
}

/// What `observe` has on record where `rewrite` has these: the bare server fails at the statement of the first twin, and
/// what that statement holds is rolled back.
fn observed_of(rekeyed: &[&str]) -> Vec<String> {
    let statement = |outline: &str| outline.split('.').next().unwrap_or_default().to_owned();
    let first = rekeyed.first().map(|outline| statement(outline));
    let of_first = rekeyed.iter().filter(|outline| Some(statement(outline)) == first);
    let unfated = |outline: &&&str| outline.rsplit_once(' ').map_or(**outline, |(place, _)| place).to_owned();
    of_first.map(|outline| unfated(&outline) + " rolled_back").collect()
}
