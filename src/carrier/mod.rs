//! Where the values stand in a statement's data: COPY rows, Bind parameters, arrays, JSON. Pure readers; they decide nothing.
//!
//! Every reader answers with [`Field`]s: positions in the bytes it was given. A key found at such a
//! position can be overwritten there, since a fresh key has the length of the old one.

pub mod array;
pub mod bind;
pub mod copy;
pub mod json;

mod copy_binary;
mod copy_csv;
#[cfg(test)]
mod copy_cut_tests;
mod copy_line;
#[cfg(test)]
mod copy_tests;
mod copy_text;
#[cfg(test)]
mod json_tests;

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How the key travelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// A literal in the statement's text.
    Literal,
    /// A parameter of Bind, text or binary.
    Parameter,
    /// An element of an array.
    Array,
    /// A field of COPY's text format.
    CopyText,
    /// A field of COPY's CSV format.
    CopyCsv,
    /// A field of COPY's binary format.
    CopyBinary,
    /// A member of a JSON value.
    Json,
}

impl Carrier {
    /// The name in the journal.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Literal => "literal",
            Self::Parameter => "parameter",
            Self::Array => "array",
            Self::CopyText => "copy_text",
            Self::CopyCsv => "copy_csv",
            Self::CopyBinary => "copy_binary",
            Self::Json => "json",
        }
    }
}

/// One value as the client wrote it: what it is and where it stands.
///
/// Positions are bytes, `start..end`, within the bytes the reader was given (a COPY row, a Bind body,
/// an array, a JSON document).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// No value.
    Null,
    /// Text format; the bytes are the value.
    Text {
        /// First byte.
        start: u32,
        /// Behind the last byte.
        end: u32,
    },
    /// Text format, but the bytes are not the value: escapes, doubled quotes, a nested document.
    Escaped {
        /// First byte.
        start: u32,
        /// Behind the last byte.
        end: u32,
    },
    /// Binary format, without its length word.
    Binary {
        /// First byte.
        start: u32,
        /// Behind the last byte.
        end: u32,
    },
    /// The column's default (the DEFAULT string of COPY).
    Default,
}

impl Field {
    // The readers refuse input longer than `u32::MAX` (see `fits`), so these casts lose nothing.

    fn text(range: Range<usize>) -> Self {
        Self::Text { start: range.start as u32, end: range.end as u32 }
    }

    fn escaped(range: Range<usize>) -> Self {
        Self::Escaped { start: range.start as u32, end: range.end as u32 }
    }

    fn binary(range: Range<usize>) -> Self {
        Self::Binary { start: range.start as u32, end: range.end as u32 }
    }

    /// Where the value's bytes stand; `None` for NULL and DEFAULT.
    #[must_use]
    pub fn range(self) -> Option<Range<usize>> {
        match self {
            Self::Text { start, end } | Self::Escaped { start, end } | Self::Binary { start, end } => {
                Some(start as usize..end as usize)
            }
            Self::Null | Self::Default => None,
        }
    }

    /// The value's bytes as written, out of the bytes that were read.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> Option<&[u8]> {
        bytes.get(self.range()?)
    }

    /// The same field, seen from bytes that begin `by` bytes earlier: an array element within its
    /// Bind body. `None` if that does not fit.
    #[must_use]
    pub fn shifted(self, by: usize) -> Option<Self> {
        let by = u32::try_from(by).ok()?;
        let mut shifted = self;
        if let Self::Text { start, end } | Self::Escaped { start, end } | Self::Binary { start, end } =
            &mut shifted
        {
            (*start, *end) = (start.checked_add(by)?, end.checked_add(by)?);
        }
        Some(shifted)
    }
}

/// Whether every position in `bytes` fits into a [`Field`]. A protocol message always does.
fn fits(bytes: &[u8]) -> bool {
    u32::try_from(bytes.len()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_gives_its_bytes_and_never_more() {
        assert_eq!(Field::text(1..3).of(b"abcd"), Some(&b"bc"[..]));
        assert_eq!(Field::binary(1..5).of(b"abcd"), None);
        assert_eq!(Field::Null.of(b"abcd"), None);
        assert_eq!(Field::Default.of(b"abcd"), None);
    }

    #[test]
    fn shifting_moves_positions_and_refuses_overflow() {
        assert_eq!(Field::escaped(1..3).shifted(10), Some(Field::escaped(11..13)));
        assert_eq!(Field::Null.shifted(10), Some(Field::Null));
        assert_eq!(Field::text(1..3).shifted(u32::MAX as usize), None);
        assert_eq!(Field::binary(0..1).shifted(usize::MAX), None);
    }
}
