//! What is set about TLS on both hops, and the PEM files it names. Opens no connection.

use super::Address;
use super::tls_certificate::public_key;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether clients' connections are encrypted, as the server's side of libpq's `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum ClientMode {
    /// Never.
    Disable,
    /// If the client asks for it and a certificate is set.
    Allow,
    /// The same: which of the two it is, is the client's choice.
    #[default]
    Prefer,
    /// Always, except over a socket in a directory.
    Require,
}

/// Whether clients have to show a certificate of `client_tls_ca`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum ClientCertificates {
    /// One that is shown has to be good.
    Optional,
    /// Without one there is no encrypted connection.
    #[default]
    Required,
}

/// TLS between clients and the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// When it is used.
    pub mode: ClientMode,
    /// PEM: the proxy's certificate, followed by those that lead to the authority.
    pub cert: Option<PathBuf>,
    /// PEM: its private key.
    pub key: Option<PathBuf>,
    /// PEM: the authorities whose certificates clients may show.
    pub ca: Option<PathBuf>,
    /// Whether they have to.
    pub certificates: ClientCertificates,
    /// PEM: lists of those of them that are revoked, one for each authority.
    pub crl: Option<PathBuf>,
}

/// libpq's `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never.
    Disable,
    /// If the server refuses an unencrypted connection.
    Allow,
    /// If the server can.
    #[default]
    Prefer,
    /// Always, with any server; with a good one, if `sslrootcert` is a file.
    Require,
    /// Always, with a server whose certificate an authority vouches for.
    VerifyCa,
    /// And whose certificate bears the name that was connected to.
    VerifyFull,
}

impl SslMode {
    /// Each with libpq's name.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Disable, "disable"),
        (Self::Allow, "allow"),
        (Self::Prefer, "prefer"),
        (Self::Require, "require"),
        (Self::VerifyCa, "verify-ca"),
        (Self::VerifyFull, "verify-full"),
    ];

    /// Its name in libpq.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(mode, _)| *mode == self).map_or("", |(_, name)| name)
    }
}

/// The authorities that may vouch for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// Those that the system trusts.
    System,
    /// Those of a PEM file.
    File(PathBuf),
}

/// TLS between the proxy and the server, with libpq's meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamTls {
    /// `sslmode`.
    pub mode: SslMode,
    /// `sslrootcert`.
    pub root: Option<Root>,
    /// `sslcert`, PEM: shown to a server that asks for a certificate.
    pub cert: Option<PathBuf>,
    /// `sslkey`, PEM.
    pub key: Option<PathBuf>,
    /// `sslcrl`, PEM: lists of revoked certificates, one for each authority.
    pub crl: Option<PathBuf>,
    /// `sslcrldir`: a directory of such lists, in files that `openssl rehash` has named.
    pub crl_directory: Option<PathBuf>,
    /// `sslsni`: the server is told the name that was connected to.
    pub sni: bool,
    /// `sslnegotiation=direct`: TLS from the first byte, for servers from version 17.
    pub direct: bool,
    /// Names of servers whose addresses are given beside (`hostaddr`).
    pub names: Vec<(Address, String)>,
}

impl Default for UpstreamTls {
    fn default() -> Self {
        Self {
            mode: SslMode::default(),
            root: None,
            cert: None,
            key: None,
            crl: None,
            crl_directory: None,
            sni: true,
            direct: false,
            names: Vec::new(),
        }
    }
}

/// A file of certificates, keys or users that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}: {reason}")]
pub struct FileError {
    /// Which.
    pub path: String,
    /// Why not; never what stands in it.
    pub reason: String,
}

impl FileError {
    pub(super) fn new(path: &Path, reason: impl ToString) -> Self {
        Self { path: path.display().to_string(), reason: reason.to_string() }
    }
}

/// The cryptography of both hops.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificates of a PEM file, in order: one at least.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = std::fs::read(path).map_err(|error| FileError::new(path, error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(FileError::new(path, "it holds no certificate in PEM format")),
        Ok(found) => Ok(found),
        Err(error) => Err(FileError::new(path, error)),
    }
}

/// The private key of a PEM file that only its owner and group can read.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    let text = zeroize::Zeroizing::new(secret(path)?);
    let is_encrypted = |mark: &&[u8]| memchr::memmem::find(&text, mark).is_some();
    if [&b"BEGIN ENCRYPTED PRIVATE KEY"[..], b"Proc-Type: 4,ENCRYPTED"].iter().any(is_encrypted) {
        let path_shown = path.display();
        let reason = format!(
            "its key is encrypted, and untwin has nobody to ask for the passphrase: run \
            `(umask 077; openssl pkey -in {path_shown} -out {path_shown}.decrypted)` and name that file"
        );
        return Err(FileError::new(path, reason));
    }
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| FileError::new(path, "it holds no private key in PEM format"))
}

