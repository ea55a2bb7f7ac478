//! How TCP connections of both hops are kept: without delay, and not for longer than the other side is there.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

/// When a peer that does not answer counts as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// How long a connection may be silent before it is probed.
    pub keepalive_idle: Duration,
    /// The time between two probes.
    pub keepalive_interval: Duration,
    /// How many probes in a row may be lost.
    pub keepalive_count: u32,
    /// How long bytes that were sent may be unacknowledged; the system decides where this is `None`.
    pub user_timeout: Option<Duration>,
}

impl Tcp {
    /// Prepares a connection.
    pub(crate) fn prepare(&self, stream: &TcpStream) -> io::Result<()> {
        // Otherwise small messages would wait for the acknowledgement of the ones before them.
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(self.keepalive_idle)
            .with_interval(self.keepalive_interval)
            .with_retries(self.keepalive_count);
        let socket = SockRef::from(stream);
        socket.set_tcp_keepalive(&keepalive)?;
        #[cfg(target_os = "linux")]
        if self.user_timeout.is_some() {
            socket.set_tcp_user_timeout(self.user_timeout)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_is_probed_as_the_settings_say() {
        let tcp = Tcp {
            keepalive_idle: Duration::from_secs(33),
            keepalive_interval: Duration::from_secs(7),
            keepalive_count: 4,
            user_timeout: Some(Duration::from_secs(21)),
        };
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        tcp.prepare(&stream).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap() && stream.nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), tcp.keepalive_idle);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), tcp.keepalive_interval);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), tcp.keepalive_count);
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), tcp.user_timeout);
    }
}
