//! The extended query protocol: Parse, Bind, Execute, Close, and the SQL statements of the same meaning.

use super::copy::CopyOpen;
use super::coverage::Coverage;
use super::inspect::ANOTHER_TABLE;
use super::mentions::Mentions;
use super::pipeline::{Effect, Effects, Request};
use super::prepared::Prepared;
use super::refusal::{Refusal, Unrecorded};
use super::rows_seen::{Asking, Own};
use super::said::Parameters;
use super::simple::UNSAFE_ENCODING;
use super::{Outcome, Session};
use crate::carrier::Field;
use crate::carrier::bind::Bind;
use crate::catalog::Catalog;
use crate::rekey::rows::{Bound, Place, Supply};
use crate::sql::split;
use crate::sql::statement::Statement;
use crate::wire::message::{Execute, Parse, Target};
use crate::wire::{frame, tag::frontend};
use std::ops::Range;
use std::sync::Arc;

/// The statement that a Bind is pointed at when the text it was prepared from has to change.
const SUBSTITUTE: &[u8] = b"untwin_substitute\0";

const MALFORMED_BIND: &str = "malformed Bind";

impl Session {
    pub(super) fn parse(&mut self, body: &[u8]) {
        let Some(parse) = Parse::read(body) else {
            return self.parse_unread("malformed Parse");
        };
        let text = body.get(parse.text.clone()).unwrap_or_default();
        let mut prepared = if self.literals.can_lex(text) {
            let options = self.options();
            let mut statements = split::statements(text, options);
            match (statements.next(), statements.next()) {
                (None, _) => Prepared::new(text, 0..0, options, parse.types, Mentions::default()),
                (Some(range), None) => {
                    let mentions = self.mentioned(text, range.clone(), options);
                    Prepared::new(text, range, options, parse.types, mentions)
                }
                (Some(_), Some(_)) => Prepared::unread(text, "several statements in one Parse"),
            }
        } else {
            Prepared::unread(text, UNSAFE_ENCODING)
        };
        prepared.meant = self.meaning(&prepared.statement);
        prepared.read_at = self.readings;
        self.statements.set(parse.name, self.message, Some(Arc::new(prepared)));
        self.due(Request::Parse, Effects::new());
    }

    pub(super) fn parse_unread(&mut self, reason: &'static str) {
        self.unread = reason;
        // Any name may have been prepared anew.
        self.statements.close_all(self.message);
        self.due(Request::Parse, Effects::new());
    }

    /// SQL `PREPARE`.
    pub(super) fn prepare(&mut self, name: &str, text: &[u8], body: Range<usize>) {
        let mentions = self.mentioned(text, body.clone(), self.options());
        let mut prepared = Prepared::new(text, body, self.options(), Vec::new(), mentions);
        prepared.meant = self.meaning(&prepared.statement);
        prepared.read_at = self.readings;
        self.statements.set(name.as_bytes(), self.message, Some(Arc::new(prepared)));
    }

    pub(super) fn bind(&mut self, body: &[u8], outcome: &mut Outcome) {
        let Some(bind) = Bind::parse(body) else {
            return self.bind_unread(MALFORMED_BIND);
        };
        let prepared = self.statements.latest(bind.statement, self.group).cloned();
        let mut claims = std::mem::take(&mut self.portals.bind(bind.portal).claims);
        let mut fields = std::mem::take(&mut self.fields);
        let known = bind.parameters(&mut fields).is_some();
        match &prepared {
            Some(prepared) if prepared.statement.inserts().is_some() && known => {
                self.bind_insert(prepared, &bind, body, &fields, &mut claims, outcome);
            }
            Some(prepared) if prepared.statement.inserts().is_some() => self.forwarded(MALFORMED_BIND),
            _ => {}
        }
        let parameters = match known {
            true => Parameters::Fields { bytes: body, fields: &fields, part: body },
            false => Parameters::Unread(body),
        };
        self.check_bound(prepared.as_deref(), parameters, &claims, outcome);
        self.fields = fields;
        if let Some(refusal) = outcome.refusal.take() {
            self.refuse(&refusal, &bind, outcome);
            claims.clear();
        } else if outcome.follows(0) {
            outcome.unrecorded = Some(unrecorded(&Refusal::of_unrecorded(), &bind));
        }
        // It counts when it is executed.
        let coverage = std::mem::take(&mut self.coverage);
        if let Some(portal) = self.portals.find(bind.portal) {
            portal.claims = claims;
            portal.restores = std::mem::take(&mut outcome.restores);
            portal.prepared = prepared;
            portal.coverage = coverage;
        }
        self.due(Request::Bind, Effects::new());
    }

