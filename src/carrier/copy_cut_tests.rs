//! Where CopyData payloads begin and end changes nothing of what the COPY readers read.

use super::copy::{CARRY_LIMIT, CopyReader, Row, Status};
use super::copy_tests::{
    COLUMNS, binary, csv, forcing, read, show, text, with_default, with_escape, with_header, with_null,
};
use crate::sql::statement::{CopyFormat, ForceColumns};
use proptest::prelude::*;

/// A row as it was handed out, and the stream positions of its values' bytes.
type Read = (String, Vec<Vec<u64>>);

/// Reads `data` in payloads that end at `cuts`, with five bytes (a CopyData header) before each, and
/// checks that every piece stands where it is said to stand and had not been let go before.
fn read_cut(
    format: &CopyFormat,
    columns: usize,
    data: &[u8],
    cuts: &[usize],
    limit: usize,
) -> (Vec<Read>, Status) {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (data.len() + 1)).chain([data.len()]).collect();
    ends.sort_unstable();
    let mut reader = CopyReader::new(format, &COLUMNS[..columns], limit);
    let (mut rows, mut stream, mut safe, mut start) = (Vec::new(), Vec::new(), 0, 0);
    for end in ends {
        stream.extend([0xee; 5]);
        let at = stream.len() as u64;
        stream.extend(&data[start..end]);
        let mut sink = |row: Row<'_>| rows.push(located(row, &stream, safe));
        let now_safe = reader.feed(&data[start..end], at, &mut sink);
        assert!(now_safe >= safe && now_safe <= stream.len() as u64);
        (safe, start) = (now_safe, end);
        assert!(stream.len() as u64 - safe <= 6 * limit as u64, "holds back more than the limit");
    }
    reader.finish(&mut |row: Row<'_>| rows.push(located(row, &stream, safe)));
    (rows, reader.status())
}

fn located(row: Row<'_>, stream: &[u8], safe: u64) -> Read {
    let positions = row.fields.iter().filter_map(|field| field.range()).map(|range| {
        let mut expected = range.start;
        let mut positions = Vec::new();
        for (at, piece) in row.pieces(range.clone()) {
            assert_eq!(piece.start, expected);
            let here = at as usize..at as usize + piece.len();
            assert_eq!(&stream[here.clone()], &row.bytes[piece.clone()]);
            assert!(at >= safe, "the row's bytes had been let go");
            expected = piece.end;
            positions.extend(here.map(|position| position as u64));
        }
        assert_eq!(expected, range.end);
        positions
    });
    (show(row), positions.collect())
}

fn formats() -> impl Strategy<Value = CopyFormat> {
    let all = || ForceColumns::All;
    prop_oneof![
        Just(text()),
        Just(with_header(with_default(with_null(text(), "a"), "aa"))),
        Just(csv()),
        Just(with_header(with_default(with_null(csv(), "a"), "aa"))),
        Just(with_escape(with_null(csv(), "a"), b'\\')),
        Just(forcing(with_escape(with_null(csv(), "a"), b','), all(), ForceColumns::None)),
        Just(forcing(with_null(csv(), "a"), all(), all())),
        Just(CopyFormat::Binary),
    ]
}

/// Bytes in which everything that means something is frequent.
fn loaded_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(&b"a\t,\"\\\n.N"[..]), 0..60),
        prop::collection::vec(prop::sample::select(&b"a\t,\"\\\n\r."[..]), 0..30),
        prop::collection::vec(
            prop::sample::select(vec!["a\ta\n", "\"a\",a\n", "a,\"a\"\"\"\n", "\\N\ta\\\n\n", "\\.\n", "a"]),
            0..20
        )
        .prop_map(|pieces| pieces.concat().into_bytes()),
        prop::collection::vec(
            prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..5)), 2),
            0..6
        )
        .prop_map(|tuples| binary(3, &tuples)),
        prop::collection::vec(any::<u8>(), 0..60),
    ]
}

/// How Postgres' COPY TO writes a value as text, and what is to be read of it.
fn as_text(value: Option<&str>, delimiter: char) -> (String, String) {
    let Some(value) = value else {
        return ("\\N".into(), "null".into());
    };
    let written = value
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace(delimiter, &format!("\\{delimiter}"));
    let read = if written == value { format!("[{value}]") } else { format!("escaped[{written}]") };
    (written, read)
}

/// The same as CSV.
fn as_csv(value: Option<&str>, delimiter: char, quote_all: bool) -> (String, String) {
    let Some(value) = value else {
        return (String::new(), "null".into());
    };
    let special = |c| c == delimiter || matches!(c, '"' | '\n' | '\r' | '\\');
    if !quote_all && !value.is_empty() && !value.contains(special) {
        return (value.into(), format!("[{value}]"));
    }
    let written = format!("\"{}\"", value.replace('"', "\"\""));
    let read = if value.contains('"') { format!("escaped[{written}]") } else { format!("[{value}]") };
    (written, read)
}

