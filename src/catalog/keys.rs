//! The verdict over one unique index: protected, or the reason why not. It knows one table at a time.

use super::model::{Column, ColumnKind, IndexId, UniqueKey, Unprotected, UnprotectedKey};
use super::raw::Index;
use super::trigger::Body;
use std::collections::{HashMap, HashSet};

/// What of a table bears on its keys.
pub(super) struct Surroundings<'a> {
    pub columns: &'a [Column],
    /// Column numbers (`attnum`) to positions in `columns`.
    pub positions: &'a HashMap<i16, usize>,
    /// Names of columns that are foreign keys, here or in a table of the same partition tree.
    pub foreign: &'a HashSet<&'a str>,
    pub insert_rule: bool,
    /// The BEFORE ROW INSERT triggers of the partition tree; `None` is a function that may do anything.
    pub before: &'a [Option<&'a Body>],
}

/// Judges an index whose window is that of `window`. `None`: the index is none of a UUID.
pub(super) fn judge(
    index: &Index,
    window: IndexId,
    table: &Surroundings,
) -> Option<Result<UniqueKey, UnprotectedKey>> {
    let positions: Vec<Option<usize>> = index
        .columns
        .iter()
        .map(|number| table.positions.get(number).copied())
        .collect();
    let known: Vec<usize> = positions.iter().flatten().copied().collect();
    let rekey = last_uuid(&known, table, |name| !table.foreign.contains(name));
    let fallback = rekey.or_else(|| last_uuid(&known, table, |_| true))?;
    let knowable =
        positions.iter().all(Option::is_some) && !known.iter().any(|&at| generated(at, table));
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
            Some(Err(UnprotectedKey {
                constraint: index.name.clone(),
                column,
                reason,
                key,
            }))
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
    let names = || {
        columns
            .iter()
            .filter_map(|&at| table.columns.get(at))
            .map(|column| column.name.as_str())
    };
    let harmless =
        |body: &Body| body.passes_row_through() && !names().any(|name| body.mentions(name));
    let reasons = [
        (!index.valid, Unprotected::Invalid),
        (index.partial, Unprotected::Partial),
        (!index.immediate, Unprotected::Deferrable),
        (index.odd, Unprotected::Collation),
        (!has_own_uuid, Unprotected::ForeignKey),
        (table.insert_rule, Unprotected::InsertRule),
        (
            !table.before.iter().all(|body| body.is_some_and(harmless)),
            Unprotected::BeforeTrigger,
        ),
    ];
    reasons
        .into_iter()
        .find(|(holds, _)| *holds)
        .map(|(_, reason)| reason)
}

/// The last of the columns that is a `uuid`, or else the last that may hold one as text.
fn last_uuid(
    columns: &[usize],
    table: &Surroundings,
    accept: impl Fn(&str) -> bool,
) -> Option<usize> {
    let accepted = |at: usize| {
        table
            .columns
            .get(at)
            .filter(|column| accept(&column.name))
            .map(|column| column.kind)
    };
    let last = |wanted: fn(ColumnKind) -> bool| {
        columns
            .iter()
            .copied()
            .rfind(|&at| accepted(at).is_some_and(wanted))
    };
    last(|kind| kind == ColumnKind::Uuid).or_else(|| last(ColumnKind::can_hold_key))
}

fn generated(position: usize, table: &Surroundings) -> bool {
    table
        .columns
        .get(position)
        .is_some_and(|column| column.generated)
}
