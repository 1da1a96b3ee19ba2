//! Watches the gateway through its API: breakers, dead letters and message counts.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use anyhow::Result;
use bezoar_gateway::api_types::{DeadLetterPage, DeadLetterSummary};
use tokio::time::{MissedTickBehavior, interval};

use super::{message_counts::MessageCounts, narrator::Narrator};
use crate::{
    client::ApiClient,
    queue_status::{self, Condition, QueueStatus, QueueText, is_paused},
};

const EVERY: Duration = Duration::from_millis(200);

/// Narrates changes until it is dropped.
pub(super) async fn watch(client: &ApiClient, narrator: &Narrator) -> Result<()> {
    let (mut was_down, mut seen) = (false, HashSet::new());
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let queues: Vec<QueueStatus> = queue_status::fetch(client).await?.parse()?;
        let is_down = queues.iter().any(is_held_back_by_breaker);
        match (was_down, is_down) {
            (false, true) => {
                narrator.say("◌", "breaker opened: messages wait without using up retries");
            }
            (true, false) => {
                narrator.say("●", "all breakers are closed: waiting messages are delivered")
            }
            _ => (),
        }
        was_down = is_down;
        for dead in unseen(client, &seen).await? {
            narrator.set_aside(&dead.id, &dead.message_id, &why(&dead));
            seen.insert(dead.id);
        }
        narrator.counters(&MessageCounts::read(client).await?);
    }
}

/// Whether a breaker holds messages back, and not a manual pause.
fn is_held_back_by_breaker(queue: &QueueStatus) -> bool {
    let held_by_hand = queue.route.as_ref().is_none_or(is_paused);
    !held_by_hand && queue.state().0 != Condition::Fine
}

/// The number of dead letters by reason.
pub(super) async fn causes(client: &ApiClient) -> Result<BTreeMap<String, u64>> {
    let mut causes = BTreeMap::new();
    for dead in unseen(client, &HashSet::new()).await? {
        *causes.entry(why(&dead)).or_default() += 1;
    }
    Ok(causes)
}

/// The dead letters that were not seen yet, oldest first. A list starts with the newest.
async fn unseen(client: &ApiClient, seen: &HashSet<String>) -> Result<Vec<DeadLetterSummary>> {
    let (mut found, mut path) = (Vec::new(), "/v1/dead-letters?limit=1000".to_owned());
    loop {
        let page: DeadLetterPage = client.get(&path).await?.parse()?;
        let reached = page.items.iter().any(|dead| seen.contains(&dead.id));
        found.extend(page.items.into_iter().filter(|dead| !seen.contains(&dead.id)));
        match page.next.filter(|_| !reached) {
            Some(next) => path = format!("/v1/dead-letters?limit=1000&after={next}"),
            None => break,
        }
    }
    found.reverse();
    Ok(found)
}

fn why(dead: &DeadLetterSummary) -> String {
    format!("{} ({})", dead.reason, dead.error.code)
}
