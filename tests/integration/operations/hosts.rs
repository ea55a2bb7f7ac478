//! Several servers: the next one is taken where one is gone, not ready, or not what is asked for.

use std::collections::HashSet;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use super::fake::{Fake, let_in, stand_by};
use crate::support::cluster::{Cluster, free_port};
use crate::support::message::frame;
use crate::support::wire::outcomes;
use crate::support::{Database, Proxy, Wire, eventually, message, proxy::binary};

const SOMEWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[test]
fn the_next_server_is_taken_where_one_takes_no_sessions() {
    let database = Database::fresh("");
    let starting = Fake::start(SOMEWHERE, |mut stream, _| {
        let error = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";
        let _ = stream.write_all(&frame(b'E', error));
    });
    let closing = Fake::start(SOMEWHERE, |_, _| ());
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    for first in [starting.address, closing.address, nobody] {
        let url = format!("postgres://{first},{}", database.address);
        let proxy = Proxy::of_url(&url, &database.name, &[]);
        assert_eq!(proxy.connect().rows("SELECT 'served'"), ["served"], "{first}");
    }
    // Where there is no other, its own words are relayed.
    let proxy = Proxy::start(starting.address, "postgres", &[]);
    let mut client = Wire::dial(proxy.address).expect("the proxy listens");
    client.send(&message::startup(&[("user", "postgres")]));
    assert_eq!(outcomes(&client.until_end()), ["!57P03"]);
    let both = Proxy::of_url(&format!("postgres://{nobody},{}", starting.address), "postgres", &[]);
    let mut client = Wire::dial(both.address).expect("the proxy listens");
    client.send(&message::startup(&[("user", "postgres")]));
    assert_eq!(outcomes(&client.until_end()), ["!57P03"]);
}

#[test]
fn sessions_are_spread_over_the_servers() {
    const KEYS: [[u8; 8]; 3] = [[1; 8], [2; 8], [3; 8]];
    let servers = KEYS.map(|key| {
        Fake::start(SOMEWHERE, move |stream, _| {
            let_in(stream, &key);
        })
    });
    let hosts = servers.iter().map(|server| server.address.to_string()).collect::<Vec<_>>().join(",");
    let reached = |parameters: &str| -> HashSet<Vec<u8>> {
        let proxy = Proxy::of_url(&format!("postgres://{hosts}{parameters}"), "postgres", &[]);
        (0..40).map(|_| proxy.connect().backend_key).collect()
    };
    assert_eq!(reached("").len(), 1);
    assert_eq!(reached("/?load_balance_hosts=random").len(), 3);
}

#[test]
fn sessions_go_to_servers_of_the_kind_that_is_asked_for() {
    // A server that lets nobody write is to `read-write` and `read-only` what a standby is.
    let (writes, reads) = (Cluster::start(&[]), Cluster::start(&["default_transaction_read_only=on"]));
    let ask = "SELECT current_setting('default_transaction_read_only')";
    let on = |wanted: &str| {
        let parameters = format!("?target_session_attrs={wanted}");
        for hosts in [[reads.address(), writes.address()], [writes.address(), reads.address()]] {
            let url = format!("postgres://postgres@{},{}/{parameters}", hosts[0], hosts[1]);
            let proxy = Proxy::of_url(&url, "postgres", &[]);
            let answer = proxy.connect().rows(ask);
            let expected = if wanted == "read-only" { "on" } else { "off" };
            if wanted.starts_with("read") {
                assert_eq!(answer, [expected], "{url}");
            }
        }
    };
    ["read-write", "read-only", "primary", "prefer-standby"].into_iter().for_each(on);
    // No server is a standby: the client is told so.
    let url =
        format!("postgres://postgres@{},{}/?target_session_attrs=standby", reads.address(), writes.address());
    let proxy = Proxy::of_url(&url, "postgres", &[]);
    let mut client = Wire::dial(proxy.address).expect("the proxy listens");
    client.send(&message::startup(&[("user", "postgres")]));
    let last = client.until_end();
    assert_eq!(outcomes(&last), ["!08001"], "{last:?}");
    let message = last[0].field(b'M').expect("a message");
    assert!(message.ends_with("no server fits target_session_attrs=standby"), "{message}");
}

#[test]
fn a_standby_is_told_from_a_primary() {
    const KEY: [u8; 8] = [9; 8];
    let standby = Fake::start(SOMEWHERE, |stream, _| stand_by(stream, &KEY));
    let database = Database::fresh("");
    for (wanted, expected) in [
        ("standby", true),
        ("prefer-standby", true),
        ("read-only", true),
        ("primary", false),
        ("read-write", false),
    ] {
        for hosts in [[standby.address, database.address], [database.address, standby.address]] {
            let url = format!(
                "postgres://postgres@{},{}/postgres?target_session_attrs={wanted}",
                hosts[0], hosts[1]
            );
            let proxy = Proxy::of_url(&url, &database.name, &[]);
            assert_eq!(proxy.connect().backend_key == KEY, expected, "{url}");
        }
    }
}

#[test]
fn what_a_server_is_is_noticed_when_it_changes() {
    let (first, second) = (Cluster::start(&[]), Cluster::start(&[]));
    let url = format!(
        "postgres://postgres@{},{}/?target_session_attrs=read-write",
        first.address(),
        second.address()
    );
    let proxy = Proxy::of_url(&url, "postgres", &[]);
    let port = || proxy.connect().rows("SHOW port");
    assert_eq!(port(), [first.address().port().to_string()]);
    let mut administrator = Wire::connect(first.address(), "postgres");
    administrator.run("ALTER SYSTEM SET default_transaction_read_only = on");
    administrator.run("SELECT pg_reload_conf()");
    assert!(eventually(|| port() == [second.address().port().to_string()]), "{}", proxy.stderr());
}

#[test]
fn without_a_login_servers_cannot_be_told_apart() {
    let output = Command::new(binary())
        .args(["--upstream", "postgres://127.0.0.1:1,127.0.0.1:2/?target_session_attrs=primary"])
        .args(["--listen", "127.0.0.1:0", "--journal", "/dev/null"])
        .output()
        .expect("the binary starts");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("target_session_attrs needs a login in upstream"), "{said}");
}
