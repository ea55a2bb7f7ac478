//! The journal as a table for people. Pure: text is written to what it is given.

use std::borrow::Cow;
use std::io::{self, Write};

use jiff::Timestamp;
use uuid::Uuid;

use crate::journal::reader::Entry;
use crate::journal::record::{Note, Place, Record};

const HEADER: [&str; COLUMNS] = [
    "time",
    "fate",
    "action",
    "table",
    "column",
    "old → new",
    "statement/row",
    "client",
    "application",
    "remarks",
];
const COLUMNS: usize = 10;

/// How many rows are laid out together. Later ones keep the widths, or widen them.
const BLOCK: usize = 500;

enum Row {
    Cells(Box<[String; COLUMNS]>),
    /// Spans the columns.
    Text(String),
}

/// Lays entries out as rows, a block at a time.
#[derive(Default)]
pub(super) struct Table {
    /// In characters; all zero before the header is printed.
    widths: [usize; COLUMNS],
    block: Vec<Row>,
}

impl Table {
    /// Adds an entry, and prints the block when it is full.
    pub(super) fn add(&mut self, entry: &Entry, out: &mut impl Write) -> io::Result<()> {
        self.block.push(match entry {
            Entry::Record(record) => Row::Cells(Box::new(cells(record))),
            Entry::Note(note) => Row::Text(note_text(note)),
        });
        if self.block.len() < BLOCK { Ok(()) } else { self.print(out) }
    }

    /// Prints what has been added, under the header the first time.
    pub(super) fn print(&mut self, out: &mut impl Write) -> io::Result<()> {
        let block = std::mem::take(&mut self.block);
        if block.is_empty() {
            return Ok(());
        }
        let is_first = self.widths == [0; COLUMNS];
        let header = HEADER.map(str::to_owned);
        self.widen(&header);
        for row in &block {
            if let Row::Cells(cells) = row {
                self.widen(cells);
            }
        }
        if is_first {
            self.print_cells(&header, out)?;
        }
        for row in &block {
            match row {
                Row::Cells(cells) => self.print_cells(cells, out)?,
                Row::Text(text) => writeln!(out, "{text}")?,
            }
        }
        Ok(())
    }

    fn widen(&mut self, cells: &[String; COLUMNS]) {
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }

    fn print_cells(&self, cells: &[String; COLUMNS], out: &mut impl Write) -> io::Result<()> {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(self.widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        writeln!(out, "{}", line.trim_end())
    }
}

fn cells(record: &Record) -> [String; COLUMNS] {
    let old = Uuid::from_u128(record.old);
    [
        time(record.at),
        record.fate.name().replace('_', " "),
        record.action.name().to_owned(),
        printable(&record.table),
        printable(&record.column),
        record.new.map_or_else(|| old.to_string(), |new| format!("{old} → {}", Uuid::from_u128(new))),
        place(record.place),
        printable(&record.origin.client),
        printable(&record.origin.application),
        remarks(record),
    ]
}

fn note_text(note: &Note) -> String {
    format!("{}  {} (session {})", time(note.at), printable(&note.note), printable(&note.session))
}

fn time(at: Timestamp) -> String {
    format!("{at:.3}")
}

fn place(place: Place) -> String {
    format!("{}/{}", place.statement, place.row)
}

/// What is not the rule.
fn remarks(record: &Record) -> String {
    let mut remarks: Vec<Cow<'_, str>> = Vec::new();
    if let Some(reason) = &record.reason {
        remarks.push(reason.as_ref().into());
    }
    if let Some(first) = record.first {
        remarks.push(format!("first {}", place(first)).into());
    }
    if record.identical {
        remarks.push("identical".into());
    }
    if record.suspected_redelivery {
        remarks.push("suspected redelivery".into());
    }
    if !record.echoed_in.is_empty() {
        remarks.push(format!("echoed in {}", record.echoed_in.join(" ")).into());
    }
    if let Some(hint) = &record.hint {
        remarks.push(format!("hint: {hint}").into());
    }
    printable(&remarks.join(", "))
}

/// Escapes what would move the cursor or turn the reading direction: names come from clients.
pub(super) fn printable(text: &str) -> String {
    let moves = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if moves(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::record::{Action, Carrier, Fate, Id, Origin};
    use std::sync::Arc;

    fn record() -> Record {
        let at: Timestamp = "2026-01-02T03:04:05.123456Z".parse().unwrap();
        Record {
            at,
            id: Id::new(at, 1),
            fate: Fate::RolledBack,
            action: Action::Rekeyed,
            reason: None,
            table: "public.ev".into(),
            constraint: "ev_pkey".into(),
            column: "id".into(),
            old: 1,
            new: Some(2),
            place: Place { statement: 2, row: 3 },
            first: Some(Place { statement: 1, row: 1 }),
            carrier: Carrier::Literal,
            identical: true,
            suspected_redelivery: false,
            hint: None,
            echoed_in: vec!["payload".into()],
            origin: Arc::new(Origin::new("d", "127.0.0.1:5", "u", "etl", "s")),
        }
    }

    fn printed(entries: &[Entry]) -> String {
        let (mut table, mut out) = (Table::default(), Vec::new());
        for entry in entries {
            table.add(entry, &mut out).unwrap();
        }
        table.print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_aligned_and_nothing_is_cut() {
        let short = Record {
            new: None,
            first: None,
            identical: false,
            suspected_redelivery: true,
            hint: Some("do this".into()),
            echoed_in: Vec::new(),
            action: Action::Forwarded,
            reason: Some("guarded".into()),
            fate: Fate::Committed,
            ..record()
        };
        let note = Note { at: record().at, note: "limit reached".into(), session: "s7".into() };
        let text = printed(
            &[record(), short]
                .map(|r| Entry::Record(Box::new(r)))
                .into_iter()
                .chain([Entry::Note(note)])
                .collect::<Vec<_>>(),
        );
        let expected = "\
time                      fate         action     table      column  old → new                                                                    statement/row  client       application  remarks
2026-01-02T03:04:05.123Z  rolled back  rekeyed    public.ev  id      00000000-0000-0000-0000-000000000001 → 00000000-0000-0000-0000-000000000002  2/3            127.0.0.1:5  etl          first 1/1, identical, echoed in payload
2026-01-02T03:04:05.123Z  committed    forwarded  public.ev  id      00000000-0000-0000-0000-000000000001                                         2/3            127.0.0.1:5  etl          guarded, suspected redelivery, hint: do this
2026-01-02T03:04:05.123Z  limit reached (session s7)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_header_is_printed_once() {
        let entries = vec![Entry::Record(Box::new(record())); 2 * BLOCK + 1];
        let text = printed(&entries);
        assert_eq!(text.lines().count(), entries.len() + 1);
        assert_eq!(text.matches("statement/row").count(), 1);
    }

    #[test]
    fn nothing_is_printed_for_nothing() {
        assert_eq!(printed(&[]), "");
    }

    #[test]
    fn a_client_cannot_play_with_the_terminal() {
        let origin = Origin::new("d", "c", "u", "\x1b[2Ja\nb\u{202e}c\u{9b}é", "s");
        let text = printed(&[Entry::Record(Box::new(Record { origin: Arc::new(origin), ..record() }))]);
        assert!(text.contains(r"\u{1b}[2Ja\nb\u{202e}c\u{9b}é"), "{text}");
        assert_eq!(text.lines().count(), 2);
    }
}
