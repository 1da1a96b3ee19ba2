//! The laboratory that sends results: most are fine, a few are not.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use bezoar::{Bezoar, Shutdown};
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval};

use super::{QUEUE, narrator::Narrator};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LabResult {
    pub(crate) number: u64,
    pub(crate) haemoglobin: f64,
    /// Replaces a result that was sent before.
    pub(crate) correction: bool,
}

/// Sends a result every 50 ms until told to stop. One in 29 is a correction, one in 43 nobody can read.
pub(crate) async fn send_results(
    bezoar: Bezoar,
    narrator: Arc<Narrator>,
    shutdown: Shutdown,
) -> Result<()> {
    let mut ticks = interval(Duration::from_millis(50));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 1.. {
        tokio::select! { _ = ticks.tick() => (), () = shutdown.draining() => break }
        if number % 43 == 11 {
            bezoar.send(QUEUE, "lab.result", &"MSH|^~\\&|cut off").await?;
        } else {
            let result = LabResult { number, haemoglobin: 14.1, correction: number % 29 == 5 };
            bezoar.send(QUEUE, "lab.result", &result).await?;
        }
        narrator.accepted();
    }
    Ok(())
}
