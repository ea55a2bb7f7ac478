//! Certificates made for one test: an authority, and what it issues, as PEM files that a server, a proxy and libpq can read.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// An authority and the directory of its files.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub root: String,
    directory: TempDir,
}

/// A certificate and its key.
pub struct Identity {
    /// Path of the certificate.
    pub cert: String,
    /// Path of the key, readable by its owner and group.
    pub key: String,
}

impl Authority {
    /// A new one.
    pub fn new() -> Authority {
        let directory = TempDir::new().expect("a temporary directory");
        // A server that runs as another user reads its files here.
        permit(directory.path(), 0o755);
        // Two authorities of one name would be taken for each other.
        let mut parameters = named(&format!("authority of {}", directory.path().display()), &[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        let root = write(directory.path(), "root.crt", &certificate.pem(), 0o644);
        Authority { issuer: Issuer::new(parameters, key), root, directory }
    }

    /// A certificate for a subject and alternative names (host names or addresses).
    pub fn issue(&self, subject: &str, names: &[&str]) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = named(subject, names).signed_by(&key, &self.issuer).expect("a certificate");
        self.identity(subject, &certificate.pem(), &key)
    }

    /// A certificate that nobody vouches for but itself; it calls itself an authority, as `openssl req -x509` does.
    pub fn self_signed(&self, subject: &str, names: &[&str], years: (i32, i32)) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = named(subject, names);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        let certificate = parameters.self_signed(&key).expect("a certificate");
        self.identity(subject, &certificate.pem(), &key)
    }

    fn identity(&self, subject: &str, certificate: &str, key: &KeyPair) -> Identity {
        let name = subject.replace(' ', "_");
        let cert = write(self.directory.path(), &format!("{name}.crt"), certificate, 0o644);
        let key = write(self.directory.path(), &format!("{name}.key"), &key.serialize_pem(), 0o600);
        Identity { cert, key }
    }

    /// Another file beside the certificates.
    pub fn file(&self, name: &str, text: &str, mode: u32) -> String {
        write(self.directory.path(), name, text, mode)
    }
}

impl Identity {
    /// A copy of the key that a server started by these tests may read.
    pub fn key_of_server(&self) -> String {
        let copy = format!("{}.server", self.key);
        std::fs::copy(&self.key, &copy).expect("a key can be copied");
        super::cluster::give_to_server(Path::new(&copy));
        copy
    }
}

fn named(subject: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut parameters = CertificateParams::new(names).expect("names of hosts");
    parameters.distinguished_name.push(DnType::CommonName, subject);
    parameters
}

fn write(directory: &Path, name: &str, text: &str, mode: u32) -> String {
    let path: PathBuf = directory.join(name);
    std::fs::write(&path, text).expect("a file can be written");
    permit(&path, mode);
    path.to_str().expect("a path of ours").to_owned()
}

fn permit(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a file of ours");
}
