//! How networks are spelled in settings. Pure.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::value::{BadValue, list_setting, setting};
use crate::proxy;

/// A network, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub proxy::Network);

setting!(Network, "a network: `10.0.0.0/8`, or an address");

impl FromStr for Network {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad =
            || BadValue(format!("`{text}` is no network: write `10.0.0.0/8`, `fd00::/8` or an address"));
        let (address, prefix) =
            text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => most,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| bad())?
            }
            Some(_) => return Err(bad()),
        };
        if prefix > most {
            return Err(bad());
        }
        Ok(Self(proxy::Network { address, prefix }))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.address, self.0.prefix)
    }
}

/// Networks whose load balancers are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Networks(pub Vec<Network>);

list_setting!(Networks, Network, "networks: `10.0.0.0/8`, separated by commas or as a list");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_shown() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("fd00::/8", "fd00::/8"),
            ("::1", "::1/128"),
            ("0.0.0.0/0, ::/0", "0.0.0.0/0,::/0"),
        ] {
            let read: Networks = text.parse().unwrap();
            assert_eq!(read.to_string(), shown);
            assert_eq!(shown.parse(), Ok(read));
        }
        for text in [
            "",
            "10.0.0.0/",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "lan",
            "10.0.0.0/8,",
        ] {
            assert!(text.parse::<Networks>().is_err(), "{text}");
        }
    }
}
