//! COPY binary format: the header and where the fields of each tuple stand; knows no types.

use super::Field;
use super::copy::{Split, Step};
use super::copy_line::WRONG_FIELD_COUNT;

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// Signature, flags, length of the extension.
const HEADER: usize = 19;
/// Bits 16 to 31 of the flags are critical: a reader must know them. Bit 16 (OIDs) is no longer read
/// by any supported Postgres.
const CRITICAL: u32 = 0xffff_0000;

#[derive(Debug)]
pub(super) struct BinarySplitter {
    columns: usize,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Header,
    /// So many bytes of the header's extension are still to come.
    Extension(usize),
    /// The tuple at hand: how much of it has been read, and how many fields.
    Tuple {
        read: usize,
        fields: usize,
    },
}

const START: Stage = Stage::Tuple { read: 0, fields: 0 };

impl BinarySplitter {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, stage: Stage::Header }
    }

    fn header(&mut self, bytes: &[u8], last: bool) -> Step {
        let Some(header) = bytes.first_chunk::<HEADER>() else {
            return unfinished(last);
        };
        let [.., f0, f1, f2, f3, e0, e1, e2, e3] = *header;
        if !header.starts_with(SIGNATURE) {
            return Step::GaveUp("no binary COPY signature");
        }
        if u32::from_be_bytes([f0, f1, f2, f3]) & CRITICAL != 0 {
            return Step::GaveUp("unknown binary COPY flags");
        }
        let Ok(extension) = usize::try_from(i32::from_be_bytes([e0, e1, e2, e3])) else {
            return Step::GaveUp("invalid binary COPY header");
        };
        self.stage = if extension == 0 { START } else { Stage::Extension(extension) };
        Step::Skip { next: HEADER }
    }

    fn extension(&mut self, bytes: &[u8], remaining: usize) -> Step {
        let next = remaining.min(bytes.len());
        self.stage = if next == remaining { START } else { Stage::Extension(remaining - next) };
        Step::Skip { next }
    }

    fn tuple(&mut self, bytes: &[u8], last: bool, out: &mut Vec<Field>) -> Step {
        let Stage::Tuple { mut read, fields: mut done } = self.stage else {
            return Step::More;
        };
        if read == 0 {
            let Some(count) = bytes.first_chunk() else {
                return unfinished(last);
            };
            match i16::from_be_bytes(*count) {
                -1 => return Step::Ended,
                count if usize::try_from(count) != Ok(self.columns) => {
                    return Step::GaveUp(WRONG_FIELD_COUNT);
                }
                _ => read = 2,
            }
            out.clear();
        }
        while done < self.columns {
            let Some((field, next)) = field(bytes, read) else {
                self.stage = Stage::Tuple { read, fields: done };
                return unfinished(last);
            };
            let Some(field) = field else {
                return Step::GaveUp("invalid field length");
            };
            out.push(field);
            (read, done) = (next, done + 1);
        }
        self.stage = START;
        Step::Row { end: read, next: read }
    }
}

/// The field whose length word is at `at`, and where the next one begins. `None` if it is not all
/// there, `Some(None)` if its length is negative and does not mean NULL.
#[inline]
fn field(bytes: &[u8], at: usize) -> Option<(Option<Field>, usize)> {
    let length = i32::from_be_bytes(*bytes.get(at..)?.first_chunk()?);
    let start = at + 4;
    match usize::try_from(length) {
        Ok(length) => {
            let end = start.checked_add(length).filter(|&end| end <= bytes.len())?;
            Some((Some(Field::binary(start..end)), end))
        }
        Err(_) if length == -1 => Some((Some(Field::Null), start)),
        Err(_) => Some((None, start)),
    }
}

fn unfinished(last: bool) -> Step {
    if last { Step::GaveUp("data ends too early") } else { Step::More }
}

impl Split for BinarySplitter {
    #[inline]
    fn step(&mut self, bytes: &[u8], last: bool, fields: &mut Vec<Field>) -> Step {
        match self.stage {
            Stage::Header => self.header(bytes, last),
            Stage::Extension(remaining) => self.extension(bytes, remaining),
            Stage::Tuple { .. } => self.tuple(bytes, last, fields),
        }
    }
}
