//! What the tests stand on: private Postgres servers, the real binary in front of them, and a client that sends any bytes.

pub mod cluster;
pub mod message;
pub mod program;
pub mod proxy;
pub mod wire;

pub use cluster::{Cluster, Database};
pub use proxy::Proxy;
pub use wire::Wire;
