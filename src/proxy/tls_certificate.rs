//! The few things that have to be read from a certificate by hand: the digest it was signed with, and how
//! long it is valid. A checked cursor over DER (X.690); pure.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0]`, constructed.
const CONTEXT_0: u8 = 0xa0;

/// Reads elements one after the other; `None` once the bytes run out or make no sense.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next element's tag and contents.
    fn element(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let length = match first {
            0..=0x7f => usize::from(first),
            0x81..=0x84 => {
                let (bytes, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
                rest = after;
                bytes.iter().try_fold(0_usize, |sum, &byte| sum.checked_mul(256)?.checked_add(byte.into()))?
            }
            _ => return None,
        };
        let (contents, after) = rest.split_at_checked(length)?;
        self.0 = after;
        Some((tag, contents))
    }

    fn next(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.element().filter(|(found, _)| *found == tag).map(|(_, contents)| contents)
    }
}

/// The certificate's digest by the rule of `tls-server-end-point` (RFC 5929, 4.1): that of its own signature,
/// SHA-256 in place of the weak ones. `None` where the signature has no digest (Ed25519): then Postgres knows
/// no channel binding either.
pub(super) fn end_point_digest(certificate: &[u8]) -> Option<Vec<u8>> {
    let mut fields = Der(Der(certificate).next(SEQUENCE)?);
    fields.next(SEQUENCE)?;
    let mut algorithm = Der(fields.next(SEQUENCE)?);
    Some(match digest_of(algorithm.next(OBJECT_IDENTIFIER)?, &mut algorithm)? {
        224 => Sha224::digest(certificate).to_vec(),
        384 => Sha384::digest(certificate).to_vec(),
        512 => Sha512::digest(certificate).to_vec(),
        _ => Sha256::digest(certificate).to_vec(),
    })
}

/// Bits of the digest of a signature algorithm (RFC 4055, RFC 5758).
fn digest_of(algorithm: &[u8], parameters: &mut Der) -> Option<u32> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    if let Some(rest) = algorithm.strip_prefix(RSA) {
        return match rest {
            [4 | 5 | 11] => Some(256),
            [12] => Some(384),
            [13] => Some(512),
            [14] => Some(224),
            [10] => pss_digest(parameters),
            _ => None,
        };
    }
    match algorithm.strip_prefix(ECDSA)? {
        [1] | [3, 2] => Some(256),
        [3, 1] => Some(224),
        [3, 3] => Some(384),
        [3, 4] => Some(512),
        _ => None,
    }
}

/// RSASSA-PSS names its digest among its parameters; SHA-1 where it does not.
fn pss_digest(parameters: &mut Der) -> Option<u32> {
    const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];
    let mut parameters = Der(parameters.next(SEQUENCE)?);
    let Some(hash) = parameters.next(CONTEXT_0) else { return Some(256) };
    match Der(Der(hash).next(SEQUENCE)?).next(OBJECT_IDENTIFIER)?.strip_prefix(SHA2)? {
        [1] => Some(256),
        [2] => Some(384),
        [3] => Some(512),
        [4] => Some(224),
        _ => None,
    }
}

/// From when to when a certificate is valid, both inclusive, in seconds since 1970.
pub(super) fn validity(certificate: &[u8]) -> Option<(i64, i64)> {
    let mut fields = Der(Der(Der(certificate).next(SEQUENCE)?).next(SEQUENCE)?);
    // The version may be left out; then the serial number comes first.
    if fields.element()?.0 == CONTEXT_0 {
        fields.element()?;
    }
    fields.next(SEQUENCE)?;
    fields.next(SEQUENCE)?;
    let mut validity = Der(fields.next(SEQUENCE)?);
    Some((time(validity.element()?)?, time(validity.element()?)?))
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ` (RFC 5280, 4.1.2.5).
fn time((tag, text): (u8, &[u8])) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let text = match tag {
        UTC_TIME => format!("{}{text}", if text.get(..2)? < "50" { "20" } else { "19" }),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%S", text).ok()?;
    Some(TimeZone::UTC.to_timestamp(time).ok()?.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

    fn certificate(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let mut parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2001, 2, 3);
        parameters.not_after = rcgen::date_time_ymd(2061, 2, 3);
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_digest_is_that_of_the_signature() {
        let sha256 = certificate(&rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(end_point_digest(&sha256), Some(Sha256::digest(&sha256).to_vec()));
        let sha384 = certificate(&rcgen::PKCS_ECDSA_P384_SHA384);
        assert_eq!(end_point_digest(&sha384), Some(Sha384::digest(&sha384).to_vec()));
        assert_eq!(end_point_digest(&certificate(&rcgen::PKCS_ED25519)), None);
    }

    #[test]
    fn both_spellings_of_times_are_read() {
        assert_eq!(validity(&certificate(&rcgen::PKCS_ED25519)), Some((981_158_400, 2_874_614_400)));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, at: usize, byte: u8) {
            let mut cut = certificate(&rcgen::PKCS_ED25519);
            let at = at % cut.len();
            cut[at] = byte;
            for bytes in [&bytes, &cut, &cut[..at].to_vec()] {
                let _ = (end_point_digest(bytes), validity(bytes));
            }
        }
    }
}
