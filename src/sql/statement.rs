//! What a statement is, as far as keys and transactions are concerned.

use super::cursor::Cursor;
use super::insert::Insert;
use super::lex::{Kind, Options};
use super::name::{Ident, Name};
use super::{copy, ddl, dml, setting, transaction, with};
use std::ops::Range;

mod targets;

/// Facts of one statement. Ranges are byte positions in the whole text given to [`classify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Nothing but white space and comments.
    Empty,
    /// `BEGIN`, `START TRANSACTION`, with any options.
    Begin,
    /// `COMMIT`, `END`, with or without `AND CHAIN`.
    Commit {
        /// A new transaction begins at once.
        chain: bool,
    },
    /// `ROLLBACK`, `ABORT`.
    Rollback {
        /// A new transaction begins at once.
        chain: bool,
    },
    /// `SAVEPOINT name`.
    Savepoint(Ident),
    /// `ROLLBACK TO [SAVEPOINT] name`.
    RollbackTo(Ident),
    /// `RELEASE [SAVEPOINT] name`.
    Release(Ident),
    /// `PREPARE TRANSACTION`.
    PrepareTransaction,
    /// One or several INSERTs: a plain one, or data-modifying CTEs, in the order of the text. (Postgres runs
    /// a CTE before the part that reads it, and those that nothing reads at the end.)
    Insert(Vec<Insert>),
    /// Data-modifying parts of several kinds in one statement. All of them see the data as it was before.
    Mixed {
        /// As in [`Statement::Insert`].
        inserts: Vec<Insert>,
        /// Tables of the DELETEs.
        deletes: Vec<Name>,
        /// Tables of the UPDATEs, with the columns they set (empty if they could not be read).
        updates: Vec<(Name, Vec<Ident>)>,
        /// Tables of the MERGEs.
        merges: Vec<Name>,
    },
    /// `COPY table FROM STDIN`.
    CopyIn(CopyIn),
    /// `COPY … TO`, and `COPY … FROM` a file or program (`into` is the table then).
    CopyOther {
        /// The table that is filled, if one is.
        into: Option<Name>,
    },
    /// `DELETE FROM [ONLY] table`.
    Delete(Name),
    /// `UPDATE table SET columns`. `columns` is empty if it could not be read.
    Update {
        /// The target.
        table: Name,
        /// The columns to the left of each `=`.
        columns: Vec<Ident>,
    },
    /// `TRUNCATE`.
    Truncate {
        /// The tables named.
        tables: Vec<Name>,
        /// With the tables that refer to them.
        cascade: bool,
    },
    /// `MERGE INTO table`.
    Merge(Name),
    /// `PREPARE name (types) AS statement`; `body` is the statement's text.
    Prepare {
        /// The prepared statement's name.
        name: Ident,
        /// The types as they are written.
        types: Vec<String>,
        /// Where the statement stands.
        body: Range<usize>,
    },
    /// `EXECUTE name (args)`; an argument is what stands between the commas, without white space around.
    Execute {
        /// The prepared statement's name.
        name: Ident,
        /// Where the arguments stand.
        arguments: Vec<Range<usize>>,
    },
    /// `DEALLOCATE [PREPARE] name`.
    Deallocate(Ident),
    /// `DEALLOCATE [PREPARE] ALL`.
    DeallocateAll,
    /// `EXPLAIN`; `analyze` says whether `body` is really run.
    Explain {
        /// The body is run, not only planned.
        analyze: bool,
        /// Where the statement stands.
        body: Range<usize>,
    },
    /// `SET [SESSION | LOCAL] name {TO | =} values`; `None` is DEFAULT, and every RESET. The name is
    /// folded; `SET TIME ZONE` is `timezone`, `SET NAMES` is `client_encoding`.
    Set {
        /// Until the end of the transaction.
        local: bool,
        /// The setting; `SET SCHEMA` is `search_path`.
        name: Ident,
        /// The values, one for each comma-separated item: words folded, literals decoded.
        values: Option<Vec<String>>,
    },
    /// `RESET ALL`.
    ResetAll,
    /// `SET [LOCAL] ROLE`, `SET [LOCAL] SESSION AUTHORIZATION` and their RESET.
    SetRole,
    /// `DISCARD ALL`.
    DiscardAll,
    /// `DISCARD PLANS | SEQUENCES | TEMP`.
    DiscardOther,
    /// `CREATE [TEMP] TABLE name …` (also `AS`, and `SELECT … INTO`), `CREATE [TEMP] VIEW | SEQUENCE`:
    /// brings a new name and changes no existing table.
    CreateRelation {
        /// The new name.
        name: Name,
        /// In the session's temporary schema.
        temporary: bool,
    },
    /// Any other statement that changes the schema: CREATE, ALTER, DROP, COMMENT, GRANT, SECURITY LABEL …
    Ddl,
    /// `SELECT`, `VALUES`, `TABLE`, `WITH` without data-modifying parts.
    Select,
    /// `DO`, `CALL`: anything may happen in it.
    Opaque,
    /// `SET CONSTRAINTS … IMMEDIATE`: runs the triggers that were put off.
    SetConstraints,
    /// `FETCH`, `MOVE`: runs a part of a query declared earlier.
    Fetch,
    /// Known and without any effect on keys or names: SHOW, LISTEN, NOTIFY, LOCK, DECLARE CURSOR of a
    /// plain query, CHECKPOINT, VACUUM, ANALYZE, SET TRANSACTION, SET CONSTRAINTS … DEFERRED …
    Harmless,
    /// Not understood. Anything may happen in it.
    Unknown,
}

