//! Idle connections to a receiver.
//!
//! Each idle connection is watched by a task, which owns it until it is wanted: a receiver that closes it, or says something
//! that nobody asked for, ends it at once, and so does the time limit. So a connection that is taken is very likely alive.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{io::AsyncReadExt, sync::oneshot, task::JoinHandle, time::sleep};

use crate::endpoint::{client::IdleLimits, connector::EndpointStream};

/// A connection, with or without TLS.
pub(super) type MllpConnection = TokioIo<EndpointStream>;

/// Idle connections.
#[derive(Debug)]
pub(super) struct IdleConnections {
    limits: IdleLimits,
    parked: Mutex<Vec<Parked>>,
}

/// An idle connection and the task that watches it. Dropping `wanted` ends the task, and with it the connection.
#[derive(Debug)]
struct Parked {
    wanted: oneshot::Sender<()>,
    watching: JoinHandle<Option<MllpConnection>>,
}

impl IdleConnections {
    pub(super) fn new(limits: IdleLimits) -> Self {
        Self { limits, parked: Mutex::default() }
    }

    /// The connection that was used last, if any is alive.
    pub(super) async fn take(&self) -> Option<MllpConnection> {
        loop {
            let Parked { wanted, watching } = self.parked().pop()?;
            let _ = wanted.send(());
            if let Ok(Some(connection)) = watching.await {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next message, within the limits.
    pub(super) fn keep(&self, connection: MllpConnection) {
        let mut parked = self.parked();
        parked.retain(|parked| !parked.watching.is_finished());
        if parked.len() < self.limits.most {
            let (wanted, asked) = oneshot::channel();
            let watching = tokio::spawn(watch(connection, asked, self.limits.timeout));
            parked.push(Parked { wanted, watching });
        }
    }

    fn parked(&self) -> MutexGuard<'_, Vec<Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the connection when it is asked for, unless it ended before.
async fn watch(
    mut connection: MllpConnection,
    asked: oneshot::Receiver<()>,
    timeout: Duration,
) -> Option<MllpConnection> {
    tokio::select! {
        asked = asked => asked.ok()?,
        () = ended(&mut connection) => return None,
        () = sleep(timeout) => return None,
    }
    Some(connection)
}

/// Returns once the other side has closed the connection or sent anything but the end of its last frame.
async fn ended(connection: &mut MllpConnection) {
    let mut byte = [0];
    while let Ok(1) = connection.read(&mut byte).await {
        if !byte[0].is_ascii_whitespace() {
            return;
        }
    }
}
