//! One way to stop.

use tokio_util::sync::CancellationToken;

/// Tells workers to stop: first gently, then at once. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    drain: CancellationToken,
    abort: CancellationToken,
}

impl Shutdown {
    /// Takes no more messages; what runs may finish within the grace period.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// Stops what runs; its messages are handed back.
    pub fn abort(&self) {
        self.drain.cancel();
        self.abort.cancel();
    }

    /// One that stops with this one, and that can be stopped alone.
    pub fn child(&self) -> Self {
        Self { drain: self.drain.child_token(), abort: self.abort.child_token() }
    }

    /// Whether it was told to stop, gently or at once.
    pub fn is_draining(&self) -> bool {
        self.drain.is_cancelled()
    }

    /// Waits for the word to stop.
    pub async fn draining(&self) {
        self.drain.cancelled().await;
    }

    /// Waits for the word to stop at once.
    pub async fn aborting(&self) {
        self.abort.cancelled().await;
    }

    /// Drains at the first Ctrl-C or SIGTERM, and aborts at the second.
    ///
    /// # Errors
    ///
    /// If the system gives us no signals.
    pub async fn listen(&self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        loop {
            tokio::select! { biased; _ = terminate.recv() => (), _ = interrupt.recv() => () }
            if self.is_draining() {
                self.abort();
                return Ok(());
            }
            self.drain();
        }
    }
}
