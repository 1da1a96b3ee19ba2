//! Whether the store accepts messages, judged by its last write.
//!
//! A store that can be read may refuse every write: a read-only file system, a full disk, another program's lock. So
//! readiness is about writes. Messages that are stored show it for free; when there were none for a while, and after a
//! failure, `/readyz` makes a small write of its own.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bezoar::{
    Acceptance, ErrorKind, TransportError,
    catalogue::{Catalogue, CatalogueError},
};
use tokio::{
    sync::Mutex as AsyncMutex,
    time::{Instant, timeout},
};

/// How long a write that succeeded says that the next one will: to a file, and to a server.
const STILL_TRUE: Duration = Duration::from_secs(10);
const STILL_TRUE_OF_SERVER: Duration = Duration::from_secs(2);
/// The minimum time between two checks.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long a check may take.
const CHECK_DEADLINE: Duration = Duration::from_secs(3);
/// How often the log says that the store is full.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// The last write to the store, and what came of it.
#[derive(Debug)]
pub(crate) struct WriteHealth {
    still_true: Duration,
    last: Mutex<Option<LastWrite>>,
    /// Held by the one who checks; the others wait for the result.
    checking: AsyncMutex<()>,
    said_full: Mutex<Option<Instant>>,
}

#[derive(Debug, Clone, Copy)]
struct LastWrite {
    at: Instant,
    result: Result<(), &'static str>,
}

impl Default for WriteHealth {
    fn default() -> Self {
        let (last, checking, said_full) = <_>::default();
        Self { still_true: STILL_TRUE, last, checking, said_full }
    }
}

impl WriteHealth {
    /// Of a store on a server, which may be gone at any time.
    pub(crate) fn of_server() -> Self {
        Self { still_true: STILL_TRUE_OF_SERVER, ..Self::default() }
    }

    /// Learns from the results of storing messages.
    pub(super) fn learn(&self, results: &[Result<Acceptance, TransportError>]) {
        let results = results.iter().filter_map(|result| match result {
            Ok(_) => Some(Ok(())),
            Err(error) => verdict(error).map(Err),
        });
        // The worst counts: a store that refuses one of them is not ready.
        if let Some(worst) = results.max_by_key(|result| result.is_err()) {
            let _ = self.note(worst); // whoever sent them learns it from the results
        }
    }

    /// Fails with the reason if messages cannot be stored. Makes a small write if there is no recent one to judge by.
    pub(crate) async fn check(&self, store: &dyn Catalogue) -> Result<(), &'static str> {
        if let Some(known) = self.known() {
            return known;
        }
        let checked = timeout(CHECK_DEADLINE, async {
            let _alone = self.checking.lock().await;
            match self.known() {
                Some(known) => known, // by the one that this one waited for
                None => self.write(store).await,
            }
        });
        checked.await.unwrap_or_else(|_| self.note(Err("the store does not answer")))
    }

    async fn write(&self, store: &dyn Catalogue) -> Result<(), &'static str> {
        self.note(match store.check_writable().await {
            Ok(()) => Ok(()),
            Err(CatalogueError::Store(error)) => Err(verdict(&error).unwrap_or(REFUSED)),
            Err(_) => Err(REFUSED),
        })
    }

    /// What the last write says, if it is recent enough.
    fn known(&self) -> Option<Result<(), &'static str>> {
        let last = (*self.last.lock().unwrap_or_else(PoisonError::into_inner))?;
        let holds = if last.result.is_ok() { self.still_true } else { CHECK_EVERY };
        (last.at.elapsed() < holds).then_some(last.result)
    }

    fn note(&self, result: Result<(), &'static str>) -> Result<(), &'static str> {
        let last = LastWrite { at: Instant::now(), result };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
        if result == Err(FULL) {
            self.say_full();
        }
        result
    }

    fn say_full(&self) {
        let mut said = self.said_full.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|at| at.elapsed() > SAY_EVERY) {
            *said = Some(Instant::now());
            tracing::error!(
                "the store is full and refuses messages; free disk space, or raise store.max_size"
            );
        }
    }
}

const FULL: &str = "the store is full and refuses messages";
const REFUSED: &str = "the store refuses messages";

/// What an error says about the store; nothing if it is about the message.
fn verdict(error: &TransportError) -> Option<&'static str> {
    match error.kind {
        ErrorKind::Full => Some(FULL),
        ErrorKind::TooLarge { .. }
        | ErrorKind::Conflict(_)
        | ErrorKind::Invalid(_)
        | ErrorKind::Unsupported(_)
        | ErrorKind::QueueNotFound(_) => None,
        _ => Some(REFUSED),
    }
}
