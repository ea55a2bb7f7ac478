//! Whether two rows say the same: a hash of what they hold, column by column, by type where that is cheap.
//! Keeps no value, and knows no statement.

use super::plan::Plan;
use super::policy::Policy;
use super::references::Row;
use super::rows::{Place, Slot};
use super::value::{Value, without_trailing_spaces};
use super::window::RowHash;
use crate::carrier::Carrier;
use crate::catalog::model::{Column, ColumnKind, DefaultKind};
use crate::key;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How the values of one column are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Position in `Table::columns`.
    column: usize,
    kind: ColumnKind,
    form: Form,
    /// The type's oid, where it is one of the common ones.
    oid: Option<u32>,
    /// To leave the column out is to store NULL.
    null_by_default: bool,
    /// Differs between two deliveries of one fact.
    volatile: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Integer,
    Bool,
    /// Values are the same where their bytes are, in the same format and of the same declared type.
    Bytes,
}

/// Types whose values are made by the server or stand for its clock, as `format_type` prints them.
const VOLATILE_TYPES: &[&str] = &["pg_lsn", "pg_snapshot", "tid", "txid_snapshot", "xid", "xid8", "cid"];

/// For each value of a row, how it is told apart.
#[must_use]
pub fn measures(plan: &Plan, policy: &Policy) -> Vec<Measure> {
    let measure = |&column: &usize| {
        let known = plan.table.columns.get(column);
        Measure {
            column,
            kind: known.map_or(ColumnKind::Other, |column| column.kind),
            form: known.map_or(Form::Bytes, form),
            oid: known.and_then(type_oid),
            null_by_default: known.is_some_and(|column| column.default == DefaultKind::Null),
            volatile: known.is_some_and(|known| is_volatile(known, policy)),
        }
    };
    plan.inputs.iter().map(measure).collect()
}

/// Types that parameters are often declared with, as `format_type` prints them, and their oids (`pg_type.dat`).
const TYPES: &[(&str, u32)] = &[
    ("bytea", 17),
    ("date", 1082),
    ("double precision", 701),
    ("interval", 1186),
    ("json", 114),
    ("jsonb", 3802),
    ("numeric", 1700),
    ("real", 700),
    ("time without time zone", 1083),
    ("timestamp with time zone", 1184),
    ("timestamp without time zone", 1114),
];

fn type_oid(column: &Column) -> Option<u32> {
    TYPES.iter().find(|(name, _)| *name == &*column.type_name).map(|(_, oid)| *oid)
}

fn form(column: &Column) -> Form {
    match &*column.type_name {
        "smallint" | "integer" | "bigint" => Form::Integer,
        "boolean" => Form::Bool,
        _ => Form::Bytes,
    }
}

/// Whether a column differs between two deliveries of one fact. By name, or by type: what the server makes anew for each row (serial and identity columns, surrogate keys), what
/// stands for its log or its transactions, and times that it can take from its clock.
#[must_use]
pub fn is_volatile(column: &Column, policy: &Policy) -> bool {
    let is_time = column.type_name.starts_with("timestamp");
    policy.is_volatile(&column.name)
        || column.identity
        || column.default == DefaultKind::Volatile
        || column.default == DefaultKind::Stable && is_time
        || VOLATILE_TYPES.contains(&&*column.type_name)
}

