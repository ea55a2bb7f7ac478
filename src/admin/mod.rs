//! Looking in: metrics and health by HTTP. Knows what is shared by `live`, and nothing of sessions or sockets of clients.

mod http;
mod metrics;
mod router;

use crate::live::counters::Counters;
use crate::live::health::Health;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

/// What the listener needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where it listens; port 0: one that is free.
    pub listen: SocketAddr,
    /// Share the address with other processes that do so too, so that one can take over from another.
    pub reuse_port: bool,
}

/// What is looked at.
#[derive(Clone, Debug)]
pub struct Live {
    /// What is counted.
    pub counters: Arc<Counters>,
    /// How far the process has come.
    pub health: Arc<Health>,
}

/// A listener that has taken its address. Nothing is accepted before [`Admin::start`].
#[derive(Debug)]
pub struct Admin(TcpListener);

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

impl Admin {
    /// Takes the address.
    ///
    /// # Errors
    /// It cannot be taken; the error names it.
    pub fn bind(config: Config) -> io::Result<Self> {
        let told = |error: io::Error| {
            let text = format!("cannot listen on {} (admin_listen): {error}", config.listen);
            io::Error::new(error.kind(), text)
        };
        listen(config).map(Self).map_err(told)
    }

    /// The address that was taken.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Answers from now on, until the process ends, on a thread of its own: whoever asks takes no time from the
    /// threads that serve clients.
    ///
    /// # Errors
    /// The system has no thread, or no event queue, left for us.
    pub fn start(self, live: Live) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serve = move || runtime.block_on(http::serve(self.0, router::router(live)));
        thread::Builder::new().name("admin".to_owned()).spawn(move || {
            if let Err(error) = serve() {
                tracing::error!(%error, "the admin listener cannot go on");
            }
        })?;
        Ok(())
    }
}

fn listen(config: Config) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(config.listen), Type::STREAM, Some(Protocol::TCP))?;
    // A process that starts anew need not wait until the connections of the last one are forgotten.
    socket.set_reuse_address(true)?;
    if config.reuse_port {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&config.listen.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests;
