//! An INSERT or COPY in the model: first what the contract makes of its rows, then what the database does with them.

use super::case::*;
use super::database::{Key, Row, State, Value, default};
use super::model::{Action, Expected, Model, Said, one};
use super::schema::{Default, Foreign, Is, Quirk, Route, Table};
use super::window::{Form, Part, Tuple, Whose, Window};

/// What became of a row that was looked at.
struct Seen<'m> {
    insert: &'m Insert,
    table: usize,
    /// The place of the row.
    place: (u64, u64),
}

impl Seen<'_> {
    /// A number as it is compared with others: by its bytes. One that is cast is compared with nothing.
    fn number(&self, number: u32) -> Option<Part> {
        let is_cast =
            matches!(self.insert.carrier, Carrier::Selects | Carrier::JsonLiteral | Carrier::JsonText);
        let form = match self.insert.carrier {
            // An element has a type of its own.
            Carrier::ArrayBinaries => Form::Element,
            carrier if carrier.is_binary() => Form::Binary,
            _ => Form::Text,
        };
        (!is_cast).then(|| Part::Sent(form, number.to_string()))
    }
}

impl Model<'_> {
    /// Runs it; gives its tag.
    pub fn insert(&mut self, insert: &Insert, said: &mut Vec<Said>) -> Result<String, Vec<State>> {
        let relation = &self.schema.relations[insert.relation];
        let at = relation.table;
        let table = &self.schema.tables[at];
        let errors = analysis(table, insert);
        let meant = self.meant_unread(insert, at);
        let keys = insert.rows.iter().flatten().filter_map(|cell| match cell {
            Cell::Key(key) => Some(*key),
            _ => None,
        });
        let refused = self.refuse_shared(&meant, &keys.collect::<Vec<_>>(), self.is_view(insert.relation));
        refused.map_err(|states| [states, errors.clone()].concat())?;
        if insert.carrier.is_copy() && self.doubt && !self.once_shared.is_empty() && self.decide() {
            // It is not certain which table it is, so its rows could be children.
            return Err(one("23505"));
        }
        if insert.carrier.is_copy() && self.is_opaque(insert) {
            self.refuse_unseen(insert.relation)?;
        }
        if self.is_opaque(insert) {
            self.clear_all();
            self.doubt = true;
        }
        let mut rows: Vec<Row> = insert.rows.iter().map(|row| self.resolve(insert, row)).collect();
        let ignored = table.quirk == Quirk::Nothing && !insert.carrier.is_copy();
        let first_record = self.expected.len();
        let refused = if self.inspects(insert) { self.look(insert, at, &mut rows) } else { false };
        let unread = !errors.is_empty() && !insert.carrier.is_copy();
        if unread || refused {
            // Whether the proxy or the server is first to see it is not told, nor what is on record of what never ran.
            self.expected[first_record..].iter_mut().for_each(|record| record.optional = true);
        }
        match (refused && !insert.carrier.is_copy(), unread) {
            (true, _) => return Err([one("23505"), errors].concat()),
            (false, true) => return Err(errors),
            (false, false) => {}
        }
        let result = if ignored { Ok(0) } else { self.store(insert, at, relation.route, &rows, said) };
        if insert.carrier.is_copy() && (refused || result.is_err()) {
            // The server may have stopped listening before the proxy had read the row.
            self.expected[first_record..].iter_mut().for_each(|record| record.optional = true);
        }
        if refused {
            // The data stops at the row in question: what came before it may have failed already.
            return Err([one("57014"), result.err().unwrap_or_default()].concat());
        }
        self.inserted(at);
        if insert.on_conflict == OnConflict::Update {
            self.doubt_heirs(insert.relation);
        }
        let count = match result {
            // A reference behind the row that clashes may be ambiguous: the proxy is first to see it.
            Err(states) if insert.carrier.is_copy() && states.contains(&"23505") && !self.alone => {
                return Err([states, one("57014")].concat());
            }
            result => result?,
        };
        Ok(match insert.carrier {
            Carrier::Cte => {
                said.push(Said::Row(vec![Value::Number(count)]));
                "SELECT 1".to_owned()
            }
            carrier if carrier.is_copy() => format!("COPY {count}"),
            _ => format!("INSERT 0 {count}"),
        })
    }

    /// The tables whose keys the statement may not name once they are shared, since its rows are not looked at.
    fn meant_unread(&self, insert: &Insert, table: usize) -> Vec<usize> {
        match insert.carrier {
            Carrier::Filtered => [vec![table], self.parents(insert.relation)].concat(),
            Carrier::Execute if self.extended => (0..self.schema.tables.len()).collect(),
            _ if self.schema.relations[insert.relation].route == Route::View => {
                [vec![table], self.parents(insert.relation)].concat()
            }
            _ if insert.on_conflict == OnConflict::Update => vec![table],
            _ => Vec::new(),
        }
    }

    /// The row that is stored, if nothing is done about its keys.
    pub fn resolve(&mut self, insert: &Insert, cells: &[Cell]) -> Row {
        let table = &self.schema.tables[self.schema.relations[insert.relation].table];
        let sent =
            |column: usize| insert.columns.iter().position(|&other| other == column).map(|at| cells[at]);
        let content = match sent(table.always(Is::Content)) {
            Some(Cell::Number(content)) => Some(content),
            _ => None,
        };
        let mut row = Vec::new();
        for (at, column) in table.columns.iter().enumerate() {
            let ignored =
                insert.overriding == Overriding::User && matches!(column.default, Default::Identity { .. });
            row.push(match sent(at).filter(|_| !ignored) {
                Some(Cell::Key(key)) => Value::Key(Key::Given(key)),
                Some(Cell::NoKey) => Value::Text("no key"),
                Some(Cell::Number(number)) => Value::Number(number),
                Some(Cell::Text(text)) => Value::Text(text),
                Some(Cell::Null) => Value::Null,
                Some(Cell::Default) | None => {
                    self.drawn += 1;
                    default(column.default, content, self.drawn, self.transaction)
                }
            });
        }
        row
    }

    /// Looks at the rows as the contract does, and writes fresh keys into them; gives whether the statement is refused.
    fn look(&mut self, insert: &Insert, table: usize, rows: &mut [Row]) -> bool {
        let mut window = std::mem::take(&mut self.now.window);
        let mut refused = false;
        for (number, row) in (1..).zip(rows) {
            let cells = &insert.rows[number - 1];
            let seen = Seen { insert, table, place: (self.ordinal, number as u64) };
            if self.follow(&seen, cells, row, &mut window) {
                refused = true;
                break;
            }
            if insert.on_conflict == OnConflict::Fail {
                let before = self.once_shared.clone();
                self.rekey(&seen, cells, row, &mut window);
                // A child that came before both of its parents may be either's.
                let mut orphans =
                    self.once_shared.difference(&before).filter(|key| self.orphaned.contains(key));
                if orphans.next().is_some() && self.decide() {
                    refused = true;
                    break;
                }
            }
        }
        self.now.window = window;
        refused
    }

    /// Lets references follow the row they belong to; gives whether one is ambiguous.
    fn follow(&mut self, seen: &Seen, cells: &[Cell], row: &mut Row, window: &mut Window) -> bool {
        let table = &self.schema.tables[seen.table];
        for foreign in &table.foreign {
            let Some((tuple, column, key)) = self.named(seen, foreign, cells, row) else {
                if self.may_name_shared(seen, foreign, cells) {
                    return true;
                }
                continue;
            };
            let itself = foreign.parent == seen.table && row[table.always(Is::Key)] == Value::Key(key);
            if itself {
                continue;
            }
            if let Key::Given(key) = key
                && self.doubt
                && self.once_shared.contains(&(foreign.parent, key))
                && self.decide()
            {
                return true;
            }
            match window.whose(&tuple) {
                Whose::Nobodys if self.may_name_shared(seen, foreign, cells) => return true,
                Whose::Nobodys => {
                    if let Key::Given(key) = key {
                        self.orphaned.insert((foreign.parent, key));
                    }
                }
                Whose::Only => window.child(tuple),
                Whose::Ambiguous(_) => return true,
                Whose::Last(holder) => {
                    let (Key::Given(old), Key::Fresh(fresh)) = (key, holder.key) else { continue };
                    row[column] = Value::Key(holder.key);
                    self.expect(Expected {
                        action: Action::Followed,
                        table: seen.table,
                        column,
                        old,
                        fresh,
                        place: seen.place,
                        first: holder.place,
                        committed: false,
                        optional: false,
                        uncounted: self.erred || self.doubt,
                    });
                    window.child(tuple);
                }
            }
        }
        false
    }

    /// Whether a reference that cannot be compared with what was sent for its parents is refused, for it has the UUID
    /// of a key that several of them were sent with.
    fn may_name_shared(&mut self, seen: &Seen, foreign: &Foreign, cells: &[Cell]) -> bool {
        let sent = foreign.columns.iter().filter_map(|column| {
            let at = seen.insert.columns.iter().position(|other| other == column)?;
            Some(cells[at])
        });
        let key = sent.into_iter().find_map(|cell| match cell {
            Cell::Key(key) => Some(key),
            _ => None,
        });
        let once = key.is_some_and(|key| self.once_shared.contains(&(foreign.parent, key)));
        foreign.columns.len() > 1 && once && self.decide()
    }

    /// The parent's tuple that a row names whole, the column that names its key, and the key.
    fn named(
        &self,
        seen: &Seen,
        foreign: &Foreign,
        cells: &[Cell],
        row: &Row,
    ) -> Option<(Tuple, usize, Key)> {
        let parent = &self.schema.tables[foreign.parent];
        let is_of = |columns: &[usize]| columns.iter().all(|at| foreign.parent_columns.contains(at));
        let unique = parent.uniques.iter().position(|unique| {
            unique.rekey.is_some() && unique.columns.len() == foreign.columns.len() && is_of(&unique.columns)
        })?;
        let mut found = None;
        let mut parts = Vec::new();
        for &column in &parent.uniques[unique].columns {
            let place = foreign.parent_columns.iter().position(|&at| at == column)?;
            let own = foreign.columns[place];
            let at = seen.insert.columns.iter().position(|&sent| sent == own)?;
            let part = match (cells[at], row[own]) {
                (Cell::Key(_), Value::Key(key)) => {
                    found = Some((own, key));
                    Part::Key(key)
                }
                (Cell::Number(number), _) => seen.number(number)?,
                _ => return None,
            };
            parts.push(part);
        }
        let (column, key) = found?;
        Some(((foreign.parent, unique, parts), column, key))
    }

    /// Gives a twin a fresh key, in each of its unique indexes.
    fn rekey(&mut self, seen: &Seen, cells: &[Cell], row: &mut Row, window: &mut Window) {
        let table = &self.schema.tables[seen.table];
        let mut claims = Vec::new();
        for (unique, index) in table.uniques.iter().enumerate() {
            let Some(rekey) = index.rekey else { continue };
            let Some(tuple) = tuple(seen, table, unique, cells, row) else { continue };
            let Value::Key(Key::Given(old)) = row[rekey] else { continue };
            let Some(first) = window.holder(&tuple) else {
                claims.push(tuple);
                continue;
            };
            if !self.is_to_be_rekeyed(seen, old, first.place, first.certain) {
                if !first.certain {
                    // So it was forgotten, and this row is the first.
                    window.forget(&tuple);
                    claims.push(tuple);
                }
                continue;
            }
            let fresh = self.expected.len() as u32 + 1;
            let itself: Vec<usize> = (0..row.len())
                .filter(|&at| table.columns[at].is == Is::Parent && row[at] == row[rekey])
                .filter(|_| {
                    let names = |foreign: &Foreign| {
                        foreign.parent == seen.table && foreign.parent_columns.contains(&rekey)
                    };
                    table.foreign.iter().any(names)
                })
                .collect();
            for at in itself.into_iter().chain([rekey]) {
                row[at] = Value::Key(Key::Fresh(fresh));
            }
            self.expect(Expected {
                action: Action::Rekeyed,
                table: seen.table,
                column: rekey,
                old,
                fresh,
                place: seen.place,
                first: first.place,
                committed: false,
                optional: false,
                uncounted: self.erred || self.doubt,
            });
            self.once_shared.insert((seen.table, old));
            window.share(&tuple, old, first.place, Key::Fresh(fresh), seen.place);
        }
        claims.into_iter().for_each(|tuple| window.claim(tuple, seen.place));
    }

    fn is_to_be_rekeyed(&mut self, seen: &Seen, old: u32, first: (u64, u64), certain: bool) -> bool {
        if self.keys.is_named(old) {
            return false;
        }
        let guard = self.guard.filter(|(mark, _)| first.0 < seen.place.0 && first.0 <= *mark);
        if let Some((_, true)) = guard
            && !self.doubt
        {
            return false;
        }
        if guard.is_none() && certain && !self.doubt {
            return true;
        }
        // Of more decisions than can be tried both ways the rest are as they mostly are: rekeyed.
        !self.decide()
    }

    fn expect(&mut self, record: Expected) {
        self.now.kept.push(self.expected.len());
        self.expected.push(record);
    }
}

