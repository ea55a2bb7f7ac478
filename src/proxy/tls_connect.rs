//! TLS towards the server, with libpq's meaning of `sslmode` and its kin. Knows one connection; which server
//! and which way is tried next is not its business.

use super::machine::Machine;
use super::stream::Stream;
use super::tls::{self, FileError, Root, SslMode, UpstreamTls};
use super::tls_certificate::{public_key, validity};
use super::tls_listen::{PROTOCOL, roots};
use super::{Address, Tcp};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    Resumption, WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor, verify_server_name,
};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How one attempt to reach the server is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    /// Encrypted.
    Tls,
    /// Encrypted, or not if the server cannot.
    TlsIfOffered,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// Nobody listens there, or nobody was heard.
    #[error("{0}")]
    Unreachable(io::Error),
    /// The server is there, and cannot be spoken to in this way.
    #[error("TLS: {0}")]
    Tls(io::Error),
}

/// The server hop's TLS, as the files were when they were read.
pub(crate) struct Connector {
    settings: UpstreamTls,
    /// None where `sslmode=disable`.
    config: Option<Arc<ClientConfig>>,
}

impl Connector {
    /// Reads the files that `settings` names.
    pub fn load(settings: &UpstreamTls) -> Result<Self, FileError> {
        let config = match settings.mode {
            SslMode::Disable => None,
            _ => Some(Arc::new(config(settings)?)),
        };
        Ok(Self { settings: settings.clone(), config })
    }

    /// The ways to try, in order. A socket in a directory is never encrypted.
    pub fn ways(&self, address: &Address) -> &'static [Way] {
        match (address, self.settings.mode) {
            (Address::Unix { .. }, _) | (_, SslMode::Disable) => &[Way::Plain],
            (_, SslMode::Allow) => &[Way::Plain, Way::Tls],
            (_, SslMode::Prefer) => &[Way::TlsIfOffered, Way::Plain],
            _ => &[Way::Tls],
        }
    }

    /// Opens a connection in one way.
    pub async fn connect(&self, machine: &Machine, way: Way, tcp: &Tcp) -> Result<Stream, ConnectError> {
        match (machine.connect(tcp).await.map_err(ConnectError::Unreachable)?, way) {
            (Stream::Tcp(socket), Way::Tls | Way::TlsIfOffered) => {
                let encrypted = self.encrypt(socket, &machine.host, way).await;
                if let (Err(error), Way::TlsIfOffered) = (&encrypted, way) {
                    tracing::warn!(%error, "no TLS with the server: trying without, since sslmode=prefer");
                }
                encrypted.map_err(ConnectError::Tls)
            }
            (stream, _) => Ok(stream),
        }
    }

    async fn encrypt(&self, mut socket: TcpStream, address: &Address, way: Way) -> io::Result<Stream> {
        let Some(config) = &self.config else { return Ok(Stream::Tcp(socket)) };
        if !self.settings.direct && !is_offered(&mut socket).await? {
            return match way {
                Way::TlsIfOffered => Ok(Stream::Tcp(socket)),
                _ => Err(io::Error::other("the server does not support TLS, but sslmode demands it")),
            };
        }
        let name = self.name(address)?;
        let stream = TlsConnector::from(Arc::clone(config)).connect(name, socket).await?;
        if self.settings.direct && stream.get_ref().1.alpn_protocol() != Some(PROTOCOL) {
            return Err(io::Error::other("the server does not support sslnegotiation=direct"));
        }
        Ok(Stream::Tls(Box::new(stream.into())))
    }

    fn name(&self, address: &Address) -> io::Result<ServerName<'static>> {
        let given = self.settings.names.iter().find(|(of, _)| of == address).map(|(_, name)| name);
        let host = match (given, address) {
            (Some(name), _) => name,
            (None, Address::Tcp { host, .. }) => host,
            (None, Address::Unix { .. }) => {
                return Err(io::Error::other("a socket in a directory is never encrypted"));
            }
        };
        ServerName::try_from(host.clone()).map_err(io::Error::other)
    }
}

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Asks the server for TLS. Reads one byte and no more: what follows it unencrypted is no part of the session.
async fn is_offered(socket: &mut TcpStream) -> io::Result<bool> {
    socket.write_all(&SSL_REQUEST).await?;
    match socket.read_u8().await? {
        b'S' => Ok(true),
        b'N' => Ok(false),
        // An error's text would come from anybody on the network: it is not shown.
        _ => Err(io::Error::other("the server did not understand the request for TLS")),
    }
}

