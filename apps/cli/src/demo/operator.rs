//! The operator who replays the dead letters.

use std::time::Duration;

use anyhow::Result;
use bezoar_gateway::api_types::{DeadLetterFilter, Operation, OperationState, ReplayRequest};
use tokio::time::{sleep, timeout};

use super::narrator::Narrator;
use crate::{client::ApiClient, humanize::plural};

/// How long to wait for a replay.
const PATIENCE: Duration = Duration::from_secs(10);

/// Replays all dead letters with a canary of two. A failure is narrated and does not end the demo.
pub(super) async fn replay(client: &ApiClient, narrator: &Narrator) {
    match timeout(PATIENCE, attempt(client, narrator)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => narrator.say("⟲", &format!("replay failed: {error:#}")),
        Err(_) => narrator
            .say("⟲", "the replay continues in the background; follow with: bezoar dead replays"),
    }
}

async fn attempt(client: &ApiClient, narrator: &Narrator) -> Result<()> {
    let wanted = ReplayRequest {
        reason: "the archive knows this analyte now".to_owned(),
        filter: Some(DeadLetterFilter::default()),
        canary: 2,
        ..ReplayRequest::default()
    };
    let mut replay: Operation = client.order("/v1/replays", &wanted).await?.parse()?;
    if replay.total == 0 {
        return Ok(());
    }
    let dead = plural(replay.total, "dead letter");
    narrator
        .say("⟲", &format!("the archive is fixed; an operator replays {dead}, two of them first"));
    while matches!(replay.state, OperationState::Planned | OperationState::Running) {
        sleep(Duration::from_millis(50)).await;
        replay = client.get(&format!("/v1/replays/{}", replay.id)).await?.parse()?;
    }
    let (id, outcomes) = (replay.id, (replay.completed, replay.failed));
    let (completed, failed) = (outcomes.0.unwrap_or_default(), outcomes.1.unwrap_or_default());
    narrator.say("⟲", &format!("replay {id}: {completed} completed, {failed} failed again"));
    Ok(())
}