    /// Looks whether a statement names a key that two rows were sent with.
    fn check_bound(
        &self,
        prepared: Option<&Prepared>,
        parameters: Parameters<'_>,
        claims: &Own,
        outcome: &mut Outcome,
    ) {
        let Some(prepared) = prepared else {
            let unknown = Prepared::unread(b"", self.unread);
            return self.check_shared(unknown.said(parameters), &self.references, |_| true, outcome);
        };
        if let Statement::CopyIn(copy) = &prepared.statement {
            return self.check_copy(copy, None, outcome);
        }
        let said = prepared.said(parameters);
        let calls = |catalog: &Catalog| prepared.calls_opaque(catalog);
        self.check_shared(said, &self.references, calls, outcome);
        if matches!(said.statement, Statement::Mixed { .. }) {
            // What its own rows come to share, its other parts may name.
            self.check_shared(said, &claims.references, calls, outcome);
        }
    }

    pub(super) fn bind_unread(&mut self, reason: &'static str) {
        self.unread = reason;
        self.portals.clear();
        self.due(Request::Bind, Effects::new());
    }

    fn bind_insert(
        &mut self,
        prepared: &Prepared,
        bind: &Bind<'_>,
        body: &[u8],
        fields: &[Field],
        claims: &mut Own,
        outcome: &mut Outcome,
    ) {
        let bound = Bound { body, fields, types: &prepared.types, shared: &prepared.shared };
        let again = prepared.was_executed().then_some("literal again");
        // To change a literal, the whole text is parsed again.
        let read_otherwise = prepared.read_at.settings != self.readings.settings;
        let again = again.or(read_otherwise.then_some("literal read by other settings"));
        let text_fixed = self.literals.obstacle().or(again);
        let supply = Supply {
            text: &prepared.text,
            options: prepared.options,
            only_row: prepared.only_row.as_deref(),
            read_before: prepared.read_at != self.readings,
            text_fixed,
            bound: Some(bound),
        };
        self.freed_within(&prepared.statement);
        let obstacle = self.open_portal(bind.portal);
        self.inspect_bound(prepared, supply, obstacle, claims, outcome);
        if outcome.refusal.is_none() && outcome.edits.iter().any(|edit| matches!(edit.place, Place::Text(_)))
        {
            let (mut text, mut body) = (prepared.text.clone(), body.to_vec());
            for edit in outcome.edits.drain(..) {
                edit.apply(if matches!(edit.place, Place::Text(_)) { &mut text } else { &mut body });
            }
            // Behind the two names and their zero bytes.
            let rest = body.get(bind.portal.len() + bind.statement.len() + 2..).unwrap_or_default();
            let body = [bind.portal, b"\0", SUBSTITUTE, rest].concat();
            outcome.replacement = Some(substitution(&text, &prepared.types, &body));
            self.substituted();
        }
    }

    /// The statement is not to be run: binds one that raises the error in its place.
    fn refuse(&mut self, refusal: &Refusal, bind: &Bind<'_>, outcome: &mut Outcome) {
        outcome.edits.clear();
        let unrecorded = outcome.unrecorded.insert(unrecorded(refusal, bind));
        outcome.replacement = Some(unrecorded.bytes.clone());
        self.substituted();
    }

    /// Another text is to be run than the one that is prepared. The two extra replies are swallowed.
    fn substituted(&mut self) {
        self.due(Request::Substituted, Effects::new());
        self.due(Request::Substituted, Effects::new());
    }

