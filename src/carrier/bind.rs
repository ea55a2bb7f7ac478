//! The body of a Bind message: names, formats and where each parameter stands; knows no types.

use super::{Field, fits};

/// A Bind message. <https://www.postgresql.org/docs/current/protocol-message-formats.html>
///
/// [`Bind::parse`] reads only what says which statement is meant; [`Bind::parameters`] reads the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// The portal made, without the terminating zero; empty for the unnamed one.
    pub portal: &'a [u8],
    /// The prepared statement bound, likewise.
    pub statement: &'a [u8],
    body: &'a [u8],
    /// Where the parameter formats begin in the body.
    formats_at: usize,
}

impl<'a> Bind<'a> {
    /// Reads the names. `body` is the message without tag and length. `None` if they do not end.
    #[must_use]
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let portal_end = memchr::memchr(0, body)?;
        let (portal, rest) = (body.get(..portal_end)?, body.get(portal_end + 1..)?);
        let statement_end = memchr::memchr(0, rest)?;
        let statement = rest.get(..statement_end)?;
        Some(Self { portal, statement, body, formats_at: portal_end + statement_end + 2 })
    }

    /// Reads the parameters, `$1` first, with positions in the body, and returns the formats of the
    /// result columns.
    ///
    /// `None` if Postgres would refuse the message: counts or lengths that do not fit it, bytes left
    /// over, an unknown format code. What `parameters` holds means nothing then.
    #[must_use]
    pub fn parameters(&self, parameters: &mut Vec<Field>) -> Option<Formats<'a>> {
        parameters.clear();
        if !fits(self.body) {
            return None;
        }
        let (formats, at) = Formats::read(self.body, self.formats_at)?;
        let count = usize::from(u16_at(self.body, at)?);
        if formats.len() > 1 && formats.len() != count {
            return None;
        }
        let mut at = at + 2;
        // A count says nothing of the message's real size; a parameter takes four bytes at least.
        parameters.reserve(count.min((self.body.len() - at) / 4));
        for index in 0..count {
            let (field, next) = parameter(self.body, at, formats.of(index)?)?;
            parameters.push(field);
            at = next;
        }
        let (results, end) = Formats::read(self.body, at)?;
        (end == self.body.len()).then_some(results)
    }
}

fn parameter(body: &[u8], at: usize, format: Format) -> Option<(Field, usize)> {
    let length = i32::from_be_bytes(*body.get(at..)?.first_chunk()?);
    let start = at + 4;
    if length == -1 {
        return Some((Field::Null, start));
    }
    let end = start.checked_add(usize::try_from(length).ok()?).filter(|&end| end <= body.len())?;
    Some(match format {
        Format::Text => (Field::text(start..end), end),
        Format::Binary => (Field::binary(start..end), end),
    })
}

/// The format of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As the type's input function reads it; code 0.
    Text,
    /// As the type's receive function reads it; code 1.
    Binary,
}

/// A list of format codes: none (all text), one (for all), or one for each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formats<'a> {
    codes: &'a [u8],
}

impl<'a> Formats<'a> {
    /// Reads a count and so many codes at `at`; returns where the list ends.
    fn read(body: &'a [u8], at: usize) -> Option<(Self, usize)> {
        let start = at + 2;
        let end = start + 2 * usize::from(u16_at(body, at)?);
        Some((Self { codes: body.get(start..end)? }, end))
    }

    /// How many codes the list holds.
    fn len(&self) -> usize {
        self.codes.len() / 2
    }

