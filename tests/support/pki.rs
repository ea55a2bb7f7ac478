//! Certificates made for one test: an authority, and what it issues, as PEM files that a server, a proxy and libpq can read.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair, RevokedCertParams, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;

/// An authority and the directory of its files.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The certificate that those it issues lead to: its own, unless another authority vouches for it.
    pub root: String,
    /// The certificates between, which are shown with those it issues.
    chain: String,
    directory: TempDir,
}

/// A certificate and its key.
pub struct Identity {
    /// Path of the certificate.
    pub cert: String,
    /// Path of the key, readable by its owner and group.
    pub key: String,
    serial: u64,
}

impl Authority {
    /// A new one.
    pub fn new() -> Authority {
        Self::with(KeyPair::generate().expect("a key"))
    }

    /// A new one with this key, whose kind decides by which digest it signs.
    pub fn with(key: KeyPair) -> Authority {
        let directory = TempDir::new().expect("a temporary directory");
        // A server that runs as another user reads its files here.
        permit(directory.path(), 0o755);
        // Two authorities of one name would be taken for each other.
        let mut parameters = named(&format!("authority of {}", directory.path().display()), &[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).expect("a certificate");
        let root = write(directory.path(), "root.crt", &certificate.pem(), 0o644);
        Authority { issuer: Issuer::new(parameters, key), root, chain: String::new(), directory }
    }

    /// Another authority, for which this one vouches.
    pub fn vouch(&self) -> Authority {
        let mut subordinate = Authority::new();
        let mut parameters =
            named(&format!("subordinate in {}", subordinate.directory.path().display()), &[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        subordinate.chain = parameters.signed_by(&key, &self.issuer).expect("a certificate").pem();
        subordinate.issuer = Issuer::new(parameters, key);
        subordinate.root.clone_from(&self.root);
        subordinate
    }

    /// A certificate for a subject and alternative names (host names or addresses).
    pub fn issue(&self, subject: &str, names: &[&str]) -> Identity {
        self.issue_for(subject, names, &KeyPair::generate().expect("a key"))
    }

    /// The same for a key of any kind.
    fn issue_for(&self, subject: &str, names: &[&str], key: &KeyPair) -> Identity {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut parameters = named(subject, names);
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        parameters.serial_number = Some(SerialNumber::from(serial));
        let certificate = parameters.signed_by(key, &self.issuer).expect("a certificate").pem();
        Identity { serial, ..self.identity(subject, &format!("{certificate}{}", self.chain), key) }
    }

    /// A list of this authority's certificates that are revoked, out of date from the start of a year on.
    pub fn list(&self, name: &str, revoked: &[&Identity], year: i32) -> String {
        let revoked = revoked.iter().map(|identity| RevokedCertParams {
            serial_number: SerialNumber::from(identity.serial),
            revocation_time: rcgen::date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2020, 1, 1),
            next_update: rcgen::date_time_ymd(year, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("a list");
        write(self.directory.path(), name, &list.pem().expect("PEM"), 0o644)
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
        Identity { cert, key, serial: 0 }
    }

    /// The same certificate as version 1 of X.509 has it, without extensions. Its own signature is none any more.
    pub fn as_version_1(&self, identity: &Identity) -> Identity {
        let certificate = CertificateDer::from_pem_file(&identity.cert).expect("a certificate");
        let pem = format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            BASE64.encode(version_1(&certificate))
        );
        let cert = format!("{}.v1", identity.cert);
        std::fs::write(&cert, pem).expect("a file can be written");
        Identity { cert, key: identity.key.clone(), serial: identity.serial }
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

/// Takes version and extensions out of a certificate.
fn version_1(certificate: &[u8]) -> Vec<u8> {
    let (_, certificate, _) = element(certificate);
    let (_, mut fields, signature) = element(certificate);
    let mut kept = Vec::new();
    while !fields.is_empty() {
        let (tag, _, rest) = element(fields);
        let whole = &fields[..fields.len() - rest.len()];
        if !matches!(tag, 0xa0 | 0xa3) {
            kept.extend(whole);
        }
        fields = rest;
    }
    sequence(&[&sequence(&kept), signature].concat())
}

/// Tag and contents of the first element of DER, and what follows it.
fn element(der: &[u8]) -> (u8, &[u8], &[u8]) {
    let (head, length) = match der[1] {
        0x81 => (3, usize::from(der[2])),
        0x82 => (4, usize::from(der[2]) << 8 | usize::from(der[3])),
        length => (2, usize::from(length)),
    };
    (der[0], &der[head..head + length], &der[head + length..])
}

fn sequence(contents: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(contents.len()).expect("certificates are short").to_be_bytes();
    let head: &[u8] = match (high, low) {
        (0, ..0x80) => &[0x30, low],
        (0, _) => &[0x30, 0x81, low],
        _ => &[0x30, 0x82, high, low],
    };
    [head, contents].concat()
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
