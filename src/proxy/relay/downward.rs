//! Server to client: tells the session what its replies say, and swallows those the client did not ask for.

use super::{Link, State};
use crate::proxy::buffer::Buffer;
use crate::proxy::stream::send;
use crate::session::Disposition;
use crate::wire::frame::{self, HEADER};
use crate::wire::tag::backend;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// Replies up to this size are read; larger ones (an error with a long text) pass by unread.
const MAX_REPLY: usize = 1 << 20;

/// Server to client.
pub struct Downward<'a, R, W> {
    pub link: &'a Link<'a>,
    pub reader: R,
    pub writer: W,
    pub buffer: Buffer,
    /// Bytes of a message passing by that have not arrived yet.
    pub passing: usize,
}

impl<'a, R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Downward<'a, R, W> {
    pub fn new(link: &'a Link<'a>, reader: R, writer: W, buffer: Buffer) -> Self {
        Self { link, reader, writer, buffer, passing: 0 }
    }

    /// Relays until the server closes the connection.
    pub async fn run(&mut self) -> io::Result<()> {
        loop {
            self.drain().await?;
            let count = self.buffer.read(&mut self.reader).await?;
            self.link.shared.counters.server_bytes_total.add(count as u64);
            if count == 0 {
                let rest = self.buffer.filled();
                send(&mut self.writer, rest).await?;
                return self.writer.shutdown().await;
            }
        }
    }

    /// Forwards every message that is complete, and every byte of those that pass by.
    async fn drain(&mut self) -> io::Result<()> {
        loop {
            let (ready, swallowed) = self.scan();
            if ready > 0 {
                let bytes = self.buffer.filled().get(..ready).unwrap_or_default();
                self.link.whole_down.store(false, Ordering::Relaxed);
                send(&mut self.writer, bytes).await?;
                self.link.whole_down.store(self.passing == 0, Ordering::Relaxed);
            }
            self.buffer.consume(ready + swallowed);
            if swallowed == 0 {
                if self.buffer.filled().is_empty() {
                    self.link.flushed.store(true, Ordering::Release);
                }
                return Ok(());
            }
        }
    }

    /// Walks the messages in the buffer. Gives how many bytes to forward, and how many bytes after them to
    /// drop.
    fn scan(&mut self) -> (usize, usize) {
        let link = self.link;
        let bytes = self.buffer.filled_mut();
        if link.raw.load(Ordering::Relaxed) {
            return (bytes.len(), 0);
        }
        let mut at = bytes.len().min(self.passing);
        self.passing -= at;
        let mut passing = 0;
        let mut swallowed = 0;
        let scanned = link.guarded(|state| {
            // Before the session learns of them: what is in the buffer is not with the client yet.
            link.flushed.store(false, Ordering::Release);
            while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
                let header = match frame::header(rest) {
                    Ok(Some(header)) => header,
                    Ok(None) => break,
                    Err(_) => {
                        link.raw.store(true, Ordering::Relaxed);
                        at = bytes.len();
                        break;
                    }
                };
                let whole = state.session.reads_reply(header.tag);
                let limit = if state.session.asks() || header.tag == backend::DATA_ROW {
                    usize::MAX
                } else {
                    MAX_REPLY
                };
                if whole && rest.len() < header.frame() && header.body <= limit {
                    break;
                }
                if header.tag == backend::DATA_ROW
                    && state.session.restores_rows()
                    && let Some(body) = rest.get_mut(HEADER..header.frame())
                {
                    state.session.restore_row(body);
                }
                let body = rest.get(HEADER..header.frame()).filter(|_| whole).unwrap_or_default();
                match state.session.server_message(header.tag, body) {
                    Disposition::Relay => {
                        let here = rest.len().min(header.frame());
                        passing = header.frame() - here;
                        at += here;
                    }
                    Disposition::Swallow => {
                        swallowed = header.frame();
                        break;
                    }
                    Disposition::Answered(answer) => {
                        *link.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
                        link.answered.notify_one();
                        swallowed = header.frame();
                        break;
                    }
                }
            }
            if state.session.schema_has_changed() {
                link.shelf.changed();
            }
            let State { session, records } = state;
            let settled: Vec<_> = session.settled().collect();
            if !settled.is_empty() {
                records.settle(&settled, link.shared);
            }
        });
        self.passing = passing;
        if scanned.is_none() { (bytes.len(), 0) } else { (at, swallowed) }
    }
}
