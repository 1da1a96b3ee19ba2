//! Pauses and resumes of routes that operators order at other gateways on the same store.
//!
//! Whoever pauses or resumes a route stores that and writes it to the audit log, in one transaction. So the log says
//! what has changed, in order, also that a route was resumed which was not paused: that lets an open breaker probe. The
//! gateway reads the entries that are new, and looks up whether their routes are paused now. It polls, because
//! notifications do not pass every pooler.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bezoar::catalogue::{AuditEntry, CatalogueError, PAGE_LIMIT, Verb};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    app::App,
    route::{paused_by, paused_setting},
};

/// How often to read what others have done. It takes effect within a second.
const EVERY: Duration = Duration::from_millis(400);

/// Follows the audit log until it is dropped.
pub(crate) async fn follow(app: Arc<App>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut read = None;
    loop {
        ticks.tick().await;
        // An unreadable store is reported by those who need it, and nothing is skipped.
        let _ = catch_up(&app, &mut read).await;
    }
}

/// Applies what was logged after the entry `read`; at first only what is stored.
async fn catch_up(app: &App, read: &mut Option<u64>) -> Result<(), CatalogueError> {
    let Some(after) = *read else {
        let (_, head) = app.catalogue.audit(u64::MAX, 1).await?;
        // Between their start and this moment, somebody may have paused them.
        for route in app.routes() {
            apply(app, route.name(), None).await?;
        }
        *read = Some(head.count);
        return Ok(());
    };
    let (entries, _) = app.catalogue.audit(after, PAGE_LIMIT).await?;
    for (route, verb) in changes(&entries) {
        apply(app, route, Some(verb)).await?;
    }
    *read = entries.last().map(|entry| entry.number).or(*read);
    Ok(())
}

/// The last that happened to each route.
fn changes(entries: &[AuditEntry]) -> BTreeMap<&str, Verb> {
    let change = |entry: &AuditEntry| {
        [Verb::Pause, Verb::Resume].into_iter().find(|verb| verb.as_str() == entry.verb)
    };
    let changes = entries
        .iter()
        .filter_map(|entry| Some((entry.target.strip_prefix("route ")?, change(entry)?)));
    changes.collect()
}

/// Pauses or resumes a route as the store says.
async fn apply(app: &App, name: &str, last: Option<Verb>) -> Result<(), CatalogueError> {
    let stored = app.catalogue.setting(&paused_setting(name)).await?;
    let Ok(route) = app.route(name, |_| true) else { return Ok(()) }; // only others have it
    match stored.as_deref().map(paused_by) {
        Some(why) if route.stored_pause() != Some(why) => route.pause(why),
        Some(_) => (),
        None if last == Some(Verb::Resume) => route.resume(app.now()),
        None => (),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bezoar::{Timestamp, catalogue::AuditHash};

    use super::*;

    fn entry(verb: &str, target: &str) -> AuditEntry {
        AuditEntry {
            number: 1,
            at: Timestamp::UNIX_EPOCH,
            actor: String::new(),
            address: String::new(),
            verb: verb.to_owned(),
            target: target.to_owned(),
            reason: String::new(),
            hash: AuditHash([0; 32]),
        }
    }

    #[test]
    fn the_last_change_of_each_route_counts() {
        let entries = [
            entry(Verb::Pause.as_str(), "route a"),
            entry(Verb::Resume.as_str(), "route b"),
            entry(Verb::Resume.as_str(), "route a"),
            entry(Verb::Reveal.as_str(), "route b"),
            entry(Verb::Pause.as_str(), "elsewhere"),
        ];
        let expected = [("a", Verb::Resume), ("b", Verb::Resume)];
        assert_eq!(changes(&entries), BTreeMap::from(expected));
    }
}
