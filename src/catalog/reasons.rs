//! What `untwin check` says to people: names as Postgres quotes them, why a key is left alone, and the
//! line of configuration that changes it. It prints nothing itself.

use super::model::{Table, Unprotected, UnprotectedKey};
use super::snapshot::Catalog;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

impl fmt::Display for Unprotected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeTrigger => "a BEFORE ROW INSERT trigger may skip or move the row, or change the key",
            Self::InsteadOfTrigger => "an INSTEAD OF trigger decides what is stored",
            Self::InsertRule => "a rule rewrites INSERTs",
            Self::Deferrable => "the constraint is deferrable: a key may repeat until it is checked",
            Self::Partial => "the index is partial: a key may repeat outside of it",
            Self::Expression => "the index is on an expression or a generated column, which the client does not send",
            Self::Invalid => "the index is not valid",
            Self::ForeignKey => "every UUID column of the key is a foreign key: a fresh value would refer to nothing",
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
    /// Whether the configuration can have the key protected all the same.
    pub can_opt_in: bool,
}

impl Finding<'_> {
    /// The lines of configuration that protect the key in spite of the reason; `None` if it is
    /// protected or cannot be.
    #[must_use]
    pub fn opt_in(&self) -> Option<String> {
        self.can_opt_in.then(|| {
            format!(
                "[[table]]\nname = {}\nprotect = true\n",
                toml_string(&self.table.display)
            )
        })
    }
}

impl Catalog {
    /// Every UUID key of the database, in the order of its tables.
    pub fn findings(&self) -> impl Iterator<Item = Finding<'_>> {
        self.tables().flat_map(findings)
    }
}

fn findings(table: &Arc<Table>) -> impl Iterator<Item = Finding<'_>> {
    let protected = table.keys.iter().map(|key| Finding {
        table,
        constraint: &key.constraint,
        column: table
            .columns
            .get(key.rekey)
            .map_or("", |column| &column.name),
        reason: None,
        can_opt_in: false,
    });
    let unprotected = table
        .unprotected
        .iter()
        .map(|key: &UnprotectedKey| Finding {
            table,
            constraint: &key.constraint,
            column: &key.column,
            reason: Some(key.reason),
            can_opt_in: key.key.is_some(),
        });
    protected.chain(unprotected)
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
        Self {
            keywords: keywords.iter().map(String::as_str).collect(),
        }
    }

    /// `schema.name`, each quoted where needed.
    pub fn qualified(&self, schema: &str, name: &str) -> String {
        format!("{}.{}", self.ident(schema), self.ident(name))
    }

    fn ident(&self, name: &str) -> String {
        let starts = |c: char| c.is_ascii_lowercase() || c == '_';
        let plain =
            name.starts_with(starts) && name.chars().all(|c| starts(c) || c.is_ascii_digit());
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
        for display in [
            "s.t",
            "s.\"a \"\"b\"\"\"",
            "s.\"a\\b\"",
            "s.\"a\nb\"",
            "s.\"größe\"",
        ] {
            let table = Table {
                display: display.to_owned(),
                ..Table::default()
            };
            let finding = Finding {
                table: &table,
                constraint: "c",
                column: "id",
                reason: None,
                can_opt_in: true,
            };
            let settings: toml::Table = finding.opt_in().unwrap().parse().unwrap();
            assert_eq!(settings["table"][0]["name"].as_str(), Some(display));
            assert_eq!(settings["table"][0]["protect"].as_bool(), Some(true));
        }
    }
}
