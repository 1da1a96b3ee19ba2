//! The transport, opened in a way that shows when it has closed.

use std::{
    convert::Infallible,
    fmt,
    path::Path,
    sync::{Arc, mpsc},
    time::Duration,
};

use bezoar_core::{Clock, QueueName, SystemClock, TransportError};
use bezoar_sqlite::{Options, SqliteTransport, Synchronous};

pub(crate) const DATABASE: &str = "queue.db";

pub(crate) fn queue() -> QueueName {
    QueueName::new("lab").unwrap()
}

/// Opens the database of a folder.
pub(crate) fn open(
    folder: &Path,
    synchronous: Synchronous,
) -> Result<(SqliteTransport, Closed), TransportError> {
    let (held, closed) = mpsc::channel();
    let clock = Arc::new(HeldClock(held));
    let options = Options { synchronous, clock, ..Options::new(folder.join(DATABASE)) };
    SqliteTransport::open(options).map(|transport| (transport, Closed(closed)))
}

/// Waits until a transport has closed its files, which it does on its own thread.
pub(crate) struct Closed(mpsc::Receiver<Infallible>);

impl Closed {
    /// The writer drops its clock after its connection; the last clock dropped ends the channel.
    pub(crate) fn wait(self) {
        let ended = self.0.recv_timeout(Duration::from_secs(60));
        assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected), "the transport never closed");
    }
}

struct HeldClock(mpsc::Sender<Infallible>);

impl Clock for HeldClock {
    fn now(&self) -> jiff::Timestamp {
        SystemClock.now()
    }
}

impl fmt::Debug for HeldClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(mpsc::Sender { .. }) = self;
        f.write_str("HeldClock")
    }
}
