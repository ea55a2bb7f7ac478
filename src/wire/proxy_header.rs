//! The header that a load balancer puts in front of a connection to say whose it is: PROXY protocol, versions
//! 1 and 2. Knows its bytes, not whom to believe.

use super::reader::Reader;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// What every header of version 2 begins with. As long as the shortest part of one that has to be read to
/// tell the versions apart.
pub const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// What every header of version 1 begins with.
pub const WORD: &[u8] = b"PROXY ";
/// The longest line of version 1, with its end.
pub const MAX_LINE: usize = 107;
/// The longest rest of a header of version 2 that is read: addresses, and what else the balancer tells.
pub const MAX_REST: usize = 4096;

/// Whose connection it is: the address that the balancer tells; none, if it speaks for itself or tells none.
pub type Origin = Option<SocketAddr>;

/// Bytes that are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a PROXY protocol header")]
pub struct NoHeader;

/// Reads a line of version 1, with its end.
///
/// # Errors
/// [`NoHeader`].
pub fn line(line: &[u8]) -> Result<Origin, NoHeader> {
    let text = line.strip_suffix(b"\r\n").and_then(|line| line.strip_prefix(WORD)).ok_or(NoHeader)?;
    let text = std::str::from_utf8(text).map_err(|_| NoHeader)?;
    let mut words = text.split(' ');
    let family = words.next().ok_or(NoHeader)?;
    if family == "UNKNOWN" {
        return Ok(None);
    }
    let (Some(from), Some(to), Some(from_port), Some(to_port), None) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Err(NoHeader);
    };
    let port = |text: &str| {
        let plain = text == "0" || !text.starts_with(['0', '+']);
        text.parse::<u16>().ok().filter(|_| plain).ok_or(NoHeader)
    };
    let address = |text: &str| match family {
        "TCP4" => text.parse::<Ipv4Addr>().map(Into::into).map_err(|_| NoHeader),
        "TCP6" => text.parse::<Ipv6Addr>().map(Into::into).map_err(|_| NoHeader),
        _ => Err(NoHeader),
    };
    address(to)?;
    port(to_port)?;
    Ok(Some(SocketAddr::new(address(from)?, port(from_port)?)))
}

/// The length of what follows the signature and these four bytes, in version 2.
///
/// # Errors
/// [`NoHeader`], also where it is longer than [`MAX_REST`].
pub fn rest_length(head: [u8; 4]) -> Result<usize, NoHeader> {
    let [version, _, high, low] = head;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if version >> 4 == 2 && length <= MAX_REST { Ok(length) } else { Err(NoHeader) }
}

/// Reads a header of version 2: the four bytes behind the signature, and the rest.
///
/// # Errors
/// [`NoHeader`].
pub fn binary(head: [u8; 4], rest: &[u8]) -> Result<Origin, NoHeader> {
    const LOCAL: u8 = 0x20;
    const PROXY: u8 = 0x21;
    const TCP4: u8 = 0x11;
    const TCP6: u8 = 0x21;
    let mut reader = Reader::new(rest);
    match (head[0], head[1]) {
        (LOCAL, _) => Ok(None),
        (PROXY, TCP4) => {
            let from: [u8; 4] = field(&mut reader)?;
            let _to: [u8; 4] = field(&mut reader)?;
            Ok(Some(SocketAddr::new(Ipv4Addr::from(from).into(), ports(&mut reader)?)))
        }
        (PROXY, TCP6) => {
            let from: [u8; 16] = field(&mut reader)?;
            let _to: [u8; 16] = field(&mut reader)?;
            Ok(Some(SocketAddr::new(Ipv6Addr::from(from).into(), ports(&mut reader)?)))
        }
        // A socket in a directory, or of a kind that carries no Postgres.
        (PROXY, _) => Ok(None),
        _ => Err(NoHeader),
    }
}

