//! Draws schemas at random. Knows neither statements nor the proxy's code.

use super::random::Random;
use super::schema::*;

/// None is part of another: the proxy looks for a table's name in statements about another table.
const NAMES: [&str; 6] = ["alpha", "bravo", "delta", "golf", "hotel", "kilo"];

struct Draft<'r> {
    random: &'r mut Random,
    columns: Vec<Column>,
}

impl Draft<'_> {
    fn column(&mut self, name: &'static str, is: Is, kind: &'static str, default: Default, not_null: bool) {
        self.columns.push(Column { name, is, kind, default, not_null });
    }

    /// In any order, as a column list in the order of the table should not be special.
    fn shuffle(&mut self) {
        for at in (1..self.columns.len()).rev() {
            let other = self.random.below(at as u32 + 1) as usize;
            self.columns.swap(at, other);
        }
    }
}

/// The form of a table's first key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Single,
    OfTenant,
    NullsDistinct,
    NullsNotDistinct,
    Tagged,
    Numbered,
    Timed,
    Partial,
    Deferrable,
    Lower,
    WithMade,
    OfParent,
}

const FORMS: [Form; 14] = [
    Form::Single,
    Form::Single,
    Form::Single,
    Form::OfTenant,
    Form::OfTenant,
    Form::NullsDistinct,
    Form::NullsNotDistinct,
    Form::Tagged,
    Form::Numbered,
    Form::Timed,
    Form::Partial,
    Form::Deferrable,
    Form::Lower,
    Form::WithMade,
];

const QUIRKS: [Quirk; 7] =
    [Quirk::Skips, Quirk::Notes, Quirk::Logs, Quirk::Deletes, Quirk::Also, Quirk::Nothing, Quirk::Secured];

/// A schema of some tables, the first of them one that others can refer to.
pub fn draw(random: &mut Random) -> Schema {
    let mut schema = Schema { tables: Vec::new(), relations: Vec::new() };
    let count = 3 + random.below(3) as usize;
    for (at, name) in NAMES.into_iter().take(count).enumerate() {
        let table = table(random, name, &schema.tables);
        schema.relations.push(Relation { name: name.to_owned(), table: at, route: Route::Table });
        match table.quirk {
            Quirk::Listed => (0..2).for_each(|tenant| {
                let (name, route) = (format!("{name}_{tenant}"), Route::Partition(tenant));
                schema.relations.push(Relation { name, table: at, route });
            }),
            Quirk::Plain if random.one_in(4) => {
                schema.relations.push(Relation { name: format!("lens{at}"), table: at, route: Route::View });
            }
            _ => {}
        }
        schema.tables.push(table);
    }
    if let Some(parent) = schema.tables.iter().position(|table| heritable(table) && random.one_in(2)) {
        let heir = Table {
            name: "heir",
            inherits: Some(parent),
            uniques: schema.tables[parent].uniques[..1].to_vec(),
            ..schema.tables[parent].clone()
        };
        schema.relations.push(Relation {
            name: "heir".to_owned(),
            table: schema.tables.len(),
            route: Route::Table,
        });
        schema.tables.push(heir);
    }
    schema
}

/// Identity, foreign keys and triggers are not inherited, and what follows from that is not this test's business.
fn heritable(table: &Table) -> bool {
    table.quirk == Quirk::Plain
        && table.foreign.is_empty()
        && table.uniques[0].when == When::Row
        && !table.columns.iter().any(|column| matches!(column.default, Default::Identity { .. }))
}

fn table(random: &mut Random, name: &'static str, before: &[Table]) -> Table {
    let first = before.is_empty();
    let (parent, composite) = parent(random, before);
    let mut form = if first { random.pick(&[Form::Single, Form::OfTenant]) } else { random.pick(&FORMS) };
    if parent.is_some() && !composite && random.one_in(5) {
        form = Form::OfParent;
    }
    let quirk = match (random.below(8), form) {
        (0, Form::Single) => Quirk::Hashed,
        (0, Form::OfTenant) => Quirk::Listed,
        (1..=3, _) if !first => random.pick(&QUIRKS),
        _ => Quirk::Plain,
    };
    let partitioned = matches!(quirk, Quirk::Hashed | Quirk::Listed);
    let mut draft = Draft { random, columns: Vec::new() };
    draft.column("v", Is::Content, "int", Default::Null, true);
    draft.column("note", Is::Note, "text", Default::Stable("'n'"), false);
    draft.key(form, first, composite && parent.is_some());
    draft.others(partitioned);
    let itself = form == Form::Single
        && parent.is_none()
        && draft.columns.iter().any(|column| column.is == Is::Key && column.kind == "uuid")
        && draft.random.one_in(4);
    if form != Form::OfParent && (parent.is_some() || itself) {
        draft.column("parent", Is::Parent, "uuid", Default::Null, false);
    }
    draft.shuffle();
    let mut table = Table {
        name,
        columns: draft.columns,
        uniques: Vec::new(),
        foreign: Vec::new(),
        quirk,
        inherits: None,
    };
    let cascade = random.one_in(2);
    refer(&mut table, form, parent.or(itself.then_some(before.len())), composite, before, cascade);
    let uniques = uniques(&table, form, random);
    table.uniques = uniques;
    table
}

