//! One-dimensional arrays in text and binary format: where each element stands; knows no element types.

use super::{Field, fits};
use memchr::{memchr2, memchr3};

/// Reads an array as `array_in` does: `{a,"b c",NULL}`. Element positions are within `array`.
///
/// `None` for what Postgres refuses and for what is not inspected: more than one dimension, explicit
/// bounds. What `elements` holds means nothing then. The delimiter is the comma, which all types but
/// `box` have.
#[must_use]
pub fn text_elements(array: &[u8], elements: &mut Vec<Field>) -> Option<()> {
    elements.clear();
    let mut at = skip_space(array, 0);
    if !fits(array) || array.get(at) != Some(&b'{') {
        return None;
    }
    at = skip_space(array, at + 1);
    if array.get(at) == Some(&b'}') {
        return ends(array, at + 1);
    }
    loop {
        let (element, next) = match array.get(at)? {
            b'"' => quoted(array, at + 1)?,
            _ => unquoted(array, at)?,
        };
        elements.push(element);
        match array.get(next)? {
            b',' => at = skip_space(array, next + 1),
            b'}' => return ends(array, next + 1),
            _ => return None,
        }
    }
}

/// Reads an array as `array_recv` does, and returns the oid of the element type. Element positions
/// are within `array`, without their length words.
///
/// `None` as for [`text_elements`]: also lengths and counts that do not fit, and bytes left over.
#[must_use]
pub fn binary_elements(array: &[u8], elements: &mut Vec<Field>) -> Option<u32> {
    elements.clear();
    let dimensions = word(array, 0)?;
    let has_nulls = word(array, 4)?;
    let element_type = word(array, 8)?;
    if !fits(array) || dimensions > 1 || has_nulls > 1 {
        return None;
    }
    if dimensions == 0 {
        return (array.len() == 12).then_some(element_type);
    }
    let count = usize::try_from(i32::from_be_bytes(word(array, 12)?.to_be_bytes())).ok()?;
    let _lower_bound = word(array, 16)?;
    let mut at = 20;
    // The count says nothing of the real size; an element takes four bytes at least.
    elements.reserve(count.min((array.len() - at) / 4));
    for _ in 0..count {
        let length = i32::from_be_bytes(word(array, at)?.to_be_bytes());
        let start = at + 4;
        if length == -1 {
            elements.push(Field::Null);
            at = start;
            continue;
        }
        at = start.checked_add(usize::try_from(length).ok()?).filter(|&end| end <= array.len())?;
        elements.push(Field::binary(start..at));
    }
    (at == array.len()).then_some(element_type)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The element whose inside begins at `start`, and the first byte behind it that is no white space.
fn quoted(array: &[u8], start: usize) -> Option<(Field, usize)> {
    let (mut at, mut escapes) = (start, false);
    loop {
        at += memchr2(b'"', b'\\', array.get(at..)?)?;
        if array.get(at) == Some(&b'"') {
            break;
        }
        escapes = true;
        at += 2;
    }
    let element = if escapes { Field::escaped(start..at) } else { Field::text(start..at) };
    Some((element, skip_space(array, at + 1)))
}

/// The element that begins at `start`, which is no white space, and the delimiter or brace behind it.
fn unquoted(array: &[u8], start: usize) -> Option<(Field, usize)> {
    let rest = array.get(start..)?;
    let next = start + memchr2(b',', b'}', rest)?;
    let raw = array.get(start..next)?;
    if memchr3(b'"', b'\\', b'{', raw).is_some() {
        return unquoted_with_escapes(array, start);
    }
    let value = trim_end(raw);
    if value.is_empty() {
        return None;
    }
    let is_null = value.eq_ignore_ascii_case(b"null");
    Some((if is_null { Field::Null } else { Field::text(start..start + value.len()) }, next))
}

fn unquoted_with_escapes(array: &[u8], start: usize) -> Option<(Field, usize)> {
    let (mut at, mut value_end) = (start, start);
    loop {
        match array.get(at)? {
            b',' | b'}' => return Some((Field::escaped(start..value_end), at)),
            b'"' | b'{' => return None,
            b'\\' => {
                array.get(at + 1)?;
                at += 2;
                value_end = at;
            }
            &byte => {
                at += 1;
                if !is_space(byte) {
                    value_end = at;
                }
            }
        }
    }
}

/// The array must end at `at`, white space aside.
fn ends(array: &[u8], at: usize) -> Option<()> {
    (skip_space(array, at) == array.len()).then_some(())
}

fn skip_space(array: &[u8], at: usize) -> usize {
    let rest = array.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|&&byte| is_space(byte)).count()
}

