//! The COPY readers held to what Postgres reads.

use super::Field;
use super::copy::{CARRY_LIMIT, CopyReader, Row, Status};
use crate::sql::statement::{CopyFormat, ForceColumns};

pub(super) fn text() -> CopyFormat {
    CopyFormat::Text { delimiter: b'\t', null: b"\\N".to_vec(), header: false, default: None }
}

pub(super) fn csv() -> CopyFormat {
    CopyFormat::Csv {
        delimiter: b',',
        quote: b'"',
        escape: b'"',
        null: Vec::new(),
        header: false,
        force_null: ForceColumns::None,
        force_not_null: ForceColumns::None,
        default: None,
    }
}

pub(super) fn with_header(mut format: CopyFormat) -> CopyFormat {
    if let CopyFormat::Text { header, .. } | CopyFormat::Csv { header, .. } = &mut format {
        *header = true;
    }
    format
}

pub(super) fn with_default(mut format: CopyFormat, marker: &str) -> CopyFormat {
    if let CopyFormat::Text { default, .. } | CopyFormat::Csv { default, .. } = &mut format {
        *default = Some(marker.into());
    }
    format
}

pub(super) fn with_escape(mut format: CopyFormat, byte: u8) -> CopyFormat {
    if let CopyFormat::Csv { escape, .. } = &mut format {
        *escape = byte;
    }
    format
}

pub(super) fn with_null(mut format: CopyFormat, string: &str) -> CopyFormat {
    if let CopyFormat::Text { null, .. } | CopyFormat::Csv { null, .. } = &mut format {
        *null = string.into();
    }
    format
}

pub(super) fn forcing(mut format: CopyFormat, nulls: ForceColumns, not_nulls: ForceColumns) -> CopyFormat {
    if let CopyFormat::Csv { force_null, force_not_null, .. } = &mut format {
        (*force_null, *force_not_null) = (nulls, not_nulls);
    }
    format
}

pub(super) fn show(row: Row<'_>) -> String {
    let shown: Vec<String> = row
        .fields
        .iter()
        .map(|field| {
            let bytes = String::from_utf8_lossy(field.of(row.bytes).unwrap_or_default());
            match field {
                Field::Null => "null".into(),
                Field::Default => "default".into(),
                Field::Text { .. } => format!("[{bytes}]"),
                Field::Escaped { .. } => format!("escaped[{bytes}]"),
                Field::Binary { .. } => format!("binary[{bytes}]"),
            }
        })
        .collect();
    format!("{}: {}", row.ordinal, shown.join(" "))
}

pub(super) const COLUMNS: [&str; 3] = ["a", "b", "c"];