    /// The format of the value at `index`, from 0; `None` for an unknown code, or if the list has
    /// several codes and none for this value.
    #[must_use]
    pub fn of(&self, index: usize) -> Option<Format> {
        let code = match self.len() {
            0 => 0,
            1 => u16_at(self.codes, 0)?,
            _ => u16_at(self.codes, 2 * index)?,
        };
        match code {
            0 => Some(Format::Text),
            1 => Some(Format::Binary),
            _ => None,
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(formats: &[u16], values: &[Option<&[u8]>], results: &[u16]) -> Vec<u8> {
        let mut body = b"p\0statement\0".to_vec();
        let list = |body: &mut Vec<u8>, codes: &[u16]| {
            body.extend((codes.len() as u16).to_be_bytes());
            body.extend(codes.iter().flat_map(|code| code.to_be_bytes()));
        };
        list(&mut body, formats);
        body.extend((values.len() as u16).to_be_bytes());
        for value in values {
            body.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
            body.extend(value.unwrap_or_default());
        }
        list(&mut body, results);
        body
    }

    fn kinds(body: &[u8]) -> Option<String> {
        let mut fields = Vec::new();
        Bind::parse(body)?.parameters(&mut fields)?;
        Some(
            fields
                .iter()
                .map(|field| match field {
                    Field::Null => 'n',
                    Field::Text { .. } => 't',
                    _ => 'b',
                })
                .collect(),
        )
    }

    #[test]
    fn names_come_without_their_zero() {
        let body = body(&[], &[], &[]);
        let bind = Bind::parse(&body).unwrap();
        assert_eq!((bind.portal, bind.statement), (&b"p"[..], &b"statement"[..]));
        let bind = Bind::parse(b"\0\0").unwrap();
        assert_eq!((bind.portal, bind.statement), (&b""[..], &b""[..]));
        assert_eq!(Bind::parse(b"p\0statement"), None);
        assert_eq!(Bind::parse(b""), None);
    }

    #[test]
    fn formats_follow_the_protocols_rule() {
        let values: [Option<&[u8]>; 3] = [Some(b"a"), None, Some(b"")];
        for (formats, expected) in [
            (&[][..], Some("tnt")),
            (&[0], Some("tnt")),
            (&[1], Some("bnb")),
            (&[0, 1, 1], Some("tnb")),
            (&[0, 1], None),
            (&[0, 1, 1, 1], None),
            (&[2], None),
            (&[0, 0, 2], None),
        ] {
            assert_eq!(kinds(&body(formats, &values, &[])).as_deref(), expected, "{formats:?}");
        }
    }

    #[test]
    fn result_formats_are_returned() {
        let body = body(&[], &[], &[0, 1]);
        let results = Bind::parse(&body).unwrap().parameters(&mut Vec::new()).unwrap();
        assert_eq!(
            [results.of(0), results.of(1), results.of(2)],
            [Some(Format::Text), Some(Format::Binary), None]
        );
    }

    #[test]
    fn counts_are_unsigned() {
        let values: Vec<Option<&[u8]>> = vec![Some(b"x"); 65_535];
        assert_eq!(kinds(&body(&[1], &values, &[])).unwrap().len(), 65_535);
        let formats = vec![1; 65_535];
        assert_eq!(kinds(&body(&formats, &values, &[])).unwrap().len(), 65_535);
    }

    #[test]
    fn every_cut_and_every_byte_too_many_is_refused() {
        let whole = body(&[1, 0], &[Some(b"abc"), None], &[1]);
        assert_eq!(kinds(&whole).as_deref(), Some("bn"));
        for end in 0..whole.len() {
            assert_eq!(kinds(&whole[..end]), None, "{end}");
        }
        assert_eq!(kinds(&[&whole[..], b"x"].concat()), None);
    }

    #[test]
    fn a_length_below_minus_one_is_refused() {
        let mut bytes = body(&[], &[None], &[]);
        let length_at = bytes.len() - 6;
        bytes[length_at..length_at + 4].copy_from_slice(&(-2i32).to_be_bytes());
        assert_eq!(kinds(&bytes), None);
    }

    proptest! {
        #[test]
        fn parameters_are_read_as_they_were_written(
            values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..40)), 0..20),
        ) {
            let values: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
            let body = body(&[1], &values, &[0]);
            let mut fields = Vec::new();
            prop_assert!(Bind::parse(&body).unwrap().parameters(&mut fields).is_some());
            let read: Vec<Option<&[u8]>> = fields.iter().map(|field| field.of(&body)).collect();
            prop_assert_eq!(read, values);
        }

        #[test]
        fn arbitrary_bytes_never_panic(body: Vec<u8>) {
            if let Some(bind) = Bind::parse(&body) {
                let mut fields = Vec::new();
                let _ = bind.parameters(&mut fields);
                prop_assert!(fields.len() * 4 <= body.len());
            }
        }
    }
}
