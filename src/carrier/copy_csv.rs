//! COPY CSV format: where a record ends and where its fields stand, as Postgres' `CopyReadLineText` and `CopyReadAttributesCSV` read them.

use super::Field;
use super::copy::{Split, Step};
use super::copy_line::{LineEnd, LineEnds, MIXED_LINE_ENDS, Marker, WRONG_FIELD_COUNT};
use crate::sql::statement::{CopyFormat, ForceColumns};
use memchr::{memchr_iter, memchr2, memchr3};

const UNTERMINATED: &str = "unterminated quoted field";

/// Splits records at a one-byte delimiter; quotes may open and close anywhere in a field.
#[derive(Debug)]
pub(super) struct CsvSplitter {
    delimiter: u8,
    quote: u8,
    escape: u8,
    null: Vec<u8>,
    default: Option<Vec<u8>>,
    /// One for each column.
    force: Vec<Force>,
    /// The next record is the header.
    header: bool,
    lines: LineEnds,
    /// How much of the record at hand has been looked through.
    scanned: usize,
    /// Whether the scan stands within quotes.
    in_quotes: bool,
    /// The record holds a quote.
    has_quotes: bool,
}

/// Whether a column is named by FORCE_NULL and FORCE_NOT_NULL.
#[derive(Clone, Copy, Debug)]
struct Force {
    null: bool,
    not_null: bool,
}

/// How a field is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Bare,
    /// One quoted string from end to end, without escapes.
    Quoted,
    Mixed,
}

enum Scan {
    Whole { end: usize, next: usize },
    Not(Step),
}

impl CsvSplitter {
    /// `format` is [`CopyFormat::Csv`]; of any other format the defaults of CSV are assumed.
    pub(super) fn new(format: &CopyFormat, columns: &[impl AsRef<str>]) -> Self {
        let mut splitter = Self {
            delimiter: b',',
            quote: b'"',
            escape: b'"',
            null: Vec::new(),
            default: None,
            force: vec![Force { null: false, not_null: false }; columns.len()],
            header: false,
            lines: LineEnds::default(),
            scanned: 0,
            in_quotes: false,
            has_quotes: false,
        };
        if let CopyFormat::Csv {
            delimiter,
            quote,
            escape,
            null,
            header,
            force_null,
            force_not_null,
            default,
        } = format
        {
            (splitter.delimiter, splitter.quote, splitter.escape) = (*delimiter, *quote, *escape);
            (splitter.null, splitter.default, splitter.header) = (null.clone(), default.clone(), *header);
            for (force, column) in splitter.force.iter_mut().zip(columns) {
                force.null = names(force_null, column.as_ref());
                force.not_null = names(force_not_null, column.as_ref());
            }
        }
        splitter
    }

    fn record(&mut self, bytes: &[u8], last: bool) -> Scan {
        if self.scanned == 0
            && let Some(step) = self.marker(bytes, last)
        {
            return Scan::Not(step);
        }
        let found =
            if self.quote == self.escape { self.scan_doubled(bytes, last) } else { self.scan(bytes, last) };
        match found {
            Some((end, LineEnd::Next(next))) => Scan::Whole { end, next },
            Some((_, LineEnd::Mixed)) => Scan::Not(Step::GaveUp(MIXED_LINE_ENDS)),
            Some((_, LineEnd::More)) => Scan::Not(Step::More),
            None if !last => Scan::Not(Step::More),
            // Of a header Postgres asks only where it ends.
            None if self.in_quotes && !self.header => Scan::Not(Step::GaveUp(UNTERMINATED)),
            None => Scan::Whole { end: bytes.len(), next: bytes.len() },
        }
    }

    /// `\.` on a line of its own ends the data before Postgres 18. Since then it is a value, which
    /// only a COPY of a single column can hold.
    fn marker(&self, bytes: &[u8], last: bool) -> Option<Step> {
        match bytes {
            [b'\\'] if !last => Some(Step::More),
            [b'\\', b'.', behind @ ..] => match self.lines.marker(behind, last) {
                Marker::End if self.force.len() == 1 => {
                    Some(Step::GaveUp("end-of-copy marker may be a value"))
                }
                Marker::End => Some(Step::Ended),
                Marker::More => Some(Step::More),
                Marker::Mixed => Some(Step::GaveUp(MIXED_LINE_ENDS)),
                Marker::NotAlone => None,
            },
            _ => None,
        }
    }

    /// Finds the record's end if a quote is escaped by itself: within quotes stands what has an odd
    /// number of quotes before it.
    fn scan_doubled(&mut self, bytes: &[u8], last: bool) -> Option<(usize, LineEnd)> {
        loop {
            let rest = bytes.get(self.scanned..)?;
            let found = memchr2(b'\n', b'\r', rest);
            let looked_through = rest.get(..found.unwrap_or(rest.len()))?;
            let quotes = memchr_iter(self.quote, looked_through).count();
            self.has_quotes |= quotes > 0;
            self.in_quotes ^= quotes % 2 == 1;
            self.scanned += looked_through.len();
            found?;
            if !self.in_quotes {
                return Some((self.scanned, self.lines.judge(bytes, self.scanned, last)));
            }
            self.scanned += 1;
        }
    }

    /// Finds the record's end if a quote is escaped by another byte.
    fn scan(&mut self, bytes: &[u8], last: bool) -> Option<(usize, LineEnd)> {
        loop {
            let rest = bytes.get(self.scanned..)?;
            let found = if self.in_quotes {
                memchr2(self.quote, self.escape, rest)
            } else {
                memchr3(self.quote, b'\n', b'\r', rest)
            };
            self.scanned += found.unwrap_or(rest.len());
            found?;
            let byte = *bytes.get(self.scanned)?;
            if self.in_quotes && byte == self.escape {
                match bytes.get(self.scanned + 1) {
                    Some(&next) if next == self.escape || next == self.quote => self.scanned += 2,
                    None if !last => return None,
                    _ => self.scanned += 1,
                }
            } else if byte == self.quote {
                self.has_quotes = true;
                self.in_quotes = !self.in_quotes;
                self.scanned += 1;
            } else {
                return Some((self.scanned, self.lines.judge(bytes, self.scanned, last)));
            }
        }
    }

