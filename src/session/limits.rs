//! The memory that a session's keys take, and what happens past a limit. Knows numbers of keys, no key.

use super::Session;
use crate::rekey::references::BYTES_PER_REFERENCE;
use crate::rekey::window::BYTES_PER_KEY;
use std::fmt;

/// A limit of the configuration that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The keys of one transaction.
    TransactionKeys,
    /// The keys of all transactions together.
    TotalKeys,
}

impl Limit {
    /// The setting's name.
    #[must_use]
    pub fn setting(self) -> &'static str {
        match self {
            Self::TransactionKeys => "max_transaction_key_bytes",
            Self::TotalKeys => "max_total_key_bytes",
        }
    }
}

/// Something the journal should say of the whole session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Nothing more is rekeyed in the current transaction.
    LimitReached(Limit),
    /// A statement reads by a key that two rows were sent with.
    SharedKeyRead,
    /// A statement that may change rows names a key that two were sent with, and the settings let it.
    SharedKeyKept,
    /// The session set `untwin.mode` to something else than a mode.
    UnknownMode,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitReached(limit) => {
                write!(f, "{} reached: nothing more is rekeyed in this transaction", limit.setting())
            }
            Self::UnknownMode => f.write_str(
                "untwin.mode was set to a value that does not exist, and counts as not set: there are rewrite, strict and observe",
            ),
            Self::SharedKeyRead => {
                f.write_str("a SELECT names a key that two rows were sent with: it reads the first")
            }
            Self::SharedKeyKept => f.write_str(
                "a statement that may change data names a key that two rows were sent with: kept, it means the first",
            ),
        }
    }
}

impl Session {
    /// Brings the account of the keys' memory up to date; to be called whenever keys may have come or gone.
    /// Past a limit nothing is rekeyed for the rest of the transaction, and no key is remembered. Gives a note
    /// the first time.
    pub(super) fn account(&mut self) -> Option<Note> {
        if !self.held.set(self.key_bytes()) {
            return None;
        }
        let reached = if self.over_limit { None } else { self.limit_reached() };
        self.over_limit |= reached.is_some();
        if self.over_limit {
            // Whose children are whose, of the keys that were shared before, is still to be known.
            self.window.clear();
            self.portals.forget_keys();
            self.references.forget_unshared();
            self.held.set(self.key_bytes());
        }
        reached.map(Note::LimitReached)
    }

    fn limit_reached(&self) -> Option<Limit> {
        let limits = &self.around.limits;
        if self.held.bytes() > limits.transaction_key_bytes {
            Some(Limit::TransactionKeys)
        } else if self.held.bytes() > 0 && self.held.total() > limits.total_key_bytes {
            Some(Limit::TotalKeys)
        } else {
            None
        }
    }

    pub(super) fn key_bytes(&self) -> u64 {
        let keys = (self.window.len() + self.portals.claimed_keys()) as u64;
        let references = self.references.len() as u64;
        keys.saturating_mul(BYTES_PER_KEY as u64)
            .saturating_add(references.saturating_mul(BYTES_PER_REFERENCE as u64))
    }

    /// The reason why rows are not even looked at: a limit was reached, and no key of this transaction was sent
    /// with two rows, so that nothing would come of it.
    pub(super) fn is_past_limit(&self, shared: bool) -> Option<&'static str> {
        (self.over_limit && !shared).then_some("limit")
    }
}