/// What the statement is refused for before any of its rows; which of several is not told.
fn analysis(table: &Table, insert: &Insert) -> Vec<State> {
    let always = |at: usize| table.columns[insert.columns[at]].default == Default::Identity { always: true };
    let said = |row: &Vec<Cell>| (0..row.len()).any(|at| always(at) && row[at] != Cell::Default);
    let uuid = |at: usize| matches!(table.columns[insert.columns[at]].kind, "uuid" | "kid");
    let bad = |row: &Vec<Cell>| (0..row.len()).any(|at| uuid(at) && row[at] == Cell::NoKey);
    let mut states = Vec::new();
    if insert.overriding == Overriding::Unsaid && insert.rows.iter().any(said) {
        states.push("428C9");
    }
    // Nothing instead of an INSERT does not even read a document.
    let json = matches!(insert.carrier, Carrier::JsonLiteral | Carrier::JsonText);
    if insert.rows.iter().any(bad) && !(json && table.quirk == Quirk::Nothing) {
        states.extend(["22P02", "22P03", "08P01"]);
    }
    states
}

/// The tuple of an index as far as it is sent; `None`: it equals no other.
fn tuple(seen: &Seen, table: &Table, unique: usize, cells: &[Cell], row: &Row) -> Option<Tuple> {
    let index = &table.uniques[unique];
    let mut parts = Vec::new();
    for &column in &index.columns {
        let (sent, default) =
            (seen.insert.columns.iter().position(|&other| other == column), table.columns[column].default);
        let identity = matches!(default, Default::Identity { .. });
        if identity && seen.insert.overriding == Overriding::User {
            return None;
        }
        let null = || index.nulls_not_distinct.then_some(Part::Null);
        parts.push(match (sent.map(|at| cells[at]), row[column]) {
            (Some(Cell::Key(_)), Value::Key(key)) => Part::Key(key),
            (Some(Cell::Number(number)), _) => seen.number(number)?,
            (Some(Cell::Text(text)), _) => Part::Sent(Form::Text, text.to_owned()),
            (Some(Cell::Null), _) => null()?,
            (Some(Cell::Default) | None, _) => match default {
                Default::Stable(_) => Part::Stable,
                Default::Null if index.nulls_not_distinct => Part::Stable,
                _ => return None,
            },
            _ => return None,
        });
    }
    Some((seen.table, unique, parts))
}
