//! How many may come in, and how long they may take about it.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::fake::{Fake, let_in};
use crate::hostile::assert_sound;
use crate::support::message::{self, frame};
use crate::support::wire::outcomes;
use crate::support::{Database, Proxy, Wire, eventually};

/// What a client is told that is not let in: SQLSTATE, message, hint.
fn refusal(proxy: &Proxy, user: &str, database: &Database) -> Option<[String; 3]> {
    let mut client = Wire::dial(proxy.address).expect("the proxy listens");
    client.send(&message::startup(&[("user", user), ("database", &database.name)]));
    let first = client.reply().expect("a reply");
    let field = |code| first.field(code).unwrap_or_default();
    (first.tag == b'E').then(|| [field(b'C'), field(b'M'), field(b'H')])
}

#[test]
fn no_more_sessions_than_allowed() {
    let database = Database::fresh("");
    let proxy = Proxy::with(&database, &["--max-connections", "2"]);
    let (first, _second) = (proxy.connect(), proxy.connect());
    let [state, message, hint] = refusal(&proxy, "postgres", &database).expect("a third is refused");
    assert_eq!((state.as_str(), message.as_str()), ("53300", "untwin: sorry, too many clients already"));
    assert!(hint.starts_with("untwin's max_connections is 2."), "{hint}");
    drop(first);
    assert!(eventually(|| refusal(&proxy, "postgres", &database).is_none()), "there is room again");
}

#[test]
fn no_more_sessions_of_one_user_than_allowed() {
    let database = Database::fresh("");
    database.run("CREATE ROLE untwin_guest LOGIN");
    let proxy = Proxy::with(&database, &["--max-user-connections", "1"]);
    let first = proxy.connect();
    let [state, message, hint] = refusal(&proxy, "postgres", &database).expect("a second is refused");
    assert_eq!(
        (state.as_str(), message.as_str()),
        ("53300", "untwin: too many connections for role \"postgres\"")
    );
    assert!(hint.starts_with("untwin's max_user_connections is 1."), "{hint}");
    assert_eq!(refusal(&proxy, "untwin_guest", &database), None);
    drop(first);
    assert!(eventually(|| refusal(&proxy, "postgres", &database).is_none()), "there is room again");
    database.run("DROP ROLE untwin_guest");
}

#[test]
fn who_has_not_proven_a_name_takes_no_place_of_its_user() {
    let asks_for_a_password = |mut stream: std::net::TcpStream, packet: &[u8]| {
        // Whoever names the database `open` is let in without.
        if packet.windows(4).any(|window| window == b"open") {
            let_in(stream, &[7; 8]);
        } else {
            let _ = std::io::Write::write_all(&mut stream, &frame(b'R', &[0, 0, 0, 3]));
            let _ = stream.read(&mut [0]);
        }
    };
    let server = Fake::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), asks_for_a_password);
    let proxy = Proxy::start(server.address, "postgres", &["--max-user-connections", "1"]);
    let waiting: Vec<Wire> = (0..5)
        .map(|_| {
            let mut client = Wire::dial(proxy.address).expect("the proxy listens");
            client.send(&message::startup(&[("user", "ann"), ("database", "closed")]));
            assert_eq!(client.reply().expect("a request for the password").tag, b'R');
            client
        })
        .collect();
    let open = [("user", "ann"), ("database", "open")];
    let session = Wire::open(proxy.address, &open).expect("the real one gets in");
    let mut second = Wire::dial(proxy.address).expect("the proxy listens");
    second.send(&message::startup(&open));
    let told = second.until_end();
    assert_eq!(outcomes(&told), ["!53300"], "a refused one is not told that it is in: {told:?}");
    drop(waiting);
    drop(session);
    assert!(eventually(|| Wire::open(proxy.address, &open).is_ok()), "there is room again");
}

#[test]
fn a_full_proxy_still_cancels() {
    let database = Database::fresh("");
    let proxy = Proxy::with(&database, &["--max-connections", "1"]);
    let mut sleeper = proxy.connect();
    sleeper.send(&message::query("SELECT pg_sleep(50)"));
    let sleeps = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event = 'PgSleep'",
        database.name
    );
    assert!(eventually(|| database.stored(&sleeps) == ["1"]));
    let mut canceller = Wire::dial(proxy.address).expect("the proxy listens");
    canceller.send(&message::cancel(&sleeper.backend_key));
    assert_eq!(outcomes(&sleeper.until_ready(1)), ["!57014"]);
}

#[test]
fn a_flood_of_silent_connections_is_bounded() {
    let database = Database::fresh("");
    let mut proxy = Proxy::with(&database, &["--max-connections", "4"]);
    let mut flood: Vec<Wire> =
        (0..200).map(|_| Wire::dial(proxy.address).expect("the proxy listens")).collect();
    // Two for each session, and some to spare: the rest are closed at once.
    let last = flood.last_mut().expect("there are many");
    assert_eq!(last.until_end(), []);
    drop(flood);
    let startup = [("user", "postgres"), ("database", database.name.as_str())];
    assert!(eventually(|| Wire::open(proxy.address, &startup).is_ok()), "there is room again");
    assert_sound(&mut proxy, "after a flood of silent connections");
}

#[test]
fn a_login_may_not_take_for_ever() {
    let asks_for_a_password = |mut stream: std::net::TcpStream, _: &[u8]| {
        let _ = std::io::Write::write_all(&mut stream, &frame(b'R', &[0, 0, 0, 3]));
        let _ = stream.read(&mut [0]);
    };
    let server = Fake::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), asks_for_a_password);
    let proxy = Proxy::start(server.address, "postgres", &["--login-timeout", "300ms"]);
    let startup = message::startup(&[("user", "postgres")]);
    let (half, _) = startup.split_at(9);
    for (name, sent) in [("silence", &[][..]), ("half a packet", half), ("no password", &startup)] {
        let started = Instant::now();
        let mut client = Wire::dial(proxy.address).expect("the proxy listens");
        client.send(sent);
        let last = client.until_end();
        assert_eq!(outcomes(&last), ["!08006"], "{name}: {last:?}");
        let error = last.last().expect("an error").field(b'M').expect("a message");
        assert!(error.contains("took longer than 300ms to log in"), "{name}: {error}");
        assert!(started.elapsed() < Duration::from_secs(20), "{name}");
    }
}
