//! Whatever comes over a socket is answered with a problem or by closing it, and the next is served.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod batches;
mod heads;
mod paths;
mod property;
mod slow;
mod socket;
#[path = "../support/mod.rs"]
mod support;

use support::Lab;

const MESSAGES: &str = "/v1/queues/default/messages";

/// Shown after everything else: the gateway is as good as new.
async fn still_accepts(lab: &Lab) {
    lab.send("default", &[], "a good message").await;
}
