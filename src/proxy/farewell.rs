//! The end of a session that neither side has asked for, and of every connection: what is said, and how long
//! is waited for it to arrive.

use super::relay::{Downward, Upward};
use super::stream::Stream;
use crate::wire::tag::frontend;
use crate::wire::{frame, startup};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// After the last byte for the client, how long the proxy waits for the client to close, so that the
/// system does not cut off what is still on its way.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// The same, where the process itself is about to end.
pub(super) const SHORT_LINGER: Duration = Duration::from_millis(200);
/// How long it may take to say good-bye to both sides.
const WORDS: Duration = Duration::from_secs(1);

/// What a client is told whose session ends because the proxy does: the server's own words for its own end.
pub(super) fn shutting_down() -> Vec<u8> {
    startup::fatal(
        "57P01",
        "terminating connection due to administrator command",
        "untwin is shutting down. Connect again.",
    )
}

/// Ends a session: tells the client why and the server that nothing more will come, each only where no other
/// message is cut off by it. The pumps have stopped.
pub(super) async fn part<A, B, C, D>(up: &mut Upward<'_, A, B>, down: &mut Downward<'_, C, D>)
where
    A: AsyncRead + Unpin,
    B: AsyncWrite + Unpin,
    C: AsyncRead + Unpin,
    D: AsyncWrite + Unpin,
{
    let client = async {
        if down.link.may_add_down() {
            down.writer.write_all(&shutting_down()).await?;
        }
        down.writer.shutdown().await
    };
    let server = async {
        if up.link.may_add_up() {
            let mut terminate = Vec::new();
            frame::write(&mut terminate, frontend::TERMINATE, &[]);
            up.writer.write_all(&terminate).await?;
        }
        up.writer.shutdown().await?;
        // Closing with unread bytes would reset the connection before the server has read the message.
        until_closed(&mut down.reader).await;
        Ok::<_, std::io::Error>(())
    };
    let _ = tokio::time::timeout(WORDS, async { tokio::join!(client, server) }).await;
}

/// Tells a client that its session has not begun.
pub(super) async fn refuse(client: &mut Stream, reply: &[u8], limit: Duration) {
    let mut writer = client.halves().1;
    if writer.write_all(reply).await.is_ok() && writer.shutdown().await.is_ok() {
        linger(client, limit).await;
    }
}

/// Reads on until the client has closed, for a moment: closing with unread bytes would reset the
/// connection and take the last reply along.
pub(super) async fn linger(client: &mut Stream, limit: Duration) {
    let _ = tokio::time::timeout(limit, until_closed(&mut client.halves().0)).await;
}

async fn until_closed(reader: &mut (impl AsyncRead + Unpin)) {
    let mut nothing = [0; 1024];
    while reader.read(&mut nothing).await.is_ok_and(|count| count > 0) {}
}
