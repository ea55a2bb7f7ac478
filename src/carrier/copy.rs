//! A COPY stream cut into rows: knows CopyData payloads and stream positions, not what a row means.

use super::copy_binary::BinarySplitter;
use super::copy_csv::CsvSplitter;
use super::copy_text::TextSplitter;
use super::{Field, fits};
use crate::sql::statement::CopyFormat;
use std::ops::Range;

/// How much of a row that straddles payloads is carried along by default, in bytes.
pub const CARRY_LIMIT: usize = 1 << 20;

/// Receives the rows of a COPY stream in order.
pub trait RowSink {
    /// One row, as soon as its last byte has arrived.
    fn row(&mut self, row: Row<'_>);
}

impl<F: FnMut(Row<'_>)> RowSink for F {
    fn row(&mut self, row: Row<'_>) {
        self(row);
    }
}

/// One row of a COPY stream.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The row's bytes in one piece, without its line end; in binary with its field count.
    pub bytes: &'a [u8],
    /// One field a column of the COPY, positions within `bytes`.
    pub fields: &'a [Field],
    /// From 1; a header is no row.
    pub ordinal: u64,
    segments: &'a [Segment],
}

/// From `start` in the row's bytes on, the bytes come from stream position `at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    start: usize,
    at: u64,
}

impl<'a> Row<'a> {
    /// Where a range within `bytes` stands in the connection's byte stream: the stream position and
    /// the part of the range that begins there. Several pieces when it straddles CopyData messages.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = (u64, Range<usize>)> + use<'a> {
        let (segments, length) = (self.segments, self.bytes.len());
        let first = segments.partition_point(|segment| segment.start <= range.start).saturating_sub(1);
        (first..segments.len()).map_while(move |index| {
            let segment = segments.get(index)?;
            let segment_end = segments.get(index + 1).map_or(length, |next| next.start);
            let start = range.start.max(segment.start);
            let end = range.end.min(segment_end);
            (start < end).then(|| (segment.at + (start - segment.start) as u64, start..end))
        })
    }
}

/// How far a reader has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Rows may follow.
    Reading,
    /// The end-of-copy marker or CopyDone was seen.
    Ended,
    /// The rest is not inspected, for this reason. Either Postgres refuses the data too and says so
    /// itself, or a limit was reached.
    GaveUp(&'static str),
}

/// Cuts the payloads of one `COPY … FROM STDIN` into rows and fields.
///
/// A row that lies within one payload is handed out as a slice of it. Only a row that straddles
/// payloads is copied, and at most up to the limit.
#[derive(Debug)]
pub struct CopyReader {
    splitter: Splitter,
    stream: Stream,
}

#[derive(Debug)]
enum Splitter {
    Text(TextSplitter),
    Csv(CsvSplitter),
    Binary(BinarySplitter),
}

impl CopyReader {
    /// A reader for the data of a COPY whose rows hold `columns`, in this order (without a column
    /// list: all columns of the table that are not generated). `limit` bounds the memory for a row
    /// that straddles payloads, in bytes; [`CARRY_LIMIT`] suits.
    #[must_use]
    pub fn new(format: &CopyFormat, columns: &[impl AsRef<str>], limit: usize) -> Self {
        let splitter = match format {
            CopyFormat::Text { delimiter, null, header, default } => Splitter::Text(TextSplitter::new(
                *delimiter,
                null,
                *header,
                default.as_deref(),
                columns.len(),
            )),
            CopyFormat::Csv { .. } => Splitter::Csv(CsvSplitter::new(format, columns)),
            CopyFormat::Binary => Splitter::Binary(BinarySplitter::new(columns.len())),
        };
        Self { splitter, stream: Stream::new(limit) }
    }

    /// Reads on. `at` is the position of `payload[0]` in the connection's byte stream.
    ///
    /// Returns the stream position up to which the client's bytes can no longer change: the start of
    /// a row that is not complete yet, else the payload's end.
    pub fn feed(&mut self, payload: &[u8], at: u64, sink: &mut impl RowSink) -> u64 {
        match &mut self.splitter {
            Splitter::Text(splitter) => self.stream.feed(splitter, payload, at, sink),
            Splitter::Csv(splitter) => self.stream.feed(splitter, payload, at, sink),
            Splitter::Binary(splitter) => self.stream.feed(splitter, payload, at, sink),
        }
        self.stream.segments.first().map_or(at + payload.len() as u64, |segment| segment.at)
    }

    /// CopyDone: hands out a last row that has no line end.
    pub fn finish(&mut self, sink: &mut impl RowSink) {
        match &mut self.splitter {
            Splitter::Text(splitter) => self.stream.finish(splitter, sink),
            Splitter::Csv(splitter) => self.stream.finish(splitter, sink),
            Splitter::Binary(splitter) => self.stream.finish(splitter, sink),
        }
    }

    /// How far the reader has come.
    #[must_use]
    pub fn status(&self) -> Status {
        self.stream.status
    }
}

