//! The verdict over one unique index: protected, or the reason why not. It knows one table at a time.

use super::model::{Column, ColumnKind, IndexId, UniqueKey, Unprotected, UnprotectedKey};
use super::raw::{self, Index};
use super::trigger::Body;
use std::collections::HashSet;

/// What of a table bears on its keys.
pub(super) struct Surroundings<'a> {
    pub columns: &'a [Column],
    /// The same columns, with their numbers.
    pub numbered: &'a [raw::Column],
    /// Names of columns that are foreign keys, here or in a table of the same partition tree.
    pub foreign: &'a HashSet<&'a str>,
    pub insert_rule: bool,
    /// A default, a CHECK or the like, in the partition tree, could free keys.
    pub calling: bool,
    /// The BEFORE ROW INSERT triggers of the partition tree; `None` is a function that may do anything.
    pub before: &'a [Option<&'a Body>],
}

/// Judges an index whose window is that of `window`. `None`: the index is none of a UUID.
pub(super) fn judge(
    index: &Index,
    window: IndexId,
    table: &Surroundings,
) -> Option<Result<UniqueKey, UnprotectedKey>> {
    let positions: Vec<Option<usize>> =
        index.columns.iter().map(|number| raw::position(table.numbered, *number)).collect();
    let known: Vec<usize> = positions.iter().flatten().copied().collect();
    let rekey = last_uuid(&known, table, |name| !table.foreign.contains(name));
    let fallback = rekey.or_else(|| last_uuid(&known, table, |_| true))?;
    let knowable = positions.iter().all(Option::is_some) && !known.iter().any(|&at| generated(at, table));
    let reason = reason(index, &known, knowable, rekey.is_some(), table);
    let column = table.columns.get(fallback)?.name.clone();
    let key = knowable.then(|| UniqueKey {
        index: window,
        constraint: index.name.clone(),
        columns: known,
        rekey: fallback,
        nulls_not_distinct: index.nulls_not_distinct,
    });
    match (reason, key) {
        (None, Some(key)) => Some(Ok(key)),
        (reason, key) => {
            let reason = reason.unwrap_or(Unprotected::Expression);
            Some(Err(UnprotectedKey { constraint: index.name.clone(), column, reason, key }))
        }
    }
}

