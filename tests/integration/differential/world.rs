//! A random schema in two equal databases, untwin in front of one, and sessions that run the same cases on both.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::case::*;
use super::compare::{Observed, Shown, Trial, masked};
use super::database::{Data, Key, Value, default};
use super::draw;
use super::forms::{prepared, shown, stored};
use super::journal::{Journal, Record};
use super::random::Random;
use super::schema::{self, Is, Schema};
use super::spell::Speller;
use crate::support::wire::Reply;
use crate::support::{Database, Proxy, Wire, message};

/// Cases whose rows are compared at once.
const BATCH: u32 = 25;
/// The key of the table `probe`.
const PROBE: u128 = 0x9b0e_0000_0000_4000_8000_0000_0000_0000;
/// How long a session may take to know the schema again.
const PATIENCE: Duration = Duration::from_secs(20);
/// A message larger than this is written while replies are read, since neither side's buffers may hold it all.
const LARGE: usize = 32 << 10;

/// The role of the sessions: no superuser, since row-level security does not bind those.
const ROLE: &str = "DO $$ BEGIN CREATE ROLE app LOGIN; EXCEPTION WHEN OTHERS THEN NULL; END $$;";

/// A difference, and everything needed to see it again.
#[derive(Debug)]
pub struct Difference {
    pub case: Case,
    pub schema: Schema,
    pub what: String,
}

/// Two databases and the proxy.
pub struct World {
    pub schema: Schema,
    direct: Database,
    through: Database,
    proxy: Proxy,
    journal: Mutex<Journal>,
}

/// One client's sessions, on both databases.
struct Client<'w> {
    world: &'w World,
    name: String,
    direct: Wire,
    through: Wire,
    /// The other session of each.
    others: [Wire; 2],
    /// The last case did what might be anything.
    is_blind: bool,
    /// Superusers past the proxy.
    keepers: [Wire; 2],
}

impl World {
    /// With this schema.
    pub fn new(schema: Schema) -> World {
        let direct = Database::fresh(&format!("{ROLE}{}", schema.ddl()));
        let through = direct.twin();
        let proxy = Proxy::before(&through);
        let journal = Mutex::new(Journal::at(proxy.journal_path().to_owned()));
        World { schema, direct, through, proxy, journal }
    }

    /// Runs `count` cases in each of some sessions at the same time.
    pub fn run(&self, seed: u64, sessions: u32, count: u32) -> Result<Shown, Box<Difference>> {
        let results = std::thread::scope(|scope| {
            let session = |at: u32| {
                scope.spawn(move || {
                    let mut random = Random::new(seed ^ u64::from(at) << 32);
                    // Numbers of other sessions' cases are far away.
                    let first = 1 + at * count;
                    let cases = (first..first + count)
                        .map(|number| draw::case(&mut random, &self.schema, number, sessions > 1));
                    self.session(&format!("session {at}"), cases.collect())
                })
            };
            let running: Vec<_> = (0..sessions).map(session).collect();
            running.into_iter().map(|one| one.join().expect("sessions report by value")).collect::<Vec<_>>()
        });
        let mut all = Shown::default();
        for result in results {
            all.add(result?);
        }
        Ok(all)
    }

    /// Runs these cases, one after the other.
    pub fn session(&self, name: &str, cases: Vec<Case>) -> Result<Shown, Box<Difference>> {
        let mut client = self.client(name);
        let mut shown = Shown::default();
        for batch in cases.chunks(BATCH as usize) {
            shown.add(client.batch(batch)?);
        }
        Ok(shown)
    }

    fn client(&self, name: &str) -> Client<'_> {
        let connect = |address, database: &str, user, name: &str| {
            Wire::connect_with(address, &[("user", user), ("database", database), ("application_name", name)])
        };
        let (direct, through) = (&self.direct, &self.through);
        let prepare = |mut wire: Wire| {
            wire.converse(&prepared(&self.schema), 2);
            wire
        };
        Client {
            world: self,
            name: name.to_owned(),
            is_blind: false,
            direct: prepare(connect(direct.address, &direct.name, "app", name)),
            through: prepare(connect(self.proxy.address, &through.name, "app", name)),
            others: [
                connect(direct.address, &direct.name, "app", "other"),
                connect(self.proxy.address, &through.name, "app", "other"),
            ],
            keepers: [direct.connect(), through.connect()],
        }
    }
}