fn field<const N: usize>(reader: &mut Reader) -> Result<[u8; N], NoHeader> {
    reader.take(N).and_then(|bytes| bytes.try_into().ok()).ok_or(NoHeader)
}

/// Source and destination; gives the source.
fn ports(reader: &mut Reader) -> Result<u16, NoHeader> {
    let source = reader.u16().ok_or(NoHeader)?;
    reader.u16().ok_or(NoHeader)?;
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_version_1() {
        for (text, origin) in [
            ("PROXY TCP4 192.0.2.7 198.51.100.1 56324 5432\r\n", Some("192.0.2.7:56324")),
            ("PROXY TCP6 2001:db8::7 2001:db8::1 0 65535\r\n", Some("[2001:db8::7]:0")),
            ("PROXY UNKNOWN\r\n", None),
            ("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
        ] {
            assert_eq!(line(text.as_bytes()), Ok(origin.map(|at| at.parse().unwrap())), "{text}");
        }
        for text in [
            "",
            "PROXY \r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 56324 5432\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 56324\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 56324 5432 1\r\n",
            "PROXY TCP4 192.0.2.7  198.51.100.1 56324 5432\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 65536 5432\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 +1 5432\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 01 5432\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 1 -1\r\n",
            "PROXY TCP4 ::1 198.51.100.1 1 2\r\n",
            "PROXY TCP6 ::1 198.51.100.1 1 2\r\n",
            "PROXY UDP4 192.0.2.7 198.51.100.1 1 2\r\n",
            "proxy TCP4 192.0.2.7 198.51.100.1 1 2\r\n",
        ] {
            assert_eq!(line(text.as_bytes()), Err(NoHeader), "{text}");
        }
    }

    #[test]
    fn headers_of_version_2() {
        let v4 = [192, 0, 2, 7, 198, 51, 100, 1, 0xdc, 0x04, 0x15, 0x38];
        let v6 = [[0x20; 16], [0x30; 16]].concat();
        let v6 = [&v6[..], &[0x15, 0x38, 0, 1]].concat();
        let more = [&v4[..], b"\x04\0\x01x"].concat();
        for (head, rest, expected) in [
            ([0x21, 0x11], &v4[..], Ok(Some("192.0.2.7:56324"))),
            ([0x21, 0x11], &more, Ok(Some("192.0.2.7:56324"))),
            ([0x21, 0x21], &v6, Ok(Some("[2020:2020:2020:2020:2020:2020:2020:2020]:5432"))),
            ([0x20, 0x00], b"", Ok(None)),
            ([0x20, 0x11], &v4, Ok(None)),
            ([0x21, 0x00], b"", Ok(None)),
            ([0x21, 0x31], &[0; 216], Ok(None)),
            ([0x21, 0x11], &v4[..11], Err(NoHeader)),
            ([0x21, 0x21], &v6[..35], Err(NoHeader)),
            ([0x22, 0x11], &v4, Err(NoHeader)),
            ([0x11, 0x11], &v4, Err(NoHeader)),
        ] {
            let head = [head[0], head[1], 0, 0];
            let expected = expected.map(|origin| origin.map(|at: &str| at.parse().unwrap()));
            assert_eq!(binary(head, rest), expected, "{head:?}");
        }
        assert_eq!(rest_length([0x21, 0x11, 0, 12]), Ok(12));
        assert_eq!(rest_length([0x21, 0x11, 0x10, 0]), Ok(MAX_REST));
        assert_eq!(rest_length([0x21, 0x11, 0x10, 1]), Err(NoHeader));
        assert_eq!(rest_length([0x31, 0x11, 0, 12]), Err(NoHeader));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, head: [u8; 4]) {
            let _ = (line(&bytes), rest_length(head), binary(head, &bytes));
            let _ = line(&[WORD, &bytes, b"\r\n"].concat());
            let _ = binary([0x21, 0x11, 0, 0], &bytes);
        }
    }
}
