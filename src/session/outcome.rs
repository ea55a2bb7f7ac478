//! What becomes of one message of the client: what is to be recorded, overwritten, refused, shown. Decides nothing.

use super::limits::Note;
use super::refusal::{Refusal, Unrecorded};
use super::restore::Restore;
use crate::carrier::Carrier;
use crate::catalog::model::Table;
use crate::key;
use crate::rekey::judge::{Action, Twin};
use crate::rekey::rows::Place;
use std::sync::Arc;

/// A twin, ready for the journal.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Ordinal in the session, by which its fate will be told.
    pub ordinal: u64,
    pub table: Arc<Table>,
    pub twin: Twin,
    /// Ordinal of the statement in its transaction.
    pub statement: u32,
    pub carrier: Carrier,
    /// Column of the key (position in `Table::columns`).
    pub column: usize,
    /// Other columns of the row in which the old key stands too (positions in `Table::columns`).
    pub echoed_in: Vec<usize>,
    /// RETURNING shows the client the key that it sent.
    pub returned_as_sent: bool,
    /// A setting that the client seems to need, in words.
    pub hint: Option<&'static str>,
    /// Tells its transaction from others of the session.
    pub transaction: u64,
}

impl Fact {
    /// A reference is given the fresh key of the row it belongs to: as it was sent it would mean another.
    pub(super) fn follows(&self) -> bool {
        self.twin.action == Action::Followed
    }
}

/// A key to be written over another, in the message that was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub place: Place,
    pub new: u128,
}

impl Edit {
    /// Overwrites the key in the message's body. Ranges come from reading the same body; one that does not
    /// fit changes nothing.
    pub fn apply(&self, body: &mut [u8]) {
        if let Place::Text(range) | Place::Bind(range) = &self.place
            && let Some(bytes) = body.get_mut(range.clone())
        {
            key::write_over(bytes, self.new);
        }
    }
}

/// What has to happen before a message may be forwarded.
#[derive(Debug, Default)]
pub struct Outcome {
    /// To be applied once the facts are in the journal.
    pub edits: Vec<Edit>,
    /// To be written to the journal first.
    pub facts: Vec<Fact>,
    /// Bytes to send instead of the message, once the facts are in the journal.
    pub replacement: Option<Vec<u8>>,
    /// What to send if the journal cannot take the facts, where the message must not go as it came.
    pub(super) unrecorded: Option<Unrecorded>,
    /// Keys to put back into the rows that the statement returns.
    pub(super) restores: Vec<Restore>,
    /// The message is not to be run: the server is to say why.
    pub(super) refusal: Option<Refusal>,
    /// Something the journal should say of the whole session.
    pub note: Option<Note>,
}

impl Outcome {
    /// Whether the message can be forwarded as it is, with nothing to record.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.edits.is_empty() && self.facts.is_empty() && self.replacement.is_none() && self.note.is_none()
    }

    /// Whether a reference follows a row with a fresh key, by the facts from this one on.
    pub(super) fn follows(&self, from: usize) -> bool {
        self.facts.iter().skip(from).any(Fact::follows)
    }

    pub fn clear(&mut self) {
        self.edits.clear();
        self.facts.clear();
        self.replacement = None;
        self.unrecorded = None;
        self.refusal = None;
        self.restores.clear();
        self.note = None;
    }
}
