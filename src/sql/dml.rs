//! UPDATE, DELETE, MERGE and TRUNCATE, as far as it matters which tables and columns they touch.

use super::cursor::Cursor;
use super::lex::{Kind, Token};
use super::name::{Ident, Name};
use super::statement::Statement;

/// After `UPDATE`: the table, and the columns that are set (empty if they could not be read).
pub(super) fn update(cursor: &mut Cursor<'_>) -> Option<(Name, Vec<Ident>)> {
    let table = relation(cursor)?;
    // `SET` needs no quotes to be an alias only after AS.
    if cursor.accept("as") || !cursor.is("set") {
        cursor.ident();
    }
    let columns = if cursor.accept("set") { assigned(cursor) } else { None };
    Some((table, columns.unwrap_or_default()))
}

/// After `DELETE`.
pub(super) fn delete(cursor: &mut Cursor<'_>) -> Option<Name> {
    if cursor.accept("from") { relation(cursor) } else { None }
}

/// After `MERGE`.
pub(super) fn merge(cursor: &mut Cursor<'_>) -> Option<Name> {
    if cursor.accept("into") { relation(cursor) } else { None }
}

/// After `TRUNCATE`.
pub(super) fn truncate(cursor: &mut Cursor<'_>) -> Option<Statement> {
    cursor.accept("table");
    let mut tables = vec![relation(cursor)?];
    while cursor.accept_symbol(b',') {
        tables.push(relation(cursor)?);
    }
    let _ = cursor.accept_all(&["restart", "identity"]) || cursor.accept_all(&["continue", "identity"]);
    let cascade = cursor.accept("cascade");
    if !cascade {
        cursor.accept("restrict");
    }
    cursor.at_end().then_some(Statement::Truncate { tables, cascade })
}

/// `[ONLY] name [*]`, `ONLY (name)`
fn relation(cursor: &mut Cursor<'_>) -> Option<Name> {
    let parenthesis = cursor.accept("only") && cursor.accept_symbol(b'(');
    let name = cursor.name()?;
    if parenthesis && !cursor.accept_symbol(b')') {
        return None;
    }
    cursor.accept_symbol(b'*');
    Some(name)
}

/// After `SET`: the columns to the left of each `=`. `None` if an item has another shape.
pub(super) fn assigned(cursor: &mut Cursor<'_>) -> Option<Vec<Ident>> {
    let mut columns = Vec::new();
    loop {
        if cursor.is_symbol(b'(') {
            columns.append(&mut cursor.ident_list()?);
        } else {
            columns.push(cursor.ident()?);
            // `a[1] = …` and `a.b = …` set a part of the column.
            cursor.skip_to(|_, token| token.kind == Kind::Symbol(b'='))?;
        }
        if !cursor.accept_symbol(b'=') {
            return None;
        }
        let mut previous = None;
        cursor.skip_to(|cursor, token| {
            let distinct = cursor.token_is(previous.replace(token), "distinct");
            ends_assignment(cursor, token, distinct)
        })?;
        if !cursor.accept_symbol(b',') {
            return Some(columns);
        }
    }
}

/// `FROM` ends the list, but not that of `IS DISTINCT FROM`.
fn ends_assignment(cursor: &Cursor<'_>, token: Token, after_distinct: bool) -> bool {
    let is = |keyword| cursor.token_is(Some(token), keyword);
    token.kind == Kind::Symbol(b',') || is("where") || is("returning") || is("from") && !after_distinct
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::lex::Options;

    fn updated(text: &str) -> Option<(String, Vec<String>)> {
        let mut cursor = Cursor::new(text.as_bytes(), 0..text.len(), Options::default());
        assert!(cursor.accept("update"));
        update(&mut cursor).map(|(table, columns)| (table.name, columns))
    }

    #[test]
    fn an_update_names_the_columns_it_sets() {
        for (text, table, columns) in [
            ("update t set a = 1", "t", vec!["a"]),
            (
                "UPDATE ONLY s.T * AS x SET \"A\" = 1, b=f(2, 3), (c, d) = (4, 5) WHERE id = 1",
                "t",
                vec!["A", "b", "c", "d"],
            ),
            ("update only (t) y set a = array[1, 2], b = default from u where x = 1", "t", vec!["a", "b"]),
            ("update t set a = b is distinct from c, id = 2", "t", vec!["a", "id"]),
            ("update t set a[1] = 2, b.c = 3 returning id, v", "t", vec!["a", "b"]),
            (
                "update t set (a) = (select x, y from z), e = case when p then 1 else 2 end",
                "t",
                vec!["a", "e"],
            ),
            ("update t for portion of p from 1 to 2 set a = 1", "t", vec![]),
            ("update t set", "t", vec![]),
            ("update t set a = (1", "t", vec![]),
        ] {
            let columns = columns.into_iter().map(str::to_owned).collect();
            assert_eq!(updated(text), Some((table.to_owned(), columns)), "{text}");
        }
        assert_eq!(updated("update 'x' set a = 1"), None);
    }
}