/// `COPY table FROM STDIN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyIn {
    /// The target.
    pub table: Name,
    /// `None`: every column in the table's order.
    pub columns: Option<Vec<Ident>>,
    /// How the data is written. Not to be relied on if there is an obstacle.
    pub format: CopyFormat,
    /// Why the data must not be inspected: `WHERE`, `ON_ERROR`, an encoding that is not ASCII-safe …
    pub obstacle: Option<&'static str>,
}

/// How COPY data is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// `FORMAT text`.
    Text {
        /// Between fields.
        delimiter: u8,
        /// What stands for NULL (`\N` unless told otherwise).
        null: Vec<u8>,
        /// The first line is none of the data.
        header: bool,
        /// What stands for the column's default.
        default: Option<Vec<u8>>,
    },
    /// `FORMAT csv`.
    Csv {
        /// Between fields.
        delimiter: u8,
        /// Around a field.
        quote: u8,
        /// Before a quote in a quoted field.
        escape: u8,
        /// What stands for NULL where it is not quoted (nothing unless told otherwise).
        null: Vec<u8>,
        /// The first line is none of the data.
        header: bool,
        /// Columns whose NULL string counts even in quotes.
        force_null: ForceColumns,
        /// Columns whose NULL string never counts.
        force_not_null: ForceColumns,
        /// What stands for the column's default where it is not quoted.
        default: Option<Vec<u8>>,
    },
    /// `FORMAT binary`.
    Binary,
}

/// The columns of `FORCE_NULL` or `FORCE_NOT_NULL`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForceColumns {
    /// No column.
    #[default]
    None,
    /// `*`
    All,
    /// These columns.
    Some(Vec<Ident>),
}

impl Statement {
    /// The INSERTs whose rows can be looked at, in the order in which they run.
    #[must_use]
    pub fn inserts(&self) -> Option<&[Insert]> {
        match self {
            Self::Insert(inserts) | Self::Mixed { inserts, .. } => Some(inserts),
            _ => None,
        }
    }
}

/// The facts of the one statement in `text[range]`, with or without `;` at its end. What is not surely understood is
/// [`Statement::Unknown`]; what Postgres would refuse may be anything.
#[must_use]
pub fn classify(text: &[u8], range: Range<usize>, options: Options) -> Statement {
    let mut cursor = Cursor::new(text, range, options);
    let Some(first) = cursor.peek() else {
        return Statement::Empty;
    };
    let mut keyword = [0; LONGEST_KEYWORD];
    let Some(keyword) = folded(cursor.bytes(first), &mut keyword) else {
        return Statement::Unknown;
    };
    let statement = match first.kind {
        Kind::Symbol(b'(') => with::reading(&cursor),
        Kind::Word if matches!(keyword, b"select" | b"values" | b"table" | b"with") => with::reading(&cursor),
        Kind::Word if matches!(keyword, b"insert" | b"update" | b"delete" | b"merge") => {
            with::reading(&cursor)
        }
        Kind::Word => {
            cursor.advance();
            command(keyword, &mut cursor)
        }
        _ => None,
    };
    statement.unwrap_or(Statement::Unknown)
}

const LONGEST_KEYWORD: usize = 12;

/// The first keyword in lower case. `None`: longer than any.
fn folded<'b>(word: &[u8], buffer: &'b mut [u8; LONGEST_KEYWORD]) -> Option<&'b [u8]> {
    let folded = buffer.get_mut(..word.len())?;
    folded.copy_from_slice(word);
    folded.make_ascii_lowercase();
    Some(folded)
}

