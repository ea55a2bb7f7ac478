//! SCRAM's channel binding (RFC 5802, 6) where TLS ends in the proxy. Changes the server's
//! offer, and adds a hint to the error that follows from it.

use super::stream::Stream;
use super::tls_listen::Acceptor;
use crate::wire::authentication::{SaslInitial, without_plus};
use crate::wire::frame;
use crate::wire::message;
use crate::wire::tag::backend;

/// What became of the offer to bind the login to a TLS connection that client and server do not share.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// Both see the same certificate, or the server none: nothing is changed.
    Whole,
    /// The offer is to be taken away. Whether the client's hop is encrypted too.
    Split { client: bool },
    /// It has been taken away, and a client whose hop is encrypted has not answered yet.
    Hidden,
    /// The client says that it would bind the login, and the server will know that it offered to.
    Contradiction,
    /// Nothing more can go wrong.
    Settled,
}

const HINT: &str = "SCRAM channel binding cannot pass a proxy that ends TLS: \
set channel_binding=disable in the client, \
or give untwin the certificate and key of the database server (client_tls_cert, client_tls_key), \
or set auth = \"terminate\"";

impl Binding {
    /// What the two hops allow.
    pub fn between(client: &Stream, acceptor: &Acceptor, server: &Stream) -> Self {
        let is_encrypted = matches!(client, Stream::Tls(_));
        match server.peer_certificate() {
            None => Self::Whole,
            Some(shown) if is_encrypted && acceptor.leaf() == Some(shown) => Self::Whole,
            Some(_) => Self::Split { client: is_encrypted },
        }
    }

    /// The message in place of an Authentication with this body, if it has to be another one.
    pub fn offer(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        let Self::Split { client } = *self else { return None };
        let changed = without_plus(body)?;
        *self = if client { Self::Hidden } else { Self::Settled };
        let mut message = Vec::new();
        frame::write(&mut message, backend::AUTHENTICATION, &[&changed]);
        Some(message)
    }

    /// The message in place of an ErrorResponse with this body, if the client can be told why the login fails.
    pub fn failure(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        let is_why = *self == Self::Contradiction;
        self.explain();
        let told = message::with_hint(body, HINT).filter(|_| is_why)?;
        let mut message = Vec::new();
        frame::write(&mut message, backend::ERROR, &[&told]);
        Some(message)
    }

    /// The client has answered with this body.
    pub fn answer(&mut self, body: &[u8]) {
        if *self == Self::Hidden {
            let says_yes = SaslInitial::read(body).is_some_and(|answer| answer.data.starts_with(b"y"));
            *self = if says_yes { Self::Contradiction } else { Self::Settled };
        }
    }

    /// The login has failed, by the server's word or the client's silence: the log says why, if this is why.
    pub fn explain(&mut self) {
        // A client that demands channel binding closes when it is not offered.
        if matches!(self, Self::Hidden | Self::Contradiction) {
            tracing::warn!(hint = HINT, "the login failed");
            *self = Self::Settled;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::authentication::{SCRAM, SCRAM_PLUS, sasl};

    #[test]
    fn only_a_client_that_would_have_bound_is_told_why_it_failed() {
        let offer = sasl(&[SCRAM_PLUS.as_bytes(), SCRAM.as_bytes()]);
        for (client, flag, expected) in [
            (true, "y,,n=,r=x", Binding::Contradiction),
            (true, "n,,n=,r=x", Binding::Settled),
            (false, "n,,n=,r=x", Binding::Settled),
        ] {
            let mut binding = Binding::Split { client };
            let message = binding.offer(&offer).unwrap();
            assert_eq!(message, [&b"R\0\0\0\x17\0\0\0\x0a"[..], SCRAM.as_bytes(), b"\0\0"].concat());
            binding.answer(&SaslInitial { mechanism: SCRAM.as_bytes(), data: flag.as_bytes() }.body());
            assert_eq!(binding, expected, "{flag}");
            let failure = binding.failure(b"C28000\0Mno\0\0");
            assert_eq!(failure.is_some(), expected == Binding::Contradiction, "{flag}");
            assert_eq!(binding.failure(b"C28000\0Mno\0\0"), None, "once");
        }
        assert_eq!(Binding::Whole.offer(&offer), None);
    }
}
