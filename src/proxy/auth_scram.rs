//! SCRAM-SHA-256 (RFC 5802, RFC 7677) as a server checks it, and as a client that has keys instead of a password
//! does it. Pure: nonces and secrets enter by parameter.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

type Key = [u8; 32];

/// A key by which a client proves who it is.
pub(super) type ClientKey = Zeroizing<Key>;

/// What a server stores in place of a password: enough to check it, not to know it.
#[derive(PartialEq, Eq)]
pub(crate) struct Secret {
    iterations: u32,
    /// In base64, as it is sent.
    salt: String,
    stored_key: Key,
    server_key: Key,
    /// A secret of nobody: the exchange runs to its end, and fails.
    is_mock: bool,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Begins a secret in `pg_authid`.
pub(super) const PREFIX: &str = "SCRAM-SHA-256$";
/// Of secrets that Postgres makes, by default.
const ITERATIONS: u32 = 4096;

impl Secret {
    /// Reads `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`, as it stands in `pg_authid`.
    pub fn parse(text: &str) -> Option<Self> {
        let (costs, keys) = text.strip_prefix(PREFIX)?.split_once('$')?;
        let (iterations, salt) = costs.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        BASE64.decode(salt).ok().filter(|salt| !salt.is_empty())?;
        Some(Self {
            iterations: iterations.parse().ok().filter(|&iterations| iterations > 0)?,
            salt: salt.to_owned(),
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
            is_mock: false,
        })
    }

    /// What a name that nobody has is asked for: always the same, as it would be if somebody had it.
    pub fn mock(process_key: &Key, user: &str) -> Self {
        let salt = hmac(process_key, &[b"salt", user.as_bytes()]);
        let salt = salt.first_chunk::<16>().map(|salt| BASE64.encode(salt)).unwrap_or_default();
        let (stored_key, server_key) = (hmac(process_key, &[b"stored", user.as_bytes()]), *process_key);
        Self { iterations: ITERATIONS, salt, stored_key, server_key, is_mock: true }
    }
}

fn key(text: &str) -> Option<Key> {
    BASE64.decode(text).ok()?.try_into().ok()
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    // HMAC takes keys of any length: there is no error.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Key::default() };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn xor(one: &Key, other: &Key) -> ClientKey {
    let mut result = Zeroizing::new(*one);
    result.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
    result
}

/// Why an exchange fails. What the client is told of it never says more than Postgres does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScramError {
    #[error("malformed SCRAM message")]
    Malformed,
    #[error("client uses authorization identity, but it is not supported")]
    Authorization,
    #[error("client requires an unsupported SCRAM extension")]
    Extension,
    #[error("SCRAM channel binding negotiation error")]
    Negotiation,
    #[error("SCRAM channel binding check failed")]
    Binding,
    /// The proof is wrong, or nobody has this name.
    #[error("wrong password")]
    Proof,
}

/// The server's side of an exchange, between its two messages.
pub(super) struct Exchange {
    secret: Arc<Secret>,
    /// What the client has to repeat of the channel it believes in.
    binding: String,
    /// The nonces of both sides.
    nonce: String,
    client_first: String,
    /// The first message to the client.
    pub server_first: String,
}

/// A client whose proof was right.
pub(super) struct Proven {
    /// By which the proxy can prove to be this client elsewhere.
    pub client_key: ClientKey,
    /// The last message to the client.
    pub server_final: String,
}

impl Exchange {
    /// Reads the client's first message. `plus`: the client chose the mechanism that binds; `channel`: the data to
    /// bind to, if that mechanism was offered.
    pub fn begin(
        client_first: &[u8],
        plus: bool,
        channel: Option<&[u8]>,
        nonce: &str,
        secret: Arc<Secret>,
    ) -> Result<Self, ScramError> {
        let message = std::str::from_utf8(client_first).map_err(|_| ScramError::Malformed)?;
        let (flag, rest) = message.split_once(',').ok_or(ScramError::Malformed)?;
        let (identity, bare) = rest.split_once(',').ok_or(ScramError::Malformed)?;
        let channel = bound_to(flag, plus, channel)?;
        if !identity.is_empty() {
            return Err(if identity.starts_with("a=") {
                ScramError::Authorization
            } else {
                ScramError::Malformed
            });
        }
        let client_nonce = client_nonce(bare)?;
        let nonce = format!("{client_nonce}{nonce}");
        let server_first = format!("r={nonce},s={},i={}", secret.salt, secret.iterations);
        let binding = BASE64.encode([format!("{flag},,").as_bytes(), channel].concat());
        Ok(Self { secret, binding, nonce, client_first: bare.to_owned(), server_first })
    }

