//! The proxy logs in at the server as a client that has proven to the proxy who it is.

use super::auth_client::{Proof, nonce};
use super::auth_scram::Keyed;
use super::handshake::{Login, LoginError, complete};
use super::stream::send;
use crate::wire::authentication::{Request, SCRAM, SCRAM_PLUS, SaslInitial};
use crate::wire::frame::{self, HEADER};
use crate::wire::message;
use crate::wire::tag::{backend, frontend};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use std::sync::Arc;

/// The server hop's part in channel binding.
pub(super) struct Channel {
    pub is_encrypted: bool,
    /// The data to bind to, if the server's certificate has any.
    pub digest: Option<Vec<u8>>,
}

/// An exchange under way.
enum Scram {
    /// Boxed: it is large, and only there for a moment.
    Password(Box<ScramSha256>),
    Keys(Box<Keyed>),
}

/// Answers what the server asks for. Its AuthenticationOk, or an error in its place, stays in `from_server`, as
/// does whatever else it has said.
pub(super) async fn log_in(login: &mut Login<'_>, proof: &Proof, channel: Channel) -> Result<(), LoginError> {
    let mut kept = Vec::new();
    let mut scram = None;
    loop {
        while let Some(header) = complete(login.from_server.filled())? {
            let message = login.from_server.filled().get(..header.frame()).unwrap_or_default();
            let body = message.get(HEADER..).unwrap_or_default();
            let answer = match header.tag {
                backend::AUTHENTICATION => answer(body, proof, &channel, &mut scram)?,
                backend::ERROR => {
                    if message::error_field(body, b'C') == Some(b"28P01") {
                        tracing::warn!(
                            user = proof.user,
                            "the server does not take the secret that untwin has"
                        );
                    }
                    Answer::Done
                }
                _ => Answer::Nothing,
            };
            match answer {
                Answer::Done => {
                    login.from_server.put_first(&kept);
                    return Ok(());
                }
                Answer::Nothing if header.tag != backend::AUTHENTICATION => kept.extend_from_slice(message),
                Answer::Nothing => {}
                Answer::Send(answer) => send(&mut login.server.1, &answer).await?,
            }
            login.from_server.consume(header.frame());
        }
        if login.from_server.read(&mut login.server.0).await? == 0 {
            return Err(LoginError::Closed);
        }
    }
}

enum Answer {
    Send(Vec<u8>),
    Nothing,
    /// The login is decided.
    Done,
}

fn answer(
    body: &[u8],
    proof: &Proof,
    channel: &Channel,
    scram: &mut Option<Scram>,
) -> Result<Answer, LoginError> {
    let unproven = LoginError::Server("the database server did not prove that it knows the user".to_owned());
    match Request::read(body) {
        Some(Request::Ok) if scram.is_some() => Err(unproven),
        Some(Request::Ok) => Ok(Answer::Done),
        Some(Request::Cleartext) => {
            let password = password(proof, "the password in cleartext")?;
            Ok(Answer::Send(response(&[password.as_bytes(), b"\0"])))
        }
        Some(Request::Md5(salt)) => {
            let password = password(proof, "an md5 hash of the password")?;
            let hash = md5_hash(proof.user.as_bytes(), password.as_bytes(), salt);
            Ok(Answer::Send(response(&[hash.as_bytes(), b"\0"])))
        }
        Some(Request::Sasl(mechanisms)) => {
            let (begun, first) = Scram::begin(&mechanisms, proof, channel)?;
            *scram = Some(begun);
            Ok(Answer::Send(first))
        }
        Some(Request::SaslContinue(data)) => match scram {
            Some(scram) => Ok(Answer::Send(response(&[&scram.proof(data)?]))),
            None => Err(unproven),
        },
        Some(Request::SaslFinal(data)) => {
            let is_proven = scram.take().is_some_and(|scram| scram.verifies(data));
            if is_proven { Ok(Answer::Nothing) } else { Err(unproven) }
        }
        Some(Request::Other(code)) => Err(unable(&format!("for authentication of type {code}"))),
        None => Err(LoginError::Server(
            "the database server sent a malformed request for authentication".to_owned(),
        )),
    }
}

impl Scram {
    /// Chooses a mechanism; gives the first message too.
    fn begin(mechanisms: &[&[u8]], proof: &Proof, channel: &Channel) -> Result<(Self, Vec<u8>), LoginError> {
        let offers = |name: &str| mechanisms.contains(&name.as_bytes());
        let bound = channel.digest.clone().filter(|_| offers(SCRAM_PLUS));
        let mechanism = match &bound {
            Some(_) => SCRAM_PLUS,
            None if offers(SCRAM) => SCRAM,
            None => return Err(unable("for a SASL mechanism other than SCRAM-SHA-256")),
        };
        // With a certificate that has no digest the proxy cannot bind, and must not say it could.
        let could_bind = channel.is_encrypted && channel.digest.is_some();
        let (scram, first) = match &proof.password {
            Some(password) => {
                let binding = match bound {
                    Some(digest) => ChannelBinding::tls_server_end_point(digest),
                    None if could_bind => ChannelBinding::unrequested(),
                    None => ChannelBinding::unsupported(),
                };
                let client = ScramSha256::new(password.as_bytes(), binding);
                let first = client.message().to_vec();
                (Self::Password(Box::new(client)), first)
            }
            None => {
                let (key, secret) = (proof.client_key.clone(), Arc::clone(&proof.secret));
                let client = Keyed::new(key, secret, bound, could_bind, &nonce()?);
                let first = client.first().into_bytes();
                (Self::Keys(Box::new(client)), first)
            }
        };
        let initial = SaslInitial { mechanism: mechanism.as_bytes(), data: &first };
        Ok((scram, response(&[&initial.body()])))
    }

    fn proof(&mut self, server_first: &[u8]) -> Result<Vec<u8>, LoginError> {
        match self {
            Self::Password(client) => {
                client.update(server_first).map_err(|error| LoginError::Server(error.to_string()))?;
                Ok(client.message().to_vec())
            }
            Self::Keys(client) => client
                .proof(server_first)
                .map(String::into_bytes)
                .ok_or_else(|| unable("by another SCRAM secret of this user than untwin has")),
        }
    }

    fn verifies(self, server_final: &[u8]) -> bool {
        match self {
            Self::Password(mut client) => client.finish(server_final).is_ok(),
            Self::Keys(client) => client.is_answered(server_final),
        }
    }
}

fn response(parts: &[&[u8]]) -> Vec<u8> {
    let mut message = Vec::new();
    frame::write(&mut message, frontend::PASSWORD, parts);
    message
}

fn password<'a>(proof: &'a Proof, wanted: &str) -> Result<&'a str, LoginError> {
    let unable = || unable(&format!("for {wanted}, of which untwin has a SCRAM secret only"));
    proof.password.as_ref().map(|password| password.as_str()).ok_or_else(unable)
}

fn unable(asked: &str) -> LoginError {
    LoginError::Unable(format!("the database server asks {asked}"))
}
