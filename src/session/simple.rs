//! The simple query protocol: a text of statements, run one after the other.

use super::copy::CopyOpen;
use super::pipeline::{Effect, Effects, Request};
use super::refusal::{Refusal, Unrecorded};
use super::said::{Parameters, Said};
use super::{Outcome, Session};
use crate::catalog::Catalog;
use crate::rekey::rows::Supply;
use crate::sql::lex::{Kind, Lexer};
use crate::sql::split;
use crate::sql::statement::{self, Statement};
use crate::wire::tag::frontend;
use crate::wire::{frame, message};
use std::ops::Range;

/// The text cannot be told apart into statements.
pub(super) const UNSAFE_ENCODING: &str = "text of an unsafe encoding";

/// The Query with the statement at `start`, and all behind it, replaced by one that raises the error.
fn refused(text: &[u8], start: usize, refusal: &Refusal) -> Vec<u8> {
    let before = text.get(..start).unwrap_or_default();
    let mut out = Vec::with_capacity(start + 1024);
    frame::write(&mut out, frontend::QUERY, &[before, refusal.sql().as_bytes(), b"\0"]);
    out
}

/// Makes the server raise the error in place of the statement at `start` and all behind it. What was decided of the
/// statements before it stands.
fn refuse(text: &[u8], start: usize, refusal: &Refusal, outcome: &mut Outcome) {
    let bytes = refused(text, start, refusal);
    outcome.unrecorded.get_or_insert(Unrecorded { bytes, substitutes: false });
    let mut edited = text.to_vec();
    outcome.edits.drain(..).for_each(|edit| edit.apply(&mut edited));
    outcome.replacement = Some(refused(&edited, start, refusal));
}

impl Session {
    /// Whether this message leads to the same whatever the catalog says, so that the catalog need not be read again just for it:
    /// a Query with a single change of the schema, after which it is old in any case. A script of many would read it for each.
    #[must_use]
    pub fn needs_no_catalog(&self, tag: u8, body: &[u8]) -> bool {
        let text = message::query_text(body).and_then(|range| body.get(range));
        let Some(text) = text.filter(|text| tag == frontend::QUERY && self.literals.can_lex(text)) else {
            return false;
        };
        let options = self.options();
        let mut statements = split::statements(text, options);
        let (Some(range), None) = (statements.next(), statements.next()) else { return false };
        match statement::classify(text, range.clone(), options) {
            Statement::Ddl => true,
            // AS may run a query, which calls what the catalog knows.
            Statement::CreateRelation { .. } => !Lexer::new(text, range, options).any(|token| {
                token.kind == Kind::Word
                    && text.get(token.range()).is_some_and(|word| word.eq_ignore_ascii_case(b"as"))
            }),
            _ => false,
        }
    }

    pub(super) fn query(&mut self, body: &[u8], outcome: &mut Outcome) {
        let Some(range) = message::query_text(body) else {
            return self.unread_query(b"", "malformed Query", outcome);
        };
        let text = body.get(range).unwrap_or_default();
        if !self.literals.can_lex(text) {
            return self.unread_query(text, UNSAFE_ENCODING, outcome);
        }
        self.portals.close(b"");
        let options = self.options();
        let mut effects = Effects::new();
        let mut statements = split::statements(text, options).peekable();
        while let Some(range) = statements.next() {
            let last = statements.peek().is_none();
            let statement = statement::classify(text, range.clone(), options);
            let (start, facts) = (range.start, outcome.facts.len());
            self.check_text(&statement, text, range.clone(), outcome);
            if let Statement::CopyIn(copy) = &statement {
                self.check_copy(copy, self.others_beside_copy(last), outcome);
            }
            let effect = match outcome.refusal {
                Some(_) => {
                    self.covers_refused(&statement);
                    Effect::None
                }
                None => self.run_text(&statement, text, range, last, outcome),
            };
            self.count_statement();
            if let Some(refusal) = outcome.refusal.take() {
                // What stands behind it is not run anyway.
                refuse(text, start, &refusal, outcome);
                break;
            }
            if outcome.unrecorded.is_none() && outcome.follows(facts) {
                let bytes = refused(text, start, &Refusal::of_unrecorded());
                outcome.unrecorded = Some(Unrecorded { bytes, substitutes: false });
            }
            effects.push((effect, self.fates.recorded()));
        }
        self.due_with(Request::Query, effects, std::mem::take(&mut outcome.restores));
        if self.copy_open == CopyOpen::No {
            self.end_group();
        }
    }

    /// Looks whether a statement names a key that two rows were sent with; EXECUTE is the statement it runs, and so
    /// is EXPLAIN ANALYZE.
    fn check_text(&self, statement: &Statement, text: &[u8], range: Range<usize>, outcome: &mut Outcome) {
        if !self.references.has_shared() {
            return;
        }
        let options = self.options();
        let (start, end) = (range.start, range.end);
        let said = Said { statement, text, start, end, options, parameters: Parameters::None };
        match statement {
            Statement::Explain { analyze: true, body } => {
                let inner = statement::classify(text, body.clone(), options);
                if !matches!(inner, Statement::Explain { .. }) {
                    self.check_text(&inner, text, body.clone(), outcome);
                }
            }
            Statement::Execute { name, arguments } => {
                let Some(prepared) = self.statements.latest(name.as_bytes(), self.group) else {
                    return self.check_shared(said, &self.references, |_| true, outcome);
                };
                let fields = self.arguments(text, arguments);
                let own = text.get(range).unwrap_or_default();
                let parameters = match &fields {
                    Some(fields) => Parameters::Fields { bytes: text, fields, part: own },
                    None => Parameters::Unread(own),
                };
                let calls = |catalog: &Catalog| {
                    let more = self.mentioned(text, start..end, options);
                    prepared.calls_opaque(catalog) || more.are_opaque(catalog)
                };
                self.check_shared(prepared.said(parameters), &self.references, calls, outcome);
            }
            _ => {
                let mentions = || self.mentioned(text, start..end, options);
                self.check_shared(said, &self.references, |catalog| mentions().are_opaque(catalog), outcome);
            }
        }
    }

