//! A statement that must not be run, because its meaning is ambiguous: the server is made to say so, so that
//! replies stay in order.

use crate::catalog::model::Table;
use crate::key;
use crate::rekey::references::{Row, Shared};

/// What is sent for a message whose facts the journal cannot take.
#[derive(Debug)]
pub struct Unrecorded {
    pub bytes: Vec<u8>,
    /// A statement is prepared in it, besides.
    pub substitutes: bool,
}

/// Why a statement is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    message: String,
    detail: String,
    hint: String,
    schema: String,
    table: String,
    constraint: String,
}

impl Refusal {
    /// A row of `child` refers to a key that two rows of `parent` were sent with.
    #[must_use]
    pub fn of_reference(old: u128, child: &Table, constraint: &str, parent: &Table, rows: [Row; 2]) -> Self {
        let what = format!("a reference from {}", child.display);
        Self { constraint: constraint.to_owned(), ..Self::new(old, &what, parent, child, rows) }
    }

    /// A row was sent with the key of another, and a row that refers to the key came before both.
    #[must_use]
    pub fn of_early_child(old: u128, parent: &Table, rows: [Row; 2]) -> Self {
        Self::new(old, "a reference that came before both", parent, parent, rows)
    }

    /// A statement that may change data names a key that two rows were sent with.
    #[must_use]
    pub fn of_statement(shared: &Shared) -> Option<Self> {
        let (first, last) = shared.rows()?;
        let table = &shared.table;
        Some(Self::new(shared.old, "a statement that names it", table, table, [first, last]))
    }

    /// Rows that belong to a row with a fresh key cannot be given it, since that cannot be recorded.
    #[must_use]
    pub fn of_unrecorded() -> Self {
        Self {
            message: "untwin: the journal cannot be written to, so that no reference is given its row's fresh key"
                .to_owned(),
            detail: "An earlier row of this transaction was given a fresh key, and rows that refer to it must follow."
                .to_owned(),
            hint: "See to it that the journal can be written to, and send the transaction again.".to_owned(),
            schema: String::new(),
            table: String::new(),
            constraint: String::new(),
        }
    }

    /// `setting` is the table whose setting decides.
    fn new(old: u128, what: &str, parent: &Table, setting: &Table, [first, last]: [Row; 2]) -> Self {
        let mut spelled = *b"00000000-0000-0000-0000-000000000000";
        key::overwrite(&mut spelled, old);
        let spelled = String::from_utf8_lossy(&spelled);
        let of = &parent.display;
        Self {
            message: format!("untwin: ambiguous key {spelled}: {what} may mean either of two rows of {of}"),
            detail: format!(
                "This transaction sent the key for row {} of statement {} and again for row {} of statement {}.",
                first.1, first.0, last.1, last.0
            ),
            hint: format!(
                "Send each parent followed by its own children, or give every row a key of its own. The setting \
                 ambiguous = \"keep\" for {} lets the key mean the first row.",
                setting.display
            ),
            schema: parent.schema.clone(),
            table: parent.name.clone(),
            constraint: String::new(),
        }
    }

    /// An SQL statement that raises the error, with the SQLSTATE that the transaction would have died of.
    #[must_use]
    pub fn sql(&self) -> String {
        // The body is a quoted literal that holds quoted literals.
        let inner = |text: &str| text.replace('\'', "''");
        let body = format!(
            "BEGIN RAISE EXCEPTION USING ERRCODE = '23505', MESSAGE = '{}', DETAIL = '{}', HINT = '{}', SCHEMA = '{}', \
             TABLE = '{}', CONSTRAINT = '{}'; END",
            inner(&self.message),
            inner(&self.detail),
            inner(&self.hint),
            inner(&self.schema),
            inner(&self.table),
            inner(&self.constraint),
        );
        // Without backslashes the literal is read alike under either string rule.
        format!("DO LANGUAGE plpgsql '{}'", inner(&body).replace('\\', "/"))
    }

    /// The reason given in a CopyFail: the server's error quotes it.
    #[must_use]
    pub fn reason(&self) -> String {
        format!("{}. {} {}", self.message, self.detail, self.hint)
    }
}