fn config(settings: &UpstreamTls) -> Result<ClientConfig, FileError> {
    let provider = tls::provider();
    let trust = Trust::load(settings, &provider)?;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| FileError::new(Path::new("sslmode"), error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { trust, provider: Arc::clone(&provider) }));
    let mut config = match (&settings.cert, &settings.key) {
        (Some(cert), Some(key)) => {
            let identity = tls::identity(cert, key, &provider)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
        }
        _ => builder.with_no_client_auth(),
    };
    config.enable_sni = settings.sni;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Whom to believe that the server is the server.
#[derive(Debug)]
enum Trust {
    /// Anybody.
    All,
    /// Those an authority vouches for.
    Vouched {
        roots: Arc<RootCertStore>,
        own: Vec<CertificateDer<'static>>,
        by_name: bool,
        /// Where there are lists of revoked certificates: knows them.
        lists: Option<Arc<WebPkiServerVerifier>>,
    },
}

impl Trust {
    fn load(settings: &UpstreamTls, provider: &Arc<CryptoProvider>) -> Result<Self, FileError> {
        let (roots, own) = match &settings.root {
            // Below `require` a bad certificate would only lead to a connection without encryption.
            _ if settings.mode < SslMode::Require => return Ok(Self::All),
            None => return Ok(Self::All),
            Some(Root::File(path)) => (roots(path)?, tls::certificates(path)?),
            Some(Root::System) => {
                let mut roots = RootCertStore::empty();
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    return Err(FileError::new(
                        Path::new("sslrootcert=system"),
                        "the system has no certificates of authorities",
                    ));
                }
                (roots, Vec::new())
            }
        };
        let roots = Arc::new(roots);
        let lists = lists(settings, &roots, provider)?;
        Ok(Self::Vouched { roots, own, by_name: settings.mode == SslMode::VerifyFull, lists })
    }
}

fn lists(
    settings: &UpstreamTls,
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<WebPkiServerVerifier>>, FileError> {
    let mut lists = Vec::new();
    if let Some(path) = &settings.crl {
        lists.extend(tls::revocations(path)?);
    }
    if let Some(directory) = &settings.crl_directory {
        lists.extend(tls::revocations_in(directory)?);
    }
    let Some(place) = settings.crl.as_ref().or(settings.crl_directory.as_ref()) else { return Ok(None) };
    // As with libpq, every authority of a chain has to have a list, and none may be out of date.
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider))
        .with_crls(lists)
        .enforce_revocation_expiration()
        .build();
    verifier.map(Some).map_err(|error| FileError::new(place, error))
}

/// Verifies the server as libpq does. The handshake's signature is verified always.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Trust::Vouched { roots, own, by_name, lists } = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        if let Some(lists) = lists {
            // The name comes last: whoever only bears another one is good.
            return match lists.verify_server_cert(leaf, chain, name, &[], now) {
                Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )) if !by_name => Ok(ServerCertVerified::assertion()),
                verified => verified,
            };
        }
        if own.contains(leaf) {
            // A certificate that stands among the authorities vouches for itself; webpki would refuse one that
            // says it is an authority, which those made by `openssl req -x509` do.
            is_valid(leaf, now)?;
        } else {
            let parsed = ParsedCertificate::try_from(leaf)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, roots, chain, now, algorithms)?;
        }
        if *by_name {
            verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // By the key alone: webpki reads no certificate of version 1, and it is not the one to judge here.
        let key = public_key(certificate).ok_or(CertificateError::BadEncoding)?;
        verify_tls13_signature_with_raw_key(
            message,
            &key.into(),
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn is_valid(certificate: &[u8], now: UnixTime) -> Result<(), Error> {
    let (from, to) = validity(certificate).ok_or(CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    match now {
        now if now < from => Err(CertificateError::NotValidYet.into()),
        now if now > to => Err(CertificateError::Expired.into()),
        _ => Ok(()),
    }
}