/// What a splitter found at the start of the bytes it was given.
#[derive(Debug)]
pub(super) enum Step {
    /// A row `..end`, its fields filled in. The next one begins at `next`.
    Row { end: usize, next: usize },
    /// Nothing to hand out up to `next`: a header.
    Skip { next: usize },
    /// What begins here goes on beyond these bytes.
    More,
    /// The end-of-copy marker.
    Ended,
    /// See [`Status::GaveUp`].
    GaveUp(&'static str),
}

/// The part of a reader that knows the format.
pub(super) trait Split {
    /// Looks at `bytes`, which begin where a row begins. After [`Step::More`] it is called with the
    /// same bytes and more behind them, and goes on where it stopped, so that a row in many pieces
    /// costs no more than one in few. `last` says that nothing can follow.
    fn step(&mut self, bytes: &[u8], last: bool, fields: &mut Vec<Field>) -> Step;
}

/// The part of a reader that knows where the bytes come from.
#[derive(Debug)]
struct Stream {
    status: Status,
    /// The fields of the row at hand; kept to be reused.
    fields: Vec<Field>,
    ordinal: u64,
    /// The beginning of a row that earlier payloads did not complete, and where it came from.
    carried: Vec<u8>,
    segments: Vec<Segment>,
    limit: usize,
}

impl Stream {
    fn new(limit: usize) -> Self {
        Self {
            status: Status::Reading,
            fields: Vec::new(),
            ordinal: 0,
            carried: Vec::new(),
            segments: Vec::new(),
            limit,
        }
    }

    fn feed(&mut self, splitter: &mut impl Split, payload: &[u8], at: u64, sink: &mut impl RowSink) {
        if self.status == Status::Reading && !fits(payload) {
            self.give_up("payload too long");
        }
        let mut rest = self.complete_carried(splitter, payload, at, sink);
        while self.status == Status::Reading && !rest.is_empty() {
            let here = at + (payload.len() - rest.len()) as u64;
            let next = match splitter.step(rest, false, &mut self.fields) {
                Step::Row { end, next } => {
                    self.ordinal += 1;
                    sink.row(Row {
                        bytes: rest.get(..end).unwrap_or(rest),
                        fields: &self.fields,
                        ordinal: self.ordinal,
                        segments: &[Segment { start: 0, at: here }],
                    });
                    next
                }
                Step::Skip { next } => next,
                Step::More => {
                    self.segments.push(Segment { start: 0, at: here });
                    self.carry(rest);
                    return;
                }
                Step::Ended => return self.end(),
                Step::GaveUp(reason) => return self.give_up(reason),
            };
            rest = rest.get(next..).unwrap_or_default();
        }
    }

    /// Feeds a carried row with the payload's first bytes until it is complete; returns what is left.
    fn complete_carried<'p>(
        &mut self,
        splitter: &mut impl Split,
        payload: &'p [u8],
        at: u64,
        sink: &mut impl RowSink,
    ) -> &'p [u8] {
        if self.segments.is_empty() || payload.is_empty() {
            return payload;
        }
        let before = self.carried.len();
        self.segments.push(Segment { start: before, at });
        let mut rest = payload;
        // Most rows end soon: copy little at first, so that a long payload is not copied for one row.
        let mut portion = 256;
        while !rest.is_empty() && self.status == Status::Reading {
            let (head, tail) = rest.split_at(portion.min(rest.len()));
            self.carry(head);
            (rest, portion) = (tail, portion * 2);
            if self.status != Status::Reading {
                break;
            }
            if let Some(next) = self.step_carried(splitter, false, sink) {
                return payload.get(next - before.min(next)..).unwrap_or_default();
            }
        }
        &[]
    }

    /// One step over the carried bytes. `Some` is where in them the next row begins; they are
    /// forgotten then.
    fn step_carried(
        &mut self,
        splitter: &mut impl Split,
        last: bool,
        sink: &mut impl RowSink,
    ) -> Option<usize> {
        let next = match splitter.step(&self.carried, last, &mut self.fields) {
            Step::More => return None,
            Step::Row { end, next } => {
                self.ordinal += 1;
                sink.row(Row {
                    bytes: self.carried.get(..end).unwrap_or(&self.carried),
                    fields: &self.fields,
                    ordinal: self.ordinal,
                    segments: &self.segments,
                });
                next
            }
            Step::Skip { next } => next,
            Step::Ended => {
                self.end();
                return None;
            }
            Step::GaveUp(reason) => {
                self.give_up(reason);
                return None;
            }
        };
        self.carried.clear();
        self.segments.clear();
        Some(next)
    }

    fn finish(&mut self, splitter: &mut impl Split, sink: &mut impl RowSink) {
        if self.status != Status::Reading {
            return;
        }
        if !self.segments.is_empty() {
            self.step_carried(splitter, true, sink);
        }
        if self.status == Status::Reading {
            self.end();
        }
    }

    /// Appends to the carried row, unless that breaks the limit.
    fn carry(&mut self, bytes: &[u8]) {
        let weight = self.carried.len() + bytes.len() + self.segments.len() * size_of::<Segment>();
        if weight > self.limit {
            return self.give_up("row too long");
        }
        self.carried.extend_from_slice(bytes);
    }

    fn end(&mut self) {
        self.status = Status::Ended;
        self.forget();
    }

    fn give_up(&mut self, reason: &'static str) {
        self.status = Status::GaveUp(reason);
        self.forget();
    }

    fn forget(&mut self) {
        self.carried = Vec::new();
        self.segments = Vec::new();
        self.fields = Vec::new();
    }
}
