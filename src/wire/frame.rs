//! The five bytes in front of every message after startup: a tag and a length. Knows no body.

/// Tag and length word.
pub const HEADER: usize = 5;

/// One message header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub tag: u8,
    /// Bytes of the body, header not counted.
    pub body: usize,
}

impl Header {
    /// Bytes of the whole message, header included.
    #[must_use]
    pub fn frame(self) -> usize {
        HEADER + self.body
    }
}

/// A length word below four: whatever follows cannot be cut into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message with tag {tag:#04x} announces a length of {length}, below the length word itself")]
pub struct BadLength {
    pub tag: u8,
    pub length: i32,
}

/// Reads the header at the start of `bytes`; `None` if fewer than five bytes are there.
///
/// # Errors
/// [`BadLength`] if the length word is impossible.
pub fn header(bytes: &[u8]) -> Result<Option<Header>, BadLength> {
    let Some(&[tag, a, b, c, d]) = bytes.first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let length = i32::from_be_bytes([a, b, c, d]);
    match usize::try_from(length) {
        Ok(length) if length >= 4 => Ok(Some(Header { tag, body: length - 4 })),
        _ => Err(BadLength { tag, length }),
    }
}

/// Appends one message to `out`.
///
/// # Panics
/// Never for bodies below 2 GiB; ours are below a kilobyte or copies of received ones.
pub fn write(out: &mut Vec<u8>, tag: u8, body: &[&[u8]]) {
    let length = 4 + body.iter().map(|part| part.len()).sum::<usize>();
    out.push(tag);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    for part in body {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_needs_five_bytes_and_an_honest_length() {
        assert_eq!(header(b"Q\0\0\0"), Ok(None));
        assert_eq!(header(b"S\0\0\0\x04rest"), Ok(Some(Header { tag: b'S', body: 0 })));
        assert_eq!(header(b"Q\0\0\0\x03"), Err(BadLength { tag: b'Q', length: 3 }));
        assert_eq!(header(b"Q\xff\xff\xff\xff"), Err(BadLength { tag: b'Q', length: -1 }));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut out = Vec::new();
        write(&mut out, b'Q', &[b"select 1", b"\0"]);
        assert_eq!(header(&out), Ok(Some(Header { tag: b'Q', body: 9 })));
        assert_eq!(out.len(), 14);
    }
}