/// The first reason that holds, those first that the configuration cannot set aside.
fn reason(
    index: &Index,
    columns: &[usize],
    knowable: bool,
    has_own_uuid: bool,
    table: &Surroundings,
) -> Option<Unprotected> {
    if index.expression || !knowable {
        return Some(Unprotected::Expression);
    }
    let names = || columns.iter().filter_map(|&at| table.columns.get(at)).map(|column| column.name.as_str());
    let harmless = |body: &Body| body.passes_row_through() && !names().any(|name| body.mentions(name));
    let reasons = [
        (!index.valid, Unprotected::Invalid),
        (index.partial, Unprotected::Partial),
        (!index.immediate, Unprotected::Deferrable),
        (index.odd, Unprotected::Collation),
        (!has_own_uuid, Unprotected::ForeignKey),
        (table.insert_rule, Unprotected::InsertRule),
        (table.calling, Unprotected::FreeingExpression),
        (!table.before.iter().all(|body| body.is_some_and(harmless)), Unprotected::BeforeTrigger),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
}

/// The last of the columns that is a `uuid`, or else the last that may hold one as text.
fn last_uuid(columns: &[usize], table: &Surroundings, accept: impl Fn(&str) -> bool) -> Option<usize> {
    let accepted =
        |at: usize| table.columns.get(at).filter(|column| accept(&column.name)).map(|column| column.kind);
    let last = |wanted: fn(ColumnKind) -> bool| {
        columns.iter().copied().rfind(|&at| accepted(at).is_some_and(wanted))
    };
    last(|kind| kind == ColumnKind::Uuid).or_else(|| last(ColumnKind::can_hold_key))
}

fn generated(position: usize, table: &Surroundings) -> bool {
    table.columns.get(position).is_some_and(|column| column.generated)
}

#[cfg(test)]
mod tests {
    use super::super::model::DefaultKind;
    use super::super::trigger::Function;
    use super::*;

    fn column(name: &str, kind: ColumnKind) -> Column {
        let generated = name == "made";
        Column {
            name: name.to_owned(),
            kind,
            default: DefaultKind::Null,
            generated,
            identity: false,
            type_name: "".into(),
        }
    }

    /// tenant uuid, parent uuid REFERENCES, id uuid, code text, number, made uuid
    fn columns() -> Vec<Column> {
        let names = ["tenant", "parent", "id", "code", "number", "made"];
        let kinds = [
            ColumnKind::Uuid,
            ColumnKind::Uuid,
            ColumnKind::Uuid,
            ColumnKind::Text,
            ColumnKind::Other,
            ColumnKind::Uuid,
        ];
        names.into_iter().zip(kinds).map(|(name, kind)| column(name, kind)).collect()
    }

    fn index(columns: &[i16]) -> Index {
        Index {
            oid: 1,
            table: 2,
            parent: None,
            name: "key".to_owned(),
            columns: columns.to_vec(),
            odd: false,
            valid: true,
            immediate: true,
            partial: false,
            expression: columns.contains(&0),
            nulls_not_distinct: false,
        }
    }

    /// The column that is rekeyed, with the reason if it is not, and `!` if it never can be.
    fn told(index: &Index, insert_rule: bool, before: &[Option<&Body>]) -> String {
        let columns = columns();
        let numbered: Vec<raw::Column> = (1..)
            .zip(&columns)
            .map(|(number, column)| raw::Column(number, column.name.clone(), 0, -1, false, false))
            .collect();
        let surroundings = Surroundings {
            columns: &columns,
            numbered: &numbered,
            foreign: &HashSet::from(["parent"]),
            insert_rule,
            calling: false,
            before,
        };
        match judge(index, IndexId(9), &surroundings) {
            None => "none".to_owned(),
            Some(Ok(key)) => columns[key.rekey].name.clone(),
            Some(Err(key)) => {
                format!("{} {:?}{}", key.column, key.reason, if key.key.is_some() { "" } else { "!" })
            }
        }
    }

    #[test]
    fn the_last_uuid_that_is_no_foreign_key_is_rekeyed_and_text_only_for_want_of_one() {
        let cases: [(&[i16], &str); 10] = [
            (&[3], "id"),
            (&[1, 3], "id"),
            (&[3, 1], "tenant"),
            (&[3, 2], "id"),
            (&[3, 4], "id"),
            (&[4, 5], "code"),
            (&[2], "parent ForeignKey"),
            (&[5], "none"),
            (&[3, 0], "id Expression!"),
            (&[3, 6], "made Expression!"),
        ];
        for (numbers, expected) in cases {
            assert_eq!(told(&index(numbers), false, &[]), expected, "{numbers:?}");
        }
    }

    #[test]
    fn an_index_is_left_alone_for_the_first_reason_that_holds() {
        type Change = fn(&mut Index);
        let cases: [(Change, &str); 5] = [
            (|index| index.valid = false, "id Invalid"),
            (|index| index.partial = true, "id Partial"),
            (|index| index.immediate = false, "id Deferrable"),
            (|index| index.odd = true, "id Collation"),
            (|index| (index.partial, index.columns) = (true, vec![3, 0]), "id Expression!"),
        ];
        for (change, expected) in cases {
            let mut changed = index(&[3]);
            change(&mut changed);
            assert_eq!(told(&changed, true, &[None]), expected);
        }
        assert_eq!(told(&index(&[3]), true, &[None]), "id InsertRule");
    }

    #[test]
    fn before_triggers_must_be_readable_let_rows_through_and_not_name_the_key() {
        let body = |text: &str| match Function::new("plpgsql", Some(text.to_owned())) {
            Function::Readable(body) => body,
            other => panic!("{other:?}"),
        };
        let cases = [
            ("new.code := 'x'; return new;", "id"),
            ("new.id := 'x'; return new;", "id BeforeTrigger"),
            ("new.tenant := 'x'; return new;", "id BeforeTrigger"),
            ("return null;", "id BeforeTrigger"),
        ];
        for (text, expected) in cases {
            assert_eq!(told(&index(&[1, 3]), false, &[Some(&body(text))]), expected, "{text}");
        }
        assert_eq!(told(&index(&[3]), false, &[None]), "id BeforeTrigger");
    }
}
