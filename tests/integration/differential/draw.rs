//! Draws cases at random for a schema; what should come of them is not its business.

use super::case::*;
use super::random::Random;
use super::schema::{Default, Foreign, Is, Quirk, Route, Schema, Table};

/// The longest case, in rows: each has a content of its own.
const ROWS: u32 = CONTENTS - 12;

/// What is drawn from, while a case grows.
struct Drawing<'a> {
    random: &'a mut Random,
    schema: &'a Schema,
    number: u32,
    /// Contents given out.
    used: u32,
    /// Keys that were sent to each table: what references name.
    sent: Vec<Vec<(u32, Option<u32>)>>,
    /// The key of the other session may be named.
    met: bool,
    /// No statement may change the schema, or look as if it could: the proxy tells all sessions of it, which use the
    /// same tables.
    shared: bool,
    created: bool,
}

/// A case. `shared`: other sessions use the tables at the same time.
pub fn case(random: &mut Random, schema: &Schema, number: u32, shared: bool) -> Case {
    let seed = random.next();
    let sent = vec![vec![(OLD, Some(0))]; schema.tables.len()];
    let mut drawing = Drawing { random, schema, number, used: 0, sent, met: false, shared, created: false };
    let at_once = drawing.random.one_in(3);
    let mut steps = Vec::new();
    for _ in 0..drawing.random.pick(&[1, 1, 1, 2]) {
        drawing.transaction(&mut steps, at_once);
    }
    // Whatever an error in the middle of a group left open.
    let last = Group { extended: false, parameters: false, statements: vec![Statement::Rollback] };
    steps.push(Step::Group(last));
    Case { number, steps, at_once, seed, salt: 0 }
}

