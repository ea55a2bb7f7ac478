//! COPY text format: where a line ends and where its fields stand, as Postgres' `CopyReadLineText` and `CopyReadAttributesText` read them.

use super::Field;
use super::copy::{Split, Step};
use super::copy_line::{LineEnd, LineEnds, MIXED_LINE_ENDS, Marker, WRONG_FIELD_COUNT};
use memchr::{memchr_iter, memchr2, memchr3};

/// Splits lines at a one-byte delimiter; a backslash escapes the byte behind it, line ends too.
#[derive(Debug)]
pub(super) struct TextSplitter {
    delimiter: u8,
    null: Vec<u8>,
    default: Option<Vec<u8>>,
    columns: usize,
    /// The next line is the header.
    header: bool,
    lines: LineEnds,
    /// How much of the line at hand has been looked through.
    scanned: usize,
    /// It holds a backslash.
    escapes: bool,
}

enum Line {
    Whole { end: usize, next: usize },
    Not(Step),
}

impl TextSplitter {
    pub(super) fn new(
        delimiter: u8,
        null: &[u8],
        header: bool,
        default: Option<&[u8]>,
        columns: usize,
    ) -> Self {
        Self {
            delimiter,
            null: null.to_vec(),
            default: default.map(<[u8]>::to_vec),
            columns,
            header,
            lines: LineEnds::default(),
            scanned: 0,
            escapes: false,
        }
    }

    fn line(&mut self, bytes: &[u8], last: bool) -> Line {
        while let Some(found) = bytes.get(self.scanned..).and_then(|rest| memchr3(b'\n', b'\r', b'\\', rest))
        {
            let at = self.scanned + found;
            if bytes.get(at) != Some(&b'\\') {
                return self.line_end(bytes, at, last);
            }
            match bytes.get(at + 1) {
                Some(b'.') => return Line::Not(self.marker(bytes, at, last)),
                Some(_) => self.scanned = at + 2,
                None if last => self.scanned = at + 1,
                None => {
                    self.scanned = at;
                    return Line::Not(Step::More);
                }
            }
            self.escapes = true;
        }
        self.scanned = bytes.len();
        if last { Line::Whole { end: bytes.len(), next: bytes.len() } } else { Line::Not(Step::More) }
    }

    fn line_end(&mut self, bytes: &[u8], at: usize, last: bool) -> Line {
        match self.lines.judge(bytes, at, last) {
            LineEnd::Next(next) => Line::Whole { end: at, next },
            LineEnd::Mixed => Line::Not(Step::GaveUp(MIXED_LINE_ENDS)),
            LineEnd::More => {
                self.scanned = at;
                Line::Not(Step::More)
            }
        }
    }

    /// `\.` at `at`. Behind data on the same line it ends the data before Postgres 18 and is an error
    /// since, so that line is not read.
    fn marker(&mut self, bytes: &[u8], at: usize, last: bool) -> Step {
        self.scanned = at;
        match self.lines.marker(bytes.get(at + 2..).unwrap_or_default(), last) {
            Marker::End if at == 0 => Step::Ended,
            Marker::More => Step::More,
            Marker::Mixed => Step::GaveUp(MIXED_LINE_ENDS),
            Marker::End | Marker::NotAlone => Step::GaveUp("end-of-copy marker not alone on its line"),
        }
    }

    /// Fills in the line's fields; false if there are more or fewer than columns.
    fn split(&self, line: &[u8], fields: &mut Vec<Field>) -> bool {
        fields.clear();
        if self.escapes {
            return self.split_escaped(line, fields);
        }
        let mut start = 0;
        for end in memchr_iter(self.delimiter, line) {
            if fields.len() == self.columns {
                return false;
            }
            fields.push(self.field(line, start, end, false));
            start = end + 1;
        }
        fields.push(self.field(line, start, line.len(), false));
        fields.len() == self.columns
    }

    fn split_escaped(&self, line: &[u8], fields: &mut Vec<Field>) -> bool {
        let (mut start, mut at, mut escapes) = (0, 0, false);
        while let Some(found) = line.get(at..).and_then(|rest| memchr2(self.delimiter, b'\\', rest)) {
            at += found;
            if line.get(at) == Some(&b'\\') {
                escapes = true;
                at += 2;
                continue;
            }
            if fields.len() == self.columns {
                return false;
            }
            fields.push(self.field(line, start, at, escapes));
            at += 1;
            (start, escapes) = (at, false);
        }
        // `at` is beyond the end only behind a backslash that ends the data with nothing to escape.
        // Postgres compares such a field with the NULL string without it.
        let last = self.field(line, start, line.len() - usize::from(at > line.len()), escapes);
        fields.push(last);
        fields.len() == self.columns
    }

    /// NULL and DEFAULT are told by the field as written, before escapes are undone.
    #[inline]
    fn field(&self, line: &[u8], start: usize, end: usize, escapes: bool) -> Field {
        let raw = line.get(start..end).unwrap_or_default();
        if raw == self.null {
            Field::Null
        } else if self.default.as_deref() == Some(raw) {
            Field::Default
        } else if escapes {
            Field::escaped(start..end)
        } else {
            Field::text(start..end)
        }
    }
}

impl Split for TextSplitter {
    #[inline]
    fn step(&mut self, bytes: &[u8], last: bool, fields: &mut Vec<Field>) -> Step {
        let (end, next) = match self.line(bytes, last) {
            Line::Whole { end, next } => (end, next),
            Line::Not(step) => return step,
        };
        let is_header = std::mem::take(&mut self.header);
        let right = is_header || self.split(bytes.get(..end).unwrap_or_default(), fields);
        (self.scanned, self.escapes) = (0, false);
        match (is_header, right) {
            (true, _) => Step::Skip { next },
            (false, true) => Step::Row { end, next },
            (false, false) => Step::GaveUp(WRONG_FIELD_COUNT),
        }
    }
}
