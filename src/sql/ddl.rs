//! CREATE: what brings a new name and changes nothing else, and what is any other change of the schema.

use super::cursor::Cursor;
use super::lex::{Kind, Token};
use super::name::Name;
use super::statement::Statement;

/// After `CREATE`. `None`: not understood.
pub(super) fn create(cursor: &mut Cursor<'_>) -> Option<Statement> {
    if cursor.accept_all(&["or", "replace"]) {
        return Some(Statement::Ddl);
    }
    if !cursor.accept("global") {
        cursor.accept("local");
    }
    let temporary = cursor.accept("temp") || cursor.accept("temporary");
    if !temporary {
        cursor.accept("unlogged");
    }
    cursor.accept("recursive");
    if !cursor.is_any(&["table", "view", "sequence"]) {
        return Some(Statement::Ddl);
    }
    cursor.advance();
    cursor.accept_all(&["if", "not", "exists"]);
    let name = cursor.name()?;
    rest(cursor, name, temporary)
}

/// What follows the new name: a parent makes it a change of that parent, too; a query may do anything.
fn rest(cursor: &mut Cursor<'_>, name: Name, temporary: bool) -> Option<Statement> {
    if cursor.are("partition", "of") {
        return Some(Statement::Ddl);
    }
    let mut previous: Option<Token> = None;
    while let Some(token) = cursor.peek() {
        if token.kind == Kind::Error {
            return None;
        }
        let parent = cursor.is("inherits") || cursor.is("references");
        if parent && !cursor.token_is(previous, "as") {
            return Some(Statement::Ddl);
        }
        if modifies(cursor) {
            return None;
        }
        previous = Some(token);
        cursor.advance();
    }
    Some(created(name, temporary))
}

/// `AS EXECUTE` runs another statement; an INSERT … in parentheses or after them is part of a WITH.
fn modifies(cursor: &Cursor<'_>) -> bool {
    let second = cursor.peek_second();
    let parenthesis = cursor.is_symbol(b'(') || cursor.is_symbol(b')');
    let modifying = ["insert", "update", "delete", "merge"];
    parenthesis && modifying.iter().any(|keyword| cursor.token_is(second, keyword))
        || cursor.are("as", "execute")
}

/// A relation of that name is new. `pg_temp` is an alias of the session's temporary schema.
pub(super) fn created(name: Name, temporary: bool) -> Statement {
    let temporary = temporary || name.schema.as_deref() == Some("pg_temp");
    Statement::CreateRelation { name, temporary }
}