/// Postgres' `array_isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn trim_end(mut value: &[u8]) -> &[u8] {
    while let [rest @ .., last] = value
        && is_space(*last)
    {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn show(array: &[u8], elements: &[Field]) -> String {
        let shown: Vec<String> = elements
            .iter()
            .map(|field| {
                let bytes = String::from_utf8_lossy(field.of(array).unwrap_or_default()).into_owned();
                match field {
                    Field::Null => "null".into(),
                    Field::Escaped { .. } => format!("escaped[{bytes}]"),
                    _ => format!("[{bytes}]"),
                }
            })
            .collect();
        shown.join(" ")
    }

    #[test]
    fn reads_text_as_postgres_does() {
        for (array, expected) in [
            ("{}", Some("")),
            (" { } ", Some("")),
            ("{a}", Some("[a]")),
            ("{a,b c , d}", Some("[a] [b c] [d]")),
            ("\x0b{\x0ca\t,\r\nb\x0b}\x0c", Some("[a] [b]")),
            ("{\"a\",\"b,}{\" , \"\"}", Some("[a] [b,}{] []")),
            ("{\"q\\\"x\",\"\\\\\"}", Some("escaped[q\\\"x] escaped[\\\\]")),
            ("{NULL,null,nUlL,\"NULL\",NULLS, NULL }", Some("null null null [NULL] [NULLS] null")),
            ("{\\NULL,a\\,b,a\\ ,\\}}", Some("escaped[\\NULL] escaped[a\\,b] escaped[a\\ ] escaped[\\}]")),
            ("{é,\"日本\"}", Some("[é] [日本]")),
            ("", None),
            ("a", None),
            ("{", None),
            ("{a", None),
            ("{a,", None),
            ("{a,}", None),
            ("{,a}", None),
            ("{a,,b}", None),
            ("{a}x", None),
            ("{\"a}", None),
            ("{\"a\"b}", None),
            ("{a\"b\"}", None),
            ("{a{b}", None),
            ("{a\\", None),
            ("{\"a\\", None),
            ("{\"a\\\"", None),
            ("{{a},{b}}", None),
            ("[1:2]={a,b}", None),
        ] {
            let mut elements = Vec::new();
            let read = text_elements(array.as_bytes(), &mut elements);
            assert_eq!(read.map(|()| show(array.as_bytes(), &elements)).as_deref(), expected, "{array}");
        }
    }

    fn binary(dimensions: i32, count: i32, elements: &[Option<&[u8]>]) -> Vec<u8> {
        let mut array: Vec<u8> = [dimensions, 1, 2950].iter().flat_map(|word| word.to_be_bytes()).collect();
        array.extend((0..dimensions).flat_map(|_| [count.to_be_bytes(), 1i32.to_be_bytes()].concat()));
        for element in elements {
            array.extend(element.map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
            array.extend(element.unwrap_or_default());
        }
        array
    }

    #[test]
    fn reads_binary_as_postgres_does() {
        for (array, expected) in [
            (binary(0, 0, &[]), Some("")),
            (binary(1, 0, &[]), Some("")),
            (binary(1, 3, &[Some(b"ab"), None, Some(b"")]), Some("[ab] null []")),
            (binary(1, 2, &[Some(b"ab")]), None),
            (binary(1, 1, &[Some(b"ab"), None]), None),
            (binary(1, -1, &[]), None),
            (binary(1, i32::MAX, &[Some(b"ab")]), None),
            (binary(2, 1, &[Some(b"ab")]), None),
            (binary(-1, 0, &[]), None),
            ([binary(0, 0, &[]), vec![0]].concat(), None),
            (b"\0\0\0\x01".to_vec(), None),
        ] {
            let mut elements = Vec::new();
            let read = binary_elements(&array, &mut elements);
            assert_eq!(read.map(|_| show(&array, &elements)).as_deref(), expected, "{array:?}");
            assert!(read.is_none_or(|oid| oid == 2950));
        }
    }

    /// Writes an element as `array_out` does.
    fn print(element: Option<&str>) -> String {
        match element {
            None => "NULL".into(),
            Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        }
    }

    proptest! {
        #[test]
        fn elements_stand_where_they_were_written(
            values in prop::collection::vec(prop::option::of("[a\"\\\\,{} é]{0,6}"), 0..8),
        ) {
            let printed: Vec<String> = values.iter().map(|value| print(value.as_deref())).collect();
            let array = format!("{{{}}}", printed.join(" , "));
            let mut elements = Vec::new();
            prop_assert!(text_elements(array.as_bytes(), &mut elements).is_some());
            prop_assert_eq!(elements.len(), values.len());
            for (element, (value, printed)) in elements.iter().zip(values.iter().zip(&printed)) {
                let bytes = element.of(array.as_bytes());
                match element {
                    Field::Null => prop_assert_eq!(value, &None),
                    Field::Text { .. } => prop_assert_eq!(bytes, value.as_deref().map(str::as_bytes)),
                    _ => prop_assert_eq!(bytes, Some(&printed.as_bytes()[1..printed.len() - 1])),
                }
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(array: Vec<u8>, text in "[\\[{}\", \\\\aN]{0,12}") {
            let mut elements = Vec::new();
            let _ = text_elements(&array, &mut elements);
            let _ = text_elements(text.as_bytes(), &mut elements);
            prop_assert!(elements.len() <= text.len());
            let _ = binary_elements(&array, &mut elements);
            prop_assert!(elements.len() * 4 <= array.len());
        }
    }
}
