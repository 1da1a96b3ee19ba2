//! Expires old dead letters, after a warning.

use std::{sync::Arc, time::Duration};

use bezoar_core::{
    Clock,
    catalogue::{AuditedAction, Catalogue, CatalogueError, Count, Filter, Verb},
};
use bezoar_runtime::Shutdown;
use jiff::Timestamp;
use tokio::time::sleep;

/// How often to check for expired dead letters.
const EVERY: Duration = Duration::from_secs(10 * 60);
/// How many dead letters are removed in one transaction.
const STEP: u32 = 500;

/// How long dead letters are kept, and how early to warn before they expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Dead letters older than this expire.
    pub keep: Duration,
    /// How long before the expiry to warn.
    pub warn: Duration,
}

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warned {
    /// How many will expire soon.
    pub soon: Count,
    /// How many were removed now.
    pub removed: u64,
}

impl Retention {
    /// Runs until shutdown. It reports to the log and the audit log.
    pub async fn run(
        &self,
        catalogue: Arc<dyn Catalogue>,
        clock: Arc<dyn Clock>,
        shutdown: Shutdown,
    ) {
        loop {
            match self.look(&*catalogue, clock.now()).await {
                Ok(warned) => self.tell(warned),
                Err(error) => tracing::warn!(%error, "cannot expire dead letters, retrying"),
            }
            tokio::select! {
                biased;
                () = shutdown.draining() => return,
                () = sleep(EVERY) => (),
            }
        }
    }

    /// Removes dead letters that have expired at `now` and were announced long enough ago, and counts those that will
    /// expire soon.
    ///
    /// A dead letter is removed only if it was announced at least [`warn`](Self::warn) before, even if the retention
    /// was shortened or the process was down for a while.
    ///
    /// # Errors
    ///
    /// Errors of the catalogue; dead letters that were already removed stay removed.
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
            Some(end) => {
                catalogue.count(&Filter { arrived_before: Some(end), ..Filter::default() }).await?
            }
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
            tracing::warn!(removed = warned.removed, "expired dead letters were removed");
        }
        if warned.soon.count > 0 {
            let (soon, exact) = (warned.soon.count, warned.soon.exact);
            tracing::warn!(
                soon,
                exact,
                within_seconds = self.warn.as_secs(),
                "dead letters will expire soon: replay, export or discard them"
            );
        }
    }
}

/// What was announced, stored so that it survives a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Warnings {
    /// Dead letters from before this time were announced long enough ago to be removed.
    allowed: Option<Timestamp>,
    /// Dead letters from before the first time are announced, since the second time.
    announced: Option<(Timestamp, Timestamp)>,
}

impl Warnings {
    const SETTING: &str = "retention";

    /// An announcement that is old enough takes effect, and the next one starts; returns whether anything changed.
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

/// The time this long ago, if it is representable.
fn before(now: Timestamp, age: Duration) -> Option<Timestamp> {
    now.checked_sub(jiff::SignedDuration::try_from(age).ok()?).ok()
}
