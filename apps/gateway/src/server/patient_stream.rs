//! A connection whose client must read what it asked for.
//!
//! A write that cannot proceed starts a timer, and every byte that the client then takes adds a little time, up to the
//! full patience. So a slow line is served at its own pace, while a client that never reads, or reads a byte now and
//! then, is disconnected. The timer ends when everything has been written.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// How long a client may read nothing.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How fast a client must read in the long run.
const LEAST_BYTES_PER_SECOND: u32 = 16 * 1024;

/// A stream that fails with [`TimedOut`](io::ErrorKind::TimedOut) if the other side does not read.
#[derive(Debug)]
pub(super) struct PatientStream<S> {
    stream: S,
    /// Runs while a write waits for the client.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> PatientStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, timer: None }
    }

    /// The result of a write, or that the client's time is over.
    fn written(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Pending => {
                let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
                ready!(timer.as_mut().poll(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Ready(Ok(bytes)) => {
                self.earn(bytes);
                Poll::Ready(Ok(bytes))
            }
            failed => failed,
        }
    }

    fn earn(&mut self, bytes: usize) {
        if let Some(timer) = &mut self.timer {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let earned = Duration::from_secs(1) * bytes / LEAST_BYTES_PER_SECOND;
            let until = (timer.deadline() + earned).min(Instant::now() + PATIENCE);
            timer.as_mut().reset(until);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PatientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PatientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.written(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when everything has been written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.timer = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// How a write of 1 MiB ends, and when, if the client reads so many bytes every five seconds.
    async fn write(bytes: usize) -> (io::Result<()>, Duration) {
        let (server, mut client) = duplex(1024);
        let mut server = PatientStream::new(server);
        let started = Instant::now();
        let reading = async {
            let mut got = vec![0; bytes];
            while client.read_exact(&mut got).await.is_ok() {
                sleep(PATIENCE / 2).await;
            }
            std::future::pending::<()>().await;
        };
        let writing = async {
            server.write_all(&vec![b'x'; 1024 * 1024]).await?;
            server.flush().await
        };
        tokio::select! {
            () = reading => unreachable!("it never ends"),
            wrote = writing => (wrote, started.elapsed()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_disconnected() {
        for bytes in [0, 1, 1024] {
            let (wrote, took) = write(bytes).await;
            assert_eq!(wrote.unwrap_err().kind(), io::ErrorKind::TimedOut, "{bytes}");
            assert!((PATIENCE..2 * PATIENCE).contains(&took), "{bytes}: {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_is_served() {
        let least = LEAST_BYTES_PER_SECOND as usize * 5;
        let (wrote, took) = write(least).await;
        wrote.unwrap();
        assert!(took > 5 * PATIENCE, "{took:?}");
    }
}