    /// Reads the client's last message.
    pub fn finish(self, client_final: &[u8]) -> Result<Proven, ScramError> {
        let message = std::str::from_utf8(client_final).map_err(|_| ScramError::Malformed)?;
        let (unproven, proof) = message.rsplit_once(",p=").ok_or(ScramError::Malformed)?;
        let proof = key(proof).ok_or(ScramError::Malformed)?;
        let mut attributes = unproven.split(',');
        let binding =
            attributes.next().and_then(|first| first.strip_prefix("c=")).ok_or(ScramError::Malformed)?;
        let nonce =
            attributes.next().and_then(|second| second.strip_prefix("r=")).ok_or(ScramError::Malformed)?;
        if binding != self.binding {
            return Err(ScramError::Binding);
        }
        if nonce != self.nonce {
            return Err(ScramError::Malformed);
        }
        let signed = [self.client_first.as_str(), &self.server_first, unproven].join(",");
        let client_key = xor(&proof, &hmac(&self.secret.stored_key, &[signed.as_bytes()]));
        let is_right = Key::from(Sha256::digest(*client_key)).ct_eq(&self.secret.stored_key);
        if !bool::from(is_right) || self.secret.is_mock {
            return Err(ScramError::Proof);
        }
        let signature = hmac(&self.secret.server_key, &[signed.as_bytes()]);
        Ok(Proven { client_key, server_final: format!("v={}", BASE64.encode(signature)) })
    }
}

/// The data of the channel that the client's flag binds to.
fn bound_to<'a>(flag: &str, plus: bool, channel: Option<&'a [u8]>) -> Result<&'a [u8], ScramError> {
    match (flag, plus, channel) {
        ("n", false, _) | ("y", false, None) => Ok(&[]),
        // The client could bind and believes that the server cannot: somebody hid the offer.
        ("y", false, Some(_)) => Err(ScramError::Negotiation),
        ("p=tls-server-end-point", true, Some(channel)) => Ok(channel),
        _ => Err(ScramError::Malformed),
    }
}

/// The nonce in `n=user,r=nonce[,extensions]`. The name does not count: that of the startup packet does.
fn client_nonce(bare: &str) -> Result<&str, ScramError> {
    let mut attributes = bare.split(',');
    match attributes.next() {
        Some(name) if name.starts_with("n=") => {}
        Some(name) if name.starts_with("m=") => return Err(ScramError::Extension),
        _ => return Err(ScramError::Malformed),
    }
    let nonce =
        attributes.next().and_then(|second| second.strip_prefix("r=")).ok_or(ScramError::Malformed)?;
    let is_printable = |byte: u8| (0x21..=0x7e).contains(&byte);
    if nonce.is_empty() || !nonce.bytes().all(is_printable) { Err(ScramError::Malformed) } else { Ok(nonce) }
}

/// A client's side of an exchange with a server that has the same secret as the proxy.
pub(super) struct Keyed {
    client_key: ClientKey,
    secret: Arc<Secret>,
    header: &'static str,
    channel: Vec<u8>,
    client_first: String,
    /// What was signed, once it was.
    signed: String,
}

impl Keyed {
    /// `channel`: the data to bind to, if the server offers that. `is_encrypted`: whether the client could bind.
    pub fn new(
        client_key: ClientKey,
        secret: Arc<Secret>,
        channel: Option<Vec<u8>>,
        is_encrypted: bool,
        nonce: &str,
    ) -> Self {
        let header = match (&channel, is_encrypted) {
            (Some(_), _) => "p=tls-server-end-point,,",
            (None, true) => "y,,",
            (None, false) => "n,,",
        };
        let (channel, client_first) = (channel.unwrap_or_default(), format!("n=,r={nonce}"));
        Self { client_key, secret, header, channel, client_first, signed: String::new() }
    }

    /// The first message to the server.
    pub fn first(&self) -> String {
        format!("{}{}", self.header, self.client_first)
    }

    /// The last message to the server; `None` if the server has another secret than the proxy, or none.
    pub fn proof(&mut self, server_first: &[u8]) -> Option<String> {
        let message = std::str::from_utf8(server_first).ok()?;
        let (nonce, costs) = message.strip_prefix("r=")?.split_once(',')?;
        let own = self.client_first.split_once("r=")?.1;
        let expected = format!("s={},i={}", self.secret.salt, self.secret.iterations);
        if !nonce.starts_with(own) || nonce.len() == own.len() || costs != expected {
            return None;
        }
        let binding = BASE64.encode([self.header.as_bytes(), &self.channel].concat());
        let unproven = format!("c={binding},r={nonce}");
        self.signed = [self.client_first.as_str(), message, &unproven].join(",");
        let proof = xor(&self.client_key, &hmac(&self.secret.stored_key, &[self.signed.as_bytes()]));
        Some(format!("{unproven},p={}", BASE64.encode(*proof)))
    }

    /// Whether the server has proven that it has the secret.
    pub fn is_answered(&self, server_final: &[u8]) -> bool {
        let signature = hmac(&self.secret.server_key, &[self.signed.as_bytes()]);
        server_final.ct_eq(format!("v={}", BASE64.encode(signature)).as_bytes()).into()
    }
}

#[cfg(test)]
#[path = "auth_scram_tests.rs"]
mod tests;
