//! Stops workers.

use tokio_util::sync::CancellationToken;

/// Tells workers to stop: first gracefully, then immediately. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    drain: CancellationToken,
    abort: CancellationToken,
}

impl Shutdown {
    /// Fetches no more messages; running handlers may finish within the grace period.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// Stops running handlers immediately; their messages are released.
    pub fn abort(&self) {
        self.drain.cancel();
        self.abort.cancel();
    }

    /// A shutdown that follows this one, and that can be triggered on its own.
    pub fn child(&self) -> Self {
        Self { drain: self.drain.child_token(), abort: self.abort.child_token() }
    }

    /// Whether stopping has begun, gracefully or immediately.
    pub fn is_draining(&self) -> bool {
        self.drain.is_cancelled()
    }

    /// Waits until stopping begins.
    pub async fn draining(&self) {
        self.drain.cancelled().await;
    }

    /// Waits until handlers must stop immediately.
    pub async fn aborting(&self) {
        self.abort.cancelled().await;
    }

    /// Drains at the first Ctrl-C or SIGTERM, and aborts at the second. Where there is no SIGTERM, as on Windows,
    /// Ctrl-C and Ctrl-Break do it.
    ///
    /// # Errors
    ///
    /// If the operating system refuses to report signals.
    pub async fn listen(&self) -> std::io::Result<()> {
        let mut signals = StopSignals::new()?;
        loop {
            signals.next().await;
            if self.is_draining() {
                self.abort();
                return Ok(());
            }
            self.drain();
        }
    }
}

/// The signals that ask a process to stop.
#[cfg(unix)]
struct StopSignals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(unix)]
impl StopSignals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self(signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
    }

    async fn next(&mut self) {
        tokio::select! { biased; _ = self.0.recv() => (), _ = self.1.recv() => () }
    }
}

#[cfg(windows)]
struct StopSignals(tokio::signal::windows::CtrlC, tokio::signal::windows::CtrlBreak);

#[cfg(windows)]
impl StopSignals {
    fn new() -> std::io::Result<Self> {
        Ok(Self(tokio::signal::windows::ctrl_c()?, tokio::signal::windows::ctrl_break()?))
    }

    async fn next(&mut self) {
        tokio::select! { biased; _ = self.0.recv() => (), _ = self.1.recv() => () }
    }
}
