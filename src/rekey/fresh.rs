//! Fresh keys: what kind of UUID replaces which. Knows no table and no window; randomness comes in as bytes.

use crate::key;

/// Where random bytes come from: the operating system in the proxy, a list in tests.
pub trait Entropy {
    /// Sixteen bytes nobody can predict, or `None` if the source fails (nothing is rekeyed then).
    fn bytes(&mut self) -> Option<[u8; 16]>;
}

/// Whether the key is equal on purpose: a hash of a name (versions 3 and 5).
#[must_use]
pub fn is_name_based(old: u128) -> bool {
    key::is_rfc(old) && matches!(key::version(old), 3 | 5)
}

/// A key of the same kind as `old`: version 7 keeps its 48-bit time, versions 1 and 6 keep version and
/// time and get a random clock sequence and a random node with the multicast bit; everything else
/// becomes version 4 (RFC 9562).
#[must_use]
pub fn like(old: u128, random: [u8; 16]) -> u128 {
    let random = u128::from_be_bytes(random);
    let version = if key::is_rfc(old) { key::version(old) } else { 0 };
    match version {
        7 => variant(old >> 80 << 80 | 7 << 76 | random & LOW_76),
        1 | 6 => variant(old >> 64 << 64 | random & LOW_64 | MULTICAST),
        _ => variant(random & !(0xf << 76) | 4 << 76),
    }
}

const LOW_64: u128 = (1 << 64) - 1;
const LOW_76: u128 = (1 << 76) - 1;
/// The least significant bit of the node's first byte.
const MULTICAST: u128 = 1 << 40;

fn variant(value: u128) -> u128 {
    value & !(0b11 << 62) | 0b10 << 62
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uuid(text: &str) -> u128 {
        key::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn only_versions_3_and_5_are_name_based() {
        assert!(is_name_based(uuid("aad03681-8b63-5304-89e0-8ca8f49461b5")));
        assert!(is_name_based(uuid("aad03681-8b63-3304-89e0-8ca8f49461b5")));
        assert!(!is_name_based(uuid("aad03681-8b63-4304-89e0-8ca8f49461b5")));
        assert!(!is_name_based(uuid("aad03681-8b63-5304-09e0-8ca8f49461b5")));
    }

    proptest! {
        #[test]
        fn a_fresh_key_is_of_the_kind_it_replaces(old: u128, random: [u8; 16]) {
            let fresh = like(old, random);
            prop_assert!(key::is_rfc(fresh));
            match (key::is_rfc(old), key::version(old)) {
                (true, 7) => prop_assert_eq!((fresh >> 80, key::version(fresh)), (old >> 80, 7)),
                (true, 1 | 6) => {
                    prop_assert_eq!(fresh >> 64, old >> 64);
                    prop_assert_eq!(fresh >> 40 & 1, 1);
                }
                _ => prop_assert_eq!(key::version(fresh), 4),
            }
        }

        #[test]
        fn every_free_bit_is_random(random: [u8; 16]) {
            let all = uuid("01a22d67-b71f-70c6-b013-47fe191ee0e9");
            let (zeros, ones) = (like(all, [0; 16]), like(all, [0xff; 16]));
            let fixed = !(zeros ^ ones);
            prop_assert_eq!((like(all, random) ^ zeros) & fixed, 0);
            prop_assert_eq!(fixed.count_ones(), 48 + 4 + 2);
        }
    }
}
