//! What whoever runs the proxy relies on: cancel requests, shutdown, takeover, limits, several servers, sockets.

mod admin;
mod cancel;
mod coverage;
mod drain;
mod fake;
mod hosts;
mod limits;
mod origin;
mod sockets;
mod systemd;
mod takeover;