/// The rows of `data` in one payload, and how it ended.
pub(super) fn read(format: &CopyFormat, columns: usize, data: &[u8]) -> (Vec<String>, Status) {
    let mut reader = CopyReader::new(format, &COLUMNS[..columns], CARRY_LIMIT);
    let mut rows = Vec::new();
    reader.feed(data, 0, &mut |row: Row<'_>| rows.push(show(row)));
    reader.finish(&mut |row: Row<'_>| rows.push(show(row)));
    (rows, reader.status())
}

fn assert_reads(format: &CopyFormat, columns: usize, data: &str, expected: &[&str]) {
    let (rows, status) = read(format, columns, data.as_bytes());
    assert_eq!(rows, expected, "{data:?} as {format:?}");
    assert_eq!(status, Status::Ended, "{data:?} as {format:?}");
}

fn assert_gives_up(format: &CopyFormat, columns: usize, data: &[u8], rows: usize, reason: &'static str) {
    let (read, status) = read(format, columns, data);
    assert_eq!((read.len(), status), (rows, Status::GaveUp(reason)), "{data:?} as {format:?}");
}

#[test]
fn text_is_read_as_postgres_reads_it() {
    for (columns, data, expected) in [
        (2, "", &[][..]),
        (2, "a\tb\nc\td\n", &["1: [a] [b]", "2: [c] [d]"]),
        (2, "a\tb\r\nc\td\r\n", &["1: [a] [b]", "2: [c] [d]"]),
        (2, "a\tb\rc\td\r", &["1: [a] [b]", "2: [c] [d]"]),
        (2, "a\tb\nc\td", &["1: [a] [b]", "2: [c] [d]"]),
        (2, "\\N\t\n", &["1: null []"]),
        (2, "\\N\\N\ta\\N\n", &["1: escaped[\\N\\N] escaped[a\\N]"]),
        (2, "a\\\tb\tc\n", &["1: escaped[a\\\tb] [c]"]),
        (2, "a\\\nb\tc\n", &["1: escaped[a\\\nb] [c]"]),
        (2, "a\\\\\tc\n", &["1: escaped[a\\\\] [c]"]),
        (2, "é\t日本\n", &["1: [é] [日本]"]),
        (2, "a\tb\n\\.\nrubbish", &["1: [a] [b]"]),
        (2, "a\tb\r\n\\.\r\nrubbish", &["1: [a] [b]"]),
        (2, "\\.\nrubbish", &[]),
        (2, "\\\\.\tb\n", &["1: escaped[\\\\.] [b]"]),
        (2, "a\tb\\", &["1: [a] escaped[b]"]),
        (2, "a\t\\N\\", &["1: [a] null"]),
        (1, "\n\n", &["1: []", "2: []"]),
    ] {
        assert_reads(&text(), columns, data, expected);
    }
}

#[test]
fn text_options_are_heeded() {
    let semicolons =
        CopyFormat::Text { delimiter: b';', null: Vec::new(), header: true, default: Some(b"D".to_vec()) };
    assert_reads(
        &semicolons,
        3,
        "x;y\na;;\\N\nD;\\D;DD\n",
        &["1: [a] null escaped[\\N]", "2: default escaped[\\D] [DD]"],
    );
    assert_reads(&with_header(text()), 2, "a\\\nb\tc\n1\t2\n", &["1: [1] [2]"]);
    assert_reads(&with_header(text()), 2, "a\tb", &[]);
    assert_reads(&with_header(text()), 2, "\\.\na\tb\n", &[]);
}

#[test]
fn text_that_postgres_refuses_is_given_up() {
    for (data, rows, reason) in [
        ("a\tb\nc\td\r\n", 1, "mixed line ends"),
        ("a\tb\r\nc\td\n", 1, "mixed line ends"),
        ("a\tb\r\nc\td\re\tf\r\n", 1, "mixed line ends"),
        ("a\tb\rc\td\n", 1, "mixed line ends"),
        ("a\tb\r\nc\\\r\n\td\r\n", 1, "mixed line ends"),
        ("a\n", 0, "wrong number of fields"),
        ("a\tb\tc\n", 0, "wrong number of fields"),
        ("a\tb\n\n", 1, "wrong number of fields"),
        ("a\tb\\.\n", 0, "end-of-copy marker not alone on its line"),
        ("a\tb\n\\.x\n", 1, "end-of-copy marker not alone on its line"),
        ("a\tb\n\\.", 1, "end-of-copy marker not alone on its line"),
        ("a\tb\n\\.\r\n", 1, "mixed line ends"),
    ] {
        assert_gives_up(&text(), 2, data.as_bytes(), rows, reason);
    }
}

#[test]
fn csv_is_read_as_postgres_reads_it() {
    for (columns, data, expected) in [
        (2, "", &[][..]),
        (2, "a,b\nc,d\n", &["1: [a] [b]", "2: [c] [d]"]),
        (2, "a,b\r\nc,d\r\n", &["1: [a] [b]", "2: [c] [d]"]),
        (2, "a,b\rc,d", &["1: [a] [b]", "2: [c] [d]"]),
        (2, ",\"\"\n", &["1: null []"]),
        (2, "\"a\",\"b,\nc\r\"\n", &["1: [a] [b,\nc\r]"]),
        (2, "\"a\"\"b\",\"\"\"\"\n", &["1: escaped[\"a\"\"b\"] escaped[\"\"\"\"]"]),
        (2, "a\"b,c\"d,e\n", &["1: escaped[a\"b,c\"d] [e]"]),
        (2, "\"a\"b,\"a\" \n", &["1: escaped[\"a\"b] escaped[\"a\" ]"]),
        (2, " \"a\",\"a\"\"\"\n", &["1: escaped[ \"a\"] escaped[\"a\"\"\"]"]),
        (2, "\\N,\\.\n", &["1: [\\N] [\\.]"]),
        (2, "a,b\n\\.\nrubbish\"", &["1: [a] [b]"]),
        (2, "a,b\n\\.x,b\n", &["1: [a] [b]", "2: [\\.x] [b]"]),
        (1, "\\.", &["1: [\\.]"]),
        (1, "\"\n\\.\n\"\n", &["1: [\n\\.\n]"]),
        (1, "\"\\.\"\n", &["1: [\\.]"]),
        (2, " a , b \n", &["1: [ a ] [ b ]"]),
        (2, "é,\"日本\"\n", &["1: [é] [日本]"]),
    ] {
        assert_reads(&csv(), columns, data, expected);
    }
}

#[test]
fn csv_options_are_heeded() {
    let backslash = with_escape(csv(), b'\\');
    assert_reads(&backslash, 2, "\"a\\\"b\",\"\\\\\"\n", &["1: escaped[\"a\\\"b\"] escaped[\"\\\\\"]"]);
    assert_reads(&backslash, 2, "\"a\\b\",\\\"c\"\n", &["1: escaped[\"a\\b\"] escaped[\\\"c\"]"]);
    assert_reads(&backslash, 1, "\"a\\\"\n\"\n", &["1: escaped[\"a\\\"\n\"]"]);
    assert_reads(&with_header(csv()), 2, "\"x\ny\",z\n1,2\n", &["1: [1] [2]"]);
    assert_reads(&with_header(csv()), 2, "\"x,y\n1,2\n", &[]);
    assert_reads(&with_null(csv(), "NULL"), 3, "NULL,\"NULL\",\n", &["1: null [NULL] []"]);
    assert_reads(&with_default(csv(), "D"), 3, "D,\"D\",DD\n", &["1: default [D] [DD]"]);
}

#[test]
fn csv_forces_null_and_not_null_by_column() {
    let b = || ForceColumns::Some(vec!["b".into()]);
    let format = forcing(with_null(csv(), "NULL"), b(), ForceColumns::None);
    assert_reads(&format, 2, "\"NULL\",\"NULL\"\n", &["1: [NULL] null"]);
    assert_reads(&format, 2, "NULL,N\"UL\"L\n", &["1: null null"]);
    assert_reads(&format, 2, "NULL,\"NU\"\n", &["1: null [NU]"]);
    assert_reads(&format, 2, "NULL,\"NULLS\"\n", &["1: null [NULLS]"]);
    let format = forcing(csv(), ForceColumns::All, ForceColumns::None);
    assert_reads(&format, 2, ",\"\"\n", &["1: null null"]);
    let format = forcing(with_null(csv(), "NULL"), ForceColumns::None, b());
    assert_reads(&format, 2, "NULL,NULL\n", &["1: null [NULL]"]);
    let format = forcing(csv(), ForceColumns::All, ForceColumns::All);
    assert_reads(&format, 2, ",\"\"\n", &["1: [] null"]);
}

#[test]
fn csv_of_one_column_is_given_up_where_the_marker_may_be_a_value() {
    let reason = "end-of-copy marker may be a value";
    assert_gives_up(&csv(), 1, b"a\n\\.\nb\n", 1, reason);
}

#[test]
fn csv_that_postgres_refuses_is_given_up() {
    for (data, rows, reason) in [
        ("a,b\n\"c,d\n", 1, "unterminated quoted field"),
        ("a,b\nc,d\r\n", 1, "mixed line ends"),
        ("a,b\r\nc,d\n", 1, "mixed line ends"),
        ("a,b\n\\.\r", 1, "mixed line ends"),
        ("a\n", 0, "wrong number of fields"),
        ("a,b,\"c\"\n", 0, "wrong number of fields"),
        ("a,b,c\n", 0, "wrong number of fields"),
    ] {
        assert_gives_up(&csv(), 2, data.as_bytes(), rows, reason);
    }
}

pub(super) fn binary(extension: usize, tuples: &[Vec<Option<Vec<u8>>>]) -> Vec<u8> {
    let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0".to_vec();
    data.extend((extension as i32).to_be_bytes());
    data.extend(vec![0xaa; extension]);
    for tuple in tuples {
        data.extend((tuple.len() as i16).to_be_bytes());
        for value in tuple {
            data.extend(value.as_ref().map_or(-1, |value| value.len() as i32).to_be_bytes());
            data.extend(value.as_deref().unwrap_or_default());
        }
    }
    data.extend((-1i16).to_be_bytes());
    data
}

#[test]
fn binary_is_read_as_postgres_reads_it() {
    let tuples = [vec![Some(b"ab".to_vec()), None], vec![Some(Vec::new()), Some(b"\xff\xff".to_vec())]];
    let expected = ["1: binary[ab] null", "2: binary[] binary[\u{fffd}\u{fffd}]"];
    for extension in [0, 1, 40] {
        let data = binary(extension, &tuples);
        assert_eq!(read(&CopyFormat::Binary, 2, &data).0, expected);
        // Without the trailer, and with rubbish behind it.
        assert_eq!(read(&CopyFormat::Binary, 2, &data[..data.len() - 2]).0, expected);
        assert_eq!(read(&CopyFormat::Binary, 2, &[&data[..], b"x"].concat()).0, expected);
    }
}

#[test]
fn binary_that_postgres_refuses_is_given_up() {
    let good = binary(0, &[vec![Some(b"ab".to_vec()), None]]);
    let changed = |at: usize, byte: u8| {
        let mut data = good.clone();
        data[at] = byte;
        data
    };
    for (data, rows, reason) in [
        (changed(0, b'X'), 0, "no binary COPY signature"),
        (changed(12, 1), 0, "unknown binary COPY flags"),
        (changed(11, 0x80), 0, "unknown binary COPY flags"),
        (changed(15, 0x80), 0, "invalid binary COPY header"),
        (changed(20, 3), 0, "wrong number of fields"),
        (changed(21, 0x80), 0, "invalid field length"),
        (good[..good.len() - 3].to_vec(), 0, "data ends too early"),
        (good[..10].to_vec(), 0, "data ends too early"),
        (good[..good.len() - 1].to_vec(), 1, "data ends too early"),
    ] {
        assert_gives_up(&CopyFormat::Binary, 2, &data, rows, reason);
    }
    // Flags in the lower half may be ignored.
    assert_eq!(read(&CopyFormat::Binary, 2, &changed(14, 7)).0.len(), 1);
}
