//! A table's name as a person or `regclass` spells it. Pure; knows no catalog.

use std::fmt;
use std::str::FromStr;

/// A table's name, folded and unquoted as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableName {
    /// `None`: the name says no schema.
    pub schema: Option<String>,
    /// The name within its schema.
    pub name: String,
}

/// A text is not the name of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a table's name is `schema.table`; names with capitals or other signs stand in double quotes")]
pub struct NotATableName;

impl FromStr for TableName {
    type Err = NotATableName;

    /// Reads identifiers as Postgres does (4.1.1, Identifiers and Key Words).
    fn from_str(text: &str) -> Result<Self, NotATableName> {
        let (first, rest) = identifier(text)?;
        let Some(rest) = rest.strip_prefix('.') else {
            return if rest.is_empty() { Ok(Self { schema: None, name: first }) } else { Err(NotATableName) };
        };
        match identifier(rest)? {
            (name, "") => Ok(Self { schema: Some(first), name }),
            _ => Err(NotATableName),
        }
    }
}

/// Takes one identifier off the front.
fn identifier(text: &str) -> Result<(String, &str), NotATableName> {
    match text.strip_prefix('"') {
        Some(quoted) => quoted_identifier(quoted),
        None => bare_identifier(text),
    }
}

fn bare_identifier(text: &str) -> Result<(String, &str), NotATableName> {
    let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
    let end = text.find(|c| !goes_on(c)).unwrap_or(text.len());
    let (bare, rest) = text.split_at(end);
    if bare.is_empty() || bare.starts_with(|c: char| c.is_ascii_digit() || c == '$') {
        return Err(NotATableName);
    }
    Ok((bare.to_ascii_lowercase(), rest))
}

/// A doubled quote stands for one.
fn quoted_identifier(mut text: &str) -> Result<(String, &str), NotATableName> {
    let mut name = String::new();
    loop {
        let (part, rest) = text.split_once('"').ok_or(NotATableName)?;
        name.push_str(part);
        match rest.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                text = more;
            }
            None if name.is_empty() => return Err(NotATableName),
            None => return Ok((name, rest)),
        }
    }
}

impl TableName {
    /// Whether a name without a schema, or with the same one, means that table.
    #[must_use]
    pub fn covers(&self, table: &Self) -> bool {
        self.name == table.name && (self.schema.is_none() || self.schema == table.schema)
    }

    /// Every way in which `regclass` may print it: whether it quotes a plain word depends on the keywords of
    /// the server's version.
    #[must_use]
    pub fn spellings(&self) -> Vec<String> {
        let names = identifier_spellings(&self.name);
        let Some(schema) = &self.schema else {
            return names;
        };
        let schemas = identifier_spellings(schema);
        schemas.iter().flat_map(|schema| names.iter().map(move |name| format!("{schema}.{name}"))).collect()
    }
}

/// As a person would write it: quoted where it must be.
impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spellings().first().map_or("", String::as_str))
    }
}

fn identifier_spellings(name: &str) -> Vec<String> {
    let quoted = format!("\"{}\"", name.replace('"', "\"\""));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let bare = name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit());
    if bare { vec![name.to_owned(), quoted] } else { vec![quoted] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_postgres_reads_them() {
        for (text, schema, name) in [
            ("ev", None, "ev"),
            ("Public.EV", Some("public"), "ev"),
            ("public.\"Ev\"", Some("public"), "Ev"),
            ("\"a.b\".\"c\"\"d\"", Some("a.b"), "c\"d"),
            ("_x.été$1", Some("_x"), "été$1"),
        ] {
            let expected = TableName { schema: schema.map(str::to_owned), name: name.to_owned() };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_names() {
        for text in
            ["", ".", "a.", ".b", "a.b.c", "a b", "a-b", "1a", "\"", "\"\"", "\"a", "a.\"b\"c", "a. b", "$a"]
        {
            assert_eq!(text.parse::<TableName>(), Err(NotATableName), "{text}");
        }
    }

    #[test]
    fn a_name_has_every_spelling_regclass_may_give_it() {
        for (text, spellings) in [
            ("public.user", vec!["public.user", "public.\"user\"", "\"public\".user", "\"public\".\"user\""]),
            ("\"Ev\"", vec!["\"Ev\""]),
            ("\"a\"\"b\"", vec!["\"a\"\"b\""]),
            ("a$", vec!["\"a$\""]),
        ] {
            assert_eq!(text.parse::<TableName>().unwrap().spellings(), spellings);
        }
    }

    #[test]
    fn a_name_without_schema_covers_every_schema() {
        let name = |text: &str| text.parse::<TableName>().unwrap();
        for (asked, table, covers) in [
            ("ev", "public.ev", true),
            ("ev", "audit.ev", true),
            ("public.ev", "public.\"ev\"", true),
            ("public.ev", "audit.ev", false),
            ("ev", "public.event", false),
        ] {
            assert_eq!(name(asked).covers(&name(table)), covers, "{asked} {table}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_spelling_reads_back(schema in proptest::option::of("[^\\x00]{1,8}"), name in "[^\\x00]{1,8}") {
            let table = TableName { schema, name };
            for spelling in table.spellings() {
                proptest::prop_assert_eq!(spelling.parse(), Ok(table.clone()));
            }
        }
    }
}
