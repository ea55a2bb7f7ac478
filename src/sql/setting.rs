//! SET and RESET: which setting gets which values. Knows no setting's meaning.

use super::cursor::Cursor;
use super::lex::Kind;
use super::name::Ident;
use super::statement::Statement;
use super::values;

/// After `SET`.
pub(super) fn set(cursor: &mut Cursor<'_>) -> Option<Statement> {
    if cursor.accept("constraints") {
        return constraints(cursor);
    }
    if cursor.is("transaction") {
        return Some(Statement::Harmless);
    }
    if cursor.accept_all(&["session", "characteristics"]) {
        return Some(Statement::Harmless);
    }
    if cursor.are("session", "authorization") {
        return Some(Statement::SetRole);
    }
    let local = cursor.accept("local");
    if !local {
        cursor.accept("session");
    }
    if cursor.are("session", "authorization") {
        return Some(Statement::SetRole);
    }
    let (name, values) = assignment(cursor)?;
    if name == "role" || name == "session_authorization" {
        return Some(Statement::SetRole);
    }
    cursor.at_end().then_some(Statement::Set { local, name, values })
}

/// `{ALL | names} {DEFERRED | IMMEDIATE}`
fn constraints(cursor: &mut Cursor<'_>) -> Option<Statement> {
    cursor.skip_to(|cursor, token| {
        cursor.token_is(Some(token), "deferred") || cursor.token_is(Some(token), "immediate")
    })?;
    Some(if cursor.is("deferred") { Statement::Harmless } else { Statement::SetConstraints })
}

/// `name {TO | =} values`, or one of the forms of their own.
fn assignment(cursor: &mut Cursor<'_>) -> Option<(Ident, Option<Vec<String>>)> {
    if cursor.accept_all(&["time", "zone"]) {
        let values = if cursor.accept("local") { None } else { zone(cursor)? };
        return Some(("timezone".to_owned(), values));
    }
    if cursor.accept_all(&["xml", "option"]) {
        return Some(("xmloption".to_owned(), values(cursor)?));
    }
    let second = cursor.peek_second();
    let assigns = cursor.token_is(second, "to")
        || second.is_some_and(|token| matches!(token.kind, Kind::Symbol(b'=' | b'.')));
    if !assigns {
        let name = match cursor.ident()?.as_str() {
            "names" => "client_encoding",
            "schema" => "search_path",
            "role" => "role",
            _ => return None,
        };
        let values = if cursor.at_end() { None } else { values(cursor)? };
        return Some((name.to_owned(), values));
    }
    let name = setting(cursor)?;
    let assigned = cursor.accept("to") || cursor.accept_symbol(b'=');
    if assigned { Some((name, values(cursor)?)) } else { None }
}

/// `name` or `extension.name`. Case is no part of a setting's name, not even in quotes.
fn setting(cursor: &mut Cursor<'_>) -> Option<Ident> {
    let mut name = cursor.ident()?;
    while cursor.accept_symbol(b'.') {
        name = format!("{name}.{}", cursor.ident()?);
    }
    name.make_ascii_lowercase();
    Some(name)
}

/// The outer `None`: not understood. The inner: `DEFAULT`.
#[expect(clippy::option_option, reason = "not understood and DEFAULT are different answers")]
fn values(cursor: &mut Cursor<'_>) -> Option<Option<Vec<String>>> {
    if cursor.accept("default") {
        return Some(None);
    }
    let mut values = vec![value(cursor)?];
    while cursor.accept_symbol(b',') {
        values.push(value(cursor)?);
    }
    Some(Some(values))
}

/// A word (folded), a quoted identifier, a literal's value, or a number with its sign.
fn value(cursor: &mut Cursor<'_>) -> Option<String> {
    if let Some(literal) = cursor.string() {
        return values::decode_string(cursor.text(), &literal);
    }
    let mut value = String::new();
    if cursor.accept_symbol(b'-') {
        value.push('-');
    } else if !cursor.accept_symbol(b'+') && !matches!(cursor.peek()?.kind, Kind::Number) {
        return cursor.ident();
    }
    let token = cursor.advance().filter(|token| token.kind == Kind::Number)?;
    value.push_str(std::str::from_utf8(cursor.bytes(token)).ok()?);
    Some(value)
}

/// A zone may be an interval, too: `INTERVAL '-08:00' HOUR TO MINUTE`.
#[expect(clippy::option_option, reason = "not understood and DEFAULT are different answers")]
fn zone(cursor: &mut Cursor<'_>) -> Option<Option<Vec<String>>> {
    let interval = cursor.accept("interval");
    let zone = values(cursor)?;
    while interval && cursor.is_any(&["hour", "to", "minute"]) {
        cursor.advance();
    }
    Some(zone)
}

/// After `RESET`.
pub(super) fn reset(cursor: &mut Cursor<'_>) -> Option<Statement> {
    if cursor.accept("all") {
        return cursor.at_end().then_some(Statement::ResetAll);
    }
    if cursor.accept_all(&["session", "authorization"]) {
        return cursor.at_end().then_some(Statement::SetRole);
    }
    let name = if cursor.accept_all(&["time", "zone"]) {
        "timezone".to_owned()
    } else if cursor.accept_all(&["transaction", "isolation", "level"]) {
        "transaction_isolation".to_owned()
    } else {
        setting(cursor)?
    };
    if !cursor.at_end() {
        return None;
    }
    if name == "role" || name == "session_authorization" {
        return Some(Statement::SetRole);
    }
    Some(Statement::Set { local: false, name, values: None })
}
