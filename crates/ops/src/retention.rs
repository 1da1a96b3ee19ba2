//! Removes what is too old, after a warning.

use std::{sync::Arc, time::Duration};

use bezoar_core::{
    Clock,
    catalogue::{AuditedAction, Catalogue, CatalogueError, Count, Filter, Verb},
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

    /// Removes what is too old at `now` and was warned of for long enough, and counts what soon will be.
    ///
    /// What is removed was announced at least [`warn`](Self::warn) before: also if the time to keep was
    /// shortened, or nobody looked for a while.
    ///
    /// # Errors
    ///
    /// Those of the catalogue; what was removed before stays removed.
    pub async fn look(
        &self,
        catalogue: &dyn Catalogue,
        now: Timestamp,
    ) -> Result<Warned, CatalogueError> {
        let mut warnings = Warnings::read(catalogue).await?;
        if warnings.pass(now, self) {
            warnings.keep(catalogue).await?;
        }
        let removed = match before(now, self.keep).min(warnings.allowed) {
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
        let action = AuditedAction {
            target: format!("dead letters of before {end}"),
            ..act(&format!(
                "kept for {:?}",
                jiff::SignedDuration::try_from(self.keep).unwrap_or_default()
            ))
        };
        let mut removed = 0;
        loop {
            let step = catalogue.expire(end, STEP, &action).await?;
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
            let (soon, exact) = (warned.soon.count, warned.soon.exact);
            tracing::warn!(
                soon,
                exact,
                within_seconds = self.warn.as_secs(),
                "dead letters will be removed soon: replay, export or discard them"
            );
        }
    }
}

/// What was announced, kept in the store: whoever comes after a restart must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Warnings {
    /// What was set aside before this was announced long enough ago to be removed.
    allowed: Option<Timestamp>,
    /// What was set aside before this is announced, and since when.
    announced: Option<(Timestamp, Timestamp)>,
}

impl Warnings {
    const SETTING: &str = "retention";

    /// An announcement that is old enough becomes a leave, and the next one begins; whether anything changed.
    fn pass(&mut self, now: Timestamp, retention: &Retention) -> bool {
        let old_enough = |since| before(now, retention.warn).is_some_and(|end| since <= end);
        match self.announced {
            Some((_, since)) if !old_enough(since) => return false,
            Some((end, _)) => self.allowed = Some(end),
            None => {}
        }
        let soon = before(now, retention.keep.saturating_sub(retention.warn));
        self.announced = soon.map(|end| (end, now));
        true
    }

    async fn read(catalogue: &dyn Catalogue) -> Result<Self, CatalogueError> {
        let text = catalogue.setting(Self::SETTING).await?.unwrap_or_default();
        let mut times = text.split(' ').map(|time| time.parse().ok());
        let mut next = || times.next().flatten();
        let (allowed, end, since) = (next(), next(), next());
        Ok(Self { allowed, announced: end.zip(since) })
    }

    async fn keep(&self, catalogue: &dyn Catalogue) -> Result<(), CatalogueError> {
        let text = |time: Option<Timestamp>| time.map_or("-".to_owned(), |time| time.to_string());
        let (end, since) = self.announced.unzip();
        let value = [self.allowed, end, since].map(text).join(" ");
        let action = AuditedAction {
            target: format!("dead letters of before {} will be removed", text(end)),
            ..act("announced")
        };
        catalogue.set(Self::SETTING, Some(&value), &action).await
    }
}

fn act(why: &str) -> AuditedAction {
    AuditedAction {
        actor: "retention".to_owned(),
        address: "bezoar".to_owned(),
        verb: Verb::Expire,
        target: String::new(),
        reason: why.to_owned(),
    }
}

/// The time so long ago, if there was one.
fn before(now: Timestamp, age: Duration) -> Option<Timestamp> {
    now.checked_sub(jiff::SignedDuration::try_from(age).ok()?).ok()
}