    fn unread_query(&mut self, text: &[u8], reason: &'static str, outcome: &mut Outcome) {
        self.count_forwarded(reason);
        self.check_unread(text, outcome);
        if let Some(refusal) = outcome.refusal.take() {
            refuse(text, 0, &refusal, outcome);
        }
        self.statement_boundary();
        self.opaque();
        self.due(Request::Query, Effects::new());
        self.end_group();
    }

    /// The fast-path call of a function: it may do anything with a key that two rows were sent with, if it is a
    /// user's.
    pub(super) fn call_function(&mut self, body: &[u8], outcome: &mut Outcome) {
        /// The first oid that is not the server's own (`FirstNormalObjectId`).
        const FIRST_OF_USERS: u32 = 16_384;
        let oid = body.first_chunk().map_or(u32::MAX, |oid| u32::from_be_bytes(*oid));
        if oid >= FIRST_OF_USERS {
            self.check_unread(body, outcome);
        }
        if let Some(refusal) = outcome.refusal.take() {
            // Answered like the call: with an error, and ReadyForQuery.
            refuse(b"", 0, &refusal, outcome);
        }
        self.statement_boundary();
        self.opaque();
        self.due(Request::FunctionCall, Effects::new());
        self.end_group();
    }

    /// Looks for a shared key in what is not understood.
    fn check_unread(&self, text: &[u8], outcome: &mut Outcome) {
        let (options, parameters) = (self.options(), Parameters::None);
        let said =
            Said { statement: &Statement::Unknown, text, start: 0, end: text.len(), options, parameters };
        self.check_shared(said, &self.references, |_| true, outcome);
    }

    /// Runs one statement of the text. `last` says that no other follows it in the message.
    fn run_text(
        &mut self,
        statement: &Statement,
        text: &[u8],
        range: Range<usize>,
        last: bool,
        outcome: &mut Outcome,
    ) -> Effect {
        let supply = Supply {
            text,
            options: self.options(),
            only_row: None,
            read_before: false,
            text_fixed: None,
            bound: None,
        };
        match statement {
            Statement::Execute { name, arguments } => {
                self.execute_prepared(name, arguments, text, range, outcome)
            }
            Statement::Explain { analyze: true, body } => {
                match statement::classify(text, body.clone(), supply.options) {
                    // Postgres explains no EXPLAIN; nor is its nesting followed here.
                    Statement::Explain { .. } => {
                        let ordinal = self.statement_boundary();
                        self.after(&Statement::Unknown, text, range, ordinal)
                    }
                    inner => self.run_text(&inner, text, body.clone(), last, outcome),
                }
            }
            Statement::Prepare { name, body, .. } => {
                let ordinal = self.statement_boundary();
                self.prepare(name, text, body.clone());
                self.after(statement, text, range, ordinal)
            }
            Statement::CopyIn(copy) => {
                let ordinal = self.statement_boundary();
                if self.failed_block {
                    return Effect::None;
                }
                let obstacle = self.others_beside_copy(last);
                self.begin_copy(copy, ordinal, CopyOpen::ByQuery, obstacle, self.open_portal(b""));
                Effect::None
            }
            _ if statement.inserts().is_some() => {
                let ordinal = self.statement_boundary();
                if let Some(reason) = self.literals.obstacle() {
                    self.forwarded(reason);
                    return self.after(statement, text, range, ordinal);
                }
                self.freed_within(statement);
                // Rows of plain values call nothing.
                let expressions = self.inspect_text(statement, supply, range.clone(), ordinal, outcome);
                if matches!(statement, Statement::Mixed { .. }) {
                    // What its own rows have come to share, its other parts may name.
                    self.check_text(statement, text, range.clone(), outcome);
                }
                if expressions {
                    self.after(statement, text, range, ordinal)
                } else {
                    self.apply(statement, ordinal)
                }
            }
            _ => {
                let ordinal =
                    if matches!(statement, Statement::Begin) { 0 } else { self.statement_boundary() };
                self.after(statement, text, range, ordinal)
            }
        }
    }

    /// Why the data of a COPY cannot be followed: it comes when the whole Query has been read, and may be that of
    /// another COPY.
    fn others_beside_copy(&self, last: bool) -> Option<&'static str> {
        let alone = last && self.copy_open == CopyOpen::No;
        (!alone).then_some("other statements behind a COPY in one Query")
    }

    /// A statement of its own ordinal begins.
    pub(super) fn statement_boundary(&mut self) -> u32 {
        self.transaction.execute()
    }
}
