//! Who looks at what was set aside, and sends it back.

use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::narrator::Narrator;
use crate::{client::ApiClient, humanize::plural};

/// How long the story waits for a replay.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
struct Replay {
    id: i64,
    state: String,
    total: u64,
    completed: u64,
    failed: u64,
}

/// Replays everything, two first. Trouble with that is part of the story, and not its end.
pub(super) async fn replay(client: &ApiClient, narrator: &Narrator) {
    match timeout(PATIENCE, attempt(client, narrator)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => narrator.say("⟲", &format!("no replay: {error:#}")),
        Err(_) => narrator.say("⟲", "the replay goes on; bezoar dead replays"),
    }
}

async fn attempt(client: &ApiClient, narrator: &Narrator) -> Result<()> {
    let wanted =
        json!({ "reason": "the archive has a place for it now", "filter": {}, "canary": 2 });
    let mut replay: Replay = client.order("/v1/replays", &wanted).await?.parse()?;
    if replay.total == 0 {
        return Ok(());
    }
    let dead = plural(replay.total, "dead letter");
    narrator.say("⟲", &format!("the archive is mended; an operator replays {dead}, two first"));
    while !matches!(replay.state.as_str(), "ended" | "stopped" | "cancelled") {
        sleep(Duration::from_millis(50)).await;
        replay = client.get(&format!("/v1/replays/{}", replay.id)).await?.parse()?;
    }
    let Replay { id, completed, failed, .. } = replay;
    narrator.say("⟲", &format!("replay {id}: {completed} completed, {failed} failed again"));
    Ok(())
}
