//! Addresses of a name.

use std::{
    collections::HashMap,
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Semaphore;

use super::{CallError, CallErrorKind};

/// How many lookups of one name run at a time.
const AT_A_TIME: usize = 4;

/// Asks the system for addresses, a few times at once for each name.
///
/// A lookup blocks a thread and cannot be stopped. Without a limit by name, one name whose servers are
/// silent takes all threads that the runtime has for such work, and every other route waits too.
#[derive(Debug, Clone, Default)]
pub(super) struct Lookups(Arc<Mutex<HashMap<Box<str>, Arc<Semaphore>>>>);

impl Lookups {
    pub(super) async fn addresses(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, CallError> {
        // Held until the thread is done, even if nobody waits for it any more.
        let turn = self.turns(host).acquire_owned().await.expect("never closed");
        let name = (host.to_owned(), port);
        let looking = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            name.to_socket_addrs().map(Iterator::collect)
        });
        match looking.await {
            Ok(found) => found.map_err(|error| CallError::new(CallErrorKind::Dns, &error)),
            Err(stopped) => Err(CallError::new(CallErrorKind::Dns, &stopped)),
        }
    }

    /// Names are those of configured URLs, so there are few, and none is ever forgotten.
    fn turns(&self, host: &str) -> Arc<Semaphore> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = names.get(host) {
            return turns.clone();
        }
        let turns = Arc::new(Semaphore::new(AT_A_TIME));
        names.insert(host.into(), turns.clone());
        turns
    }
}
