//! Queries and the data-modifying statements, with the CTEs before them: what each part does to which table.

use super::cursor::Cursor;
use super::insert::{self, Insert};
use super::lex::{Kind, Token};
use super::name::{Ident, Name};
use super::statement::Statement;
use super::{ddl, dml};

/// WITH within WITH is followed that deep.
const DEEPEST: usize = 8;

/// The data-modifying parts of one statement, in the order of the text.
#[derive(Default)]
struct Parts {
    inserts: Vec<Insert>,
    deletes: Vec<Name>,
    updates: Vec<(Name, Vec<Ident>)>,
    merges: Vec<Name>,
    /// `SELECT … INTO`.
    into: Option<Statement>,
}

/// The statement that begins at the cursor with a parenthesis, SELECT, VALUES, TABLE, INSERT, UPDATE,
/// DELETE, MERGE or WITH.
pub(super) fn reading(cursor: &Cursor<'_>) -> Option<Statement> {
    let mut parts = Parts::default();
    parts.statement(cursor.clone(), 0)?;
    parts.into_statement()
}

impl Parts {
    /// One statement, which is the cursor's part.
    fn statement(&mut self, mut cursor: Cursor<'_>, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        if cursor.accept("with") {
            self.ctes(&mut cursor, depth)?;
        }
        if cursor.accept("insert") {
            self.inserts.push(insert::parse(&mut cursor)?);
        } else if cursor.accept("update") {
            self.updates.push(dml::update(&mut cursor)?);
        } else if cursor.accept("delete") {
            self.deletes.push(dml::delete(&mut cursor)?);
        } else if cursor.accept("merge") {
            self.merges.push(dml::merge(&mut cursor)?);
        } else {
            self.query(cursor, depth)?;
        }
        Some(())
    }

    /// `[RECURSIVE] name [(columns)] AS [[NOT] MATERIALIZED] (statement) [SEARCH …] [CYCLE …], …`
    fn ctes(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Option<()> {
        cursor.accept("recursive");
        loop {
            cursor.ident()?;
            if cursor.is_symbol(b'(') {
                cursor.ident_list()?;
            }
            if !cursor.accept("as") {
                return None;
            }
            cursor.accept("not");
            cursor.accept("materialized");
            let inside = cursor.parentheses()?;
            self.statement(cursor.within(inside), depth + 1)?;
            if cursor.is("search") || cursor.is("cycle") {
                search_or_cycle(cursor)?;
            }
            if !cursor.accept_symbol(b',') {
                return Some(());
            }
        }
    }

    /// A SELECT, VALUES or TABLE, perhaps in parentheses.
    fn query(&mut self, mut cursor: Cursor<'_>, depth: usize) -> Option<()> {
        if cursor.is_symbol(b'(') {
            let mut inside = cursor.within(cursor.clone().parentheses()?);
            while inside.accept_symbol(b'(') {}
            // The server takes a WITH at the top level, whatever the parentheses.
            if inside.is("with") {
                let inside = cursor.parentheses()?;
                return if cursor.at_end() { self.statement(cursor.within(inside), depth + 1) } else { None };
            }
            if !inside.is_any(&["select", "values", "table"]) {
                return None;
            }
        } else if !cursor.is_any(&["select", "values", "table"]) {
            return None;
        }
        self.find_into(&mut cursor)
    }

    /// `INTO` is a reserved word: outside of an INSERT or MERGE it is that of `SELECT … INTO`.
    fn find_into(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let mut previous: Option<Token> = None;
        while let Some(token) = cursor.advance() {
            if token.kind == Kind::Error {
                return None;
            }
            let label = previous.is_some_and(|token| token.kind == Kind::Symbol(b'.'))
                || cursor.token_is(previous, "as");
            if !label && cursor.token_is(Some(token), "into") {
                self.into = Some(into(cursor)?);
            }
            previous = Some(token);
        }
        Some(())
    }

    fn into_statement(mut self) -> Option<Statement> {
        if let Some(created) = self.into {
            let alone = self.inserts.is_empty() && self.deletes.is_empty();
            return (alone && self.updates.is_empty() && self.merges.is_empty()).then_some(created);
        }
        let counts = (self.inserts.len(), self.deletes.len(), self.updates.len(), self.merges.len());
        Some(match counts {
            (0, 0, 0, 0) => Statement::Select,
            (_, 0, 0, 0) => Statement::Insert(self.inserts),
            (0, 1, 0, 0) => Statement::Delete(self.deletes.pop()?),
            (0, 0, 1, 0) => {
                let (table, columns) = self.updates.pop()?;
                Statement::Update { table, columns }
            }
            (0, 0, 0, 1) => Statement::Merge(self.merges.pop()?),
            _ => Statement::Mixed {
                inserts: self.inserts,
                deletes: self.deletes,
                updates: self.updates,
                merges: self.merges,
            },
        })
    }
}

/// After `INTO`: `[TEMP | TEMPORARY | UNLOGGED] [TABLE] name`
fn into(cursor: &mut Cursor<'_>) -> Option<Statement> {
    cursor.accept("local");
    let temporary = cursor.accept("temp") || cursor.accept("temporary");
    if !temporary {
        cursor.accept("unlogged");
    }
    cursor.accept("table");
    Some(ddl::created(cursor.name()?, temporary))
}

/// `SEARCH {BREADTH | DEPTH} FIRST BY a, b SET c`, `CYCLE a, b SET c [TO v DEFAULT w] USING d`: the commas in
/// it do not begin the next CTE.
fn search_or_cycle(cursor: &mut Cursor<'_>) -> Option<()> {
    if cursor.accept("search") {
        cursor.skip_to(|cursor, token| cursor.token_is(Some(token), "set"))?;
        cursor.accept("set");
        cursor.ident()?;
    }
    if cursor.accept("cycle") {
        cursor.skip_to(|cursor, token| cursor.token_is(Some(token), "using"))?;
        cursor.accept("using");
        cursor.ident()?;
    }
    Some(())
}
