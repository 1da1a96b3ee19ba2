//! Resolves host names.

use std::{
    collections::HashMap,
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Semaphore;

use super::{CallError, CallErrorKind};

/// The maximum number of concurrent lookups of one name.
const AT_A_TIME: usize = 4;

/// Resolves names with the system's resolver, a few lookups at a time for each name.
///
/// A lookup blocks a thread and cannot be cancelled. Without a limit per name, one name whose DNS servers do not answer
/// would use up the runtime's blocking threads and stall every other route.
#[derive(Debug, Clone, Default)]
pub(super) struct Lookups(Arc<Mutex<HashMap<Box<str>, Arc<Semaphore>>>>);

impl Lookups {
    pub(super) async fn addresses(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, CallError> {
        // Held until the thread ends, even if the caller has given up.
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

    /// Names come from configured URLs: there are few, so entries are never removed.
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
