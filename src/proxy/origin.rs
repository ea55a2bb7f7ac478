//! Whose connection it is: the other end's, or whom a trusted load balancer names in front of it.

use super::stream::{ReadHalf, Stream};
use crate::wire::proxy_header::{self, MAX_LINE, NoHeader, SIGNATURE, WORD};
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::io::AsyncReadExt;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Any address in it.
    pub address: IpAddr,
    /// How many bits its addresses have in common: at most 32, or 128.
    pub prefix: u8,
}

impl Network {
    /// Whether the address is in it. An IPv4 address in the clothes of IPv6 counts as what it is.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let same = |a: u128, b: u128, width: u32| {
            let ignored = width.saturating_sub(u32::from(self.prefix));
            (a ^ b).checked_shr(ignored).unwrap_or(0) == 0
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

/// Why the first bytes of a trusted peer name nobody.
#[derive(Debug, thiserror::Error)]
pub(super) enum OriginError {
    #[error(transparent)]
    Header(#[from] NoHeader),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads the header of a connection whose other end, `peer`, is in a trusted network: such a peer has to send
/// one, for whoever guesses can be deceived. Nothing behind the header is read.
pub(super) async fn announced(
    client: &mut Stream,
    peer: SocketAddr,
    trusted: &[Network],
) -> Result<SocketAddr, OriginError> {
    if !trusted.iter().any(|network| network.contains(peer.ip())) {
        return Ok(peer);
    }
    let mut reader = client.halves().0;
    let mut start = [0; SIGNATURE.len()];
    reader.read_exact(&mut start).await?;
    let origin = if start == SIGNATURE {
        let mut head = [0; 4];
        reader.read_exact(&mut head).await?;
        let mut rest = vec![0; proxy_header::rest_length(head)?];
        reader.read_exact(&mut rest).await?;
        proxy_header::binary(head, &rest)?
    } else {
        proxy_header::line(&line(&mut reader, &start).await?)?
    };
    Ok(origin.unwrap_or(peer))
}

/// Reads a line byte by byte, since nobody can put back what comes after it.
async fn line(reader: &mut ReadHalf<'_>, start: &[u8]) -> Result<Vec<u8>, OriginError> {
    if !start.starts_with(WORD) {
        return Err(NoHeader.into());
    }
    let mut line = start.to_vec();
    while line.len() < MAX_LINE {
        line.push(reader.read_u8().await?);
        if line.ends_with(b"\n") {
            return Ok(line);
        }
    }
    Err(NoHeader.into())
}

/// The longest name of an application, in bytes (`NAMEDATALEN` - 1): the server cuts off what is beyond.
const MAX_APPLICATION: usize = 63;

/// The name of an application with the address of its client, which stays whole.
pub(super) fn application(name: &str, address: &str) -> String {
    if name.is_empty() {
        return address.to_owned();
    }
    let suffix = format!(" - {address}");
    let room = MAX_APPLICATION.saturating_sub(suffix.len());
    let end = name.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|&end| end <= room).last();
    format!("{}{suffix}", name.get(..end.unwrap_or(0)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_named_with_its_address_within_the_limit() {
        let long = "[1111:2222:3333:4444:5555:6666:7777:8888]:65535";
        for (name, address, expected) in [
            ("etl", "192.0.2.7:1", "etl - 192.0.2.7:1".to_owned()),
            ("etl", "local", "etl - local".to_owned()),
            ("", "192.0.2.7:1", "192.0.2.7:1".to_owned()),
            (&"x".repeat(70), "192.0.2.7:1", format!("{} - 192.0.2.7:1", "x".repeat(49))),
            ("a name that is too long", long, format!("a name that i - {long}")),
            ("ééééééé", long, format!("éééééé - {long}")),
        ] {
            let made = application(name, address);
            assert!(made == expected && made.len() <= MAX_APPLICATION, "{made}");
        }
    }

    #[test]
    fn networks_contain_their_addresses() {
        for (network, prefix, address, inside) in [
            ("127.0.0.0", 8, "127.1.2.3", true),
            ("127.0.0.0", 8, "128.0.0.1", false),
            ("127.0.0.0", 8, "::ffff:127.0.0.1", true),
            ("10.1.2.3", 32, "10.1.2.3", true),
            ("10.1.2.3", 32, "10.1.2.2", false),
            ("0.0.0.0", 0, "255.255.255.255", true),
            ("0.0.0.0", 0, "::1", false),
            ("2001:db8::", 33, "2001:db8:7fff::1", true),
            ("2001:db8::", 33, "2001:db8:8000::1", false),
            ("::", 0, "ffff::1", true),
            ("::1", 128, "::1", true),
        ] {
            let network = Network { address: network.parse().unwrap(), prefix };
            assert_eq!(network.contains(address.parse().unwrap()), inside, "{network:?} {address}");
        }
    }
}
