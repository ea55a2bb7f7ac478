//! TLS towards clients: the certificate that is shown to them, and the handshake. Knows nothing of what is
//! said before and after it.

use super::stream::Stream;
use super::tls::{self, ClientCertificates, ClientMode, ClientTls, FileError};
use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{RootCertStore, ServerConfig};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// What a client that begins with TLS has to name (ALPN), as Postgres 17 demands.
pub(super) const PROTOCOL: &[u8] = b"postgresql";

/// The client hop's TLS, as the files were when they were read.
pub(crate) struct Acceptor {
    /// Whether it is used.
    pub mode: ClientMode,
    identity: Option<Identity>,
}

struct Identity {
    config: Arc<ServerConfig>,
    /// The proxy's own certificate, DER.
    leaf: CertificateDer<'static>,
}

impl Acceptor {
    /// Reads the files that `settings` names.
    pub fn load(settings: &ClientTls) -> Result<Self, FileError> {
        let identity = match (settings.mode, &settings.cert, &settings.key) {
            (ClientMode::Disable, ..) | (_, None, _) | (_, _, None) => None,
            (_, Some(cert), Some(key)) => Some(Identity::load(cert, key, settings)?),
        };
        Ok(Self { mode: settings.mode, identity })
    }

    /// Whether clients can be offered TLS.
    pub fn is_ready(&self) -> bool {
        self.identity.is_some()
    }

    /// The certificate that clients are shown, DER.
    pub fn leaf(&self) -> Option<&[u8]> {
        self.identity.as_ref().map(|identity| identity.leaf.as_ref())
    }

    /// Encrypts a connection. `direct`: the client began with TLS, and so has to name the protocol.
    pub async fn accept(&self, socket: TcpStream, direct: bool) -> io::Result<Stream> {
        let Some(identity) = &self.identity else { return Err(io::Error::other("no certificate is set")) };
        let stream = TlsAcceptor::from(Arc::clone(&identity.config)).accept(socket).await?;
        if direct && stream.get_ref().1.alpn_protocol() != Some(PROTOCOL) {
            return Err(io::Error::other(
                "a direct TLS connection without ALPN protocol negotiation extension",
            ));
        }
        Ok(Stream::Tls(Box::new(stream.into())))
    }
}

impl Identity {
    fn load(cert: &Path, key: &Path, settings: &ClientTls) -> Result<Self, FileError> {
        let provider = tls::provider();
        let identity = tls::identity(cert, key, &provider)?;
        let leaf = identity.cert.first().cloned();
        let leaf = leaf.ok_or_else(|| FileError::new(cert, "it holds no certificate"))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| FileError::new(cert, error))?;
        let builder = match &settings.ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(ca)?), provider);
                let verifier = match settings.certificates {
                    ClientCertificates::Optional => verifier.allow_unauthenticated(),
                    ClientCertificates::Required => verifier,
                };
                // As with Postgres, every authority of a chain has to have a list, and none may be out of date.
                let verifier = match &settings.crl {
                    Some(crl) => verifier.with_crls(tls::revocations(crl)?).enforce_revocation_expiration(),
                    None => verifier,
                };
                builder
                    .with_client_cert_verifier(verifier.build().map_err(|error| FileError::new(ca, error))?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // As Postgres: every connection shakes hands in full, so that what was reloaded holds for it.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), leaf })
    }
}

/// The authorities of a PEM file.
pub(super) fn roots(path: &Path) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    for certificate in tls::certificates(path)? {
        roots.add(certificate).map_err(|error| FileError::new(path, error))?;
    }
    Ok(roots)
}
