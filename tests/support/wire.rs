//! A synchronous client that sends the bytes it is given and reads replies as (tag, body); no test that uses it can hang.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::message;

/// How long a reply may take; generous, since several test binaries may share two cores.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest reply a test expects, in bytes; more is a framing error.
const LONGEST: usize = 64 << 20;

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its type byte.
    pub tag: u8,
    /// What follows its length.
    pub body: Vec<u8>,
}

impl Reply {
    /// A field of an ErrorResponse or NoticeResponse: `C` is the SQLSTATE, `M` the message.
    pub fn field(&self, code: u8) -> Option<String> {
        let mut fields = self.body.split(|byte| *byte == 0);
        fields.find_map(|field| Some(String::from_utf8_lossy(field.strip_prefix(&[code])?).into_owned()))
    }

    /// The command tag of a CommandComplete.
    fn command_tag(&self) -> String {
        String::from_utf8_lossy(self.body.strip_suffix(&[0]).unwrap_or(&self.body)).into_owned()
    }

    /// The columns of a DataRow, NULL as None.
    pub fn columns(&self) -> Vec<Option<Vec<u8>>> {
        let mut rest = self.body.get(2..).unwrap_or_default();
        let mut columns = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
                columns.push(None);
                rest = after;
                continue;
            };
            let (value, after) = after.split_at(length);
            columns.push(Some(value.to_vec()));
            rest = after;
        }
        columns
    }

    /// The columns of a DataRow of text, joined by `|`, NULL as `\N`.
    fn row(&self) -> String {
        let column = |value: &Option<Vec<u8>>| {
            value
                .as_ref()
                .map_or_else(|| "\\N".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        self.columns().iter().map(column).collect::<Vec<_>>().join("|")
    }
}

/// What became of each statement: its command tag, or `!` and the SQLSTATE.
pub fn outcomes(replies: &[Reply]) -> Vec<String> {
    let outcome = |reply: &Reply| match reply.tag {
        b'C' => Some(reply.command_tag()),
        b'E' => Some(format!("!{}", reply.field(b'C').unwrap_or_default())),
        _ => None,
    };
    replies.iter().filter_map(outcome).collect()
}

/// The rows among replies, in the form of [`Wire::rows`].
pub fn rows(replies: &[Reply]) -> Vec<String> {
    replies.iter().filter(|reply| reply.tag == b'D').map(Reply::row).collect()
}

/// The type bytes of replies, in order.
pub fn tags(replies: &[Reply]) -> String {
    replies.iter().map(|reply| char::from(reply.tag)).collect()
}

/// A connection to a server or a proxy.
pub struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
    /// BackendKeyData: what a CancelRequest must carry.
    pub backend_key: Vec<u8>,
}

impl Wire {
    /// A logged-in connection as `postgres`; panics when that fails.
    pub fn connect(address: SocketAddr, database: &str) -> Wire {
        Self::connect_with(address, &[("user", "postgres"), ("database", database)])
    }

    /// A logged-in connection with these startup parameters; panics when that fails.
    pub fn connect_with(address: SocketAddr, parameters: &[(&str, &str)]) -> Wire {
        Self::open(address, parameters)
            .unwrap_or_else(|error| panic!("no connection to {address}: {error}"))
            .0
    }

    /// A connection and what the server said until it was ready; the error holds what it said instead.
    pub fn open(address: SocketAddr, parameters: &[(&str, &str)]) -> io::Result<(Wire, Vec<Reply>)> {
        let mut wire = Self::dial(address)?;
        wire.stream.write_all(&message::startup(parameters))?;
        let replies = wire.greeting()?;
        Ok((wire, replies))
    }

