//! Rows that RETURNING gives back, with the key the client sent in place of the fresh one. Knows the bytes to
//! look for, no columns: a fresh key is found by its randomness.

use crate::key;

/// One key to be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restore {
    /// As stored.
    pub new: u128,
    /// As sent.
    pub old: u128,
}

impl Restore {
    /// Overwrites the fresh key wherever it stands in a DataRow, binary or in any spelling.
    pub fn apply(self, row: &mut [u8]) {
        let binary: Vec<usize> = memchr::memmem::find_iter(row, &self.new.to_be_bytes()).collect();
        for at in binary {
            if let Some(bytes) = row.get_mut(at..at + 16) {
                bytes.copy_from_slice(&self.old.to_be_bytes());
            }
        }
        let spelled: Vec<_> =
            key::spellings(row).filter(|(_, value)| *value == self.new).map(|(range, _)| range).collect();
        for range in spelled {
            if let Some(bytes) = row.get_mut(range) {
                key::overwrite(bytes, self.old);
            }
        }
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
        Restore { new, old }.apply(&mut row);
        let text = b"x{01234567-89ab-4def-8123-456789abcdef} 0123456789AB4DEF8123456789ABCDEF ";
        assert_eq!(row, [&text[..], &old.to_be_bytes()].concat());
    }
}
