//! Requests to cancel reach the server that the session is on, and a storm of them harms nobody.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::fake::{Fake, let_in};
use crate::hostile::assert_sound;
use crate::support::cluster::free_port;
use crate::support::{Database, Proxy, Wire, eventually, message, wire};

fn cancel(proxy: &Proxy, key: &[u8]) {
    let mut canceller = Wire::dial(proxy.address).expect("the proxy listens");
    canceller.send(&message::cancel(key));
    assert_eq!(canceller.until_end(), [], "a cancel request has no reply");
}

fn sleeps(database: &Database) -> bool {
    let count = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event = 'PgSleep'",
        database.name
    );
    eventually(|| database.stored(&count) == ["1"])
}

#[test]
fn a_cancel_request_goes_to_the_server_of_its_session() {
    let database = Database::fresh("");
    let first = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let url = format!("postgres://{first},{}", database.address);
    let proxy = Proxy::before_url(&url, &database.name, &[]);
    let mut sleeper = proxy.connect();
    sleeper.send(&message::query("SELECT pg_sleep(50)"));
    assert!(sleeps(&database));
    // The first server of the list is back: it must not be asked about a session of the second one.
    let back = Fake::start(first, |_, _| ());
    cancel(&proxy, &sleeper.backend_key);
    assert_eq!(wire::outcomes(&sleeper.until_ready(1)), ["!57014"]);
    assert!(back.packets.try_recv().is_err());
    // A key that nobody here has is for the first server to judge, and so is one whose session has ended.
    let ended = sleeper.backend_key.clone();
    sleeper.send(&message::terminate());
    sleeper.until_end();
    for key in [&[7; 8][..], &ended] {
        let asked = || {
            cancel(&proxy, key);
            back.packets.recv_timeout(Duration::from_millis(50)) == Ok(message::cancel(key))
        };
        assert!(eventually(asked));
    }
}

#[test]
fn keys_of_every_length_are_relayed_and_found_again() {
    const LONG: [u8; 260] = [0xa5; 260];
    let somewhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let first = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let server = Fake::start(somewhere, |stream, _| {
        let_in(stream, &LONG);
    });
    let proxy = Proxy::before_url(&format!("postgres://{first},{}", server.address), "postgres", &[]);
    let client = proxy.connect();
    assert_eq!(client.backend_key, LONG);
    server.packets.recv().expect("a startup packet");
    let back = Fake::start(first, |_, _| ());
    cancel(&proxy, &LONG);
    assert_eq!(server.packets.recv_timeout(Duration::from_secs(10)), Ok(message::cancel(&LONG)));
    assert!(back.packets.try_recv().is_err());
}

#[test]
fn a_storm_of_cancel_requests_harms_nobody() {
    let database = Database::fresh("");
    let mut proxy = Proxy::before(&database);
    let mut bystander = proxy.connect();
    let mut storm: Vec<Wire> = (0..300)
        .map(|at: u32| {
            let mut one = Wire::dial(proxy.address).expect("the proxy listens");
            one.send(&message::cancel(&[&at.to_be_bytes()[..], &[1; 4]].concat()));
            one
        })
        .collect();
    assert_eq!(bystander.rows("SELECT 'undisturbed'"), ["undisturbed"]);
    storm.iter_mut().for_each(|one| assert_eq!(one.until_end(), []));
    assert_sound(&mut proxy, "after a storm of cancel requests");
}
