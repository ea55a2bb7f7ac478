//! Text as it reads once its escapes are resolved, so that a key hidden by them is seen. Knows no statement.

/// Readings of a text that holds backslashes, besides the plain one: with the escapes of `E'…'`, COPY and JSON,
/// and with those of `U&'…'`. Which part of the text is of which kind is not looked at: this is for finding
/// what may stand there, not for reading it.
pub fn readings(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let escaped = memchr::memchr(b'\\', text).is_some();
    let unicode = escaped && memchr::memchr_iter(b'&', text).any(|at| text.get(at + 1) == Some(&b'\''));
    let readings: [(bool, Escape); 2] = [(escaped, backslash), (unicode, code_point)];
    readings.into_iter().filter(|(applies, _)| *applies).map(|(_, escape)| resolve(text, escape))
}

/// What stands behind a backslash: the byte it means, and how many bytes it takes.
type Escape = fn(&[u8]) -> Option<(u8, usize)>;

fn resolve(text: &[u8], escape: Escape) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, behind) = rest.split_at(at);
        out.extend_from_slice(before);
        let behind = behind.get(1..).unwrap_or_default();
        let (byte, length) = escape(behind).unwrap_or((b'\\', 0));
        out.push(byte);
        rest = behind.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// `\x31`, `\61`, `\u0031`, `\U00000031`, or any character for itself.
fn backslash(behind: &[u8]) -> Option<(u8, usize)> {
    let (&kind, digits) = behind.split_first()?;
    let numbered = match kind {
        b'x' | b'X' => number(digits, 16, 2).map(|(byte, length)| (byte, length + 1)),
        b'0'..=b'7' => number(behind, 8, 3),
        b'u' => exactly(digits, 4).map(|byte| (byte, 5)),
        b'U' => exactly(digits, 8).map(|byte| (byte, 9)),
        _ => None,
    };
    Some(numbered.unwrap_or((kind, 1)))
}

/// `\0031`, `\+000031`.
fn code_point(behind: &[u8]) -> Option<(u8, usize)> {
    match behind.split_first()? {
        (b'+', digits) => exactly(digits, 6).map(|byte| (byte, 7)),
        _ => exactly(behind, 4).map(|byte| (byte, 4)),
    }
}

/// A number of so many digits; one beyond a byte is no part of a key.
fn exactly(digits: &[u8], count: usize) -> Option<u8> {
    number(digits, 16, count).filter(|&(_, length)| length == count).map(|(byte, _)| byte)
}

/// A number of at most so many digits, and how many it has. Those beyond a byte read as one that is no part of
/// a key.
fn number(digits: &[u8], radix: u32, most: usize) -> Option<(u8, usize)> {
    let values = digits.iter().take(most).map_while(|&digit| char::from(digit).to_digit(radix));
    let (value, length) = values.fold((0_u32, 0), |(value, length), digit| {
        (value.saturating_mul(radix).saturating_add(digit), length + 1)
    });
    (length > 0).then_some((u8::try_from(value).unwrap_or(b'?'), length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_character_is_found_behind_every_escape() {
        for text in [
            r"E'a\x31b'",
            r"E'a\61b'",
            r"E'a\061b'",
            r"E'a\u0031b'",
            r"E'a\U00000031b'",
            r"U&'a\0031b'",
            r"U&'a\+000031b'",
            r"a\1b",
            r#"{"k": "a\u0031b"}"#,
        ] {
            let expected = if text == r"a\1b" { "a\u{1}b" } else { "a1b" };
            let readings: Vec<_> = readings(text.as_bytes()).collect();
            let found = |reading: &Vec<u8>| String::from_utf8_lossy(reading).contains(expected);
            assert!(readings.iter().any(found), "{text}: {readings:?}");
        }
        assert_eq!(readings(b"no escape, &'at all'").count(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(text in prop::collection::vec(any::<u8>(), 0..64), escaped in "[\\\\xuU0-9a-f&'+]{0,40}") {
            for bytes in [text.as_slice(), escaped.as_bytes()] {
                prop_assert!(readings(bytes).all(|reading| reading.len() <= bytes.len()));
            }
        }
    }
}
