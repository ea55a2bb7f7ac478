//! What `untwin check` says to people: names as Postgres quotes them, why a key is left alone, and the
//! line of configuration that changes it. It prints nothing itself.

use super::model::{Table, UniqueKey, Unprotected, UnprotectedKey};
use super::snapshot::Catalog;
use std::collections::HashSet;
use std::fmt;

impl fmt::Display for Unprotected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeTrigger => "a BEFORE ROW INSERT trigger may skip or move the row, or change the key",
            Self::FreeingExpression => {
                "a default, CHECK, index or policy calls a function that could free a key between two rows"
            }
            Self::InsteadOfTrigger => "an INSTEAD OF trigger decides what is stored",
            Self::InsertRule => "a rule rewrites INSERTs",
            Self::Deferrable => "the constraint is deferrable: a key may repeat until it is checked",
            Self::Partial => "the index is partial: a key may repeat outside of it",
            Self::Expression => {
                "the index is on an expression or a generated column, which the client does not send"
            }
            Self::Invalid => "the index is not valid",
            Self::ForeignKey => {
                "every UUID column of the key is a foreign key: a fresh value would refer to nothing"
            }
            Self::View => "it is a view",
            Self::ForeignTable => "it is a foreign table: its unique keys are known to another server only",
            Self::Collation => "the collation or operator class holds unequal bytes for equal",
        })
    }
}

/// One key of a table, for a listing.
#[derive(Clone, Copy, Debug)]
pub struct Finding<'a> {
    /// The key's table.
    pub table: &'a Table,
    /// Empty for a foreign table.
    pub constraint: &'a str,
    /// The column that is, or would be, rekeyed.
    pub column: &'a str,
    /// `None`: the key is protected.
    pub reason: Option<Unprotected>,
    /// What is protected, or would be if the configuration asked for it; `None`: the configuration cannot.
    pub key: Option<&'a UniqueKey>,
}

impl Finding<'_> {
    /// Whether the configuration can have the key protected in spite of the reason.
    #[must_use]
    pub fn can_opt_in(&self) -> bool {
        self.reason.is_some() && self.key.is_some()
    }

    /// The lines of configuration that protect the key in spite of the reason; `None` if it is
    /// protected or cannot be.
    #[must_use]
    pub fn opt_in(&self) -> Option<String> {
        self.can_opt_in()
            .then(|| format!("[[table]]\nname = {}\nprotect = true\n", toml_string(&self.table.display)))
    }
}

impl Catalog {
    /// Every UUID key of the database, in the order of its tables.
    pub fn findings(&self) -> impl Iterator<Item = Finding<'_>> {
        self.tables().flat_map(|table| table.findings())
    }
}

impl Table {
    /// Every UUID key of the table, the protected ones first.
    pub fn findings(&self) -> impl Iterator<Item = Finding<'_>> {
        let protected = self.keys.iter().map(|key| Finding {
            table: self,
            constraint: &key.constraint,
            column: self.columns.get(key.rekey).map_or("", |column| &column.name),
            reason: None,
            key: Some(key),
        });
        let unprotected = self.unprotected.iter().map(|key: &UnprotectedKey| Finding {
            table: self,
            constraint: &key.constraint,
            column: &key.column,
            reason: Some(key.reason),
            key: key.key.as_ref(),
        });
        protected.chain(unprotected)
    }
}

/// A TOML basic string. A name holds no control characters but by malice; those are escaped too.
fn toml_string(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

/// Quotes names as `quote_ident` does, whatever `quote_all_identifiers` says in the session.
pub(super) struct Quoting<'a> {
    keywords: HashSet<&'a str>,
}

impl<'a> Quoting<'a> {
    pub fn new(keywords: &'a [String]) -> Self {
        Self { keywords: keywords.iter().map(String::as_str).collect() }
    }

    /// `schema.name`, each quoted where needed.
    pub fn qualified(&self, schema: &str, name: &str) -> String {
        format!("{}.{}", self.ident(schema), self.ident(name))
    }

    fn ident(&self, name: &str) -> String {
        let starts = |c: char| c.is_ascii_lowercase() || c == '_';
        let plain = name.starts_with(starts) && name.chars().all(|c| starts(c) || c.is_ascii_digit());
        if plain && !self.keywords.contains(name) {
            name.to_owned()
        } else {
            format!("\"{}\"", name.replace('"', "\"\""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_regclass_prints_them() {
        let keywords = ["user".to_owned(), "select".to_owned()];
        let quoting = Quoting::new(&keywords);
        let cases = [
            ("orders", "s.orders"),
            ("_a1", "s._a1"),
            ("Orders", "s.\"Orders\""),
            ("1a", "s.\"1a\""),
            ("user", "s.\"user\""),
            ("a b", "s.\"a b\""),
            ("a\"b", "s.\"a\"\"b\""),
            ("größe", "s.\"größe\""),
            ("", "s.\"\""),
        ];
        for (name, expected) in cases {
            assert_eq!(quoting.qualified("s", name), expected);
        }
    }

    #[test]
    fn the_setting_that_opts_in_is_toml_for_any_name() {
        for display in ["s.t", "s.\"a \"\"b\"\"\"", "s.\"a\\b\"", "s.\"a\nb\"", "s.\"größe\""] {
            let table = Table { display: display.to_owned(), ..Table::default() };
            let (index, columns) = (super::super::model::IndexId(1), vec![0]);
            let constraint = "c".to_owned();
            let key = UniqueKey { index, constraint, columns, rekey: 0, nulls_not_distinct: false };
            let reason = Some(Unprotected::Partial);
            let finding = Finding { table: &table, constraint: "c", column: "id", reason, key: Some(&key) };
            let settings: toml::Table = finding.opt_in().unwrap().parse().unwrap();
            assert_eq!(settings["table"][0]["name"].as_str(), Some(display));
            assert_eq!(settings["table"][0]["protect"].as_bool(), Some(true));
        }
    }
}
