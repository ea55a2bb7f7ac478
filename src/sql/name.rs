//! Identifiers as Postgres reads them: folded to lower case unless quoted. Knows no schema.

/// One identifier, folded or unquoted, as the catalog has it.
pub type Ident = String;

/// A possibly qualified name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// Present for `schema.name` (and `database.schema.name`, whose first part is ignored).
    pub schema: Option<Ident>,
    /// The last part.
    pub name: Ident,
}

impl Name {
    /// Whether the name, as a function's or type's, can mean the one of that name in `pg_catalog`.
    #[must_use]
    pub fn is_builtin(&self, name: &str) -> bool {
        self.name == name && self.schema.as_deref().is_none_or(|schema| schema == "pg_catalog")
    }
}

/// Postgres keeps that many bytes of an identifier (`NAMEDATALEN - 1`).
const LONGEST: usize = 63;

/// An identifier without quotes, folded: ASCII letters only, as in a multi-byte database encoding.
/// `None` if it is not UTF-8.
#[must_use]
pub fn fold(word: &[u8]) -> Option<Ident> {
    Some(clip(std::str::from_utf8(word).ok()?.to_ascii_lowercase()))
}

/// An identifier from what stands between its double quotes. `None` if it is not UTF-8.
#[must_use]
pub fn unquote(content: &[u8]) -> Option<Ident> {
    Some(clip(std::str::from_utf8(content).ok()?.replace("\"\"", "\"")))
}

fn clip(mut ident: Ident) -> Ident {
    if ident.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|&at| ident.is_char_boundary(at));
        ident.truncate(end.unwrap_or_default());
    }
    ident
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_folded_and_quoted_identifiers_kept() {
        for (word, ident) in [("Ev", "ev"), ("ÄÖ_X", "ÄÖ_x"), ("a$1", "a$1")] {
            assert_eq!(fold(word.as_bytes()).as_deref(), Some(ident));
        }
        for (content, ident) in [("Ev", "Ev"), ("a\"\"b", "a\"b"), ("\"\"\"\"", "\"\""), (" a.b ", " a.b ")] {
            assert_eq!(unquote(content.as_bytes()).as_deref(), Some(ident));
        }
    }

    #[test]
    fn long_names_end_at_63_bytes_and_between_characters() {
        assert_eq!(fold("A".repeat(70).as_bytes()), Some("a".repeat(63)));
        assert_eq!(unquote("ü".repeat(40).as_bytes()), Some("ü".repeat(31)));
        assert_eq!(fold(b"\xfcber"), None);
    }

    #[test]
    fn a_builtin_is_unqualified_or_of_pg_catalog() {
        let name = |schema: Option<&str>| Name { schema: schema.map(Into::into), name: "unnest".into() };
        assert!(name(None).is_builtin("unnest"));
        assert!(name(Some("pg_catalog")).is_builtin("unnest"));
        assert!(!name(Some("public")).is_builtin("unnest"));
        assert!(!name(None).is_builtin("now"));
    }
}
