//! Frames: `<VT>` content `<FS><CR>`.

use std::io;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::endpoint::{CallError, CallErrorKind, reply::REPLY_LIMIT_BYTES};

/// `<VT>`, the start of a frame.
pub(super) const START: u8 = 0x0b;
/// `<FS>`, the end of a frame, before `<CR>`.
pub(super) const END: u8 = 0x1c;

/// What came back. It has no `Debug`, because it may contain personal data.
pub(super) enum Reply {
    /// A frame.
    Frame {
        content: Vec<u8>,
        /// Whether something other than line ends followed it.
        more: bool,
    },
    /// Something else, such as the reply of an HTTP server.
    NotAFrame(Vec<u8>),
}

/// Writes a message as one frame.
pub(super) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &Bytes,
) -> Result<(), CallError> {
    let mut frame = Buf::chain([START].as_slice(), message.clone()).chain([END, b'\r'].as_slice());
    let written = async {
        stream.write_all_buf(&mut frame).await?;
        stream.flush().await
    };
    written.await.map_err(|error| CallError::new(CallErrorKind::Reset, &error))
}

/// Reads one frame, up to the limit of replies. It ends with `<FS>`: not all receivers send the `<CR>`, which is skipped
/// before the next frame.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Reply, CallError> {
    let (mut incoming, mut buffer) = (Incoming::default(), [0; 4096]);
    loop {
        let read = match stream.read(&mut buffer).await {
            Ok(0) => return Err(incoming.broken(&io::ErrorKind::UnexpectedEof.into())),
            Ok(read) => read,
            Err(error) => return Err(incoming.broken(&error)),
        };
        if let Some(reply) = incoming.push(&buffer[..read]) {
            return Ok(reply);
        }
        if incoming.content.as_ref().is_some_and(|content| content.len() > REPLY_LIMIT_BYTES) {
            return Err(CallError::plain(CallErrorKind::TooLarge));
        }
    }
}

/// What has arrived of a frame.
#[derive(Default)]
struct Incoming {
    /// `None` until the frame starts.
    content: Option<Vec<u8>>,
}

impl Incoming {
    /// Adds bytes; returns the reply once it is complete.
    fn push(&mut self, bytes: &[u8]) -> Option<Reply> {
        let mut bytes = bytes;
        if self.content.is_none() {
            bytes = bytes.trim_ascii_start();
            let (first, rest) = bytes.split_first()?;
            if *first != START {
                return Some(Reply::NotAFrame(bytes.to_vec()));
            }
            (self.content, bytes) = (Some(Vec::new()), rest);
        }
        let content = self.content.as_mut()?;
        match bytes.iter().position(|byte| *byte == END) {
            None => {
                content.extend_from_slice(bytes);
                None
            }
            Some(end) => {
                content.extend_from_slice(&bytes[..end]);
                let more = !bytes[end + 1..].trim_ascii().is_empty();
                Some(Reply::Frame { content: std::mem::take(content), more })
            }
        }
    }

    /// Closed before the frame started, or within it.
    fn broken(&self, error: &io::Error) -> CallError {
        let kind = match self.content {
            None => CallErrorKind::Reset,
            Some(_) => CallErrorKind::Truncated,
        };
        CallError::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds the bytes in pieces of this size.
    fn pushed(bytes: &[u8], size: usize) -> Option<String> {
        let mut incoming = Incoming::default();
        let reply = bytes.chunks(size).find_map(|piece| incoming.push(piece))?;
        Some(match reply {
            Reply::Frame { content, more } => format!("{} {more}", content.escape_ascii()),
            Reply::NotAFrame(bytes) => format!("not {}", bytes.escape_ascii()),
        })
    }

    #[test]
    fn a_frame_ends_with_its_end_byte() {
        for (bytes, expected) in [
            ("\x0bMSH\x1c\r", Some("MSH false")),
            ("\x0bMSH\x1c", Some("MSH false")),
            ("\r\n\x0bMSH\x1c\r\n", Some("MSH false")),
            ("\x0b\x1c\r", Some(" false")),
            ("\x0bA\x1c\r\x0bB\x1c\r", Some("A true")),
            ("HTTP/1.1 400", Some("not HTTP/1.1 400")),
            ("\x06", Some("not \\x06")),
            ("\r\n", None),
            ("\x0bMSH", None),
        ] {
            assert_eq!(pushed(bytes.as_bytes(), 99).as_deref(), expected, "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn what_is_written_can_be_read() {
        let mut stream = std::io::Cursor::new(Vec::new());
        write(&mut stream, &Bytes::from_static(b"MSH|x\r")).await.unwrap();
        assert_eq!(stream.get_ref(), b"\x0bMSH|x\r\x1c\r");
        stream.set_position(0);
        let Ok(Reply::Frame { content, more: false }) = read(&mut stream).await else { panic!() };
        assert_eq!(content, b"MSH|x\r");
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_read_without_a_panic(bytes: Vec<u8>, size in 1_usize..9) {
            pushed(&bytes, size);
        }

        #[test]
        fn a_frame_is_the_same_in_any_pieces(content in "[ -~\\r]{0,40}", size in 1_usize..9) {
            let bytes = format!("\r\n\x0b{content}\x1c\r");
            let expected = format!("{} false", content.as_bytes().escape_ascii());
            prop_assert_eq!(pushed(bytes.as_bytes(), size), Some(expected));
        }
    }
}
