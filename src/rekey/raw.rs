//! What tells values apart that are not read: their text with what stands around it. Decides nothing.

use super::rows::Bound;
use super::value::Value;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A literal's inside with the prefix that says which escapes it has, if it has one: `E'` or `U&'`.
pub(super) fn with_prefix<'a>(text: &'a [u8], inside: &Range<usize>) -> Option<&'a [u8]> {
    let whole = text.get(inside.start.checked_sub(2)?..inside.end)?;
    matches!(whole.first()?, b'e' | b'E' | b'&').then_some(whole)
}

/// A literal with the casts around it, which may make another value of the same inside: what stands between the
/// commas and parentheses nearest to it.
pub(super) fn with_casts<'a>(text: &'a [u8], inside: &Range<usize>) -> Option<&'a [u8]> {
    let ends = |byte: &u8| matches!(byte, b',' | b'(' | b')');
    let start = text.get(..inside.start)?.iter().rposition(ends).map_or(0, |end| end + 1);
    let behind = text.get(inside.end..)?;
    let end = inside.end + behind.iter().position(ends).unwrap_or(behind.len());
    Some(text.get(start..end)?.trim_ascii())
}

/// What an expression says: its text and the parameters that it reads.
pub(super) fn expression<'a>(text: &'a [u8], bound: Option<Bound<'_>>) -> Value<'a> {
    let mut inputs = 0;
    for name in memchr::memchr_iter(b'$', text) {
        let digits = text.get(name + 1..).unwrap_or_default();
        let digits = digits.split(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<usize>().ok());
        let Some((number, bound)) = number.zip(bound) else { continue };
        let Some(field) = bound.fields.get(number.wrapping_sub(1)) else { continue };
        // A NULL has no bytes, and is not the empty string.
        let seed = inputs ^ u64::from(field.range().is_none());
        inputs = xxh3_64_with_seed(field.of(bound.body).unwrap_or_default(), seed);
    }
    Value::Expression { text, inputs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_and_prefixes_are_part_of_what_a_literal_says() {
        let inside = |text: &str| {
            let start = text.find('\'').unwrap() + 1;
            start..start + text.get(start..).unwrap().find('\'').unwrap()
        };
        for (text, casts, prefixed) in [
            ("('0.1'::float4, 2)", "'0.1'::float4", None),
            ("(1 , '0.1' :: numeric(3,1) )", "'0.1' :: numeric", None),
            ("(CAST('1' AS bool))", "'1' AS bool", None),
            ("(date '2026-01-01')", "date '2026-01-01'", None),
            ("E'a'", "E'a'", Some("E'a")),
            ("(U&'a')", "U&'a'", Some("&'a")),
            ("'a'", "'a'", None),
        ] {
            let range = inside(text);
            assert_eq!(with_casts(text.as_bytes(), &range), Some(casts.as_bytes()), "{text}");
            assert_eq!(with_prefix(text.as_bytes(), &range), prefixed.map(str::as_bytes), "{text}");
        }
    }
}