    pub(super) fn execute_portal(&mut self, body: &[u8]) {
        let execute = Execute::read(body);
        let name = execute.as_ref().map_or(&b""[..], |execute| execute.portal);
        let portal = execute.as_ref().and_then(|execute| self.portals.find(execute.portal));
        let mut restores = Vec::new();
        let effect = match portal {
            None => {
                self.forwarded(self.unread);
                self.statement_boundary();
                self.opaque();
                Effect::None
            }
            Some(portal) if portal.executed => {
                // A portal that was suspended goes on, and calls what it calls.
                restores.clone_from(&portal.restores);
                if let Some(prepared) = portal.prepared.clone() {
                    self.called(&prepared.mentions, self.transaction.statement());
                }
                // It has been counted.
                self.coverage = Coverage::Irrelevant;
                Effect::None
            }
            Some(portal) => {
                portal.executed = true;
                restores.clone_from(&portal.restores);
                self.coverage = portal.coverage;
                match portal.prepared.clone() {
                    None => {
                        self.forwarded(self.unread);
                        self.statement_boundary();
                        self.opaque();
                        Effect::None
                    }
                    Some(prepared) => {
                        let mut claims = std::mem::take(&mut portal.claims);
                        let effect = self.run_prepared(name, &prepared, &mut claims);
                        // Gives the memory back for the next Bind.
                        claims.clear();
                        if let Some(portal) = self.portals.find(name) {
                            portal.claims = claims;
                        }
                        effect
                    }
                }
            }
        };
        self.count_statement();
        self.due_with(Request::Execute, Effects::from_iter([(effect, 0)]), restores);
    }

    fn run_prepared(&mut self, portal: &[u8], prepared: &Prepared, claims: &mut Own) -> Effect {
        if matches!(prepared.statement, Statement::Begin) {
            return self.apply(&prepared.statement, 0);
        }
        let ordinal = self.statement_boundary();
        if let Statement::CopyIn(copy) = &prepared.statement {
            if !self.failed_block {
                self.begin_copy(copy, ordinal, CopyOpen::ByExecute, None, self.open_portal(portal));
            }
            return Effect::None;
        }
        prepared.execute_again();
        if let (Some(reason), false) = (prepared.unread, self.failed_block) {
            self.forwarded(reason);
        }
        if !self.failed_block {
            self.window.take_over(&claims.window, ordinal);
            self.references.take_over(&mut claims.references);
        }
        let effect = self.apply_prepared(prepared, ordinal);
        if prepared.deallocates {
            self.statements.close_all(self.message);
        }
        self.called(&prepared.mentions, ordinal);
        effect
    }

    /// Runs a statement that was prepared before, calls aside.
    fn apply_prepared(&mut self, prepared: &Prepared, ordinal: u32) -> Effect {
        let effect = self.apply(&prepared.statement, ordinal);
        if !self.means_the_same(prepared) {
            // The rows of either table may be gone.
            self.window.clear();
        }
        effect
    }

    pub(super) fn close(&mut self, body: &[u8]) {
        match Target::read(body) {
            Some(Target::Statement(name)) => self.statements.set(name, self.message, None),
            Some(Target::Portal(name)) => self.portals.close(name),
            None => {}
        }
        self.due(Request::Close, Effects::new());
    }

    /// SQL `EXECUTE name (args)`: the arguments are literals in this text.
    pub(super) fn execute_prepared(
        &mut self,
        name: &str,
        arguments: &[Range<usize>],
        text: &[u8],
        range: Range<usize>,
        outcome: &mut Outcome,
    ) -> Effect {
        let ordinal = self.statement_boundary();
        let Some(prepared) = self.statements.latest(name.as_bytes(), self.group).cloned() else {
            return self.after(
                &Statement::Execute { name: name.to_owned(), arguments: Vec::new() },
                text,
                range,
                ordinal,
            );
        };
        if prepared.statement.inserts().is_none() {
            // Nothing to look at but what it does.
        } else if let Some(reason) = self.literals.obstacle() {
            self.forwarded(reason);
        } else if !self.means_the_same(&prepared) {
            self.forwarded(ANOTHER_TABLE);
        } else if !self.failed_block {
            self.inspect_execute(&prepared, arguments, text, ordinal, outcome);
        }
        prepared.execute_again();
        let effect = self.apply_prepared(&prepared, ordinal);
        let mut called = prepared.mentions.clone();
        called.names.extend(self.mentioned(text, range, self.options()).names);
        self.called(&called, ordinal);
        effect
    }

