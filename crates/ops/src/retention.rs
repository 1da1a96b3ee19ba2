//! Removes what is too old, after a warning.

use std::{sync::Arc, time::Duration};

use bezoar_core::{
    Clock,
    catalogue::{Act, Catalogue, CatalogueError, Count, Filter, Verb},
};
use bezoar_runtime::Shutdown;
use jiff::Timestamp;
use tokio::time::sleep;

/// How often it looks.
const EVERY: Duration = Duration::from_secs(10 * 60);
/// How many are removed in one transaction.
const STEP: u32 = 500;

/// How long dead letters are kept, and how long before that somebody is warned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// What was set aside longer ago than this is removed.
    pub keep: Duration,
    /// What will be removed within this time is warned of.
    pub warn: Duration,
}

/// What one look has shown and done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warned {
    /// So many will be removed within the time of the warning.
    pub soon: Count,
    /// So many were removed now.
    pub removed: u64,
}

impl Retention {
    /// Looks again and again until told to stop. What it does is in the log and in the audit log.
    pub async fn run(
        &self,
        catalogue: Arc<dyn Catalogue>,
        clock: Arc<dyn Clock>,
        shutdown: Shutdown,
    ) {
        loop {
            match self.look(&*catalogue, clock.now()).await {
                Ok(warned) => self.tell(warned),
                Err(error) => tracing::warn!(%error, "retention waits for the store"),
            }
            tokio::select! {
                biased;
                () = shutdown.draining() => return,
                () = sleep(EVERY) => (),
            }
        }
    }

    /// Removes what is too old at `now`, and counts what soon will be.
    ///
    /// # Errors
    ///
    /// Those of the catalogue; what was removed before stays removed.
    pub async fn look(
        &self,
        catalogue: &dyn Catalogue,
        now: Timestamp,
    ) -> Result<Warned, CatalogueError> {
        let removed = match before(now, self.keep) {
            Some(end) => self.remove(catalogue, end).await?,
            None => 0,
        };
        let soon = match before(now, self.keep.saturating_sub(self.warn)) {
            Some(end) => catalogue.count(&Filter { until: Some(end), ..Filter::default() }).await?,
            None => Count { count: 0, exact: true },
        };
        Ok(Warned { soon, removed })
    }

    async fn remove(
        &self,
        catalogue: &dyn Catalogue,
        end: Timestamp,
    ) -> Result<u64, CatalogueError> {
        let act = Act {
            who: "retention".to_owned(),
            from: "bezoar".to_owned(),
            verb: Verb::Expire,
            target: format!("dead letters of before {end}"),
            why: format!("kept for {} days", self.keep.as_secs() / 86_400),
        };
        let mut removed = 0;
        loop {
            let step = catalogue.expire(end, STEP, &act).await?;
            removed += u64::from(step);
            if step < STEP {
                return Ok(removed);
            }
        }
    }

    fn tell(&self, warned: Warned) {
        if warned.removed > 0 {
            tracing::warn!(removed = warned.removed, "dead letters were removed: they are too old");
        }
        if warned.soon.count > 0 {
            let days = self.warn.as_secs() / 86_400;
            let soon = warned.soon.count;
            tracing::warn!(
                soon,
                days,
                "dead letters will be removed soon: replay, export or discard them"
            );
        }
    }
}

/// The time so long ago, if there was one.
fn before(now: Timestamp, age: Duration) -> Option<Timestamp> {
    now.checked_sub(jiff::SignedDuration::try_from(age).ok()?).ok()
}
