//! What the tests stand on: private Postgres servers, the real binary in front of them, and a client that sends any bytes.

pub mod admin;
pub mod cluster;
pub mod message;
pub mod pki;
pub mod program;
pub mod proxy;
pub mod wire;

pub use cluster::Database;
pub use proxy::Proxy;
pub use wire::Wire;

/// Whether a condition comes true within ten seconds.
pub fn eventually(condition: impl Fn() -> bool) -> bool {
    let asks = std::iter::repeat_n((), 400);
    asks.into_iter().any(|()| {
        condition() || {
            std::thread::sleep(std::time::Duration::from_millis(25));
            false
        }
    })
}
