//! Threads that serve connections, each with a runtime of its own: a connection stays with one thread, so that
//! its two directions wake each other without handing work over.

use super::stream::Stream;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The threads, in turn. Without any, connections are served by the runtime that accepts them.
#[derive(Debug, Default)]
pub struct Workers {
    handles: Vec<Handle>,
    next: AtomicUsize,
    /// Closed when the workers are dropped: that ends the threads, with whatever they still serve.
    running: Vec<oneshot::Sender<()>>,
}

impl Workers {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// The system has no thread, or no event queue, left for us.
    pub fn start(count: usize) -> io::Result<Self> {
        let mut workers = Self::default();
        for number in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (running, ended) = oneshot::channel::<()>();
            workers.handles.push(runtime.handle().clone());
            workers.running.push(running);
            thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
                let _ = runtime.block_on(ended);
            })?;
        }
        Ok(workers)
    }

    /// Serves a connection on the thread whose turn it is.
    pub(crate) fn serve<F>(&self, stream: Stream, serve: impl FnOnce(Stream) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(handle) = turn.checked_rem(self.handles.len()).and_then(|at| self.handles.get(at)) else {
            tokio::spawn(async move { serve(stream).await });
            return;
        };
        match stream.detach() {
            Ok(detached) => {
                handle.spawn(async move {
                    match detached.attach() {
                        Ok(stream) => serve(stream).await,
                        Err(error) => tracing::error!(%error, "a connection could not be served"),
                    }
                });
            }
            Err(error) => tracing::error!(%error, "a connection could not be served"),
        }
    }
}

/// A connection between two runtimes.
pub(crate) enum Detached {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Detached {
    /// Puts the connection into the hands of the runtime that this is called in.
    fn attach(self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(stream) => Stream::Tcp(TcpStream::from_std(stream)?),
            Self::Unix(stream) => Stream::Unix(UnixStream::from_std(stream)?),
        })
    }
}

impl Stream {
    /// Takes the connection out of the hands of its runtime. A stream that has just been accepted is plain.
    fn detach(self) -> io::Result<Detached> {
        match self {
            Self::Tcp(stream) => stream.into_std().map(Detached::Tcp),
            Self::Unix(stream) => stream.into_std().map(Detached::Unix),
            Self::Tls(_) | Self::Closed => Err(io::Error::other("not a plain socket")),
        }
    }
}
