//! The listener as those see it who ask: answers, and bounds.

use super::*;
use crate::live::health::Stage;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn live() -> Live {
    Live { counters: Arc::default(), health: Arc::new(Health::starting(Instant::now())) }
}

/// Starts a listener.
fn listening(live: &Live) -> SocketAddr {
    let admin = Admin::bind(Config { listen: ([127, 0, 0, 1], 0).into(), reuse_port: false }).unwrap();
    let address = admin.address().unwrap();
    admin.start(live.clone()).unwrap();
    address
}

/// Status line and body of the answer to a request.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(format!("{request} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn a_process_is_ready_while_it_lets_clients_in_and_means_to_stay() {
    let live = live();
    let address = listening(&live);
    live.counters.sessions_open.add(3);
    for (stage, status, body) in [
        (Stage::Starting, "503 Service Unavailable", "not ready: starting\n"),
        (Stage::Serving, "200 OK", "ready\n"),
        (Stage::Leaving, "503 Service Unavailable", "not ready: about to end; clients are still let in\n"),
        (Stage::Draining, "503 Service Unavailable", "not ready: ending; open sessions: 3\n"),
    ] {
        live.health.enter(stage);
        assert_eq!(ask(address, "GET /readyz"), (format!("HTTP/1.1 {status}"), body.to_owned()));
        assert_eq!(ask(address, "GET /livez"), ("HTTP/1.1 200 OK".to_owned(), "alive\n".to_owned()));
    }
}

#[test]
fn a_process_that_is_stuck_is_not_alive() {
    let Some(before) = Instant::now().checked_sub(Health::PATIENCE) else { return };
    let live = Live { health: Arc::new(Health::starting(before)), ..live() };
    assert_eq!(ask(listening(&live), "GET /livez").0, "HTTP/1.1 503 Service Unavailable");
}

#[test]
fn only_what_is_there_can_be_asked_for() {
    let address = listening(&live());
    for (request, status) in [
        ("GET /metrics", "200 OK"),
        ("HEAD /metrics", "200 OK"),
        ("POST /metrics", "405 Method Not Allowed"),
        ("GET /", "404 Not Found"),
        ("GET /metrics/", "404 Not Found"),
        ("nonsense", "400 Bad Request"),
    ] {
        assert_eq!(ask(address, request).0, format!("HTTP/1.1 {status}"), "{request}");
    }
}

#[test]
fn silent_connections_keep_nobody_out_for_long() {
    let address = listening(&live());
    let silent: Vec<_> = (0..=http::MOST).map(|_| TcpStream::connect(address).unwrap()).collect();
    let asked = Instant::now();
    assert_eq!(ask(address, "GET /livez").0, "HTTP/1.1 200 OK");
    assert!(asked.elapsed() > Duration::from_secs(1), "there is no bound");
    assert!(asked.elapsed() < http::WHOLE + Duration::from_secs(5));
    drop(silent);
}

#[test]
fn an_address_that_is_taken_is_told() {
    let taken = listening(&live());
    let error = Admin::bind(Config { listen: taken, reuse_port: false }).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {taken} (admin_listen): ")), "{error}");
}

#[test]
fn an_address_is_shared_if_both_want_it() {
    let shared = |listen| Config { listen, reuse_port: true };
    let first = Admin::bind(shared(([127, 0, 0, 1], 0).into())).unwrap();
    Admin::bind(shared(first.address().unwrap())).unwrap();
}