/// Hashes a row. The order of its column list does not matter, nor whether it spells a default or leaves it out.
#[must_use]
pub fn row_hash(
    measures: &[Measure],
    carrier: Option<Carrier>,
    seed: u64,
    row: Row,
    slots: &[Slot],
) -> RowHash {
    let mut hash = RowHash::default();
    let mut known = true;
    for (slot, measure) in slots.iter().zip(measures) {
        let Some(content) = content(slot, measure, carrier) else { continue };
        let part = |form: u64, bytes: &[u8]| {
            let column = (measure.column as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            xxh3_64_with_seed(bytes, seed ^ column ^ form.wrapping_mul(0xc2b2_ae3d_27d4_eb4f)) as u32
        };
        let steady = match content {
            Content::Number(form, number) => part(form, &number.to_be_bytes()),
            Content::Bytes(form, bytes) => part(form, bytes),
            Content::Folded(form, bytes) => part(form, &bytes.to_ascii_lowercase()),
        };
        // What may come out anew each time is equal to no other.
        let all = if may_differ(slot) {
            part(form::UNIQUE, &(u64::from(row.0) << 32 | u64::from(row.1)).to_be_bytes())
        } else {
            steady
        };
        hash.all = hash.all.wrapping_add(all);
        if !measure.volatile {
            hash.steady = hash.steady.wrapping_add(steady);
            known &= !slot.is_unknown();
        }
    }
    hash.steady = if known { hash.steady.max(RowHash::NOT_KNOWN + 1) } else { RowHash::NOT_KNOWN };
    hash
}

/// Whether the same text may stand for another value: an array whose elements are not known, or a call.
fn may_differ(slot: &Slot) -> bool {
    let Value::Expression { text, .. } = slot.value else { return slot.is_unknown() };
    // The same from the beginning of the transaction to its end.
    let is_constant = |name: &[u8]| text.eq_ignore_ascii_case(name);
    !is_constant(b"now()")
        && !is_constant(b"transaction_timestamp()")
        && (text.contains(&b'(') || names_the_session(text))
}

/// Whether an expression without a call may still depend on a setting: CURRENT_USER, CURRENT_SCHEMA and the like.
fn names_the_session(text: &[u8]) -> bool {
    let words = text.split(|byte| !byte.is_ascii_alphabetic());
    let mut words = words.map(<[u8]>::to_ascii_lowercase);
    words.any(|word| matches!(&word[..], b"user" | b"role" | b"schema" | b"catalog"))
}

/// What two values share if they are the same: a form, and a number or bytes.
enum Content<'a> {
    Number(u64, u128),
    Bytes(u64, &'a [u8]),
    /// Bytes of which case is no part.
    Folded(u64, &'a [u8]),
}

/// Values of different forms are never the same.
mod form {
    pub const NULL: u64 = 1;
    pub const INTEGER: u64 = 2;
    pub const BOOL: u64 = 3;
    pub const UUID: u64 = 4;
    pub const TEXT: u64 = 5;
    pub const UNIQUE: u64 = 6;
    /// And the carrier: each undoes escapes in its own way.
    pub const RAW: u64 = 0x100;
    /// And the type's oid.
    pub const TYPED: u64 = 1 << 40;
    pub const BINARY: u64 = 2 << 40;
    /// And a hash of what it reads.
    pub const EXPRESSION: u64 = 1 << 63;
}

/// `None` for what is as if it had been left out.
fn content<'a>(slot: &Slot<'a>, measure: &Measure, carrier: Option<Carrier>) -> Option<Content<'a>> {
    if let Some(uuid) = uuid(&slot.value, measure.kind) {
        return Some(Content::Number(form::UUID, uuid));
    }
    let by_type = match measure.form {
        Form::Integer => integer(&slot.value).map(|number| Content::Number(form::INTEGER, number)),
        Form::Bool => boolean(&slot.value).map(|truth| Content::Number(form::BOOL, u128::from(truth))),
        Form::Bytes => None,
    };
    by_type.or_else(|| by_bytes(slot, measure, carrier))
}