fn converse(wire: &mut Wire, bytes: &[u8], ready: usize) -> Vec<Reply> {
    if bytes.len() > LARGE {
        return wire.converse(bytes, ready);
    }
    wire.send(bytes);
    wire.until_ready(ready)
}

fn play(case: &Case, speller: Speller, session: &mut Wire, other: &mut Wire) -> Observed {
    let mut observed = Observed::default();
    if case.at_once {
        let mut bytes = Vec::new();
        for step in &case.steps {
            if let Step::Group(group) = step {
                bytes.extend(speller.bytes(group));
            }
        }
        observed.replies = converse(session, &bytes, case.steps.len());
        return observed;
    }
    for step in &case.steps {
        match step {
            Step::Group(group) => observed.replies.extend(converse(session, &speller.bytes(group), 1)),
            Step::Meanwhile(insert) => {
                let (sql, _) = speller.sql(&Statement::Insert(insert.clone()), false);
                observed.meanwhile.extend(converse(other, &message::query(sql), 1));
            }
        }
    }
    observed
}

/// The rows that are there before a case: in each table one, with the first key and the first content.
fn rows_before(schema: &Schema, case: u32) -> Data {
    let mut drawn = 0;
    let row = |table: &schema::Table| {
        let value = |column: &schema::Column| {
            drawn -= 1;
            match column.is {
                Is::Content => Value::Number(case * CONTENTS),
                Is::Key | Is::Second => Value::Key(Key::Given(OLD)),
                Is::Tenant => Value::Number(0),
                Is::Parent => Value::Null,
                _ => default(column.default, Some(case * CONTENTS), drawn as u32, u32::MAX - 1),
            }
        };
        vec![table.columns.iter().map(value).collect()]
    };
    Data { tables: schema.tables.iter().map(row).collect(), own: None, log: Vec::new() }
}

/// The statements that store [`rows_before`], without triggers and rules.
fn seeds(schema: &Schema, cases: &[Case]) -> String {
    let mut sql = String::from("SET session_replication_role = replica;");
    for table in &schema.tables {
        let sent =
            |column: &&schema::Column| matches!(column.is, Is::Content | Is::Key | Is::Second | Is::Tenant);
        let columns: Vec<&schema::Column> = table.columns.iter().filter(sent).collect();
        let row = |case: &Case| {
            let value = |column: &&schema::Column| match column.is {
                Is::Content => (case.number * CONTENTS).to_string(),
                Is::Tenant => "0".to_owned(),
                _ => format!("'{}'", spell(Keys::of(case).value(OLD))),
            };
            format!("({})", columns.iter().map(value).collect::<Vec<_>>().join(","))
        };
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        let rows: Vec<String> = cases.iter().map(row).collect();
        sql += &format!("INSERT INTO {} ({}) VALUES {};", table.name, names.join(","), rows.join(","));
    }
    sql
}