impl Drawing<'_> {
    fn transaction(&mut self, steps: &mut Vec<Step>, at_once: bool) {
        let explicit = self.random.below(4) != 0;
        let count = 1 + self.random.below(8);
        let longest = self.random.pick(&[1, 1, 3, 100]);
        let focus = self.random.below(self.schema.relations.len() as u32) as usize;
        let mut group = Vec::new();
        if explicit {
            group.push(Statement::Begin);
        }
        for _ in 0..count {
            if !group.is_empty() && self.random.below(longest) == 0 {
                self.close(&mut group, steps);
            }
            if !at_once && !self.met && self.random.one_in(12) {
                self.close(&mut group, steps);
                steps.extend(self.meanwhile().map(Step::Meanwhile));
            }
            group.push(self.statement(explicit, focus));
        }
        if explicit {
            group.push(if self.random.one_in(8) { Statement::Rollback } else { Statement::Commit });
        }
        self.close(&mut group, steps);
    }

    fn close(&mut self, group: &mut Vec<Statement>, steps: &mut Vec<Step>) {
        if !group.is_empty() {
            let group = self.group(std::mem::take(group));
            steps.push(Step::Group(group));
        }
    }

    /// Chooses the protocol, and carriers that fit it.
    fn group(&mut self, mut statements: Vec<Statement>) -> Group {
        let needs =
            |one: &Statement| matches!(one, Statement::Insert(insert) if insert.carrier.has_parameters());
        let mut extended = self.random.one_in(2);
        if !extended && statements.iter().any(needs) {
            extended = self.random.below(4) != 0;
        }
        if extended && self.shared {
            for statement in &mut statements {
                if let Statement::Insert(insert) = statement
                    && insert.carrier == Carrier::Execute
                {
                    insert.carrier = Carrier::Named;
                }
            }
        }
        if !extended {
            for statement in &mut statements {
                if let Statement::Insert(insert) = statement
                    && insert.carrier.has_parameters()
                {
                    insert.carrier = Carrier::Literals;
                }
            }
        }
        Group { extended, parameters: extended && self.random.one_in(2), statements }
    }

    fn content(&mut self) -> u32 {
        self.used += 1;
        self.number * CONTENTS + self.used
    }

    fn recent(&mut self) -> u32 {
        self.number * CONTENTS + self.used.saturating_sub(self.random.below(5))
    }

    fn key(&mut self) -> u32 {
        if self.random.one_in(20) {
            return OLD;
        }
        let keys = if self.met { KEYS } else { THEIRS };
        1 + self.random.below(keys - 1)
    }

    fn relation(&mut self, focus: usize) -> usize {
        if self.random.one_in(3) {
            self.random.below(self.schema.relations.len() as u32) as usize
        } else {
            focus
        }
    }

    fn statement(&mut self, savepoints: bool, focus: usize) -> Statement {
        let relation = self.relation(focus);
        let name = self.random.pick(&SAVEPOINTS);
        match self.random.below(60) {
            0 => Statement::DivideByZero,
            1 => Statement::SelectOne,
            2 => Statement::Count { relation, key: self.key() },
            3 | 4 => Statement::Delete { relation, which: self.which() },
            5 | 6 => Statement::Note { relation, which: self.which() },
            7 => Statement::Move { relation, content: self.recent(), key: self.key() },
            8 if !self.shared && self.random.one_in(2) => Statement::Do { relation, content: self.recent() },
            9 if !self.shared && self.random.one_in(2) => self.own_table(),
            10..=14 if savepoints => Statement::Savepoint(name),
            15..=19 if savepoints => Statement::RollbackTo(name),
            20 | 21 if savepoints => Statement::Release(name),
            _ if self.used >= ROWS => Statement::SelectOne,
            _ => Statement::Insert(self.insert(relation)),
        }
    }

    fn own_table(&mut self) -> Statement {
        match self.random.below(5) {
            _ if !self.created => {
                self.created = true;
                Statement::CreateTable
            }
            0 => Statement::DropTable,
            _ => Statement::FillTable { key: self.random.below(2), content: self.content() },
        }
    }

    fn which(&mut self) -> Which {
        if self.random.one_in(2) { Which::Content(self.recent()) } else { Which::Key(self.key()) }
    }

    fn meanwhile(&mut self) -> Option<Insert> {
        let plain: Vec<usize> = (0..self.schema.relations.len())
            .filter(|&at| {
                let relation = &self.schema.relations[at];
                let table = &self.schema.tables[relation.table];
                relation.route == Route::Table && table.quirk == Quirk::Plain && table.foreign.is_empty()
            })
            .collect();
        if plain.is_empty() {
            return None;
        }
        self.met = true;
        let relation = self.random.pick(&plain);
        let table = &self.schema.tables[self.schema.relations[relation].table];
        let mut insert = self.insert(relation);
        insert.rows.truncate(1);
        (insert.on_conflict, insert.overriding) = (OnConflict::Fail, Overriding::Unsaid);
        (insert.carrier, insert.returning, insert.says_columns) = (Carrier::Literals, false, true);
        let always = |at: &usize| table.columns[*at].default == Default::Identity { always: true };
        let kept: Vec<usize> = (0..insert.columns.len()).filter(|&at| !always(&insert.columns[at])).collect();
        let row = &insert.rows[0];
        insert.rows = vec![kept.iter().map(|&at| row[at]).collect()];
        insert.columns = kept.iter().map(|&at| insert.columns[at]).collect();
        for (cell, &column) in insert.rows[0].iter_mut().zip(&insert.columns) {
            match table.columns[column].is {
                Is::Key | Is::Second => *cell = Cell::Key(THEIRS),
                Is::Content if *cell == Cell::Null => {
                    *cell = Cell::Number(self.number * CONTENTS + ROWS + 10)
                }
                _ => {}
            }
        }
        Some(insert)
    }

    fn insert(&mut self, relation: usize) -> Insert {
        let Schema { tables, relations } = self.schema;
        let (table, route) = (&tables[relations[relation].table], relations[relation].route);
        let mut carrier = self.random.pick(&CARRIERS);
        let ruled = matches!(table.quirk, Quirk::Also | Quirk::Nothing);
        if carrier.is_copy() && route == Route::View || carrier == Carrier::Cte && ruled {
            carrier = Carrier::Literals;
        }
        let prepared = matches!(carrier, Carrier::Named | Carrier::Execute);
        let (columns, said) = if prepared { (canonical(table), true) } else { self.columns(table) };
        // Without a list COPY wants every column.
        let whole = columns.len() == table.columns.iter().filter(|column| column.is != Is::Made).count();
        let says_columns = said || carrier.is_copy() && !whole;
        let count = if prepared { 1 } else { self.random.pick(&[1, 1, 1, 2, 3, 5]) };
        let rows =
            (0..count).map(|_| self.row(relations[relation].table, table, &columns, carrier)).collect();
        let can_conflict =
            table.can_say_on_conflict() && !ruled && !carrier.is_copy() && !prepared && self.random.one_in(8);
        let on_conflict = match can_conflict {
            false => OnConflict::Fail,
            true if table.arbiter().is_some() && self.random.one_in(2) => OnConflict::Update,
            true => OnConflict::Nothing,
        };
        let identity = |at: &usize| matches!(table.columns[*at].default, Default::Identity { .. });
        let overriding = match columns.iter().any(identity) && !carrier.is_copy() && !prepared {
            true => self.random.pick(&[
                Overriding::System,
                Overriding::System,
                Overriding::User,
                Overriding::Unsaid,
            ]),
            false => Overriding::Unsaid,
        };
        let returning =
            !carrier.is_copy() && !prepared && carrier != Carrier::Cte && !ruled && self.random.one_in(4);
        let spelling = match self.random.below(8) {
            0 => Spelling::Upper,
            1 => Spelling::Braces,
            2 => Spelling::Simple,
            _ => Spelling::Plain,
        };
        Insert {
            relation,
            columns,
            says_columns,
            rows,
            on_conflict,
            overriding,
            returning,
            carrier,
            spelling,
        }
    }

    /// A column list, and whether it has to be said.
    fn columns(&mut self, table: &Table) -> (Vec<usize>, bool) {
        let mut columns: Vec<usize> = (0..table.columns.len())
            .filter(|&at| must(table, at) || may(table, at) && self.random.one_in(2))
            .collect();
        let leading = columns.iter().enumerate().all(|(at, column)| at == *column);
        if leading && self.random.one_in(2) {
            return (columns, false);
        }
        for at in (1..columns.len()).rev() {
            let other = self.random.below(at as u32 + 1) as usize;
            columns.swap(at, other);
        }
        (columns, true)
    }

    fn row(&mut self, at: usize, table: &Table, columns: &[usize], carrier: Carrier) -> Vec<Cell> {
        let key = self.key();
        let tenant = self.random.pick(&[0, 0, 0, 1]);
        let mut row: Vec<Cell> =
            columns.iter().map(|&column| self.cell(table, column, key, tenant, carrier)).collect();
        if let Some(foreign) = table.foreign.first() {
            self.point(table, foreign, columns, &mut row);
        }
        let told = columns.iter().position(|&column| table.columns[column].is == Is::Tenant);
        let tenant = match told.map(|at| row[at]) {
            Some(Cell::Number(tenant)) => Some(tenant),
            Some(_) => None,
            None => Some(0),
        };
        let id = columns.iter().position(|&column| table.columns[column].is == Is::Key);
        if let Some(Cell::Key(key)) = id.map(|at| row[at]) {
            self.sent[at].push((key, tenant));
        }
        row
    }

    fn cell(&mut self, table: &Table, column: usize, key: u32, tenant: u32, carrier: Carrier) -> Cell {
        let column = &table.columns[column];
        if column.default != Default::Null && carrier.can_default() && self.random.one_in(6) {
            return Cell::Default;
        }
        if matches!(column.is, Is::Tenant | Is::Tag | Is::Second | Is::Parent)
            && !column.not_null
            && self.random.one_in(5)
        {
            return Cell::Null;
        }
        match column.is {
            Is::Content if self.random.one_in(60) => Cell::Null,
            Is::Content => Cell::Number(self.content()),
            Is::Key if matches!(column.kind, "uuid" | "kid") && self.random.one_in(200) => Cell::NoKey,
            Is::Key => Cell::Key(key),
            Is::Second => Cell::Key(self.key()),
            Is::Parent => Cell::Key(key),
            Is::Tenant => Cell::Number(tenant),
            Is::Tag => Cell::Text(self.random.pick(&["x", "y"])),
            Is::Note if self.random.one_in(6) => Cell::Key(key),
            Is::Note => Cell::Text(self.random.pick(&["a", "b"])),
            Is::Number => Cell::Number(1_000_000_000 + self.random.below(3)),
            Is::Made | Is::Time | Is::Random => Cell::Default,
        }
    }

    /// Lets a row refer to one that was probably inserted.
    fn point(&mut self, table: &Table, foreign: &Foreign, columns: &[usize], row: &mut [Cell]) {
        if self.random.one_in(10) {
            return;
        }
        let sent = &self.sent[foreign.parent];
        let newest = sent.len().saturating_sub(4);
        let (key, tenant) = self.random.pick(&sent[newest..]);
        for (cell, &column) in row.iter_mut().zip(columns) {
            if !foreign.columns.contains(&column) || *cell == Cell::Null {
                continue;
            }
            match (table.columns[column].is, tenant) {
                (Is::Tenant, Some(tenant)) => *cell = Cell::Number(tenant),
                (Is::Tenant, None) => {}
                _ => *cell = Cell::Key(key),
            }
        }
    }
}

/// Columns that no INSERT leaves out.
fn must(table: &Table, at: usize) -> bool {
    let column = &table.columns[at];
    matches!(column.is, Is::Content | Is::Key) || column.not_null && column.default == Default::Null
}

/// Columns that an INSERT may give.
fn may(table: &Table, at: usize) -> bool {
    !matches!(table.columns[at].is, Is::Made | Is::Time | Is::Random)
}

/// The columns of the statements that sessions prepare.
pub fn canonical(table: &Table) -> Vec<usize> {
    let plain = |at: &usize| !matches!(table.columns[*at].default, Default::Identity { .. });
    (0..table.columns.len()).filter(|&at| may(table, at)).filter(plain).collect()
}
