//! One value of a row, as far as equality of keys goes. Knows how values are compared, not where they stand.

use crate::catalog::model::{Column, ColumnKind};
use crate::key;
use crate::sql::insert::Cast;

/// A value on its way into a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Null,
    /// `DEFAULT`, or left out.
    Default,
    /// The bytes are the value's text.
    Text(&'a [u8]),
    /// Binary format; `oid` is the declared type, 0 if none was declared.
    Binary {
        bytes: &'a [u8],
        oid: u32,
    },
    /// The text of a value of the declared type `oid`.
    Typed {
        bytes: &'a [u8],
        oid: u32,
    },
    /// A UUID that is printed anew on its way into a text column.
    Uuid(u128),
    /// Cannot be compared; the bytes still tell identical rows apart.
    Unknown(&'a [u8]),
    /// Likewise: what the server makes of an expression. `inputs` is a hash of the parameters it reads.
    Expression {
        text: &'a [u8],
        inputs: u64,
    },
}

/// Type oids that a parameter may be declared with (`pg_type.dat`).
mod oid {
    pub const TEXT: u32 = 25;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const UNKNOWN: u32 = 705;
    pub const UUID: u32 = 2950;
}

/// Types of Postgres' own whose text tells the value, under the same settings: `bool`, `bytea`, `name`, numbers,
/// `text`, `oid`, dates and times, `money`, networks, bits, `uuid`, `jsonb`.
const READABLE: &[u32] = &[
    16, 17, 19, 20, 21, 23, 25, 26, 650, 700, 701, 774, 790, 829, 869, 1042, 1043, 1082, 1083, 1114, 1184,
    1186, 1266, 1560, 1562, 1700, 2950, 3802,
];

/// Oids from here on are not Postgres' own.
const FIRST_USER_OID: u32 = 16_384;

impl<'a> Value<'a> {
    /// What a quoted literal without escapes becomes in a column of this kind.
    #[must_use]
    pub fn literal(bytes: &'a [u8], cast: Cast, column: ColumnKind) -> Self {
        match (column, cast) {
            (_, Cast::None) => Self::Text(bytes),
            (ColumnKind::Uuid, Cast::Uuid | Cast::TextThenUuid) => Self::Text(bytes),
            (ColumnKind::Text | ColumnKind::Char | ColumnKind::Citext, Cast::Text) => Self::Text(bytes),
            (
                ColumnKind::Text | ColumnKind::Char | ColumnKind::Citext,
                Cast::Uuid | Cast::UuidThenText | Cast::TextThenUuid,
            ) => key::parse(bytes).map_or(Self::Unknown(bytes), Self::Uuid),
            _ => Self::Unknown(bytes),
        }
    }

    /// What a parameter becomes in a column of this kind. An undeclared parameter (`declared` 0) takes the
    /// type of the innermost cast, or the column's.
    #[must_use]
    pub fn parameter(bytes: &'a [u8], binary: bool, declared: u32, cast: Cast, column: ColumnKind) -> Self {
        if !binary && matches!(declared, 0 | oid::UNKNOWN) {
            return Self::literal(bytes, cast, column);
        }
        let is_uuid = declared == oid::UUID
            || declared == 0
                && match cast {
                    Cast::Uuid | Cast::UuidThenText => true,
                    Cast::None => column == ColumnKind::Uuid,
                    Cast::Text | Cast::TextThenUuid | Cast::Other => false,
                };
        let is_text = matches!(declared, oid::TEXT | oid::VARCHAR | oid::BPCHAR)
            || declared == 0
                && match cast {
                    Cast::Text | Cast::TextThenUuid => true,
                    Cast::None => matches!(column, ColumnKind::Text | ColumnKind::Char | ColumnKind::Citext),
                    _ => false,
                };
        if is_uuid {
            let value =
                if binary { bytes.try_into().ok().map(u128::from_be_bytes) } else { key::parse(bytes) };
            return match (value, column, cast) {
                (None, _, _) | (_, ColumnKind::Other, _) | (_, _, Cast::Other) => Self::Unknown(bytes),
                (Some(value), _, _) => Self::Uuid(value),
            };
        }
        match (column, cast) {
            (ColumnKind::Uuid, Cast::Uuid | Cast::TextThenUuid) if is_text => Self::Text(bytes),
            (ColumnKind::Text | ColumnKind::Char | ColumnKind::Citext, Cast::None | Cast::Text)
                if is_text =>
            {
                Self::Text(bytes)
            }
            (
                ColumnKind::Text | ColumnKind::Char | ColumnKind::Citext,
                Cast::Uuid | Cast::TextThenUuid | Cast::UuidThenText,
            ) if is_text => key::parse(bytes).map_or(Self::Unknown(bytes), Self::Uuid),
            (ColumnKind::Other, Cast::None) if binary => Self::Binary { bytes, oid: declared },
            // Of another type than the column, the same text may become another value.
            (ColumnKind::Other, Cast::None) => Self::Typed { bytes, oid: declared },
            _ => Self::Unknown(bytes),
        }
    }

    /// A COPY field or an array element: the column's own input function reads it.
    #[must_use]
    pub fn field(bytes: &'a [u8], binary: bool, column: ColumnKind) -> Self {
        Self::parameter(bytes, binary, 0, Cast::None, column)
    }

    /// The UUID this value is in a column of the kind, if it is one.
    #[must_use]
    pub fn uuid(&self, column: ColumnKind) -> Option<u128> {
        match (*self, column) {
            (Self::Uuid(value), _) => Some(value),
            (Self::Text(bytes), ColumnKind::Uuid) => key::parse(bytes),
            (Self::Text(bytes), ColumnKind::Text | ColumnKind::Citext) => key::parse_in_text(bytes),
            (Self::Text(bytes), ColumnKind::Char) => key::parse_in_text(without_trailing_spaces(bytes)),
            _ => None,
        }
    }

    /// Whether the key stands in the value: as the value, or somewhere in its text.
    #[must_use]
    pub fn mentions(&self, uuid: u128) -> bool {
        match *self {
            Self::Uuid(value) => value == uuid,
            Self::Text(bytes)
            | Self::Unknown(bytes)
            | Self::Typed { bytes, .. }
            | Self::Expression { text: bytes, .. } => key::find_all(bytes).any(|value| value == uuid),
            Self::Binary { bytes, .. } => {
                memchr::memmem::find(bytes, &uuid.to_be_bytes()).is_some()
                    || key::find_all(bytes).any(|value| value == uuid)
            }
            Self::Null | Self::Default => false,
        }
    }

    /// Appends a form that is equal for equal values of the column kind. `false` if the value cannot be
    /// compared (then nothing useful was appended).
    pub(super) fn encode(&self, column: ColumnKind, out: &mut Vec<u8>) -> bool {
        match (*self, column) {
            (Self::Null | Self::Default | Self::Unknown(_) | Self::Expression { .. }, _) => return false,
            (Self::Text(_) | Self::Typed { .. }, ColumnKind::ByName) => return false,
            (Self::Binary { oid: oid::TEXT | oid::VARCHAR | oid::BPCHAR, .. }, ColumnKind::ByName) => {
                return false;
            }
            // A type of the users' is read as the column is, as a rule its own.
            (Self::Typed { oid, .. }, _)
                if !(READABLE.contains(&oid) || oid >= FIRST_USER_OID && column == ColumnKind::Other) =>
            {
                return false;
            }
            (_, ColumnKind::Uuid) => {
                let Some(value) = self.uuid(column) else { return false };
                out.extend_from_slice(&value.to_be_bytes());
            }
            (Self::Uuid(value), ColumnKind::Text | ColumnKind::Char | ColumnKind::Citext) => {
                sized(out, 0, &key::canonical(value));
            }
            (Self::Text(bytes), ColumnKind::Citext) => {
                sized(out, 0, bytes);
                let start = out.len() - bytes.len();
                if let Some(text) = out.get_mut(start..) {
                    text.make_ascii_lowercase();
                }
            }
            (Self::Text(bytes), ColumnKind::Char) => sized(out, 0, without_trailing_spaces(bytes)),
            (Self::Text(bytes), _) => sized(out, 0, bytes),
            (Self::Binary { bytes, oid }, _) => sized(out, oid | 1 << 31, bytes),
            (Self::Typed { bytes, oid }, _) => sized(out, oid, bytes),
            (Self::Uuid(_), ColumnKind::Other | ColumnKind::BySettings | ColumnKind::ByName) => return false,
        }
        true
    }

    /// How the value is spelled: two of one form are equal only if they are encoded alike. `None`: equal values
    /// may be spelled in several ways.
    pub(super) fn form(&self, column: &Column) -> Option<u32> {
        if column.kind != ColumnKind::Other {
            return Some(0);
        }
        let integer = || matches!(&*column.type_name, "smallint" | "integer" | "bigint");
        match *self {
            Self::Text(bytes) if integer() && is_plain_integer(bytes) => Some(0),
            Self::Typed { bytes, oid } if integer() && is_plain_integer(bytes) => Some(oid),
            Self::Binary { oid, .. } => Some(oid | 1 << 31),
            _ => None,
        }
    }
}

fn sized(out: &mut Vec<u8>, form: u32, bytes: &[u8]) {
    out.extend_from_slice(&form.to_be_bytes());
    out.extend_from_slice(&bytes.len().to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Digits as an integer is printed.
fn is_plain_integer(text: &[u8]) -> bool {
    match text.strip_prefix(b"-").unwrap_or(text) {
        b"0" => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

pub(super) fn without_trailing_spaces(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    bytes.get(..end).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: &[u8] = b"abcdef00-1111-4111-8111-111111111111";
    const V: u128 = 0xabcdef00_1111_4111_8111_111111111111;

    #[test]
    fn a_key_is_found_in_every_way_it_travels() {
        let upper = K.to_ascii_uppercase();
        for (value, column) in [
            (Value::literal(K, Cast::None, ColumnKind::Uuid), ColumnKind::Uuid),
            (Value::literal(&upper, Cast::TextThenUuid, ColumnKind::Uuid), ColumnKind::Uuid),
            (Value::literal(K, Cast::UuidThenText, ColumnKind::Text), ColumnKind::Text),
            (Value::parameter(&V.to_be_bytes(), true, 0, Cast::None, ColumnKind::Uuid), ColumnKind::Uuid),
            (Value::parameter(&V.to_be_bytes(), true, 2950, Cast::Uuid, ColumnKind::Uuid), ColumnKind::Uuid),
            (Value::parameter(K, true, 25, Cast::TextThenUuid, ColumnKind::Uuid), ColumnKind::Uuid),
            (Value::parameter(K, true, 0, Cast::TextThenUuid, ColumnKind::Uuid), ColumnKind::Uuid),
            (Value::parameter(K, false, 1043, Cast::Uuid, ColumnKind::Uuid), ColumnKind::Uuid),
            (Value::parameter(K, false, 2950, Cast::None, ColumnKind::Uuid), ColumnKind::Uuid),
            (Value::parameter(K, false, 0, Cast::None, ColumnKind::Uuid), ColumnKind::Uuid),
            (Value::parameter(K, true, 0, Cast::None, ColumnKind::Text), ColumnKind::Text),
        ] {
            assert_eq!(value.uuid(column), Some(V), "{value:?}");
        }
    }

    #[test]
    fn what_may_change_on_the_way_is_unknown() {
        assert_eq!(Value::literal(K, Cast::Other, ColumnKind::Text), Value::Unknown(K));
        assert_eq!(Value::parameter(K, true, 17, Cast::None, ColumnKind::Uuid), Value::Unknown(K));
        assert_eq!(
            Value::parameter(b"short", true, 2950, Cast::None, ColumnKind::Uuid),
            Value::Unknown(b"short")
        );
    }

    #[test]
    fn equality_is_that_of_the_column() {
        let encoded = |value: Value, column| {
            let mut out = Vec::new();
            value.encode(column, &mut out).then_some(out)
        };
        let upper = K.to_ascii_uppercase();
        assert_eq!(encoded(Value::Text(K), ColumnKind::Uuid), encoded(Value::Text(&upper), ColumnKind::Uuid));
        assert_ne!(encoded(Value::Text(K), ColumnKind::Text), encoded(Value::Text(&upper), ColumnKind::Text));
        assert_eq!(
            encoded(Value::Text(K), ColumnKind::Citext),
            encoded(Value::Text(&upper), ColumnKind::Citext)
        );
        assert_eq!(
            encoded(Value::Text(b"a  "), ColumnKind::Char),
            encoded(Value::Text(b"a"), ColumnKind::Char)
        );
        assert_eq!(encoded(Value::Uuid(V), ColumnKind::Text), encoded(Value::Text(K), ColumnKind::Text));
        assert_ne!(
            encoded(Value::Text(b"1"), ColumnKind::Other),
            encoded(Value::Binary { bytes: b"1", oid: 0 }, ColumnKind::Other)
        );
        let typed = |oid| Value::parameter(b"0.1", false, oid, Cast::None, ColumnKind::Other);
        assert_eq!(encoded(typed(701), ColumnKind::Other), encoded(typed(701), ColumnKind::Other));
        assert_ne!(encoded(typed(700), ColumnKind::Other), encoded(typed(701), ColumnKind::Other));
        assert_eq!(encoded(Value::Unknown(b"1"), ColumnKind::Other), None);
        let named = [Value::Text(b"x"), typed(25), typed(2205), Value::Binary { bytes: b"x", oid: 25 }];
        for value in named {
            assert_eq!(encoded(value, ColumnKind::ByName), None, "{value:?}");
        }
        assert!(encoded(Value::Binary { bytes: b"1234", oid: 0 }, ColumnKind::ByName).is_some());
        assert!(encoded(Value::Text(b"now"), ColumnKind::BySettings).is_some());
        assert_eq!(encoded(typed(2205), ColumnKind::Other), None);
        assert!(encoded(typed(20_000), ColumnKind::Other).is_some());
        assert_eq!(encoded(typed(20_000), ColumnKind::BySettings), None);
    }

    #[test]
    fn only_what_is_spelled_in_one_way_has_a_form() {
        let column = |type_name: &str| Column {
            name: "c".into(),
            kind: ColumnKind::Other,
            default: crate::catalog::model::DefaultKind::Null,
            generated: false,
            identity: false,
            type_name: type_name.into(),
        };
        for (text, type_name, form) in [
            ("1", "integer", Some(0)),
            ("-10", "bigint", Some(0)),
            ("0", "smallint", Some(0)),
            ("01", "integer", None),
            ("-0", "integer", None),
            (" 1", "integer", None),
            ("", "integer", None),
            ("1", "numeric", None),
            ("2024-01-01", "date", None),
        ] {
            assert_eq!(Value::Text(text.as_bytes()).form(&column(type_name)), form, "{text} {type_name}");
        }
        let binary = Value::Binary { bytes: &[0, 0, 0, 1], oid: 23 };
        assert_ne!(binary.form(&column("integer")), Value::Text(b"1").form(&column("integer")));
        assert_eq!(Value::Null.form(&column("integer")), None);
    }
}
