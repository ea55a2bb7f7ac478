//! Questions of the proxy's own, asked on the client's connection while it is idle. Their replies are swallowed.

use super::Session;
use super::pipeline::{Due, Request};
use crate::catalog::resolve::Told;
use crate::catalog::{self, Catalog};
use crate::wire::reader::Reader;
use crate::wire::{frame, tag::backend, tag::frontend};
use std::sync::Arc;

/// What the session needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The catalog of the database.
    Catalog,
    /// The session's search_path and temporary relations.
    Scope,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The text of the one column.
    Told(Ask, String),
    /// The server's error message.
    Failed(Ask, String),
}

/// An exchange under way.
#[derive(Debug, Default)]
pub(super) struct OwnExchange {
    ask: Option<Ask>,
    text: Option<String>,
    error: Option<String>,
}

/// What holds for the question and ends with it: the client's limits are for the client's statements, and its
/// messages, too.
const SETTINGS: &str = "SELECT pg_catalog.set_config('statement_timeout', '0', true), \
                        pg_catalog.set_config('client_min_messages', 'error', true), \
                        pg_catalog.set_config('jit', 'off', true)";

/// Named, since an unnamed statement or a simple Query would destroy the client's.
const NAME: &[u8] = b"untwin_catalog\0";

impl Ask {
    /// The SQL text.
    #[must_use]
    pub fn sql(self) -> &'static str {
        match self {
            Self::Catalog => catalog::load::STATEMENT,
            Self::Scope => catalog::resolve::default_path_probe(),
        }
    }
}

impl Session {
    /// Whether the server can be asked something now: it has answered everything and no transaction is open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.pipeline.is_empty() && self.transaction.block() == super::transaction::Block::Idle
    }

    /// Whether names cannot be resolved, or the mode is not known, until the session has been asked.
    #[must_use]
    pub fn wants_scope(&self) -> bool {
        self.catalog
            .as_ref()
            .is_some_and(|catalog| self.doubtful_mode || self.scope.should_ask(catalog.has_homonyms()))
    }

    /// Whether an exchange of the proxy's own is under way.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.own_exchange.ask.is_some()
    }

    /// Whether a change of the schema has been committed since the last time this was asked.
    pub fn schema_has_changed(&mut self) -> bool {
        self.schema.reload && self.is_idle() && !std::mem::replace(&mut self.schema.told, true)
    }

    /// Version of the snapshot the session works with.
    #[must_use]
    pub fn catalog_version(&self) -> Option<u64> {
        self.catalog.as_ref().map(|catalog| catalog.version)
    }

    /// The bytes that ask; from now on the replies are swallowed until the exchange is over. Only to be
    /// called while [`Self::is_idle`].
    pub fn ask(&mut self, ask: Ask) -> Vec<u8> {
        self.own_exchange = OwnExchange { ask: Some(ask), text: None, error: None };
        self.message += 1;
        let due =
            Due { request: Request::Own, message: self.message, facts: self.fates.recorded(), more: None };
        self.pipeline.push(due);
        let mut out = Vec::with_capacity(ask.sql().len() + 128);
        for sql in [SETTINGS, ask.sql()] {
            frame::write(&mut out, frontend::CLOSE, &[b"S", NAME]);
            frame::write(&mut out, frontend::PARSE, &[NAME, sql.as_bytes(), b"\0\0\0"]);
            frame::write(&mut out, frontend::BIND, &[NAME, NAME, b"\0\0\0\0\0\0"]);
            frame::write(&mut out, frontend::EXECUTE, &[NAME, b"\0\0\0\0"]);
            frame::write(&mut out, frontend::CLOSE, &[b"P", NAME]);
            frame::write(&mut out, frontend::CLOSE, &[b"S", NAME]);
        }
        frame::write(&mut out, frontend::SYNC, &[]);
        out
    }

    /// A reply within the exchange; gives the answer when it is over.
    pub(super) fn own_reply(&mut self, tag: u8, body: &[u8]) -> Option<Answer> {
        match tag {
            backend::DATA_ROW => self.own_exchange.text = single_column(body),
            backend::ERROR => {
                let message = crate::wire::message::error_field(body, b'M').unwrap_or_default();
                self.own_exchange.error = Some(String::from_utf8_lossy(message).into_owned());
            }
            backend::READY => {
                self.pipeline.ready();
                let exchange = std::mem::take(&mut self.own_exchange);
                let ask = exchange.ask?;
                return Some(match (exchange.text, exchange.error) {
                    (Some(text), None) => Answer::Told(ask, text),
                    (_, error) => Answer::Failed(ask, error.unwrap_or_else(|| "no row came back".to_owned())),
                });
            }
            _ => {}
        }
        None
    }

    /// Whether the snapshot may be wrong through what the session itself did.
    #[must_use]
    pub fn distrusts(&self) -> bool {
        self.schema.distrusted
    }

    /// Before a statement: `valid` is the version of the snapshot that nothing is known to have changed since.
    /// Where the session has another one, a schema change of another session may make its names mean other
    /// tables, whose triggers may do other things.
    pub fn compare_catalog(&mut self, valid: u64) {
        let outdated = self.catalog_version().is_some_and(|version| version != valid);
        if self.outdated != outdated {
            self.outdated = outdated;
            self.epoch += 1;
        }
    }

    /// The session's snapshot is that of now.
    pub fn confirm_catalog(&mut self) {
        self.epoch += 1;
        self.schema = super::Schema::default();
        self.scope.ask_again();
    }

    /// The catalog as of now.
    pub fn learn_catalog(&mut self, catalog: Arc<Catalog>) {
        self.window.clear();
        self.epoch += 1;
        self.catalog = Some(catalog);
        // There may be other schemas on the path.
        self.scope.ask_again();
        self.schema = super::Schema::default();
    }

    /// The catalog cannot be had for the time being: nothing is inspected without one.
    pub fn forget_catalog(&mut self) {
        self.window.clear();
        self.epoch += 1;
        self.catalog = None;
        self.schema = super::Schema::default();
    }

    /// The session's own scope and mode as of now.
    pub fn learn_scope(&mut self, told: Told) {
        self.scope.learn(told.scope);
        self.mode.learn(told.mode.and_then(|mode| mode.parse().ok()));
        self.doubtful_mode = false;
    }
}

/// The first column of a DataRow, as text.
fn single_column(body: &[u8]) -> Option<String> {
    let mut reader = Reader::new(body);
    reader.u16().filter(|&columns| columns >= 1)?;
    let length = usize::try_from(reader.i32()?).ok()?;
    Some(String::from_utf8_lossy(reader.take(length)?).into_owned())
}
