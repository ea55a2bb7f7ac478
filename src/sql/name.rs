//! Identifiers as Postgres reads them: folded to lower case unless quoted.

/// One identifier, folded or unquoted, as the catalog has it.
pub type Ident = String;

/// A possibly qualified name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// Present for `schema.name` (and `database.schema.name`, whose first part is ignored).
    pub schema: Option<Ident>,
    pub name: Ident,
}
