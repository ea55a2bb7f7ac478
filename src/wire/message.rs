//! Borrowed views of the messages whose content matters. `None` means malformed: the server will say so.

use super::reader::Reader;
use std::ops::Range;

/// `Parse`: prepares a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Empty for the unnamed statement.
    pub name: &'a [u8],
    /// The statement's text within the body.
    pub text: Range<usize>,
    /// Declared parameter types; may be fewer than the parameters, 0 is "undeclared".
    pub types: Vec<u32>,
}

impl<'a> Parse<'a> {
    #[must_use]
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(body);
        let name = reader.cstr()?;
        let start = reader.at();
        let text = start..start + reader.cstr()?.len();
        let count = usize::from(reader.u16()?);
        let types = reader.take(4 * count)?;
        let types =
            types.chunks_exact(4).filter_map(|oid| oid.try_into().ok().map(u32::from_be_bytes)).collect();
        reader.is_empty().then_some(Self { name, text, types })
    }
}

/// `Execute`: runs a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    pub portal: &'a [u8],
}

impl<'a> Execute<'a> {
    #[must_use]
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(body);
        let portal = reader.cstr()?;
        reader.i32()?;
        reader.is_empty().then_some(Self { portal })
    }
}

/// What `Close` and `Describe` name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    Statement(&'a [u8]),
    Portal(&'a [u8]),
}

impl<'a> Target<'a> {
    #[must_use]
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(body);
        let kind = reader.u8()?;
        let name = reader.cstr()?;
        match kind {
            b'S' if reader.is_empty() => Some(Self::Statement(name)),
            b'P' if reader.is_empty() => Some(Self::Portal(name)),
            _ => None,
        }
    }
}

/// The text of a `Query` within its body, without the zero byte at its end.
#[must_use]
pub fn query_text(body: &[u8]) -> Option<Range<usize>> {
    let mut reader = Reader::new(body);
    let text = reader.cstr()?;
    reader.is_empty().then_some(0..text.len())
}

/// Name and value of a `ParameterStatus`.
#[must_use]
pub fn parameter_status(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = Reader::new(body);
    Some((reader.cstr()?, reader.cstr()?))
}

/// One field of an ErrorResponse or NoticeResponse, by its code (`b'C'` is the SQLSTATE).
#[must_use]
pub fn error_field(body: &[u8], code: u8) -> Option<&[u8]> {
    let mut reader = Reader::new(body);
    loop {
        let field = reader.u8().filter(|&field| field != 0)?;
        let value = reader.cstr()?;
        if field == code {
            return Some(value);
        }
    }
}

/// The body of the same ErrorResponse with a hint; `None` if it has one already, or is malformed.
#[must_use]
pub fn with_hint(body: &[u8], hint: &str) -> Option<Vec<u8>> {
    let fields = body.strip_suffix(b"\0").filter(|fields| fields.ends_with(b"\0"))?;
    error_field(body, b'M').filter(|_| error_field(body, b'H').is_none())?;
    Some([fields, b"H", hint.as_bytes(), b"\0\0"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_is_read_and_leftovers_are_errors() {
        let body = b"s1\0select $1\0\0\x01\0\0\x0b\x86";
        let parse = Parse::read(body).unwrap();
        assert_eq!(
            (parse.name, &body[parse.text.clone()], parse.types),
            (&b"s1"[..], &b"select $1"[..], vec![2950])
        );
        assert_eq!(Parse::read(b"s1\0select $1\0\0\x01\0\0\x0b\x86x"), None);
        assert_eq!(Parse::read(b"s1\0select $1\0\xff\xff\0\0\x0b\x86"), None);
        assert_eq!(Parse::read(b"s1\0select $1"), None);
    }

    #[test]
    fn error_fields_are_found_by_code() {
        let body = b"SERROR\0C23505\0Mduplicate\0\0";
        assert_eq!(error_field(body, b'C'), Some(&b"23505"[..]));
        assert_eq!(error_field(body, b'D'), None);
        assert_eq!(error_field(b"SERR", b'C'), None);
    }

    #[test]
    fn a_hint_is_added_where_there_is_none() {
        let body = with_hint(b"SFATAL\0Mno\0\0", "try again").unwrap();
        assert_eq!(body, b"SFATAL\0Mno\0Htry again\0\0");
        for body in [&body[..], b"SFATAL\0Mno\0", b"SFATAL\0\0", b""] {
            assert_eq!(with_hint(body, "x"), None, "{body:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_body_makes_a_view_panic(body: Vec<u8>) {
            let _ = Parse::read(&body);
            let _ = Execute::read(&body);
            let _ = Target::read(&body);
            let _ = query_text(&body);
            let _ = parameter_status(&body);
            let _ = error_field(&body, b'M');
            let _ = with_hint(&body, "x");
        }
    }
}
