//! A connection that can be cut from outside.
//!
//! hyper does not close a connection before the whole request is written, even if nobody waits for the reply any more:
//! an endpoint that never reads would hold the connection and the body forever. And if the reply arrives before the
//! request is written, hyper keeps the connection in a state that never ends (hyperium/hyper#4176). So each connection
//! has a switch, which cuts it unless the delivery ended well.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use tokio::net::TcpStream;

/// Cuts a connection. Clones cut the same connection.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionSwitch(Arc<SwitchState>);

#[derive(Debug, Default)]
struct SwitchState {
    cut: AtomicBool,
    /// Whether written bytes are waiting because the peer does not read.
    stuck: AtomicBool,
    task: AtomicWaker,
}

impl ConnectionSwitch {
    pub(super) fn cut(&self) {
        self.0.cut.store(true, Ordering::Release);
        self.0.task.wake();
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.0.stuck.load(Ordering::Acquire)
    }
}

/// A connection with a switch.
#[derive(Debug)]
pub(super) struct CuttableConnection {
    stream: TokioIo<TcpStream>,
    switch: ConnectionSwitch,
}

impl CuttableConnection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream: TokioIo::new(stream), switch: ConnectionSwitch::default() }
    }

    /// Fails once the connection was cut, and registers the task to be woken by it.
    fn check(&self, cx: &Context<'_>) -> io::Result<()> {
        self.switch.0.task.register(cx.waker());
        if !self.switch.0.cut.load(Ordering::Acquire) {
            return Ok(());
        }
        // Reset it, or the system would keep sending buffered data to the peer.
        self.stream.inner().set_zero_linger()?;
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    fn written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.switch.0.stuck.store(written.is_pending(), Ordering::Release);
        written
    }
}

impl Read for CuttableConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl Write for CuttableConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Connection for CuttableConnection {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.switch.clone())
    }
}