/// Lists of revoked certificates in a PEM file: one at least, since none would mean that nothing is looked up.
pub(super) fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, FileError> {
    let text = std::fs::read(path).map_err(|error| FileError::new(path, error))?;
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(FileError::new(path, "it holds no list of revoked certificates in PEM format"))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(FileError::new(path, error)),
    }
}

/// Those of all files of a directory that `openssl rehash` has named: `0a1b2c3d.r0`.
pub(super) fn revocations_in(
    directory: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, FileError> {
    let failed = |error| FileError::new(directory, error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let number = path.extension().and_then(|extension| extension.to_str()?.strip_prefix('r'));
        if number.is_some_and(|number| number.parse::<u32>().is_ok()) {
            found.extend(revocations(&path)?);
        }
    }
    if found.is_empty() {
        let reason = "it holds no file such as 0a1b2c3d.r0: run `openssl rehash` on it";
        return Err(FileError::new(directory, reason));
    }
    Ok(found)
}

/// A certificate with those that lead to its authority, and its key, to be shown to the other side.
pub(super) fn identity(
    cert: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, FileError> {
    let chain = certificates(cert)?;
    let signer = provider.key_provider.load_private_key(private_key(key)?);
    let signer = signer.map_err(|error| FileError::new(key, error))?;
    // rustls would compare them itself, but refuses certificates of version 1.
    let (own, shown) = (signer.public_key(), chain.first().and_then(|leaf| public_key(leaf)));
    if own.is_some_and(|own| Some(own.as_ref()) != shown) {
        return Err(FileError::new(cert, format!("the key in {} is not its key", key.display())));
    }
    Ok(Arc::new(CertifiedKey::new(chain, signer)))
}

/// The contents of a file that must not be readable by everybody.
pub(super) fn secret(path: &Path) -> Result<Vec<u8>, FileError> {
    let mode = std::fs::metadata(path).map_err(|error| FileError::new(path, error))?.permissions().mode();
    if mode & 0o007 != 0 {
        let reason = format!(
            "everybody has access to it (mode {:04o}): run `chmod o= {}`",
            mode & 0o7777,
            path.display()
        );
        return Err(FileError::new(path, reason));
    }
    std::fs::read(path).map_err(|error| FileError::new(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file.pem");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (directory, path)
    }

    #[test]
    fn a_whole_chain_and_its_key_are_read() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (_directory, path) = file(&[made.cert.pem(), made.cert.pem()].concat(), 0o644);
        assert_eq!(certificates(&path).unwrap(), [made.cert.der().clone(), made.cert.der().clone()]);
        let (_directory, path) = file(&made.signing_key.serialize_pem(), 0o640);
        assert_eq!(private_key(&path).unwrap().secret_der(), made.signing_key.serialized_der());
    }

    #[test]
    fn an_encrypted_key_is_told_with_the_way_to_decrypt_it() {
        for text in [
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMA==\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMA==\n-----END RSA PRIVATE KEY-----\n",
        ] {
            let (_directory, path) = file(text, 0o600);
            let said = private_key(&path).unwrap_err().to_string();
            assert!(said.contains("its key is encrypted") && said.contains("openssl pkey -in "), "{said}");
        }
    }

    #[test]
    fn files_that_cannot_be_used_say_why() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = made.signing_key.serialize_pem();
        let (_directory, open) = file(&key, 0o604);
        let said = private_key(&open).unwrap_err().to_string();
        assert!(said.contains("mode 0604") && said.contains("chmod o= "), "{said}");
        let (directory, empty) = file("", 0o600);
        assert!(certificates(&empty).unwrap_err().reason.contains("no certificate"));
        assert!(private_key(&empty).unwrap_err().reason.contains("no private key"));
        assert!(revocations(&empty).unwrap_err().reason.contains("no list of revoked certificates"));
        assert!(revocations_in(directory.path()).unwrap_err().reason.contains("openssl rehash"));
        assert!(
            certificates(Path::new("/nowhere.pem"))
                .unwrap_err()
                .to_string()
                .starts_with("cannot use /nowhere.pem: ")
        );
    }
}
