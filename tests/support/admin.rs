//! What a proxy tells by HTTP. Knows the paths, not what the numbers mean.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::{Proxy, eventually};

/// Far more than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What turns the listener on; the address is in the log.
pub const ADMIN: [&str; 2] = ["--admin-listen", "127.0.0.1:0"];

/// Where a proxy that was started with [`ADMIN`] tells.
pub fn address(proxy: &Proxy) -> SocketAddr {
    let found = || {
        let told = proxy.stderr();
        let line = told.lines().find(|line| line.contains("metrics and health are told"))?;
        line.rsplit_once("address=")?.1.trim().parse().ok()
    };
    assert!(eventually(|| found().is_some()), "{}", proxy.stderr());
    found().expect("it was found")
}

/// Status and body of the answer.
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("the listener accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), body.to_owned())
}

/// Every series with its value: the name without prefix, and its labels as they are spelled.
pub fn metrics(address: SocketAddr) -> BTreeMap<String, u64> {
    let (status, text) = get(address, "/metrics");
    assert_eq!(status, 200);
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a sample");
            let name = series.strip_prefix("untwin_").unwrap_or_else(|| panic!("{line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
        })
        .collect()
}
