//! The spelling of the journal: one JSON object a line. Pure; knows no file.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::record::{Action, Carrier, Fate, Id, Note, Origin, Place, Record};

/// One line, read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line {
    Record(Box<Record>),
    Fate(Id, Fate),
    Note(Note),
}

/// Why a line cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// Not JSON: part of a line.
    Torn,
    /// JSON, but nothing untwin writes.
    Foreign,
}

/// A record's members in the order in which they are written.
#[derive(Serialize)]
struct RecordLine<'a> {
    at: String,
    id: Uuid,
    fate: Fate,
    action: Action,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    database: &'a str,
    table: &'a str,
    constraint: &'a str,
    column: &'a str,
    old: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<Uuid>,
    #[serde(flatten)]
    place: Place,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<Place>,
    carrier: Carrier,
    identical: bool,
    #[serde(skip_serializing_if = "is_false")]
    suspected_redelivery: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    echoed_in: Vec<&'a str>,
    client: &'a str,
    user: &'a str,
    application: &'a str,
    session: &'a str,
}

#[derive(Serialize)]
struct FateLine {
    at: String,
    id: Uuid,
    fate: Fate,
}

#[derive(Serialize)]
struct NoteLine<'a> {
    at: String,
    note: &'a str,
    session: &'a str,
}

/// Appends the record's line to `out`, with its newline.
pub(super) fn write_record(record: &Record, out: &mut Vec<u8>) {
    let origin = &*record.origin;
    let line = RecordLine {
        at: spell(record.at),
        id: Uuid::from_u128(record.id.value()),
        fate: record.fate,
        action: record.action,
        reason: record.reason.as_deref(),
        database: &origin.database,
        table: &record.table,
        constraint: &record.constraint,
        column: &record.column,
        old: Uuid::from_u128(record.old),
        new: record.new.map(Uuid::from_u128),
        place: record.place,
        first: record.first,
        carrier: record.carrier,
        identical: record.identical,
        suspected_redelivery: record.suspected_redelivery,
        hint: record.hint.as_deref(),
        echoed_in: record.echoed_in.iter().map(|column| &**column).collect(),
        client: &origin.client,
        user: &origin.user,
        application: &origin.application,
        session: &origin.session,
    };
    write(&line, out);
}

/// Appends the line that settles a record to `out`, with its newline.
pub(super) fn write_fate(at: Timestamp, id: Id, fate: Fate, out: &mut Vec<u8>) {
    write(&FateLine { at: spell(at), id: Uuid::from_u128(id.value()), fate }, out);
}

