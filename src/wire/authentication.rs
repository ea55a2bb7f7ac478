//! Messages of authentication: what the server asks for, and what a client answers with. Computes nothing.

use super::reader::Reader;

/// SCRAM without channel binding.
pub const SCRAM: &str = "SCRAM-SHA-256";
/// SCRAM bound to the TLS connection.
pub const SCRAM_PLUS: &str = "SCRAM-SHA-256-PLUS";

const OK: u32 = 0;
const CLEARTEXT: u32 = 3;
const MD5: u32 = 5;
const SASL: u32 = 10;
const SASL_CONTINUE: u32 = 11;
const SASL_FINAL: u32 = 12;

/// The body of an Authentication message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Nothing more: the client is who it says it is.
    Ok,
    /// The password as it is.
    Cleartext,
    /// The password, hashed with this salt.
    Md5([u8; 4]),
    /// An exchange by one of these mechanisms, the server's favourite first.
    Sasl(Vec<&'a [u8]>),
    SaslContinue(&'a [u8]),
    SaslFinal(&'a [u8]),
    /// Anything else, by its code.
    Other(u32),
}

impl<'a> Request<'a> {
    #[must_use]
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(body);
        let code = reader.u32()?;
        let rest = body.get(reader.at()..)?;
        Some(match code {
            OK => Self::Ok,
            CLEARTEXT => Self::Cleartext,
            MD5 => Self::Md5(reader.take(4)?.try_into().ok()?),
            SASL => {
                let mut mechanisms = Vec::new();
                loop {
                    match reader.cstr()? {
                        b"" => break Self::Sasl(mechanisms),
                        mechanism => mechanisms.push(mechanism),
                    }
                }
            }
            SASL_CONTINUE => Self::SaslContinue(rest),
            SASL_FINAL => Self::SaslFinal(rest),
            code => Self::Other(code),
        })
    }
}

/// The body of the same AuthenticationSASL without [`SCRAM_PLUS`]; `None` if there is nothing to take away, or
/// nothing would be left.
#[must_use]
pub fn without_plus(body: &[u8]) -> Option<Vec<u8>> {
    let Some(Request::Sasl(mechanisms)) = Request::read(body) else { return None };
    let kept: Vec<_> = mechanisms.iter().filter(|name| **name != SCRAM_PLUS.as_bytes()).copied().collect();
    (kept.len() < mechanisms.len() && !kept.is_empty()).then(|| sasl(&kept))
}

/// The body of an AuthenticationSASL that offers these mechanisms.
#[must_use]
pub fn sasl(mechanisms: &[&[u8]]) -> Vec<u8> {
    let mut body = SASL.to_be_bytes().to_vec();
    for mechanism in mechanisms {
        body.extend_from_slice(mechanism);
        body.push(0);
    }
    body.push(0);
    body
}

/// The body of an AuthenticationSASLContinue.
#[must_use]
pub fn sasl_continue(data: &[u8]) -> Vec<u8> {
    [&SASL_CONTINUE.to_be_bytes(), data].concat()
}

/// The body of an AuthenticationSASLFinal.
#[must_use]
pub fn sasl_final(data: &[u8]) -> Vec<u8> {
    [&SASL_FINAL.to_be_bytes(), data].concat()
}

/// SASLInitialResponse: a client's choice of mechanism and its first words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaslInitial<'a> {
    pub mechanism: &'a [u8],
    pub data: &'a [u8],
}

impl<'a> SaslInitial<'a> {
    #[must_use]
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(body);
        let mechanism = reader.cstr()?;
        let length = usize::try_from(reader.i32()?).ok()?;
        let data = reader.take(length)?;
        reader.is_empty().then_some(Self { mechanism, data })
    }

    /// The body of the message.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let length = u32::try_from(self.data.len()).unwrap_or(u32::MAX);
        [self.mechanism, b"\0", &length.to_be_bytes(), self.data].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        for (body, request) in [
            (&b"\0\0\0\0"[..], Some(Request::Ok)),
            (b"\0\0\0\x03", Some(Request::Cleartext)),
            (b"\0\0\0\x05abcd", Some(Request::Md5(*b"abcd"))),
            (b"\0\0\0\x05abc", None),
            (b"\0\0\0\x0aA\0B\0\0", Some(Request::Sasl(vec![b"A", b"B"]))),
            (b"\0\0\0\x0aA\0B\0", None),
            (b"\0\0\0\x0bdata", Some(Request::SaslContinue(b"data"))),
            (b"\0\0\0\x0cdata", Some(Request::SaslFinal(b"data"))),
            (b"\0\0\0\x07", Some(Request::Other(7))),
            (b"\0\0\0", None),
        ] {
            assert_eq!(Request::read(body), request, "{body:?}");
        }
    }

    #[test]
    fn only_the_bound_mechanism_is_taken_away() {
        for (offered, left) in [
            (&["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"][..], Some(&["SCRAM-SHA-256"][..])),
            (&["OAUTHBEARER", "SCRAM-SHA-256-PLUS", "X"], Some(&["OAUTHBEARER", "X"])),
            (&["SCRAM-SHA-256"], None),
            (&["SCRAM-SHA-256-PLUS"], None),
        ] {
            let body = |names: &[&str]| sasl(&names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
            assert_eq!(without_plus(&body(offered)), left.map(body), "{offered:?}");
        }
        assert_eq!(without_plus(b"\0\0\0\0"), None);
    }

    #[test]
    fn a_first_answer_reads_back() {
        let initial = SaslInitial { mechanism: b"SCRAM-SHA-256", data: b"n,,n=,r=x" };
        assert_eq!(SaslInitial::read(&initial.body()), Some(initial));
        for body in [&b"A"[..], b"A\0\0\0\0\x02x", b"A\0\xff\xff\xff\xff", b"A\0\0\0\0\x01xy"] {
            assert_eq!(SaslInitial::read(body), None, "{body:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_body_makes_it_panic(body: Vec<u8>, code in 0u8..14) {
            for body in [[&[0, 0, 0, code], &body[..]].concat(), body] {
                let _ = (Request::read(&body), without_plus(&body), SaslInitial::read(&body));
            }
        }
    }
}
