//! Which entries of the journal somebody asks for. Pure.

use jiff::Timestamp;

use super::record::{Fate, Note, Record};
use crate::rekey::table_name::TableName;

/// What an entry must be; `None` asks nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Recorded at this time or later.
    pub since: Option<Timestamp>,
    /// In this table; without a schema, in any table of that name.
    pub table: Option<TableName>,
    /// Its old key, its new key or its own id is this UUID.
    pub id: Option<u128>,
    /// Its transaction came to this.
    pub fate: Option<Fate>,
}

impl Filter {
    /// Whether a record passes in everything but its fate, which may change.
    #[must_use]
    pub(super) fn takes(&self, record: &Record) -> bool {
        let in_table = |asked: &TableName| record.table.parse().is_ok_and(|table| asked.covers(&table));
        let has_id = |id| record.old == id || record.new == Some(id) || record.id.value() == id;
        self.since.is_none_or(|since| record.at >= since)
            && self.table.as_ref().is_none_or(in_table)
            && self.id.is_none_or(has_id)
    }

    /// Whether a record of this fate passes.
    #[must_use]
    pub(super) fn takes_fate(&self, fate: Fate) -> bool {
        self.fate.is_none_or(|asked| asked == fate)
    }

    /// A note speaks of no table, key or fate: who asks for one does not ask for notes.
    #[must_use]
    pub(super) fn takes_note(&self, note: &Note) -> bool {
        let of_everything = self.table.is_none() && self.id.is_none() && self.fate.is_none();
        of_everything && self.since.is_none_or(|since| note.at >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::example as record;

    #[test]
    fn each_condition_must_hold() {
        let record = record(1);
        let all = Filter::default();
        for (filter, takes) in [
            (all.clone(), true),
            (Filter { since: Some(record.at), ..all.clone() }, true),
            (Filter { since: Some(Timestamp::MAX), ..all.clone() }, false),
            (Filter { table: "ev".parse().ok(), ..all.clone() }, true),
            (Filter { table: "public.ev".parse().ok(), ..all.clone() }, true),
            (Filter { table: "audit.ev".parse().ok(), ..all.clone() }, false),
            (Filter { id: Some(record.old), ..all.clone() }, true),
            (Filter { id: record.new, ..all.clone() }, true),
            (Filter { id: Some(record.id.value()), ..all.clone() }, true),
            (Filter { id: Some(5), ..all.clone() }, false),
            (Filter { id: Some(record.old), table: "x".parse().ok(), ..all.clone() }, false),
        ] {
            assert_eq!(filter.takes(&record), takes, "{filter:?}");
        }
        assert!(!Filter { fate: Some(Fate::Committed), ..all }.takes_fate(Fate::Pending));
    }
}
