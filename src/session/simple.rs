//! The simple query protocol: a text of statements, run one after the other.

use super::copy::CopyOpen;
use super::pipeline::{Effect, Effects, Request};
use super::refusal::Refusal;
use super::{Outcome, Session};
use crate::catalog::Catalog;
use crate::rekey::rows::Supply;
use crate::sql::split;
use crate::sql::statement::{self, Statement};
use crate::wire::tag::frontend;
use crate::wire::{frame, message};
use std::ops::Range;

/// The Query with the statement at `start`, and all behind it, replaced by one that raises the error.
fn refused(text: &[u8], start: usize, refusal: &Refusal, outcome: &mut Outcome) -> Vec<u8> {
    let mut edited = text.to_vec();
    outcome.edits.drain(..).for_each(|edit| edit.apply(&mut edited));
    let before = edited.get(..start).unwrap_or_default();
    let mut out = Vec::with_capacity(start + 1024);
    frame::write(&mut out, frontend::QUERY, &[before, refusal.sql().as_bytes(), b"\0"]);
    out
}

impl Session {
    pub(super) fn query(&mut self, body: &[u8], outcome: &mut Outcome) {
        let Some(range) = message::query_text(body) else {
            return self.unread_query();
        };
        let text = body.get(range).unwrap_or_default();
        if !self.literals.can_lex(text) {
            self.around.counters.uninspected_total.increment("text of an unsafe encoding");
            return self.unread_query();
        }
        self.portals.close(b"");
        let options = self.options();
        let mut effects = Effects::new();
        let mut statements = split::statements(text, options).peekable();
        while let Some(range) = statements.next() {
            let last = statements.peek().is_none();
            let statement = statement::classify(text, range.clone(), options);
            let start = range.start;
            self.check_text(&statement, text.get(range.clone()).unwrap_or_default(), outcome);
            let effect = match outcome.refusal {
                Some(_) => Effect::None,
                None => self.run_text(&statement, text, range, last, outcome),
            };
            if let Some(refusal) = outcome.refusal.take() {
                // What stands behind it is not run anyway.
                outcome.replacement = Some(refused(text, start, &refusal, outcome));
                break;
            }
            effects.push((effect, self.fates.recorded()));
        }
        self.due_with(Request::Query, effects, std::mem::take(&mut outcome.restores));
        if self.copy_open == CopyOpen::No {
            self.end_group();
        }
    }

    /// Looks whether a statement names a key that two rows were sent with; EXECUTE is the statement it runs.
    fn check_text(&self, statement: &Statement, text: &[u8], outcome: &mut Outcome) {
        let prepared = match statement {
            Statement::Execute { name, .. } => self.statements.latest(name.as_bytes(), self.group),
            _ => None,
        };
        match prepared {
            Some(prepared) => {
                let calls = |catalog: &Catalog| prepared.calls_opaque(catalog);
                self.check_shared(&prepared.statement, &[text, &prepared.text], calls, outcome);
            }
            None => {
                let mentions = || self.mentioned(text, 0..text.len(), self.options());
                self.check_shared(statement, &[text], |catalog| mentions().are_opaque(catalog), outcome);
            }
        }
    }

    fn unread_query(&mut self) {
        self.statement_boundary();
        self.opaque();
        self.due(Request::Query, Effects::new());
        self.end_group();
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
                self.begin_copy(
                    copy,
                    ordinal,
                    CopyOpen::ByQuery,
                    if last { None } else { Some("statements behind a COPY in one Query") },
                );
                Effect::None
            }
            _ if statement.inserts().is_some() => {
                let ordinal = self.statement_boundary();
                let obstacle = self.copy.is_some().then_some("statements behind a COPY in one Query");
                if let Some(reason) = self.literals.obstacle().or(obstacle) {
                    self.around.counters.uninspected_total.increment(reason);
                    return self.after(statement, text, range, ordinal);
                }
                self.freed_within(statement);
                // Rows of plain values call nothing.
                if self.inspect_text(statement, supply, range.clone(), ordinal, outcome) {
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

    /// A statement of its own ordinal begins.
    pub(super) fn statement_boundary(&mut self) -> u32 {
        self.transaction.execute()
    }
}
