//! BEGIN, COMMIT, ROLLBACK, SAVEPOINT and their kin, read to their last token: what Postgres would refuse
//! must not move the model of the transaction.

use super::cursor::Cursor;
use super::lex::Kind;
use super::name::Ident;
use super::statement::Statement;

/// After `BEGIN`, or after `START`.
pub(super) fn begin(cursor: &mut Cursor<'_>, start: bool) -> Option<Statement> {
    const MODES: [&str; 12] = [
        "isolation",
        "level",
        "serializable",
        "repeatable",
        "read",
        "committed",
        "uncommitted",
        "write",
        "only",
        "not",
        "deferrable",
        "snapshot",
    ];
    let transaction = cursor.accept("transaction") || !start && cursor.accept("work");
    if start && !transaction {
        return None;
    }
    while cursor.is_any(&MODES) || cursor.is_symbol(b',') {
        cursor.advance();
    }
    cursor.at_end().then_some(Statement::Begin)
}

/// After `COMMIT`.
pub(super) fn commit(cursor: &mut Cursor<'_>) -> Option<Statement> {
    if cursor.is("prepared") {
        return prepared(cursor);
    }
    end(cursor)
}

/// After `END`.
pub(super) fn end(cursor: &mut Cursor<'_>) -> Option<Statement> {
    work(cursor);
    Some(Statement::Commit { chain: chain(cursor)? })
}

/// After `ROLLBACK`.
pub(super) fn rollback(cursor: &mut Cursor<'_>) -> Option<Statement> {
    if cursor.is("prepared") {
        return prepared(cursor);
    }
    let mut to = cursor.clone();
    work(&mut to);
    if to.accept("to") {
        *cursor = to;
        return Some(Statement::RollbackTo(savepoint(cursor)?));
    }
    abort(cursor)
}

/// After `ABORT`.
pub(super) fn abort(cursor: &mut Cursor<'_>) -> Option<Statement> {
    work(cursor);
    Some(Statement::Rollback { chain: chain(cursor)? })
}

/// `[SAVEPOINT] name` to the end.
pub(super) fn savepoint(cursor: &mut Cursor<'_>) -> Option<Ident> {
    if cursor.peek_second().is_some() {
        cursor.accept("savepoint");
    }
    cursor.ident().filter(|_| cursor.at_end())
}

/// `PREPARED 'id'`: ends another transaction, not this one.
fn prepared(cursor: &mut Cursor<'_>) -> Option<Statement> {
    cursor.advance();
    cursor.string()?;
    cursor.at_end().then_some(Statement::Harmless)
}

fn work(cursor: &mut Cursor<'_>) {
    let _ = cursor.accept("work") || cursor.accept("transaction");
}

/// `[AND [NO] CHAIN]` to the end.
fn chain(cursor: &mut Cursor<'_>) -> Option<bool> {
    let chain = cursor.accept_all(&["and", "chain"]);
    if !chain {
        cursor.accept_all(&["and", "no", "chain"]);
    }
    cursor.at_end().then_some(chain)
}

/// After `PREPARE TRANSACTION`.
pub(super) fn prepare(cursor: &mut Cursor<'_>) -> Option<Statement> {
    let literal = matches!(cursor.advance()?.kind, Kind::String(_));
    (literal && cursor.at_end()).then_some(Statement::PrepareTransaction)
}
