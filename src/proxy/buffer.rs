//! Read buffers that belong to the worker and are lent to a connection only while it has bytes in flight.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes read at once. Large enough that a bulk load costs few system calls.
const CHUNK: usize = 64 * 1024;
/// Buffers a worker keeps for the next connection that has something to say.
const KEPT: usize = 8;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes received and not yet forwarded. Holds no memory while it is empty.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Where unforwarded bytes begin.
    start: usize,
    /// Where they end; behind it there is room to read into.
    end: usize,
}

impl Buffer {
    /// The bytes that have not been consumed.
    pub fn filled(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// The same, to be edited in place.
    pub fn filled_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.end).unwrap_or_default()
    }

    /// The first `count` bytes are done with.
    pub fn consume(&mut self, count: usize) {
        self.start = self.end.min(self.start + count);
        if self.start == self.end {
            self.give_back();
        }
    }

    /// Puts bytes in front of what is there.
    pub fn put_first(&mut self, bytes: &[u8]) {
        let mut all = Vec::with_capacity(CHUNK.max(bytes.len() + self.filled().len()));
        all.extend_from_slice(bytes);
        all.extend_from_slice(self.filled());
        (self.start, self.end) = (0, all.len());
        all.resize(all.capacity(), 0);
        self.bytes = all;
    }

    /// Reads once; gives the number of bytes read, 0 at the end of the stream.
    pub async fn read(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        poll_fn(|context| {
            self.make_room();
            let Some(room) = self.bytes.get_mut(self.end..) else { return Poll::Ready(Ok(0)) };
            let mut read = ReadBuf::new(room);
            match Pin::new(&mut *reader).poll_read(context, &mut read) {
                Poll::Pending => {
                    if self.start == self.end {
                        self.give_back();
                    }
                    Poll::Pending
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {
                    let count = read.filled().len();
                    self.end += count;
                    Poll::Ready(Ok(count))
                }
            }
        })
        .await
    }

    fn make_room(&mut self) {
        if self.bytes.is_empty() {
            let pooled = POOL.with_borrow_mut(Vec::pop);
            self.bytes = pooled.unwrap_or_else(|| vec![0; CHUNK]);
        }
        if self.bytes.len() - self.end >= CHUNK / 4 {
            return;
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.len() - self.end < CHUNK / 4 {
            // Only a message that has to be held as a whole comes here: it doubles, up to the limit of messages.
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
    }

    fn give_back(&mut self) {
        (self.start, self.end) = (0, 0);
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.len() == CHUNK {
            POOL.with_borrow_mut(|pool| {
                if pool.len() < KEPT {
                    pool.push(bytes);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_consumed_stays_and_grows() {
        let data: Vec<u8> = (0..300_000u32).map(|at| at as u8).collect();
        let mut reader = data.as_slice();
        let mut buffer = Buffer::default();
        while buffer.read(&mut reader).await.unwrap() > 0 {}
        assert_eq!(buffer.filled(), data);
        buffer.consume(100_000);
        assert_eq!(buffer.filled(), &data[100_000..]);
        buffer.consume(200_000);
        assert!(buffer.filled().is_empty() && buffer.bytes.is_empty());
    }
}
