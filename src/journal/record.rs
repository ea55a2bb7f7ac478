//! What a line of the journal says, as values. Pure; how it is spelled is `line`'s business.

pub use crate::carrier::Carrier;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Names a record: a version 7 UUID, so that records sort by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u128);

impl Id {
    /// Makes the id of a record written at `at`, unique by 74 of the `random` bits.
    #[must_use]
    pub fn new(at: Timestamp, random: u128) -> Self {
        let millis = u128::from(at.as_millisecond().unsigned_abs()) & 0xffff_ffff_ffff;
        let version_and_variant = 0x7 << 76 | 0b10 << 62;
        let random = random & (0xfff << 64 | ((1 << 62) - 1));
        Self(millis << 80 | version_and_variant | random)
    }

    /// The id that reads as this UUID.
    #[must_use]
    pub fn from_u128(value: u128) -> Self {
        Self(value)
    }

    /// The UUID as a number.
    #[must_use]
    pub fn value(self) -> u128 {
        self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid::Uuid::from_u128(self.0).hyphenated().fmt(f)
    }
}

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        crate::key::parse(text.as_bytes()).map(Self).ok_or(NotAnId)
    }
}

/// A text is not the id of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of a record is a UUID")]
pub struct NotAnId;

/// What became of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is still open.
    Pending,
    /// The server said that it committed.
    Committed,
    /// The row did not survive: the transaction or its savepoint was rolled back, or the statement failed.
    RolledBack,
    /// The end was not seen: the connection was lost with COMMIT in flight, or PREPARE TRANSACTION.
    Unknown,
}

/// A text names no fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write pending, committed, rolled_back or unknown")]
pub struct NotAFate;

impl FromStr for Fate {
    type Err = NotAFate;

    fn from_str(text: &str) -> Result<Self, NotAFate> {
        let fates = [Self::Pending, Self::Committed, Self::RolledBack, Self::Unknown];
        let name = text.replace('-', "_");
        fates.into_iter().find(|fate| fate.name() == name).ok_or(NotAFate)
    }
}

impl Fate {
    /// The name in the journal.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Committed => "committed",
            Self::RolledBack => "rolled_back",
            Self::Unknown => "unknown",
        }
    }
}

/// What was done with a twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It was given a fresh key.
    Rekeyed,
    /// It would have been given one: the mode is observe.
    Observed,
    /// It was forwarded as it was.
    Forwarded,
    /// It is a reference to a rekeyed row, and was given that row's fresh key.
    Followed,
    /// Its transaction was made to fail.
    Failed,
}

impl Action {
    /// The name in the journal.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rekeyed => "rekeyed",
            Self::Observed => "observed",
            Self::Forwarded => "forwarded",
            Self::Followed => "followed",
            Self::Failed => "failed",
        }
    }
}

/// A row of a transaction: both ordinals count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Ordinal of the executed statement within its transaction, BEGIN not counted.
    pub statement: u64,
    /// Ordinal of the row within that statement.
    pub row: u64,
}

/// Who sent it: what all records of a session share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The database.
    pub database: String,
    /// The client's address and port.
    pub client: String,
    /// The role that logged in.
    pub user: String,
    /// The application name.
    pub application: String,
    /// Names the session.
    pub session: String,
}

impl Origin {
    /// The longest name kept, in bytes: as Postgres cuts identifiers (NAMEDATALEN - 1).
    pub const LONGEST_NAME: usize = 63;

    /// The names a client gave, cut as Postgres cuts them, so that no client can bloat the journal.
    #[must_use]
    pub fn new(database: &str, client: &str, user: &str, application: &str, session: &str) -> Self {
        let cut = |name: &str| {
            let fits = |&(at, c): &(usize, char)| at + c.len_utf8() <= Self::LONGEST_NAME;
            name.char_indices().take_while(fits).map(|(_, c)| c).collect()
        };
        Self {
            database: cut(database),
            client: client.to_owned(),
            user: cut(user),
            application: cut(application),
            session: session.to_owned(),
        }
    }
}

/// One twin and what was done with it. Never holds the contents of a column other than the key.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// When it was recorded.
    pub at: Timestamp,
    /// Names the record; its fate refers to it.
    pub id: Id,
    /// What became of the transaction.
    pub fate: Fate,
    /// What was done.
    pub action: Action,
    /// Why it was done, when that is not the default.
    pub reason: Option<Cow<'static, str>>,
    /// The table as `regclass` prints it with an empty search_path.
    pub table: Arc<str>,
    /// The constraint or index that the twin would have violated.
    pub constraint: Arc<str>,
    /// The column that holds the key.
    pub column: Arc<str>,
    /// The key as it was sent.
    pub old: u128,
    /// The fresh key; `None`: nothing was or would be rewritten.
    pub new: Option<u128>,
    /// Where the twin stands.
    pub place: Place,
    /// The row that holds the key.
    pub first: Option<Place>,
    /// How the key travelled.
    pub carrier: Carrier,
    /// The twin equals an earlier live row in every column.
    pub identical: bool,
    /// The twin equals the first row in every column but volatile ones: most likely the same message again.
    pub suspected_redelivery: bool,
    /// What the operator could do about the record, if there is something.
    pub hint: Option<Cow<'static, str>>,
    /// Other columns of the same row that contain the old key.
    pub echoed_in: Vec<Arc<str>>,
    /// Who sent it.
    pub origin: Arc<Origin>,
}

/// Something that befell a whole session, such as a limit reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// When.
    pub at: Timestamp,
    /// What, in words.
    pub note: Cow<'static, str>,
    /// The session's name.
    pub session: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_7_and_sort_by_time() {
        let at = |micros| Timestamp::from_microsecond(micros).unwrap();
        let early = Id::new(at(1_767_323_045_123_456), u128::MAX);
        let late = Id::new(at(1_767_323_045_124_000), 0);
        assert!(early < late);
        for id in [early, late] {
            assert_eq!(crate::key::version(id.value()), 7);
            assert!(crate::key::is_rfc(id.value()));
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_eq!(
            uuid::Uuid::from_u128(late.value()).get_timestamp().unwrap().to_unix(),
            (1_767_323_045, 124_000_000)
        );
    }

    #[test]
    fn fates_are_read_by_name() {
        for (text, fate) in [
            ("committed", Ok(Fate::Committed)),
            ("rolled_back", Ok(Fate::RolledBack)),
            ("rolled-back", Ok(Fate::RolledBack)),
            ("lost", Err(NotAFate)),
        ] {
            assert_eq!(text.parse(), fate, "{text}");
        }
    }

    #[test]
    fn a_client_cannot_bloat_the_origin() {
        let origin = Origin::new("d", "c", "u", &"é".repeat(1000), "s");
        assert_eq!(origin.application, "é".repeat(31));
    }
}
