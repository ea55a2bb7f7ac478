//! What is happening now. The only home of dashmap; knows nothing of statements or sockets.

pub mod counters;
pub mod health;
pub mod held;
pub mod routes;
