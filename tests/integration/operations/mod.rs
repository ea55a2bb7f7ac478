//! What whoever runs the proxy relies on: cancel requests, shutdown, takeover, limits, several servers, sockets.

mod cancel;
mod drain;
mod fake;
mod limits;
mod origin;
mod sockets;
mod systemd;
mod takeover;
