//! What a statement is, as far as keys and transactions are concerned.

use super::insert::Insert;
use super::name::{Ident, Name};
use std::ops::Range;

/// Facts of one statement. Ranges are byte positions in the whole text given to [`classify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Nothing but white space and comments.
    Empty,
    /// `BEGIN`, `START TRANSACTION`, with any options.
    Begin,
    /// `COMMIT`, `END`, with or without `AND CHAIN`.
    Commit {
        chain: bool,
    },
    /// `ROLLBACK`, `ABORT`.
    Rollback {
        chain: bool,
    },
    Savepoint(Ident),
    RollbackTo(Ident),
    Release(Ident),
    /// `PREPARE TRANSACTION`.
    PrepareTransaction,
    /// One or several INSERTs: a plain one, or data-modifying CTEs, in the order Postgres runs them.
    Insert(Vec<Insert>),
    /// `COPY table FROM STDIN`.
    CopyIn(CopyIn),
    /// `COPY … TO`, and `COPY … FROM` a file or program (`into` is the table then).
    CopyOther {
        into: Option<Name>,
    },
    /// `DELETE FROM [ONLY] table`.
    Delete(Name),
    /// `UPDATE table SET columns`. `columns` is empty if it could not be read.
    Update {
        table: Name,
        columns: Vec<Ident>,
    },
    Truncate {
        tables: Vec<Name>,
        cascade: bool,
    },
    Merge(Name),
    /// `PREPARE name (types) AS statement`; `body` is the statement's text.
    Prepare {
        name: Ident,
        types: Vec<String>,
        body: Range<usize>,
    },
    /// `EXECUTE name (args)`; an argument is what stands between the commas, without white space around.
    Execute {
        name: Ident,
        arguments: Vec<Range<usize>>,
    },
    Deallocate(Ident),
    DeallocateAll,
    /// `EXPLAIN`; `analyze` says whether `body` is really run.
    Explain {
        analyze: bool,
        body: Range<usize>,
    },
    /// `SET [SESSION | LOCAL] name {TO | =} values`; `None` is DEFAULT, and every RESET. The name is
    /// folded; `SET TIME ZONE` is `timezone`, `SET NAMES` is `client_encoding`.
    Set {
        local: bool,
        name: Ident,
        values: Option<Vec<String>>,
    },
    ResetAll,
    /// `SET [LOCAL] ROLE`, `SET [LOCAL] SESSION AUTHORIZATION` and their RESET.
    SetRole,
    /// `DISCARD ALL`.
    DiscardAll,
    DiscardOther,
    /// `CREATE [TEMP] TABLE name …` (also `AS`, and `SELECT … INTO`), `CREATE [TEMP] VIEW | SEQUENCE`:
    /// brings a new name and changes no existing table.
    CreateRelation {
        name: Name,
        temporary: bool,
    },
    /// Any other statement that changes the schema: CREATE, ALTER, DROP, COMMENT, GRANT, SECURITY LABEL …
    Ddl,
    /// `SELECT`, `VALUES`, `TABLE`, `WITH` without data-modifying parts.
    Select,
    /// `DO`, `CALL`: anything may happen in it.
    Opaque,
    /// `FETCH`, `MOVE`: runs a part of a query declared earlier.
    Fetch,
    /// Known and without any effect on keys or names: SHOW, LISTEN, NOTIFY, LOCK, DECLARE CURSOR of a
    /// plain query, CHECKPOINT, VACUUM, ANALYZE, SET TRANSACTION, SET CONSTRAINTS …
    Harmless,
    /// Not understood. Anything may happen in it.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyIn {
    pub table: Name,
    pub columns: Option<Vec<Ident>>,
    pub format: CopyFormat,
    /// Why the data must not be inspected: `WHERE`, `ON_ERROR`, an encoding that is not ASCII-safe …
    pub obstacle: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// `delimiter` one byte, `null` the string that stands for NULL (default `\N`).
    Text {
        delimiter: u8,
        null: Vec<u8>,
        header: bool,
        default: Option<Vec<u8>>,
    },
    Csv {
        delimiter: u8,
        quote: u8,
        escape: u8,
        null: Vec<u8>,
        header: bool,
        /// FORCE_NULL and FORCE_NOT_NULL columns; `*` is every column.
        force_null: ForceColumns,
        force_not_null: ForceColumns,
        default: Option<Vec<u8>>,
    },
    Binary,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForceColumns {
    #[default]
    None,
    All,
    Some(Vec<Ident>),
}
