//! A UUID and how it is spelled: parse a spelling, overwrite it alike. Knows nothing of where it stands.

use std::ops::Range;

/// Reads a UUID as Postgres' `uuid_in` does: 32 hex digits of either case, a hyphen allowed after
/// every group of four digits, optional braces around the whole. `None` for anything else.
///
/// The value is the 16 bytes in network order as one number.
#[must_use]
pub fn parse(spelling: &[u8]) -> Option<u128> {
    if spelling.len() == 36
        && let Some(value) = parse_hyphenated(spelling)
    {
        return Some(value);
    }
    parse_any(spelling)
}

const NOT_HEX: u8 = 0xff;

/// The value of each hex digit, `NOT_HEX` for every other byte.
const HEX: [u8; 256] = {
    let mut table = [NOT_HEX; 256];
    let mut digit = 0;
    while digit < 16 {
        table[b"0123456789abcdef"[digit] as usize] = digit as u8;
        table[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    table
};

/// The spelling nearly everybody sends: 8-4-4-4-12.
fn parse_hyphenated(spelling: &[u8]) -> Option<u128> {
    let spelling: &[u8; 36] = spelling.try_into().ok()?;
    if [8, 13, 18, 23].iter().any(|&at| spelling[at] != b'-') {
        return None;
    }
    const PAIRS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let mut bytes = [0u8; 16];
    let mut bad = 0;
    for (byte, at) in bytes.iter_mut().zip(PAIRS) {
        let (high, low) = (HEX[spelling[at] as usize], HEX[spelling[at + 1] as usize]);
        bad |= (high | low) & 0xf0;
        *byte = high << 4 | low & 0x0f;
    }
    (bad == 0).then(|| u128::from_be_bytes(bytes))
}

fn parse_any(spelling: &[u8]) -> Option<u128> {
    let digits = match spelling {
        [b'{', inner @ .., b'}'] => inner,
        plain => plain,
    };
    let (mut value, mut count) = (0u128, 0);
    let mut hyphen_allowed = false;
    for &byte in digits {
        if byte == b'-' {
            if !hyphen_allowed {
                return None;
            }
            hyphen_allowed = false;
            continue;
        }
        let digit = HEX[byte as usize];
        if digit == NOT_HEX || count == 32 {
            return None;
        }
        value = value << 4 | u128::from(digit);
        count += 1;
        hyphen_allowed = count % 4 == 0 && count < 32;
    }
    // Postgres reads no hyphen after the last group.
    (count == 32 && digits.last() != Some(&b'-')).then_some(value)
}

/// Whether a text value is a UUID for the columns of text types: the canonical hyphenated shape, with
/// or without braces, or 32 bare hex digits that carry an RFC 9562 version (1 to 8) and variant. The
/// last condition leaves hashes alone.
#[must_use]
pub fn parse_in_text(text: &[u8]) -> Option<u128> {
    let inner = match text {
        [b'{', inner @ .., b'}'] => inner,
        plain => plain,
    };
    match inner.len() {
        36 => parse_hyphenated(inner),
        32 => parse_any(inner).filter(|&value| is_rfc(value)),
        _ => None,
    }
}

/// Every UUID spelled anywhere in the bytes, in any spelling, and not part of a longer run of hex digits.
pub fn find_all(bytes: &[u8]) -> impl Iterator<Item = u128> {
    spellings(bytes).map(|(_, value)| value)
}

/// The same, with where each stands, braces aside.
pub fn spellings(bytes: &[u8]) -> impl Iterator<Item = (Range<usize>, u128)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let rest = bytes.get(at..)?;
            if let Some((value, length)) = starts_with_key(rest) {
                let start = at;
                at += length;
                return Some((start..at, value));
            }
            // On to the next place where a run of digits begins.
            let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            at += digits.max(1);
        }
        None
    })
}

/// The UUID at the start of the bytes and the length of its spelling, braces aside.
fn starts_with_key(bytes: &[u8]) -> Option<(u128, usize)> {
    let mut digits = 0;
    let last = bytes.iter().take(MOST_DIGITS_AND_HYPHENS).position(|byte| {
        digits += usize::from(byte.is_ascii_hexdigit());
        digits == 32 || !byte.is_ascii_hexdigit() && *byte != b'-'
    })?;
    let value = parse(bytes.get(..=last)?)?;
    let ends = !bytes.get(last + 1).is_some_and(u8::is_ascii_hexdigit);
    ends.then_some((value, last + 1))
}

/// 32 digits in groups of four.
const MOST_DIGITS_AND_HYPHENS: usize = 39;

/// The version nibble, 0 to 15.
#[must_use]
pub fn version(value: u128) -> u8 {
    (value >> 76) as u8 & 0x0f
}

/// Whether the variant bits are those of RFC 9562 and the version is one it defines.
#[must_use]
pub fn is_rfc(value: u128) -> bool {
    (value >> 62) & 0b11 == 0b10 && (1..=8).contains(&version(value))
}

/// Writes `value` over a spelling that [`parse`] accepts, in the same style: hyphens and braces stay,
/// digits are lower case unless every letter was upper case. The length cannot change.
pub fn overwrite(spelling: &mut [u8], value: u128) {
    let has = |test: fn(&u8) -> bool| spelling.iter().any(test);
    let upper = has(u8::is_ascii_uppercase) && !has(u8::is_ascii_lowercase);
    let alphabet: &[u8; 16] = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let mut shift = 128;
    for byte in spelling.iter_mut().filter(|byte| byte.is_ascii_hexdigit()) {
        shift -= 4;
        *byte = alphabet[(value >> shift) as usize & 0x0f];
        if shift == 0 {
            break;
        }
    }
}

