//! A checked cursor over one message body: every read says whether it was there.

/// Reads big-endian numbers and zero-terminated strings; `None` once the bytes run out.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// A string up to its zero byte, which is read too.
    pub fn cstr(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let length = memchr::memchr(0, rest)?;
        self.at += length + 1;
        rest.get(..length)
    }
}

#[cfg(test)]
mod tests {
    use super::Reader;

    #[test]
    fn reads_what_is_there_and_nothing_more() {
        let mut reader = Reader::new(b"ab\0\x01\x02\x03\x04\x05");
        assert_eq!(reader.cstr(), Some(&b"ab"[..]));
        assert_eq!(reader.u16(), Some(0x0102));
        assert_eq!(reader.u32(), None);
        assert_eq!(reader.u16(), Some(0x0304));
        assert_eq!(reader.u8(), Some(5));
        assert!(reader.is_empty());
        assert_eq!(reader.u8(), None);
        assert_eq!(reader.cstr(), None);
    }

    #[test]
    fn a_huge_count_is_not_trusted() {
        let mut reader = Reader::new(b"abc");
        assert_eq!(reader.take(usize::MAX), None);
        assert_eq!(reader.take(3), Some(&b"abc"[..]));
    }
}
