//! A server of a few lines, for what a real one cannot be made to do on demand.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use crate::support::message::frame;

/// A listener whose connections are handed to a function, each on a thread of its own.
pub struct Fake {
    /// Where it listens.
    pub address: SocketAddr,
    /// The first packet of each connection, in order.
    pub packets: Receiver<Vec<u8>>,
}

impl Fake {
    /// Serves each connection, once its first packet is read, by `serve`.
    pub fn start(address: SocketAddr, serve: impl Fn(TcpStream, &[u8]) + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind(address).expect("the address is free");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (sender, packets) = channel();
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (sender, serve) = (sender.clone(), Arc::clone(&serve));
                std::thread::spawn(move || {
                    let mut stream = stream;
                    let Some(packet) = untagged(&mut stream) else { return };
                    let _ = sender.send(packet.clone());
                    serve(stream, &packet);
                });
            }
        });
        Fake { address, packets }
    }
}

/// A packet without a tag: length, then the rest.
fn untagged(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut rest = vec![0; usize::try_from(u32::from_be_bytes(length)).ok()?.checked_sub(4)?];
    stream.read_exact(&mut rest).ok()?;
    Some([&length[..], &rest].concat())
}

/// Lets everybody in with this cancel key and fails every statement, until the client leaves. Gives the tag of
/// the last message.
pub fn let_in(mut stream: TcpStream, backend_key: &[u8]) -> u8 {
    let ready = frame(b'Z', b"I");
    let welcome = [frame(b'R', &[0; 4]), frame(b'K', backend_key), ready.clone()].concat();
    let mut said = stream.write_all(&welcome);
    let error = frame(b'E', b"SERROR\0VERROR\0C0A000\0Mthis is no server\0\0");
    let mut header = [0; 5];
    while said.is_ok() && stream.read_exact(&mut header).is_ok() {
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
        let mut body = vec![0; length.saturating_sub(4) as usize];
        let read = stream.read_exact(&mut body);
        if read.is_ok() && matches!(header[0], b'Q' | b'S') {
            said = stream.write_all(&[error.clone(), ready.clone()].concat());
        }
    }
    header[0]
}