    /// Fills in the record's fields; false if there are more or fewer than columns.
    fn split(&self, record: &[u8], fields: &mut Vec<Field>) -> bool {
        fields.clear();
        if self.has_quotes {
            return self.split_quoted(record, fields);
        }
        let mut start = 0;
        for end in memchr_iter(self.delimiter, record) {
            if !self.push(record, start, end, Shape::Bare, fields) {
                return false;
            }
            start = end + 1;
        }
        self.push(record, start, record.len(), Shape::Bare, fields) && fields.len() == self.force.len()
    }

    fn split_quoted(&self, record: &[u8], fields: &mut Vec<Field>) -> bool {
        let mut start = 0;
        loop {
            let Some((end, shape)) = self.field_end(record, start) else {
                return false;
            };
            if !self.push(record, start, end, shape, fields) {
                return false;
            }
            if end >= record.len() {
                return fields.len() == self.force.len();
            }
            start = end + 1;
        }
    }

    /// Where the field that begins at `start` ends; `None` within quotes that do not close.
    fn field_end(&self, record: &[u8], start: usize) -> Option<(usize, Shape)> {
        let mut at = start;
        let mut shape = Shape::Bare;
        // Where the quotes would have to close for the field to be quoted from end to end.
        let mut closed = None;
        loop {
            let rest = record.get(at..)?;
            let Some(found) = memchr2(self.delimiter, self.quote, rest) else {
                at = record.len();
                break;
            };
            at += found;
            if record.get(at) == Some(&self.delimiter) {
                break;
            }
            let (close, escapes) = self.closing_quote(record, at + 1)?;
            shape =
                if shape == Shape::Bare && at == start && !escapes { Shape::Quoted } else { Shape::Mixed };
            at = close + 1;
            closed = Some(at);
        }
        if shape == Shape::Quoted && closed != Some(at) {
            shape = Shape::Mixed;
        }
        Some((at, shape))
    }

    /// The quote that ends the quoted part whose inside begins at `at`, and whether an escape
    /// character stands in it.
    fn closing_quote(&self, record: &[u8], mut at: usize) -> Option<(usize, bool)> {
        let mut escapes = false;
        loop {
            at += memchr2(self.quote, self.escape, record.get(at..)?)?;
            let next = record.get(at + 1).copied();
            let is_escape = record.get(at) == Some(&self.escape);
            if is_escape && (next == Some(self.escape) || next == Some(self.quote)) {
                escapes = true;
                at += 2;
            } else if record.get(at) == Some(&self.quote) {
                return Some((at, escapes));
            } else {
                escapes = true;
                at += 1;
            }
        }
    }

    /// Adds the field of the next column; false if there is none left.
    #[inline]
    fn push(&self, record: &[u8], start: usize, end: usize, shape: Shape, fields: &mut Vec<Field>) -> bool {
        let Some(force) = self.force.get(fields.len()) else {
            return false;
        };
        let raw = record.get(start..end).unwrap_or_default();
        fields.push(match shape {
            Shape::Bare if raw == self.null && !force.not_null => Field::Null,
            Shape::Bare if raw != self.null && self.default.as_deref() == Some(raw) => Field::Default,
            Shape::Bare => Field::text(start..end),
            _ if force.null && self.unquoted_is_null(raw) => Field::Null,
            Shape::Quoted => Field::text(start + 1..end - 1),
            Shape::Mixed => Field::escaped(start..end),
        });
        true
    }

    /// Whether the field reads as the NULL string once quotes and escapes are undone.
    fn unquoted_is_null(&self, raw: &[u8]) -> bool {
        let mut expected = self.null.iter();
        let mut bytes = raw.iter().copied().peekable();
        let mut in_quotes = false;
        while let Some(byte) = bytes.next() {
            let escaped = in_quotes && byte == self.escape;
            let value = match bytes.next_if(|&next| escaped && (next == self.escape || next == self.quote)) {
                Some(value) => value,
                None if byte == self.quote => {
                    in_quotes = !in_quotes;
                    continue;
                }
                None => byte,
            };
            if expected.next() != Some(&value) {
                return false;
            }
        }
        expected.next().is_none()
    }
}

fn names(columns: &ForceColumns, column: &str) -> bool {
    match columns {
        ForceColumns::None => false,
        ForceColumns::All => true,
        ForceColumns::Some(listed) => listed.iter().any(|name| name == column),
    }
}

impl Split for CsvSplitter {
    #[inline]
    fn step(&mut self, bytes: &[u8], last: bool, fields: &mut Vec<Field>) -> Step {
        // Postgres allows these, and then nothing below holds.
        if [self.quote, self.escape].iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return Step::GaveUp("quote is a line end");
        }
        let (end, next) = match self.record(bytes, last) {
            Scan::Whole { end, next } => (end, next),
            Scan::Not(step) => return step,
        };
        let is_header = std::mem::take(&mut self.header);
        let right = is_header || self.split(bytes.get(..end).unwrap_or_default(), fields);
        (self.scanned, self.in_quotes, self.has_quotes) = (0, false, false);
        match (is_header, right) {
            (true, _) => Step::Skip { next },
            (false, true) => Step::Row { end, next },
            (false, false) => Step::GaveUp(WRONG_FIELD_COUNT),
        }
    }
}
