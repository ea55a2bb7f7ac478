//! Rows that RETURNING gives back, with the key the client sent in place of the fresh one. Knows the bytes to
//! look for, no columns: a fresh key is found by its randomness.

use crate::key;

/// One key to be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Restore {
    /// As stored.
    pub new: u128,
    /// As sent.
    pub old: u128,
}

/// Overwrites the fresh keys wherever they stand in a DataRow, binary or in any spelling. `restores` are in order.
/// The effort does not grow with their number: a whole page of a batch may be twins.
pub fn apply(restores: &[Restore], row: &mut [u8]) {
    let sent = |stored: u128| {
        let found = restores.binary_search_by_key(&stored, |restore| restore.new).ok()?;
        restores.get(found).map(|restore| restore.old)
    };
    for (at, old) in binary(row, sent) {
        if let Some(bytes) = row.get_mut(at..at + 16) {
            bytes.copy_from_slice(&old.to_be_bytes());
        }
    }
    let spelled: Vec<_> =
        key::spellings(row).filter_map(|(range, stored)| Some((range, sent(stored)?))).collect();
    for (range, old) in spelled {
        if let Some(bytes) = row.get_mut(range) {
            key::overwrite(bytes, old);
        }
    }
}

/// Where keys stand in binary, each with what is to be put there.
fn binary(row: &[u8], sent: impl Fn(u128) -> Option<u128>) -> Vec<(usize, u128)> {
    let mut last = 0;
    let mut found = Vec::new();
    for (at, &byte) in row.iter().enumerate() {
        last = last << 8 | u128::from(byte);
        if let (Some(start), Some(old)) = ((at + 1).checked_sub(16), sent(last)) {
            found.push((start, old));
        }
    }
    found
}

/// What to do if a client takes the rows of the later statement for those of the first.
pub const HINT: &str = "returning = \"sent\"";

/// Whether the client finds the rows that RETURNING gives back by the key in their last column, as SQLAlchemy does
/// (insertmanyvalues): the key's column, qualified, under its name or as `id__1`. Several rows at a time need it, or
/// such a name tells it. `returning` is the clause without its first word.
#[must_use]
pub fn finds_rows_by_key(returning: &[u8], column: &str, rows: u32) -> bool {
    let last = returning.rsplit(|&byte| byte == b',').next().unwrap_or_default();
    let Ok(last) = std::str::from_utf8(last) else { return false };
    let mut words = last.trim_end_matches(|c: char| c == ';' || c.is_whitespace()).split_whitespace();
    let Some((_, name)) = words.next().and_then(|path| path.rsplit_once('.')) else { return false };
    let is_key = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted == column,
        None => name.eq_ignore_ascii_case(column),
    };
    let is_numbered = |alias: &str| {
        let number = alias.trim_matches('"').rsplit_once("__").map_or("", |(_, number)| number);
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    is_key
        && match (words.next(), words.next(), words.next()) {
            (None, ..) => rows > 1,
            (Some(word), Some(alias), None) => word.eq_ignore_ascii_case("as") && is_numbered(alias),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sent_key_is_put_back_in_every_form() {
        let (new, old) = (0xabcdef00_1111_4111_8111_111111111111, 0x01234567_89ab_4def_8123_456789abcdef);
        let mut row = b"x{abcdef00-1111-4111-8111-111111111111} ABCDEF00111141118111111111111111 ".to_vec();
        row.extend_from_slice(&u128::to_be_bytes(new));
        apply(&[Restore { new, old }], &mut row);
        let text = b"x{01234567-89ab-4def-8123-456789abcdef} 0123456789AB4DEF8123456789ABCDEF ";
        assert_eq!(row, [&text[..], &old.to_be_bytes()].concat());
    }

    proptest::proptest! {
        #[test]
        fn nothing_else_in_a_row_is_changed(
            before in proptest::collection::vec(proptest::num::u8::ANY, 0..40),
            keys in proptest::collection::btree_set(proptest::num::u128::ANY, 1..20),
            behind in proptest::collection::vec(proptest::num::u8::ANY, 0..40),
            which in proptest::num::usize::ANY,
        ) {
            let restores: Vec<Restore> = keys.iter().map(|&new| Restore { new, old: !new }).collect();
            let one = restores[which % restores.len()];
            let row = |key: u128| [&before[..], &key.to_be_bytes(), &behind].concat();
            let mut restored = row(one.new);
            apply(&restores, &mut restored);
            proptest::prop_assert_eq!(restored, row(one.old));
            let mut foreign = [&before[..], &behind].concat();
            let untouched = foreign.clone();
            apply(&restores, &mut foreign);
            proptest::prop_assert_eq!(foreign, untouched);
        }
    }

    #[test]
    fn clients_that_find_rows_by_their_key_are_known_by_the_clause() {
        for (returning, rows, expected) in [
            ("a.made, a.id", 3, true),
            ("a.made, a.id", 1, false),
            ("a.id, a.n, a.id AS id__1", 1, true),
            ("\"A\".made, \"A\".\"id\"", 2, true),
            ("a.ID ;", 2, true),
            ("id", 2, false),
            ("\"id\"", 2, false),
            ("a.id, a.n", 2, false),
            ("b.pk, b.pk AS pk__1", 2, false),
            ("a.id AS key", 2, false),
            ("upper(a.id)", 2, false),
            ("*", 2, false),
            ("", 2, false),
        ] {
            assert_eq!(finds_rows_by_key(returning.as_bytes(), "id", rows), expected, "{returning} {rows}");
        }
    }
}
