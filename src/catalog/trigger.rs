//! What the body of a function lets one say of it. It knows words, not the database; whatever
//! it cannot tell, it holds against the function.

use std::collections::HashSet;

/// Bits of `pg_trigger.tgtype`.
pub(super) mod bits {
    pub const ROW: i16 = 1;
    pub const BEFORE: i16 = 2;
    pub const INSERT: i16 = 4;
    pub const DELETE: i16 = 8;
    pub const UPDATE: i16 = 16;
    pub const TRUNCATE: i16 = 32;
    pub const INSTEAD: i16 = 64;
}

/// A function.
#[derive(Debug)]
pub(super) enum Function {
    /// One of Postgres' own, which changes no table.
    BuiltIn,
    /// SQL or PL/pgSQL without a word that changes rows, INSERT aside.
    Readable(Body),
    /// In another language, or with such a word: anything may happen in it.
    Unknown,
}

impl Function {
    /// `language` and `body` as `load.sql` gives them: no language for Postgres' own functions, no body
    /// if it has a forbidden word.
    pub fn new(language: &str, body: Option<String>) -> Self {
        match (language, body) {
            ("", _) => Self::BuiltIn,
            ("plpgsql" | "sql", Some(text)) if !has_escaped_names(&text) => {
                Self::Readable(Body::new(text, language == "plpgsql"))
            }
            _ => Self::Unknown,
        }
    }
}

/// `U&"…"` may spell any name.
fn has_escaped_names(text: &str) -> bool {
    let folded = text.to_ascii_lowercase();
    folded.contains("u&\"") || folded.contains("u&'")
}

/// A body and the words in it.
#[derive(Debug)]
pub(super) struct Body {
    text: String,
    words: HashSet<String>,
    passes_row_through: bool,
}

impl Body {
    fn new(text: String, plpgsql: bool) -> Self {
        let tokens: Vec<String> = tokens(&text).map(str::to_ascii_lowercase).collect();
        let passes_row_through = plpgsql && returns_new_only(&tokens);
        let words = tokens.into_iter().filter(|token| is_word(token)).collect();
        Self { text, words, passes_row_through }
    }

    /// Whether it may insert rows somewhere.
    pub fn inserts(&self) -> bool {
        self.words.contains("insert")
    }

    /// Whether the name stands anywhere in it, in any case, code or not.
    pub fn mentions(&self, name: &str) -> bool {
        if is_word(name) {
            self.words.contains(&name.to_ascii_lowercase())
        } else {
            self.text.contains(&name.replace('"', "\"\""))
        }
    }

    /// Whether any of `names` stands in it.
    pub fn mentions_any(&self, names: &Names) -> bool {
        self.words.iter().any(|word| names.words.contains(word))
            || names.odd.iter().any(|name| self.mentions(name))
    }

    /// Whether, as a BEFORE ROW trigger, it lets every row through as a row of its table.
    pub fn passes_row_through(&self) -> bool {
        self.passes_row_through
    }
}

/// Every RETURN is `RETURN NEW`, and NEW as a whole is never assigned nor handed on.
fn returns_new_only(tokens: &[String]) -> bool {
    let at = |position: usize| tokens.get(position).map_or("", String::as_str);
    let allowed = |(here, token): (usize, &String)| match token.as_str() {
        "return" => at(here + 1) == "new" && at(here + 2) == ";",
        "new" => at(here + 1) == "." || (here > 0 && at(here - 1) == "return"),
        _ => true,
    };
    tokens.iter().enumerate().all(allowed)
}

/// Names to look for in bodies, without regard to case.
#[derive(Debug, Default)]
pub(super) struct Names {
    words: HashSet<String>,
    odd: HashSet<String>,
}

impl<'a> FromIterator<&'a str> for Names {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut all = Self::default();
        for name in names {
            if is_word(name) {
                all.words.insert(name.to_ascii_lowercase());
            } else {
                all.odd.insert(name.to_owned());
            }
        }
        all
    }
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

fn is_word(token: &str) -> bool {
    !token.is_empty() && token.chars().all(is_word_char)
}

/// Words and single other characters, white space left out. Quotes and comments are not understood:
/// a word in them counts as one in the code.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        let first = rest.chars().next()?;
        let end = if is_word_char(first) {
            rest.find(|c: char| !is_word_char(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        Some(token)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Body {
        Body::new(text.to_owned(), true)
    }

    #[test]
    fn a_row_passes_through_only_if_every_return_is_new_and_new_stays_whole() {
        let cases = [
            ("BEGIN NEW.updated_at := now(); RETURN NEW; END", true),
            ("begin if new.a > 1 then raise exception 'no'; end if; return new; end", true),
            ("begin return null; end", false),
            ("begin if new.a is null then return null; end if; return new; end", false),
            ("begin return old; end", false),
            ("begin return coalesce(new, old); end", false),
            ("begin return (new); end", false),
            ("begin return new.inner_row; end", false),
            ("begin new := old; return new; end", false),
            ("begin select * into new from t; return new; end", false),
            ("begin new = json_populate_record(new, '{}'); return new; end", false),
            ("begin return /* nothing */ null; end", false),
            ("begin return\n\tNEW ; end", true),
            ("new", false),
        ];
        for (text, expected) in cases {
            assert_eq!(body(text).passes_row_through(), expected, "{text}");
        }
        assert!(!Body::new("return new;".into(), false).passes_row_through(), "only PL/pgSQL");
    }

    #[test]
    fn a_mention_is_a_whole_word_in_any_case() {
        let cases = [
            ("new.ID := 1", "id", true),
            ("new.\"Id\" := 1", "Id", true),
            ("new.width := 1", "id", false),
            ("new.id_ := 1", "id", false),
            ("-- the id", "id", true),
            ("new.\"odd name\" := 1", "odd name", true),
            ("new.\"a\"\"b\" := 1", "a\"b", true),
            ("new.größe := 1", "größe", true),
            ("new.a := 1", "odd name", false),
        ];
        for (text, name, expected) in cases {
            assert_eq!(body(text).mentions(name), expected, "{name} in {text}");
        }
    }

    #[test]
    fn names_are_found_with_and_without_odd_characters() {
        let names: Names = ["Purge", "purge", "do it"].into_iter().collect();
        for (text, expected) in [("x := purge(1)", true), ("x := \"do it\"()", true), ("x := purged", false)]
        {
            assert_eq!(body(text).mentions_any(&names), expected, "{text}");
        }
    }

    #[test]
    fn a_function_is_readable_only_in_sql_and_plpgsql_and_plain_names() {
        let new = |language, text: Option<&str>| Function::new(language, text.map(str::to_owned));
        assert!(matches!(new("", None), Function::BuiltIn));
        assert!(matches!(new("plpgsql", Some("begin end")), Function::Readable(_)));
        assert!(matches!(new("plpgsql", None), Function::Unknown));
        assert!(matches!(new("plpython3u", Some("pass")), Function::Unknown));
        assert!(matches!(new("plpgsql", Some("new.U&\"i\\0064\" := 1")), Function::Unknown));
    }
}