    /// Arguments of EXECUTE: one that is a plain literal is a parameter in text format whose bytes stand in this
    /// text. `None` if there is any other.
    pub(super) fn arguments(&self, text: &[u8], arguments: &[Range<usize>]) -> Option<Vec<Field>> {
        arguments.iter().map(|argument| argument_field(text, argument.clone(), self.options())).collect()
    }

    fn inspect_execute(
        &mut self,
        prepared: &Prepared,
        arguments: &[Range<usize>],
        text: &[u8],
        ordinal: u32,
        outcome: &mut Outcome,
    ) {
        let Some(fields) = self.arguments(text, arguments) else {
            return self.forwarded("expression as argument of EXECUTE");
        };
        let bound = Bound { body: text, fields: &fields, types: &prepared.types, shared: &prepared.shared };
        // The text of the prepared statement itself is out of reach here.
        let text_fixed = Some("literal in PREPARE");
        let supply = Supply {
            text: &prepared.text,
            options: prepared.options,
            only_row: prepared.only_row.as_deref(),
            read_before: prepared.read_at != self.readings,
            text_fixed,
            bound: Some(bound),
        };
        let asking = Asking {
            supply,
            statement: ordinal,
            guard: self.transaction.guard(),
            suspended: self.suspended().or(self.open_portal(b"")),
            ignores_keys: false,
            several: false,
        };
        self.inspect_at_once(prepared.statement.inserts().unwrap_or_default(), asking, outcome);
        outcome.note = outcome.note.or(self.account());
    }
}

/// Prepares a text under a name of our own, and binds it by this body.
fn substitution(text: &[u8], types: &[u32], bind: &[u8]) -> Vec<u8> {
    let mut oids = (types.len() as u16).to_be_bytes().to_vec();
    types.iter().for_each(|oid| oids.extend_from_slice(&oid.to_be_bytes()));
    let mut out = Vec::with_capacity(text.len() + bind.len() + 128);
    frame::write(&mut out, frontend::CLOSE, &[b"S", SUBSTITUTE]);
    frame::write(&mut out, frontend::PARSE, &[SUBSTITUTE, text, b"\0", &oids]);
    frame::write(&mut out, frontend::BIND, &[bind]);
    out
}

/// A Bind of a statement that raises the error.
fn unrecorded(refusal: &Refusal, bind: &Bind<'_>) -> Unrecorded {
    let body = [bind.portal, b"\0", SUBSTITUTE, &[0; 6]].concat();
    Unrecorded { bytes: substitution(refusal.sql().as_bytes(), &[], &body), substitutes: true }
}

/// An argument of EXECUTE as a parameter: positions are those of the text.
fn argument_field(text: &[u8], argument: Range<usize>, options: crate::sql::lex::Options) -> Option<Field> {
    use crate::sql::insert::{Cast, CellKind};
    let cell = crate::sql::insert::argument(text, argument, options)?;
    let (start, end) = (u32::try_from(cell.range.start).ok()?, u32::try_from(cell.range.end).ok()?);
    match (cell.kind, cell.cast) {
        (CellKind::String, Cast::None | Cast::Uuid | Cast::Text)
        | (CellKind::Number | CellKind::Bool, Cast::None) => Some(Field::Text { start, end }),
        (CellKind::Null, _) => Some(Field::Null),
        // Its bytes are not its value.
        (CellKind::String | CellKind::Escaped | CellKind::Number | CellKind::Bool, _) => {
            Some(Field::Escaped { start, end })
        }
        _ => None,
    }
}