/// Appends the note's line to `out`, with its newline.
pub(super) fn write_note(note: &Note, out: &mut Vec<u8>) {
    write(&NoteLine { at: spell(note.at), note: &note.note, session: &note.session }, out);
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_false(mark: &bool) -> bool {
    !mark
}

/// RFC 3339, UTC, with microseconds.
fn spell(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// A line of strings, numbers and fixed names has a JSON form and memory takes every byte: of the two
/// errors that serde_json knows, neither can occur.
fn write(line: &impl Serialize, out: &mut Vec<u8>) {
    let start = out.len();
    match serde_json::to_writer(&mut *out, line) {
        Ok(()) => out.push(b'\n'),
        Err(_) => out.truncate(start),
    }
}

/// Every member of every kind of line, so that one pass over the text reads any of them. Members that a
/// later version adds are passed over.
#[derive(Deserialize)]
struct AnyLine<'a> {
    at: Option<Timestamp>,
    id: Option<Uuid>,
    fate: Option<Fate>,
    action: Option<Action>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    database: Option<Cow<'a, str>>,
    #[serde(borrow)]
    table: Option<Cow<'a, str>>,
    #[serde(borrow)]
    constraint: Option<Cow<'a, str>>,
    #[serde(borrow)]
    column: Option<Cow<'a, str>>,
    old: Option<Uuid>,
    new: Option<Uuid>,
    statement: Option<u64>,
    row: Option<u64>,
    first: Option<Place>,
    carrier: Option<Carrier>,
    #[serde(default)]
    identical: bool,
    #[serde(default)]
    suspected_redelivery: bool,
    #[serde(borrow)]
    hint: Option<Cow<'a, str>>,
    #[serde(default)]
    echoed_in: Vec<String>,
    #[serde(borrow)]
    client: Option<Cow<'a, str>>,
    #[serde(borrow)]
    user: Option<Cow<'a, str>>,
    #[serde(borrow)]
    application: Option<Cow<'a, str>>,
    #[serde(borrow)]
    session: Option<Cow<'a, str>>,
    #[serde(borrow)]
    note: Option<Cow<'a, str>>,
}

/// Reads a line without its newline.
pub(super) fn read(line: &[u8]) -> Result<Line, Unusable> {
    let any = serde_json::from_slice::<AnyLine>(line).ok();
    any.and_then(AnyLine::into_line).ok_or_else(|| match serde_json::from_slice::<IgnoredAny>(line) {
        Ok(_) => Unusable::Foreign,
        Err(_) => Unusable::Torn,
    })
}

impl AnyLine<'_> {
    fn into_line(self) -> Option<Line> {
        if let Some(note) = self.note {
            let session = self.session?.into_owned();
            return Some(Line::Note(Note { at: self.at?, note: Cow::Owned(note.into_owned()), session }));
        }
        let id = Id::from_u128(self.id?.as_u128());
        let Some(action) = self.action else {
            return Some(Line::Fate(id, self.fate?));
        };
        let origin = Origin {
            database: self.database?.into_owned(),
            client: self.client?.into_owned(),
            user: self.user?.into_owned(),
            application: self.application?.into_owned(),
            session: self.session?.into_owned(),
        };
        Some(Line::Record(Box::new(Record {
            at: self.at?,
            id,
            fate: self.fate?,
            action,
            reason: self.reason.map(|reason| Cow::Owned(reason.into_owned())),
            table: Arc::from(self.table?),
            constraint: Arc::from(self.constraint?),
            column: Arc::from(self.column?),
            old: self.old?.as_u128(),
            new: self.new.map(|new| new.as_u128()),
            place: Place { statement: self.statement?, row: self.row? },
            first: self.first,
            carrier: self.carrier?,
            identical: self.identical,
            suspected_redelivery: self.suspected_redelivery,
            hint: self.hint.map(|hint| Cow::Owned(hint.into_owned())),
            echoed_in: self.echoed_in.into_iter().map(Arc::from).collect(),
            origin: Arc::new(origin),
        })))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn record(n: u128) -> Record {
        let at = Timestamp::from_microsecond(1_767_323_045_123_450).unwrap();
        Record {
            at,
            id: Id::new(at, n),
            fate: Fate::Pending,
            action: Action::Rekeyed,
            reason: None,
            table: "public.ev".into(),
            constraint: "ev_pkey".into(),
            column: "id".into(),
            old: 0x11111111_1111_4111_8111_111111111111,
            new: Some(0xabcdef00_2222_4222_8222_222222222222),
            place: Place { statement: 1, row: 3 },
            first: Some(Place { statement: 1, row: 1 }),
            carrier: Carrier::CopyCsv,
            identical: false,
            suspected_redelivery: false,
            hint: None,
            echoed_in: Vec::new(),
            origin: Arc::new(Origin::new("shop", "127.0.0.1:4711", "ann", "etl", "s1")),
        }
    }

    fn spelled(record: &Record) -> String {
        let mut out = Vec::new();
        write_record(record, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn members_stand_in_the_documented_order() {
        let expected = concat!(
            r#"{"at":"2026-01-02T03:04:05.123450Z","id":"019b7ca9-8d03-7000-8000-000000000007","fate":"pending","#,
            r#""action":"rekeyed","database":"shop","table":"public.ev","constraint":"ev_pkey","column":"id","#,
            r#""old":"11111111-1111-4111-8111-111111111111","new":"abcdef00-2222-4222-8222-222222222222","#,
            r#""statement":1,"row":3,"first":{"statement":1,"row":1},"carrier":"copy_csv","identical":false,"#,
            r#""client":"127.0.0.1:4711","user":"ann","application":"etl","session":"s1"}"#,
            "\n"
        );
        assert_eq!(spelled(&record(7)), expected);
    }

    #[test]
    fn what_is_absent_is_left_out() {
        let line = spelled(&Record { new: None, first: None, ..record(1) });
        for member in ["reason", "new", "first", "suspected_redelivery", "hint", "echoed_in"] {
            assert!(!line.contains(&format!("\"{member}\"")), "{member} in {line}");
        }
    }

    #[test]
    fn a_record_reads_back() {
        let all = Record {
            fate: Fate::Unknown,
            action: Action::Forwarded,
            reason: Some("guarded".into()),
            echoed_in: vec!["payload".into(), "a\nb".into()],
            identical: true,
            suspected_redelivery: true,
            hint: Some("do \"this\"".into()),
            ..record(2)
        };
        for record in [record(1), all, Record { new: None, first: None, ..record(3) }] {
            let line = spelled(&record);
            assert_eq!(line.matches('\n').count(), 1);
            assert_eq!(read(line.trim_end().as_bytes()), Ok(Line::Record(Box::new(record))));
        }
    }

    #[test]
    fn a_fate_and_a_note_read_back() {
        let (mut out, Record { at, id, .. }) = (Vec::new(), record(1));
        write_fate(at, id, Fate::RolledBack, &mut out);
        let note = Note { at, note: "limit \"x\" reached".into(), session: "s1".into() };
        write_note(&note, &mut out);
        let lines: Vec<_> =
            out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(read).collect();
        assert_eq!(lines, [Ok(Line::Fate(id, Fate::RolledBack)), Ok(Line::Note(note))]);
    }

    #[test]
    fn every_name_is_the_one_in_the_journal() {
        use {Action::*, Carrier::*, Fate::*};
        for fate in [Pending, Committed, RolledBack, Unknown] {
            assert_eq!(serde_json::to_value(fate).unwrap(), fate.name());
        }
        for action in [Rekeyed, Observed, Forwarded, Followed, Failed] {
            assert_eq!(serde_json::to_value(action).unwrap(), action.name());
        }
        for carrier in [Literal, Parameter, Array, CopyText, CopyCsv, CopyBinary, Json] {
            assert_eq!(serde_json::to_value(carrier).unwrap(), carrier.name());
        }
    }

    #[test]
    fn other_lines_are_told_apart() {
        let whole = spelled(&record(1));
        for (line, expected) in [
            (&whole[..whole.len() / 2], Unusable::Torn),
            (&whole[10..], Unusable::Torn),
            ("not json", Unusable::Torn),
            ("{}", Unusable::Foreign),
            ("[1,2]", Unusable::Foreign),
            (r#"{"id":"x"}"#, Unusable::Foreign),
            (r#"{"level":"info","note":"no session"}"#, Unusable::Foreign),
            (r#"{"id":"019b7ca9-8d03-7000-8000-000000000007","fate":"eaten"}"#, Unusable::Foreign),
            (r#"{"id":"019b7ca9-8d03-7000-8000-000000000007","action":"rekeyed"}"#, Unusable::Foreign),
        ] {
            assert_eq!(read(line.as_bytes()), Err(expected), "{line}");
        }
    }

    #[test]
    fn members_of_a_later_version_are_passed_over() {
        let line = spelled(&record(1)).replacen('{', r#"{"evidence":{"a":[1]},"#, 1);
        assert_eq!(read(line.trim_end().as_bytes()), Ok(Line::Record(Box::new(record(1)))));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, text: String) {
            let _ = (read(&bytes), read(text.as_bytes()));
        }

        #[test]
        fn names_of_any_shape_survive(table: String, application: String, echo: String) {
            let origin = Origin { application, ..Origin::default() };
            let record = Record {
                table: table.into(), echoed_in: vec![echo.into()], origin: Arc::new(origin), ..record(1)
            };
            let line = spelled(&record);
            proptest::prop_assert_eq!(line.matches('\n').count(), 1);
            proptest::prop_assert_eq!(read(line.trim_end().as_bytes()), Ok(Line::Record(Box::new(record))));
        }
    }
}
