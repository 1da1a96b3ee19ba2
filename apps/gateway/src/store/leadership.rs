//! What only one of several gateways on a store may do.

use std::{pin::pin, time::Duration};

use bezoar::{Shutdown, postgres::Leader};
use tokio::time::timeout;

/// How long work may take to finish after this gateway has lost the lead. It changes nothing in the store any more.
const GRACE: Duration = Duration::from_secs(5);

/// Whether this gateway may do what only one may do.
#[derive(Debug)]
pub(crate) enum Leadership {
    /// No other gateway has this store.
    Alone,
    /// Several gateways elect one of them.
    Shared(Leader),
}

impl Leadership {
    /// Does `work` whenever this gateway leads, until `shutdown` or until the work has ended by itself. It is told to
    /// stop when another gateway leads, and dropped if it takes too long.
    pub(crate) async fn while_leading<F: Future<Output = ()>>(
        &self,
        shutdown: &Shutdown,
        work: impl Fn(Shutdown) -> F,
    ) {
        let Self::Shared(leader) = self else { return work(shutdown.clone()).await };
        loop {
            tokio::select! {
                biased;
                () = shutdown.draining() => return,
                () = leader.elected() => (),
            }
            let term = shutdown.child();
            let mut work = pin!(work(term.clone()));
            tokio::select! {
                () = &mut work => return,
                () = leader.lost() => (),
            }
            term.drain();
            let _ = timeout(GRACE, work).await;
        }
    }

    /// Whether other gateways may have the same store.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Lets another gateway lead at once.
    pub(crate) async fn resign(&self) {
        if let Self::Shared(leader) = self {
            leader.resign().await;
        }
    }
}
