//! The server's side of the conversation: what its replies say of the messages before them.

use super::Session;
use super::ask::Answer;
use super::pipeline::Request;
use super::restore;
use crate::wire::message;
use crate::wire::tag::backend;
use std::ops::RangeInclusive;

/// What becomes of a message from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Disposition {
    Relay,
    /// The reply to something the client did not send.
    Swallow,
    /// Likewise, and it ends an exchange of the proxy's own.
    Answered(Answer),
}

/// SQLSTATEs that may mean that the snapshot of the catalog is old: undefined table, undefined column,
/// feature not supported (ON CONFLICT and partitions).
const STALE: &[&[u8]] = &[b"42P01", b"42703"];

/// Whether a message that comes within an exchange of the proxy's own is for the client all the same: what
/// comes at any time, and the last word before the server ends the session. What the server logs of a statement
/// goes to who sent it.
fn concerns_client(tag: u8, body: &[u8]) -> bool {
    let severity = || message::error_field(body, b'V').unwrap_or_default();
    match tag {
        backend::NOTIFICATION | backend::PARAMETER_STATUS => true,
        backend::NOTICE => !(severity().starts_with(b"DEBUG") || matches!(severity(), b"LOG" | b"INFO")),
        backend::ERROR => matches!(severity(), b"FATAL" | b"PANIC"),
        _ => false,
    }
}

impl Session {
    /// Whether keys are to be put back into the rows that the server returns now.
    #[must_use]
    pub fn restores_rows(&self) -> bool {
        !self.pipeline.restores().is_empty()
    }

    /// Puts keys back into the body of a DataRow.
    pub fn restore_row(&self, body: &mut [u8]) {
        restore::apply(self.pipeline.restores(), body);
    }

    /// Whether the body of a message with this tag must be complete before it is handed in.
    #[must_use]
    pub fn reads_reply(&self, tag: u8) -> bool {
        match tag {
            backend::COMMAND_COMPLETE | backend::ERROR | backend::READY | backend::PARAMETER_STATUS => true,
            backend::DATA_ROW => self.pipeline.front() == Some(Request::Own) || self.restores_rows(),
            _ => self.pipeline.front() == Some(Request::Own),
        }
    }

    /// A message from the server. `body` is complete where [`Self::reads_reply`] says so, else empty.
    pub fn server_message(&mut self, tag: u8, body: &[u8]) -> Disposition {
        if self.pipeline.front() == Some(Request::Own) && !concerns_client(tag, body) {
            return self.own_reply(tag, body).map_or(Disposition::Swallow, Disposition::Answered);
        }
        match tag {
            backend::PARSE_COMPLETE | backend::BIND_COMPLETE | backend::CLOSE_COMPLETE => {
                return self.answered();
            }
            backend::ROW_DESCRIPTION | backend::NO_DATA if self.pipeline.front_is_describe() => {
                self.pipeline.answered();
            }
            backend::COMMAND_COMPLETE => self.completed(body),
            backend::EMPTY_QUERY | backend::PORTAL_SUSPENDED => self.completed(b""),
            backend::COPY_IN_RESPONSE => self.pipeline.copy_in(),
            backend::ERROR => self.failed(body),
            backend::READY => self.ready(body.first().copied()),
            backend::PARAMETER_STATUS => self.parameter(body),
            _ => {}
        }
        Disposition::Relay
    }

    fn answered(&mut self) -> Disposition {
        match self.pipeline.answered() {
            Some(due) if due.request == Request::Substituted => Disposition::Swallow,
            Some(due) => {
                self.statements.confirm(due.message);
                Disposition::Relay
            }
            None => Disposition::Relay,
        }
    }

    fn completed(&mut self, tag: &[u8]) {
        let tag = tag.strip_suffix(b"\0").unwrap_or(tag);
        if let Some((effect, facts)) = self.pipeline.completed() {
            self.fates.completed(effect, tag, facts, &mut self.settled);
        }
    }

    fn failed(&mut self, body: &[u8]) {
        self.fates.failed();
        self.copy = None;
        self.copy_open = super::copy::CopyOpen::No;
        let in_part = self.pipeline.front() == Some(Request::Query);
        if let Some(skipped) = self.pipeline.failed() {
            self.did_not_happen(skipped, in_part);
        }
        if message::error_field(body, b'C').is_some_and(|state| STALE.contains(&state)) {
            self.schema.reload = true;
            self.schema.told = false;
        }
    }

    /// These messages have been skipped, or the one that they are has been carried out `in_part`.
    fn did_not_happen(&mut self, messages: RangeInclusive<u64>, in_part: bool) {
        let first = *messages.start();
        if self.moved.savepoints >= first {
            self.transaction.forget_savepoints();
        }
        // What was set in the same group has been undone, or will be.
        if self.moved.scope > 0 {
            self.scope.doubt();
        }
        self.doubtful_mode |= self.moved.mode > 0;
        if in_part {
            self.statements.doubt(first);
        } else {
            self.statements.skip(messages);
        }
    }

    fn ready(&mut self, status: Option<u8>) {
        let idle = status == Some(b'I');
        if let Some(due) = self.pipeline.ready() {
            self.statements.confirm(due.message);
            self.moved.settle(due.message);
            if idle {
                self.fates.idle(due.facts, &mut self.settled);
            }
        }
        if !self.pipeline.is_empty() {
            return;
        }
        if self.transaction.ready(!idle) || idle && !self.window.is_empty() {
            self.forget_transaction(false);
        }
        self.failed_block = status == Some(b'E');
        self.literals.settle(!idle);
        self.held.set(self.key_bytes());
    }

    fn parameter(&mut self, body: &[u8]) {
        let Some((name, value)) = message::parameter_status(body) else { return };
        match name {
            b"application_name" => {
                self.application = String::from_utf8_lossy(value).into_owned();
                self.choose_policy();
            }
            _ => self.literals.report(name, value),
        }
    }
}
