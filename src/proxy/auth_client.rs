//! The proxy asks a client who it is, by SCRAM. Knows how to prove the same elsewhere; does not do it.

use super::auth_scram::{ClientKey, Exchange, ScramError, Secret};
use super::auth_users::User;
use super::buffer::Buffer;
use super::handshake::{LoginError, complete};
use super::stream::{Stream, send};
use crate::wire::authentication::{SCRAM, SCRAM_PLUS, SaslInitial, sasl, sasl_continue, sasl_final};
use crate::wire::frame::{self, HEADER};
use crate::wire::tag::{backend, frontend};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::sync::Arc;
use tokio::io::AsyncRead;
use zeroize::Zeroizing;

/// What a client has proven, and by which the proxy can log in as this client.
pub(super) struct Proof {
    pub user: String,
    /// If the proxy knows it.
    pub password: Option<Zeroizing<String>>,
    pub client_key: ClientKey,
    pub secret: Arc<Secret>,
}

/// The longest answer that makes sense, in bytes.
const MAX_ANSWER: usize = 4096;

/// Has the client prove that it is `user`, by what is known of that user. `channel`: the data to bind to, if its
/// connection is encrypted. What it sends beyond its proof stays in `buffer`.
pub(super) async fn ask(
    client: &mut Stream,
    buffer: &mut Buffer,
    known: User,
    user: &str,
    channel: Option<&[u8]>,
) -> Result<Proof, LoginError> {
    let (mut reader, mut writer) = client.halves();
    let denied = |why| LoginError::Denied { user: user.to_owned(), why };
    let offered = [SCRAM_PLUS.as_bytes(), SCRAM.as_bytes()];
    let offered = offered.get(usize::from(channel.is_none())..).unwrap_or_default();
    send(&mut writer, &request(&sasl(offered))).await?;

    let answer = answer(&mut reader, buffer).await?.ok_or(denied(ScramError::Malformed))?;
    let initial = SaslInitial::read(&answer).filter(|initial| offered.contains(&initial.mechanism));
    let initial = initial.ok_or(denied(ScramError::Malformed))?;
    let plus = initial.mechanism == SCRAM_PLUS.as_bytes();
    let User { secret, password } = known;
    let exchange =
        Exchange::begin(initial.data, plus, channel, &nonce()?, Arc::clone(&secret)).map_err(denied)?;
    send(&mut writer, &request(&sasl_continue(exchange.server_first.as_bytes()))).await?;

    let answer = self::answer(&mut reader, buffer).await?.ok_or(denied(ScramError::Malformed))?;
    let proven = exchange.finish(&answer).map_err(denied)?;
    send(&mut writer, &request(&sasl_final(proven.server_final.as_bytes()))).await?;
    Ok(Proof { user: user.to_owned(), password, client_key: proven.client_key, secret })
}

fn request(body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    frame::write(&mut message, backend::AUTHENTICATION, &[body]);
    message
}

/// As many random bytes as Postgres takes (`SCRAM_RAW_NONCE_LEN`), printable.
pub(super) fn nonce() -> std::io::Result<String> {
    let mut bytes = [0; 18];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(BASE64.encode(bytes))
}

/// The body of the client's next message; `None` if that is no answer.
async fn answer(
    reader: &mut (impl AsyncRead + Unpin),
    buffer: &mut Buffer,
) -> Result<Option<Vec<u8>>, LoginError> {
    loop {
        if let Ok(header) = frame::header(buffer.filled()) {
            if header.is_some_and(|header| header.tag != frontend::PASSWORD || header.body > MAX_ANSWER) {
                return Ok(None);
            }
        } else {
            return Ok(None);
        }
        if let Some(header) = complete(buffer.filled())? {
            let body = buffer.filled().get(HEADER..header.frame()).unwrap_or_default().to_vec();
            buffer.consume(header.frame());
            return Ok(Some(body));
        }
        if buffer.read(reader).await? == 0 {
            return Err(LoginError::Closed);
        }
    }
}
