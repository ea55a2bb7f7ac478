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
                    let Some(packet) = first_packet(&mut stream) else { return };
                    let _ = sender.send(packet.clone());
                    serve(stream, &packet);
                });
            }
        });
        Fake { address, packets }
    }
}

/// The request to encrypt, which is declined.
const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

fn first_packet(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let packet = untagged(stream)?;
    if packet != SSL_REQUEST {
        return Some(packet);
    }
    stream.write_all(b"N").ok()?;
    untagged(stream)
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
pub fn let_in(stream: TcpStream, backend_key: &[u8]) -> u8 {
    let error = frame(b'E', b"SERROR\0VERROR\0C0A000\0Mthis is no server\0\0");
    answer_all(stream, backend_key, &error)
}

/// Lets everybody in with this cancel key and says, whatever it is asked, that it follows another server.
pub fn stand_by(stream: TcpStream, backend_key: &[u8]) {
    let column = [&b"c\0"[..], &[0; 6], &25_u32.to_be_bytes(), &[0xff; 6], &[0; 2]].concat();
    let columns = frame(b'T', &[&[0, 2][..], &column, &column].concat());
    let row = frame(b'D', b"\0\x02\0\0\0\x01t\0\0\0\x02on");
    answer_all(stream, backend_key, &[columns, row, frame(b'C', b"SELECT 1\0")].concat());
}

fn answer_all(mut stream: TcpStream, backend_key: &[u8], answer: &[u8]) -> u8 {
    let ready = frame(b'Z', b"I");
    let welcome = [frame(b'R', &[0; 4]), frame(b'K', backend_key), ready.clone()].concat();
    let mut said = stream.write_all(&welcome);
    let mut header = [0; 5];
    while said.is_ok() && stream.read_exact(&mut header).is_ok() {
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
        let mut body = vec![0; length.saturating_sub(4) as usize];
        let read = stream.read_exact(&mut body);
        if read.is_ok() && matches!(header[0], b'Q' | b'S') {
            said = stream.write_all(&[answer, &ready].concat());
        }
    }
    header[0]
}
