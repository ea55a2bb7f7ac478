//! A statement that must not be run, because its meaning is ambiguous: the server is made to say so, so that
//! replies stay in order.

use crate::catalog::model::Table;
use crate::key;
use crate::rekey::references::{Row, Shared};

/// Why a statement is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    message: String,
    detail: String,
    table: String,
    constraint: String,
}

const HINT: &str = "Send each parent followed by its own children, or give every row a key of its own. The setting \
                    ambiguous = \"keep\" for the table lets such references name the first row.";

impl Refusal {
    /// A reference, or a statement, names a key that two rows were sent with.
    #[must_use]
    pub fn new(old: u128, what: &str, parent: &Table, constraint: &str, first: Row, last: Row) -> Self {
        let mut spelled = *b"00000000-0000-0000-0000-000000000000";
        key::overwrite(&mut spelled, old);
        let spelled = String::from_utf8_lossy(&spelled);
        Self {
            message: format!(
                "untwin: ambiguous key {spelled}: {what} may mean either of two rows of {}",
                parent.display
            ),
            detail: format!(
                "This transaction sent the key for row {} of statement {} and again for row {} of statement {}, \
                 which was given a key of its own.",
                first.1, first.0, last.1, last.0
            ),
            table: parent.name.clone(),
            constraint: constraint.to_owned(),
        }
    }

    /// A statement that changes data names the key.
    #[must_use]
    pub fn of_statement(shared: &Shared) -> Option<Self> {
        let (first, last) = shared.rows()?;
        Some(Self::new(shared.old, "a statement that names it", &shared.table, "", first, last))
    }

    /// An SQL statement that raises the error, with the SQLSTATE that the transaction would have died of.
    #[must_use]
    pub fn sql(&self) -> String {
        // The body is a quoted literal that holds quoted literals.
        let inner = |text: &str| text.replace('\'', "''");
        let body = format!(
            "BEGIN RAISE EXCEPTION USING ERRCODE = '23505', MESSAGE = '{}', DETAIL = '{}', HINT = '{}', TABLE = '{}', CONSTRAINT = '{}'; END",
            inner(&self.message),
            inner(&self.detail),
            inner(HINT),
            inner(&self.table),
            inner(&self.constraint),
        );
        // Without backslashes the literal is read alike under either string rule.
        format!("DO LANGUAGE plpgsql '{}'", inner(&body).replace('\\', "/"))
    }

    /// The reason given in a CopyFail: the server's error quotes it.
    #[must_use]
    pub fn reason(&self) -> String {
        format!("{}. {}", self.message, self.detail)
    }
}