/// A table that can be referred to, and whether it is so by tenant and key.
fn parent(random: &mut Random, before: &[Table]) -> (Option<usize>, bool) {
    let fit = |table: &Table| {
        let key = &table.columns[table.always(Is::Key)];
        let unique = &table.uniques[0];
        key.kind == "uuid"
            && unique.when == When::Row
            && unique.rekey.is_some()
            && !unique.nulls_not_distinct
            && !matches!(table.quirk, Quirk::Deletes | Quirk::Secured)
            && unique
                .columns
                .iter()
                .all(|&at| matches!(table.columns[at].is, Is::Key | Is::Tenant) && table.columns[at].not_null)
    };
    let fitting: Vec<usize> = (0..before.len()).filter(|&at| fit(&before[at])).collect();
    if fitting.is_empty() || random.one_in(2) {
        return (None, false);
    }
    let parent = random.pick(&fitting);
    (Some(parent), before[parent].uniques[0].columns.len() == 2)
}

impl Draft<'_> {
    fn key(&mut self, form: Form, referred: bool, composite: bool) {
        let kinds = ["uuid", "uuid", "uuid", "kid", "text", "varchar", "char(36)", "citext"];
        let kind = match form {
            _ if referred => "uuid",
            Form::OfParent => "uuid",
            Form::Lower => self.random.pick(&["text", "varchar"]),
            _ => self.random.pick(&kinds),
        };
        self.column("id", Is::Key, kind, Default::Null, true);
        let tenant = if self.random.one_in(2) { Default::Stable("0") } else { Default::Null };
        match form {
            Form::OfTenant => self.column("tenant", Is::Tenant, "int", tenant, true),
            Form::NullsDistinct | Form::NullsNotDistinct => {
                self.column("tenant", Is::Tenant, "int", tenant, false);
            }
            _ if composite || self.random.one_in(4) => {
                self.column("tenant", Is::Tenant, "int", tenant, false);
            }
            _ => {}
        }
        match form {
            Form::Tagged => self.column("tag", Is::Tag, "text", Default::Stable("'x'"), false),
            Form::Timed => {
                let clocks = [
                    Default::Stable("now()"),
                    Default::Stable("CURRENT_TIMESTAMP"),
                    Default::Volatile("clock_timestamp()"),
                ];
                let clock = self.random.pick(&clocks);
                self.column("at", Is::Time, "timestamptz", clock, false);
            }
            Form::Numbered => self.number(),
            Form::WithMade => self.made(),
            _ => {}
        }
    }

    fn number(&mut self) {
        let drawn = [
            Default::Identity { always: true },
            Default::Identity { always: false },
            Default::Volatile(NEXTVAL),
        ];
        let default = self.random.pick(&drawn);
        self.column("number", Is::Number, "bigint", default, true);
    }

    fn made(&mut self) {
        self.column("made", Is::Made, "int", Default::Generated("v * 2"), false);
    }

    fn others(&mut self, partitioned: bool) {
        let has = |draft: &Self, is| draft.columns.iter().any(|column| column.is == is);
        if !partitioned && !has(self, Is::Number) && self.random.one_in(4) {
            self.number();
        }
        if !partitioned && !has(self, Is::Made) && self.random.one_in(4) {
            self.made();
        }
        if !has(self, Is::Time) && self.random.one_in(4) {
            self.column("at", Is::Time, "timestamptz", Default::Stable("now()"), false);
        }
        if self.random.one_in(6) {
            self.column("r", Is::Random, "uuid", Default::Volatile("gen_random_uuid()"), false);
        }
        if !partitioned && self.random.one_in(4) {
            let kind = self.random.pick(&["uuid", "text"]);
            self.column("second", Is::Second, kind, Default::Null, false);
        }
    }
}

fn refer(
    table: &mut Table,
    form: Form,
    parent: Option<usize>,
    composite: bool,
    before: &[Table],
    cascade: bool,
) {
    let Some(parent) = parent else { return };
    let of = |table: &Table, is: &[Is]| is.iter().map(|is| table.always(*is)).collect::<Vec<_>>();
    let parent_table = before.get(parent).unwrap_or(table);
    let own = if form == Form::OfParent { Is::Key } else { Is::Parent };
    let (columns, parent_columns) = if composite {
        (of(table, &[Is::Tenant, own]), of(parent_table, &[Is::Tenant, Is::Key]))
    } else {
        (of(table, &[own]), of(parent_table, &[Is::Key]))
    };
    table.foreign.push(Foreign { columns, parent, parent_columns, cascade });
}

fn uniques(table: &Table, form: Form, random: &mut Random) -> Vec<Unique> {
    let at = |is| table.always(is);
    let id = at(Is::Key);
    let columns = match form {
        Form::OfTenant | Form::NullsDistinct | Form::NullsNotDistinct => vec![at(Is::Tenant), id],
        Form::Tagged => vec![at(Is::Tag), id],
        Form::Numbered => vec![id, at(Is::Number)],
        Form::Timed => vec![id, at(Is::Time)],
        Form::WithMade => vec![id, at(Is::Made)],
        _ => vec![id],
    };
    let when = match form {
        Form::Partial => When::Even,
        Form::Lower => When::Lower,
        Form::Deferrable if random.one_in(2) => When::Commit,
        Form::Deferrable => When::Statement,
        _ => When::Row,
    };
    let rules_out = matches!(table.quirk, Quirk::Skips | Quirk::Also | Quirk::Nothing);
    let protected = when == When::Row && !matches!(form, Form::WithMade | Form::OfParent) && !rules_out;
    let nulls_not_distinct = form == Form::NullsNotDistinct;
    let mut uniques = vec![Unique { columns, nulls_not_distinct, when, rekey: protected.then_some(id) }];
    if let Some(second) = table.column(Is::Second) {
        let rekey = (!rules_out).then_some(second);
        uniques.push(Unique { columns: vec![second], nulls_not_distinct: false, when: When::Row, rekey });
    }
    uniques
}