impl Client<'_> {
    fn batch(&mut self, cases: &[Case]) -> Result<Shown, Box<Difference>> {
        let schema = &self.world.schema;
        let seeds = seeds(schema, cases);
        self.keepers.iter_mut().for_each(|keeper| keeper.run(&seeds));
        let mut played: Vec<[Observed; 2]> = Vec::new();
        for case in cases {
            if self.is_blind {
                self.wait();
            }
            self.is_blind = case.blinds();
            let keys = Keys::of(case);
            let speller = Speller { schema, keys: &keys, number: case.number };
            let [other, other_through] = &mut self.others;
            played.push([
                play(case, speller, &mut self.direct, other),
                play(case, speller, &mut self.through, other_through),
            ]);
        }
        for at in 0..2 {
            self.read_back(cases, at, &mut played);
        }
        let fail = |case: &Case, what: String| {
            Box::new(Difference { case: case.clone(), schema: schema.clone(), what })
        };
        let records = self.records(cases).map_err(|what| fail(&cases[0], what))?;
        let mut shown = Shown::default();
        for (case, [direct, through]) in cases.iter().zip(&played) {
            let none = Vec::new();
            let records = records.get(&case.number).unwrap_or(&none);
            let keys = Keys::of(case);
            let before = rows_before(schema, case.number);
            let trial = Trial { schema, case, keys, before, direct, through, records };
            shown.add(trial.check().map_err(|what| {
                let replies = |replies: &[Reply]| {
                    replies
                        .iter()
                        .map(|reply| {
                            format!(
                                "    {} {}\n",
                                char::from(reply.tag),
                                String::from_utf8_lossy(&reply.body).replace('\0', " ")
                            )
                        })
                        .collect::<String>()
                };
                fail(
                    case,
                    format!(
                        "{what}\n  journal: {records:#?}\n  a server alone:\n{}  through untwin:\n{}",
                        replies(&direct.replies),
                        replies(&through.replies)
                    ),
                )
            })?);
        }
        Ok(shown)
    }

    /// Waits until a session that did what might be anything knows the schema again.
    fn wait(&mut self) {
        let begun = Instant::now();
        let probe = format!("INSERT INTO probe VALUES ('{key}'), ('{key}')", key = spell(PROBE));
        loop {
            let replies = self.through.query(format!("BEGIN; {probe}; ROLLBACK"));
            if !replies.iter().any(|reply| reply.tag == b'E') {
                return;
            }
            self.through.run("ROLLBACK");
            assert!(begun.elapsed() < PATIENCE, "twins are not seen any more");
        }
    }

    /// The journal's records of each case, told apart by their keys.
    fn records(&self, cases: &[Case]) -> Result<HashMap<u32, Vec<Record>>, String> {
        let records = self.world.journal.lock().expect("nobody panics with it").take(&self.name)?;
        let owner: HashMap<u128, u32> =
            cases.iter().flat_map(|case| Keys::of(case).0.map(|key| (key, case.number))).collect();
        let mut by_case: HashMap<u32, Vec<Record>> = HashMap::new();
        for record in records.into_iter().filter(|record| record.old != PROBE) {
            let case = owner.get(&record.old).ok_or_else(|| format!("a key that nobody sent: {record:?}"))?;
            by_case.entry(*case).or_default().push(record);
        }
        Ok(by_case)
    }

    fn read_back(&mut self, cases: &[Case], at: usize, played: &mut [[Observed; 2]]) {
        let schema = &self.world.schema;
        let (first, last) = (cases[0].number, cases[cases.len() - 1].number);
        let (from, to) = (first * CONTENTS, last * CONTENTS + CONTENTS - 1);
        let mut queries: Vec<String> = schema.tables.iter().map(|table| stored(table, from, to)).collect();
        queries.push(format!("SELECT v FROM log WHERE v BETWEEN {from} AND {to} ORDER BY v"));
        for (table, query) in queries.iter().enumerate() {
            for observed in played.iter_mut() {
                observed[at].stored.push(Vec::new());
            }
            for row in self.keepers[at].rows(query) {
                let content: u32 = match schema.tables.get(table) {
                    Some(of) => {
                        let place = shown(of).iter().position(|&at| of.columns[at].is == Is::Content);
                        row.split('|').nth(place.expect("it is shown")).expect("as many columns").parse()
                    }
                    None => row.parse(),
                }
                .expect("contents are numbers");
                let row = schema.tables.get(table).map_or(row.clone(), |table| masked(table, &row));
                let case = cases.iter().position(|case| case.number == content / CONTENTS);
                played[case.expect("only these were asked for")][at].stored[table].push(row);
            }
        }
    }
}