/// The spelling in which Postgres prints a UUID: lower case, 8-4-4-4-12.
#[must_use]
pub fn canonical(value: u128) -> [u8; 36] {
    let mut spelling = *b"00000000-0000-0000-0000-000000000000";
    overwrite(&mut spelling, value);
    spelling
}

/// Writes `value` over a key as it travels: 16 bytes in binary format, else a spelling. No spelling has 16
/// bytes.
pub fn write_over(bytes: &mut [u8], value: u128) {
    match <&mut [u8; 16]>::try_from(&mut *bytes) {
        Ok(binary) => *binary = value.to_be_bytes(),
        Err(_) => overwrite(bytes, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u128 = 0xabcdef00_1111_4111_8111_111111111111;

    #[test]
    fn accepts_every_spelling_postgres_accepts() {
        for spelling in [
            "abcdef00-1111-4111-8111-111111111111",
            "ABCDEF00-1111-4111-8111-111111111111",
            "{abcdef00-1111-4111-8111-111111111111}",
            "abcdef00111141118111111111111111",
            "{abcd-ef00-1111-4111-8111-1111-1111-1111}",
            "abcdef001111-41118111-111111111111",
        ] {
            assert_eq!(parse(spelling.as_bytes()), Some(K), "{spelling}");
        }
    }

    #[test]
    fn refuses_what_postgres_refuses() {
        for spelling in [
            "",
            "{}",
            "urn:uuid:abcdef00-1111-4111-8111-111111111111",
            " abcdef00-1111-4111-8111-111111111111",
            "abcdef00-1111-4111-8111-11111111111",
            "abcdef00-1111-4111-8111-1111111111111",
            "abcdef00--1111-4111-8111-11111111111",
            "abcdef0-01111-4111-8111-111111111111",
            "{abcdef00-1111-4111-8111-111111111111",
            "abcdef00-1111-4111-8111-111111111111}",
            "abcdef00-1111-4111-8111-11111111111g",
            "abcdef00-1111-4111-8111-1111-1111-1111-",
            "-abcdef00111141118111111111111111",
        ] {
            assert_eq!(parse(spelling.as_bytes()), None, "{spelling}");
        }
    }

    #[test]
    fn overwriting_keeps_the_style() {
        let fresh = 0x01234567_89ab_4def_8123_456789abcdef;
        for (old, new) in [
            ("abcdef00-1111-4111-8111-111111111111", "01234567-89ab-4def-8123-456789abcdef"),
            ("{ABCDEF00-1111-4111-8111-111111111111}", "{01234567-89AB-4DEF-8123-456789ABCDEF}"),
            ("ABCDEf00111141118111111111111111", "0123456789ab4def8123456789abcdef"),
            ("11111111-1111-4111-8111-111111111111", "01234567-89ab-4def-8123-456789abcdef"),
        ] {
            let mut bytes = old.as_bytes().to_vec();
            overwrite(&mut bytes, fresh);
            assert_eq!(String::from_utf8(bytes).unwrap(), new);
        }
    }

    #[test]
    fn finds_keys_in_any_text() {
        let text = b"WHERE id = '{ABCDEF00-1111-4111-8111-111111111111}' OR id IN (x'ff', 'id-abcdef00111141118111111111111111') -- 1-2";
        assert_eq!(find_all(text).collect::<Vec<_>>(), [K, K]);
        assert_eq!(find_all(b"abcdef001111411181111111111111112 - 12").count(), 0);
    }

    #[test]
    fn text_without_hyphens_is_a_key_only_with_rfc_bits() {
        assert!(parse_in_text(b"abcdef00111141118111111111111111").is_some());
        assert!(parse_in_text(b"d41d8cd98f00b204e9800998ecf8427e").is_none());
        assert!(parse_in_text(b"d41d8cd9-8f00-b204-e980-0998ecf8427e").is_some());
        assert!(parse_in_text(b"abcdef00-1111-4111-8111-111111111111x").is_none());
    }

    proptest::proptest! {
        #[test]
        fn what_is_overwritten_parses_as_what_was_written(old: u128, new: u128, upper: bool, braces: bool, hyphens: u8) {
            let mut text = String::new();
            for (group, chunk) in format!("{old:032x}").as_bytes().chunks(4).enumerate() {
                if group > 0 && hyphens >> (group - 1) & 1 == 1 {
                    text.push('-');
                }
                text.push_str(std::str::from_utf8(chunk).unwrap());
            }
            if upper {
                text.make_ascii_uppercase();
            }
            if braces {
                text = format!("{{{text}}}");
            }
            let mut bytes = text.clone().into_bytes();
            proptest::prop_assert_eq!(parse(&bytes), Some(old));
            overwrite(&mut bytes, new);
            proptest::prop_assert_eq!(parse(&bytes), Some(new));
            proptest::prop_assert_eq!(bytes.len(), text.len());
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes: Vec<u8>, value: u128) {
            let _ = (parse(&bytes), parse_in_text(&bytes));
            overwrite(&mut bytes, value);
        }
    }
}