/// The statement whose first keyword has been taken.
fn command(keyword: &[u8], cursor: &mut Cursor<'_>) -> Option<Statement> {
    match keyword {
        b"begin" => transaction::begin(cursor, false),
        b"start" => transaction::begin(cursor, true),
        b"commit" => transaction::commit(cursor),
        b"end" => transaction::end(cursor),
        b"rollback" => transaction::rollback(cursor),
        b"abort" => transaction::abort(cursor),
        b"savepoint" => cursor.ident().filter(|_| cursor.at_end()).map(Statement::Savepoint),
        b"release" => transaction::savepoint(cursor).map(Statement::Release),
        b"prepare" => prepare(cursor),
        b"execute" => execute(cursor),
        b"deallocate" => deallocate(cursor),
        b"set" => setting::set(cursor),
        b"reset" => setting::reset(cursor),
        b"copy" => copy::copy(cursor),
        b"truncate" => dml::truncate(cursor),
        b"explain" => explain(cursor),
        b"create" => ddl::create(cursor),
        b"alter" | b"drop" | b"comment" | b"grant" | b"revoke" | b"security" | b"reassign" | b"import"
        | b"refresh" | b"reindex" | b"cluster" => Some(Statement::Ddl),
        b"do" | b"call" => Some(Statement::Opaque),
        b"fetch" | b"move" => Some(Statement::Fetch),
        b"discard" => discard(cursor),
        b"show" | b"listen" | b"unlisten" | b"notify" | b"lock" | b"declare" | b"close" | b"checkpoint"
        | b"vacuum" | b"analyze" | b"analyse" => Some(Statement::Harmless),
        _ => None,
    }
}

fn prepare(cursor: &mut Cursor<'_>) -> Option<Statement> {
    if cursor.is("transaction")
        && cursor.peek_second().is_some_and(|token| matches!(token.kind, Kind::String(_)))
    {
        cursor.advance();
        return transaction::prepare(cursor);
    }
    let name = cursor.ident()?;
    let types = arguments(cursor)?;
    let types = types.into_iter().map(|range| cursor.text().get(range).map(String::from_utf8_lossy));
    let types = types.collect::<Option<Vec<_>>>()?.into_iter().map(String::from).collect();
    let body = body(cursor.accept("as"), cursor)?;
    Some(Statement::Prepare { name, types, body })
}

fn execute(cursor: &mut Cursor<'_>) -> Option<Statement> {
    let name = cursor.ident()?;
    let arguments = arguments(cursor)?;
    cursor.at_end().then_some(Statement::Execute { name, arguments })
}

/// `[(a, b, …)]`; nothing is no argument.
fn arguments(cursor: &mut Cursor<'_>) -> Option<Vec<Range<usize>>> {
    let mut arguments = Vec::new();
    if !cursor.accept_symbol(b'(') {
        return Some(arguments);
    }
    loop {
        arguments.push(cursor.skip_to(|_, token| token.kind == Kind::Symbol(b','))?);
        if cursor.accept_symbol(b')') {
            return Some(arguments);
        }
        if !cursor.accept_symbol(b',') {
            return None;
        }
    }
}

/// From here to the end, if there is anything.
fn body(found: bool, cursor: &Cursor<'_>) -> Option<Range<usize>> {
    (found && !cursor.at_end()).then(|| cursor.position()..cursor.text().len())
}

fn deallocate(cursor: &mut Cursor<'_>) -> Option<Statement> {
    if cursor.peek_second().is_some() {
        cursor.accept("prepare");
    }
    let statement =
        if cursor.accept("all") { Statement::DeallocateAll } else { Statement::Deallocate(cursor.ident()?) };
    cursor.at_end().then_some(statement)
}

fn discard(cursor: &mut Cursor<'_>) -> Option<Statement> {
    let statement = if cursor.accept("all") { Statement::DiscardAll } else { Statement::DiscardOther };
    if statement == Statement::DiscardOther {
        cursor.ident()?;
    }
    cursor.at_end().then_some(statement)
}

fn explain(cursor: &mut Cursor<'_>) -> Option<Statement> {
    let mut analyze = false;
    if cursor.is_symbol(b'(') && !begins_query(cursor) {
        analyze = explain_options(cursor)?;
    } else {
        analyze |= cursor.accept("analyze") || cursor.accept("analyse");
        cursor.accept("verbose");
    }
    let body = body(true, cursor)?;
    Some(Statement::Explain { analyze, body })
}

fn begins_query(cursor: &Cursor<'_>) -> bool {
    let mut inside = cursor.clone();
    inside.advance();
    inside.is_symbol(b'(') || inside.is_any(&["select", "values", "table", "with"])
}

/// `(ANALYZE, FORMAT json, …)`; whether the last ANALYZE in it says yes.
fn explain_options(cursor: &mut Cursor<'_>) -> Option<bool> {
    let mut analyze = false;
    cursor.accept_symbol(b'(');
    loop {
        if cursor.accept("analyze") || cursor.accept("analyse") {
            // What is not known to be "no" may be "yes".
            let value = cursor.skip_to(|_, token| token.kind == Kind::Symbol(b','))?;
            let value = cursor.text().get(value)?.to_ascii_lowercase();
            analyze = !matches!(value.as_slice(), b"false" | b"off" | b"0" | b"'false'" | b"'off'" | b"'0'");
        } else {
            cursor.skip_to(|_, token| token.kind == Kind::Symbol(b','))?;
        }
        if cursor.accept_symbol(b')') {
            return Some(analyze);
        }
        if !cursor.accept_symbol(b',') {
            return None;
        }
    }
}

#[cfg(test)]
mod tests;