proptest! {
    #[test]
    fn rows_are_read_as_they_were_written(
        rows in prop::collection::vec(
            prop::collection::vec(prop::option::of("[a\t,;|\"\\\\\n\ré日N.]{0,5}"), 3),
            0..8,
        ),
        delimiter in prop::sample::select(vec!['\t', ',', ';', '|', '~', '\u{1}', ' ']),
        line_end in prop::sample::select(vec!["\n", "\r", "\r\n"]),
        is_csv: bool,
        quote_all: bool,
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let mut format = if is_csv { csv() } else { text() };
        if let CopyFormat::Text { delimiter: byte, .. } | CopyFormat::Csv { delimiter: byte, .. } = &mut format {
            *byte = delimiter as u8;
        }
        let (mut data, mut expected) = (String::new(), Vec::new());
        for (index, row) in rows.iter().enumerate() {
            let (written, read): (Vec<String>, Vec<String>) = row
                .iter()
                .map(Option::as_deref)
                .map(|value| if is_csv { as_csv(value, delimiter, quote_all) } else { as_text(value, delimiter) })
                .unzip();
            data += &(written.join(&delimiter.to_string()) + line_end);
            expected.push(format!("{}: {}", index + 1, read.join(" ")));
        }
        let (read, status) = read_cut(&format, 3, data.as_bytes(), &cuts, CARRY_LIMIT);
        prop_assert_eq!(read.into_iter().map(|(row, _)| row).collect::<Vec<_>>(), expected);
        prop_assert_eq!(status, Status::Ended);
    }

    #[test]
    fn cutting_changes_nothing(
        format in formats(),
        columns in 1usize..=2,
        data in loaded_bytes(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let (whole, status) = read(&format, columns, &data);
        let (cut, cut_status) = read_cut(&format, columns, &data, &cuts, CARRY_LIMIT);
        let rows: Vec<String> = cut.into_iter().map(|(row, _)| row).collect();
        prop_assert_eq!(rows, whole);
        prop_assert_eq!(cut_status, status);
    }

    #[test]
    fn every_byte_may_come_alone(format in formats(), columns in 1usize..=2, data in loaded_bytes()) {
        let cuts: Vec<usize> = (0..data.len()).collect();
        let (whole, status) = read(&format, columns, &data);
        let (cut, cut_status) = read_cut(&format, columns, &data, &cuts, CARRY_LIMIT);
        prop_assert_eq!(cut.iter().map(|(row, _)| row).collect::<Vec<_>>(), whole.iter().collect::<Vec<_>>());
        prop_assert_eq!(cut_status, status);
    }

    #[test]
    fn past_the_limit_the_rest_is_let_go(
        format in formats(),
        data in loaded_bytes(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let (rows, status) = read_cut(&format, 2, &data, &cuts, 24);
        let (whole, _) = read(&format, 2, &data);
        prop_assert!(rows.len() <= whole.len());
        prop_assert!(rows.len() == whole.len() || status == Status::GaveUp("row too long"));
        for ((row, _), expected) in rows.iter().zip(&whole) {
            prop_assert_eq!(row, expected);
        }
    }
}

#[test]
fn a_value_in_three_payloads_has_three_pieces() {
    let mut reader = CopyReader::new(&text(), &["a", "b"], CARRY_LIMIT);
    let mut pieces = Vec::new();
    let mut collect = |row: Row<'_>| pieces.extend(row.pieces(row.fields[1].range().unwrap()));
    assert_eq!(reader.feed(b"r\tow\na\tbc", 10, &mut collect), 15);
    assert_eq!(reader.feed(b"de", 100, &mut collect), 15);
    assert_eq!(reader.feed(b"f\n", 200, &mut collect), 202);
    assert_eq!(pieces, [(12, 2..4), (17, 2..4), (100, 4..6), (200, 6..7)]);
}

#[test]
fn a_long_row_in_tiny_payloads_costs_no_more_than_its_length() {
    let mut reader = CopyReader::new(&csv(), &["a"], usize::MAX);
    let mut rows = 0;
    let mut count = |_: Row<'_>| rows += 1;
    reader.feed(b"\"", 0, &mut count);
    // Quadratic reading would look at 10¹¹ bytes here.
    for at in 0..500_000 {
        assert_eq!(reader.feed(b"\n", 6 * (at + 1), &mut count), 0);
    }
    reader.feed(b"\"\n", 6_000_000, &mut count);
    assert_eq!(rows, 1);
}
