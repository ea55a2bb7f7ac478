//! The tables whose rows a statement changes, by name.

use super::Statement;
use crate::sql::name::Name;
use smallvec::SmallVec;

impl Statement {
    /// The tables into which it puts rows, or whose rows it changes or removes. None of what is not understood.
    #[must_use]
    pub fn targets(&self) -> SmallVec<[&Name; 1]> {
        match self {
            Self::Insert(inserts) => inserts.iter().map(|insert| &insert.table).collect(),
            Self::Mixed { inserts, deletes, updates, merges } => {
                let inserts = inserts.iter().map(|insert| &insert.table);
                let updates = updates.iter().map(|(table, _)| table);
                inserts.chain(deletes).chain(updates).chain(merges).collect()
            }
            Self::CopyIn(copy) => SmallVec::from_iter([&copy.table]),
            Self::CopyOther { into } => into.iter().collect(),
            Self::Delete(table) | Self::Update { table, .. } | Self::Merge(table) => {
                SmallVec::from_iter([table])
            }
            Self::Truncate { tables, .. } => tables.iter().collect(),
            _ => SmallVec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::lex::Options;
    use crate::sql::statement::classify;

    #[test]
    fn the_tables_that_a_statement_changes_are_told_and_those_it_reads_are_not() {
        for (text, expected) in [
            ("insert into a select * from b", "a"),
            (
                "with x as (delete from a returning 1), y as (update s.b set c = 1) insert into d values (1)",
                "d a b",
            ),
            ("copy a from stdin", "a"),
            ("copy a from '/tmp/x'", "a"),
            ("copy a to stdout", ""),
            ("delete from a using b", "a"),
            ("update only a set b = 1 from c", "a"),
            ("truncate a, b", "a b"),
            ("select * from a", ""),
            ("do 'begin end'", ""),
        ] {
            let statement = classify(text.as_bytes(), 0..text.len(), Options::default());
            let names: Vec<&str> = statement.targets().iter().map(|name| name.name.as_str()).collect();
            assert_eq!(names.join(" "), expected, "{text}");
        }
    }
}
