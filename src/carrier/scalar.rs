//! One value: the UUID key it holds, and the hash that tells equal rows. Knows not where values come from.

use super::Field;
use crate::catalog::model::ColumnKind;
use crate::key;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The UUID that a value written as `field` puts into a column of this kind; `bytes` are what was
/// read. `None` if it is no UUID, or one whose bytes are not its value.
///
/// Where it returns a key, [`key::overwrite`] on the field's range replaces it.
#[must_use]
pub fn key_of(kind: ColumnKind, field: Field, bytes: &[u8]) -> Option<u128> {
    let value = field.of(bytes)?;
    match (kind, field) {
        (ColumnKind::Uuid, Field::Text { .. }) => key::parse(value),
        (ColumnKind::Uuid, Field::Binary { .. }) => value.try_into().ok().map(u128::from_be_bytes),
        // The binary format of the text types is the text itself.
        (ColumnKind::Text | ColumnKind::Citext, Field::Text { .. } | Field::Binary { .. }) => {
            key::parse_in_text(value)
        }
        (ColumnKind::Char, Field::Text { .. } | Field::Binary { .. }) => {
            key::parse_in_text(without_trailing_spaces(value))
        }
        _ => None,
    }
}

fn without_trailing_spaces(value: &[u8]) -> &[u8] {
    let end = value.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    value.get(..end).unwrap_or_default()
}

/// A 64-bit hash of a row, value by value: two rows with the same hash hold, in all likelihood, the
/// same values written alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowHash(u64);

impl Default for RowHash {
    fn default() -> Self {
        Self(0x756e_7477_696e)
    }
}

impl RowHash {
    /// Adds the row's next value. What kind of field it is counts, its position does not.
    #[inline]
    pub fn add(&mut self, field: Field, bytes: &[u8]) {
        let kind = match field {
            Field::Null => 1,
            Field::Default => 2,
            Field::Text { .. } => 3,
            Field::Escaped { .. } => 4,
            Field::Binary { .. } => 5,
        };
        // Each value is hashed with the hash of all before it as the seed: order and borders count.
        let seed = (self.0 ^ kind).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = xxh3_64_with_seed(field.of(bytes).unwrap_or_default(), seed);
    }

    /// The hash of the values added so far.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// The hash of a row all of whose values stand in `bytes`.
#[must_use]
pub fn row_hash(fields: &[Field], bytes: &[u8]) -> u64 {
    let mut hash = RowHash::default();
    for &field in fields {
        hash.add(field, bytes);
    }
    hash.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const K: u128 = 0xabcdef00_1111_4111_8111_111111111111;
    const HYPHENS: &[u8] = b"abcdef00-1111-4111-8111-111111111111";

    fn text(bytes: &[u8]) -> Field {
        Field::text(0..bytes.len())
    }

    #[test]
    fn reads_keys_by_kind_and_format() {
        let odd: &[u8] = b"abcd-ef00-1111-4111-8111-1111-1111-1111";
        let padded: &[u8] = b"abcdef00-1111-4111-8111-111111111111  ";
        let raw = K.to_be_bytes();
        for (kind, field, bytes, key) in [
            (ColumnKind::Uuid, text(HYPHENS), HYPHENS, Some(K)),
            (ColumnKind::Uuid, text(odd), odd, Some(K)),
            (ColumnKind::Uuid, text(padded), padded, None),
            (ColumnKind::Uuid, Field::binary(0..16), &raw, Some(K)),
            (ColumnKind::Uuid, Field::binary(0..15), &raw, None),
            (ColumnKind::Uuid, Field::binary(0..36), HYPHENS, None),
            (ColumnKind::Uuid, Field::escaped(0..36), HYPHENS, None),
            (ColumnKind::Uuid, Field::Null, HYPHENS, None),
            (ColumnKind::Uuid, Field::Default, HYPHENS, None),
            (ColumnKind::Text, text(HYPHENS), HYPHENS, Some(K)),
            (ColumnKind::Text, Field::binary(0..36), HYPHENS, Some(K)),
            (ColumnKind::Text, text(odd), odd, None),
            (ColumnKind::Text, text(padded), padded, None),
            (ColumnKind::Text, Field::escaped(0..36), HYPHENS, None),
            (ColumnKind::Citext, text(HYPHENS), HYPHENS, Some(K)),
            (ColumnKind::Char, text(padded), padded, Some(K)),
            (ColumnKind::Char, Field::binary(0..38), padded, Some(K)),
            (ColumnKind::Char, text(b"   "), b"   ", None),
            (ColumnKind::Other, text(HYPHENS), HYPHENS, None),
        ] {
            assert_eq!(key_of(kind, field, bytes), key, "{kind:?} {field:?}");
        }
    }

    #[test]
    fn rows_that_differ_hash_differently() {
        let bytes = b"abc";
        let rows: [&[Field]; 10] = [
            &[],
            &[Field::text(0..3)],
            &[Field::text(0..1), Field::text(1..3)],
            &[Field::text(0..2), Field::text(2..3)],
            &[Field::binary(0..1), Field::text(1..3)],
            &[Field::text(0..1), Field::escaped(1..3)],
            &[Field::Null, Field::text(0..3)],
            &[Field::Default, Field::text(0..3)],
            &[Field::text(0..0), Field::text(0..3)],
            &[Field::text(0..3), Field::Null],
        ];
        for (index, one) in rows.iter().enumerate() {
            for other in rows.iter().skip(index + 1) {
                assert_ne!(row_hash(one, bytes), row_hash(other, bytes), "{one:?} {other:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn equal_rows_hash_alike_wherever_they_stand(values: Vec<Vec<u8>>, gap in 0usize..9) {
            let lay_out = |gap: usize| {
                let (mut bytes, mut fields) = (Vec::new(), Vec::new());
                for value in &values {
                    bytes.resize(bytes.len() + gap, b'-');
                    fields.push(Field::text(bytes.len()..bytes.len() + value.len()));
                    bytes.extend(value);
                }
                row_hash(&fields, &bytes)
            };
            prop_assert_eq!(lay_out(0), lay_out(gap));
        }

        #[test]
        fn a_key_that_is_read_can_be_overwritten_in_its_place(fresh: u128, spaces in 0usize..4) {
            let mut bytes = [HYPHENS, &b"    "[..spaces]].concat();
            let field = text(&bytes);
            prop_assert_eq!(key_of(ColumnKind::Char, field, &bytes), Some(K));
            key::overwrite(&mut bytes[field.range().unwrap()], fresh);
            prop_assert_eq!(key_of(ColumnKind::Char, field, &bytes), Some(fresh));
        }
    }
}