    /// A bare connection: nothing was sent yet.
    pub fn dial(address: SocketAddr) -> io::Result<Wire> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Wire { stream, received: Vec::new(), backend_key: Vec::new() })
    }

    /// A single byte: the answer to a request for encryption.
    pub fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).expect("an answer");
        byte[0]
    }

    /// Reads until the server is ready for the first query; notes the backend key.
    pub fn greeting(&mut self) -> io::Result<Vec<Reply>> {
        let replies = self.try_until(|reply| matches!(reply.tag, b'Z' | b'E'))?;
        if let Some(error) = replies.iter().find(|reply| reply.tag == b'E') {
            return Err(io::Error::other(error.field(b'M').unwrap_or_default()));
        }
        if let Some(key) = replies.iter().find(|reply| reply.tag == b'K') {
            self.backend_key.clone_from(&key.body);
        }
        Ok(replies)
    }

    /// Sends bytes; panics when the peer is gone.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the peer takes what is sent");
    }

    /// Sends bytes; a peer that is gone is no failure.
    pub fn send_regardless(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Tells the peer that no more bytes will come.
    pub fn finish_sending(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// The next reply; an error when the connection ends, or within a minute.
    pub fn reply(&mut self) -> io::Result<Reply> {
        loop {
            if let Some(reply) = self.take_reply()? {
                return Ok(reply);
            }
            let mut chunk = [0; 64 << 10];
            let read = match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.received.extend(&chunk[..read]);
        }
    }

    fn take_reply(&mut self) -> io::Result<Option<Reply>> {
        let Some(header) = self.received.first_chunk::<5>() else {
            return Ok(None);
        };
        let [tag, length @ ..] = *header;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if !(4..=LONGEST).contains(&length) {
            return Err(io::Error::other(format!("a reply {:?} of {length} bytes", char::from(tag))));
        }
        if self.received.len() < length + 1 {
            return Ok(None);
        }
        let body = self.received[5..=length].to_vec();
        self.received.drain(..=length);
        Ok(Some(Reply { tag, body }))
    }

    fn try_until(&mut self, last: impl Fn(&Reply) -> bool) -> io::Result<Vec<Reply>> {
        let mut replies = Vec::new();
        loop {
            replies.push(self.reply()?);
            if replies.last().is_some_and(&last) {
                return Ok(replies);
            }
        }
    }

    /// Replies up to and with the first of this type.
    pub fn until(&mut self, tag: u8) -> Vec<Reply> {
        let replies = self.try_until(|reply| reply.tag == tag);
        replies.unwrap_or_else(|error| panic!("no {:?}: {error}", char::from(tag)))
    }

    /// Replies up to and with the `n`th ReadyForQuery.
    pub fn until_ready(&mut self, n: usize) -> Vec<Reply> {
        (0..n).flat_map(|_| self.until(b'Z')).collect()
    }

    /// Every reply until the peer closes the connection.
    pub fn until_end(&mut self) -> Vec<Reply> {
        std::iter::from_fn(|| self.reply().ok()).collect()
    }

    /// Sends bytes while reading, as a pipeline needs it, up to and with the `n`th ReadyForQuery.
    pub fn converse(&mut self, bytes: &[u8], n: usize) -> Vec<Reply> {
        let mut writer = self.stream.try_clone().expect("a socket can be cloned");
        std::thread::scope(|scope| {
            scope.spawn(move || writer.write_all(bytes).expect("the peer takes what is sent"));
            self.until_ready(n)
        })
    }

    /// A simple query and its replies, errors too.
    pub fn query(&mut self, sql: impl AsRef<[u8]>) -> Vec<Reply> {
        self.send(&message::query(sql));
        self.until_ready(1)
    }

    /// The rows of a query to a server that may be gone or going.
    pub fn try_rows(&mut self, sql: &str) -> io::Result<Vec<String>> {
        self.stream.write_all(&message::query(sql))?;
        Ok(rows(&self.try_until(|reply| reply.tag == b'Z')?))
    }

    /// Statements of which none may fail.
    pub fn run(&mut self, sql: &str) {
        let replies = self.query(sql);
        let failed = replies.iter().find(|reply| reply.tag == b'E');
        assert!(failed.is_none(), "{sql}: {:?}", failed.and_then(|reply| reply.field(b'M')));
    }

    /// The rows of a query that may not fail, columns joined by `|`, NULL as `\N`.
    pub fn rows(&mut self, sql: &str) -> Vec<String> {
        let replies = self.query(sql);
        let failed = replies.iter().find(|reply| reply.tag == b'E');
        assert!(failed.is_none(), "{sql}: {:?}", failed.and_then(|reply| reply.field(b'M')));
        rows(&replies)
    }
}
