//! The names in a statement that may stand for something that does anything. Knows no statement.

use crate::catalog::Catalog;
use crate::sql::name::Name;

/// Names, and how thoroughly the text was read for them.
#[derive(Clone, Debug, Default)]
pub struct Mentions {
    pub names: Vec<Name>,
    pub reading: Reading,
}

/// What a text is read for: what is in the catalog decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reading {
    /// There is no user-defined volatile function.
    #[default]
    Nothing,
    /// Calls of one.
    Calls,
    /// Views, operators and the like that call one, too.
    Everything,
}

impl Reading {
    #[must_use]
    pub fn wanted(catalog: &Catalog) -> Self {
        if catalog.has_opaque_words() {
            Self::Everything
        } else if catalog.has_opaque_functions() {
            Self::Calls
        } else {
            Self::Nothing
        }
    }
}

impl Mentions {
    /// Whether one of the names may run a user-defined volatile function: also if the text was read when there
    /// was less to look for.
    #[must_use]
    pub fn are_opaque(&self, catalog: &Catalog) -> bool {
        self.reading < Reading::wanted(catalog) || self.names.iter().any(|name| is_opaque(catalog, name))
    }
}

/// A name that could not be read may be any.
fn is_opaque(catalog: &Catalog, name: &Name) -> bool {
    catalog.is_opaque_function(name) || catalog.is_opaque_word(name) || name.name.contains('\u{fffd}')
}
