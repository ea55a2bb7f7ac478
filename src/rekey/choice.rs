//! The settings with a few named values: what becomes of which twins. Pure.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A choice's name is none of those it has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is none of {}", .names.join(", "))]
pub struct UnknownName {
    given: String,
    names: &'static [&'static str],
}

/// What a setting means as it is, and what it would mean otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The setting's name.
    pub name: &'static str,
    /// Its value.
    pub value: &'static str,
    /// What that means.
    pub now: &'static str,
    /// Its other values, each with what it means.
    pub otherwise: Vec<(&'static str, &'static str)>,
}

/// A setting with a few named values; the names are the same in the file, in flags and in records.
macro_rules! choice {
    ($(#[$about:meta])* $choice:ident { $(#[doc = $doc:literal] $variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $choice { $(#[doc = $doc] $variant,)+ }

        impl $choice {
            /// The name in settings.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What the value means, and what the others would.
            #[must_use]
            pub fn explained(self, setting: &'static str) -> Meaning {
                let all = [$((Self::$variant, $name, $doc.trim_ascii())),+];
                let is_now = |(value, ..): &&(Self, &str, &str)| *value == self;
                Meaning {
                    name: setting,
                    value: self.name(),
                    now: all.iter().find(is_now).map_or("", |(.., meaning)| meaning),
                    otherwise: all
                        .iter()
                        .filter(|one| !is_now(one))
                        .map(|&(_, name, meaning)| (name, meaning))
                        .collect(),
                }
            }
        }

        impl FromStr for $choice {
            type Err = UnknownName;

            fn from_str(name: &str) -> Result<Self, UnknownName> {
                match name {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(UnknownName { given: name.to_owned(), names: &[$($name),+] }),
                }
            }
        }

        impl fmt::Display for $choice {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

choice! {
    /// How much untwin dares, the boldest first: a greater mode is a more careful one.
    Mode {
        /// Every twin is given a fresh key.
        Rewrite = "rewrite",
        /// Only twins that differ in content are, on tables that no foreign key references; others are forwarded.
        Strict = "strict",
        /// No byte changes; the journal has what `rewrite` would have done.
        Observe = "observe",
    }
}

choice! {
    /// What becomes of a twin that equals an earlier live row in every column.
    IdenticalRows {
        /// A row that equals an earlier one in every column is rekeyed and marked `identical`.
        Rekey = "rekey",
        /// A row that equals an earlier one in every column is forwarded: Postgres refuses it.
        Forward = "forward",
    }
}

choice! {
    /// What becomes of a twin whose key is name-based (v3, v5), equal on purpose.
    NameBased {
        /// A twin with a name-based key (v3, v5) is forwarded and recorded.
        Forward = "forward",
        /// A twin with a name-based key (v3, v5) is rekeyed.
        Rekey = "rekey",
    }
}

choice! {
    /// What becomes of a reference to a shared key when the order does not show whose it is.
    Ambiguous {
        /// A reference that may mean either row is refused with 23505; nothing is stored.
        Fail = "fail",
        /// A reference that may mean either row is left as it was sent: it names the first.
        Keep = "keep",
    }
}

choice! {
    /// Which key RETURNING shows for a rekeyed row.
    Returning {
        /// RETURNING shows the fresh key, as it is stored.
        Stored = "stored",
        /// RETURNING shows the key that was sent, unless another row of the statement shows it already.
        Sent = "sent",
    }
}

impl Mode {
    /// The more careful of the configured mode and the one a session asks for.
    #[must_use]
    pub fn or_more_careful(self, asked: Self) -> Self {
        self.max(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_may_only_be_more_careful() {
        for (configured, asked, result) in [
            (Mode::Rewrite, Mode::Observe, Mode::Observe),
            (Mode::Rewrite, Mode::Strict, Mode::Strict),
            (Mode::Observe, Mode::Rewrite, Mode::Observe),
            (Mode::Strict, Mode::Rewrite, Mode::Strict),
        ] {
            assert_eq!(configured.or_more_careful(asked), result);
        }
    }

    #[test]
    fn names_of_choices_read_back() {
        for mode in [Mode::Rewrite, Mode::Strict, Mode::Observe] {
            assert_eq!(mode.name().parse(), Ok(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.name());
        }
        let error = "rewirte".parse::<Mode>().unwrap_err().to_string();
        assert_eq!(error, "`rewirte` is none of rewrite, strict, observe");
    }
}