fn by_bytes<'a>(slot: &Slot<'a>, measure: &Measure, carrier: Option<Carrier>) -> Option<Content<'a>> {
    // To declare the column's own type is to say nothing.
    let declared = |oid: u32| if Some(oid) == measure.oid { 0 } else { u64::from(oid) };
    Some(match slot.value {
        Value::Default => return None,
        Value::Null if measure.null_by_default => return None,
        Value::Null => Content::Number(form::NULL, 0),
        Value::Text(bytes) => match measure.kind {
            ColumnKind::Citext => Content::Folded(form::TEXT, bytes),
            ColumnKind::Char => Content::Bytes(form::TEXT, without_trailing_spaces(bytes)),
            _ => Content::Bytes(form::TEXT, bytes),
        },
        Value::Typed { bytes, oid } if declared(oid) == 0 => Content::Bytes(form::TEXT, bytes),
        Value::Typed { bytes, oid } => Content::Bytes(form::TYPED | u64::from(oid), bytes),
        Value::Binary { bytes, oid } => Content::Bytes(form::BINARY | declared(oid), bytes),
        Value::Uuid(uuid) => Content::Number(form::UUID, uuid),
        Value::Expression { text, inputs } => Content::Bytes(form::EXPRESSION ^ inputs, text),
        Value::Unknown(bytes) => {
            let source = match (carrier, &slot.place) {
                (Some(carrier), _) => carrier as u64,
                (None, Place::Bind(_)) => Carrier::Parameter as u64,
                (None, _) => Carrier::Literal as u64,
            };
            Content::Bytes(form::RAW | source, bytes)
        }
    })
}

/// The UUID that is stored; of text only where the value is printed anew, or spelled as it would be.
fn uuid(value: &Value, kind: ColumnKind) -> Option<u128> {
    let uuid = value.uuid(kind)?;
    match value {
        Value::Text(text) if kind != ColumnKind::Uuid => {
            let canonical = key::canonical(uuid);
            let text = without_trailing_spaces(text);
            (text == canonical || kind == ColumnKind::Citext && text.eq_ignore_ascii_case(&canonical))
                .then_some(uuid)
        }
        _ => Some(uuid),
    }
}

/// Type oids of parameters (`pg_type.dat`); 0 where the column decides.
mod oid {
    pub const BOOL: u32 = 16;
    pub const INTEGERS: [u32; 4] = [0, 20, 21, 23];
    pub const UNKNOWN: u32 = 705;
}

/// The number of an integer column, as its input function or its binary format has it.
fn integer(value: &Value) -> Option<u128> {
    let number = match *value {
        Value::Text(text) => decimal(text)?,
        Value::Typed { bytes, oid } if oid::INTEGERS.contains(&oid) || oid == oid::UNKNOWN => decimal(bytes)?,
        Value::Binary { bytes, oid } if oid::INTEGERS.contains(&oid) => match *bytes {
            [a, b] => i16::from_be_bytes([a, b]).into(),
            [a, b, c, d] => i32::from_be_bytes([a, b, c, d]).into(),
            _ => i64::from_be_bytes(bytes.try_into().ok()?),
        },
        _ => return None,
    };
    Some(u128::from(number.cast_unsigned()))
}

/// `int8in`'s decimal form: a sign or none, digits, white space around them.
fn decimal(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(trimmed(text)).ok()?.parse().ok()
}

/// The truth value of a boolean column. `boolin` takes every beginning of the words that is not ambiguous.
fn boolean(value: &Value) -> Option<bool> {
    match *value {
        Value::Text(text) => truth(text),
        Value::Typed { bytes, oid: 0 | oid::BOOL | oid::UNKNOWN } => truth(bytes),
        Value::Binary { bytes: &[byte], oid: 0 | oid::BOOL } => Some(byte != 0),
        _ => None,
    }
}

fn truth(text: &[u8]) -> Option<bool> {
    let word = trimmed(text);
    let begins = |whole: &[u8], least: usize| {
        let beginning = whole.get(..word.len()).filter(|_| word.len() >= least);
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(word))
    };
    if begins(b"true", 1) || begins(b"yes", 1) || begins(b"on", 2) || word == b"1" {
        return Some(true);
    }
    (begins(b"false", 1) || begins(b"no", 1) || begins(b"off", 2) || word == b"0").then_some(false)
}

/// Without white space as C's `isspace` knows it.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r');
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    text.get(start..end).unwrap_or_default()
}

#[cfg(test)]
#[path = "likeness_tests.rs"]
mod tests;
