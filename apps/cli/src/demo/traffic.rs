//! What the clinic sends: mostly valid messages, some poison.

use std::time::Duration;

use anyhow::Result;
use bezoar::Shutdown;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::client::{ApiClient, path};

/// The routes and their queues.
pub(super) const ROUTES: [(&str, &str); 2] = [("results", "lab"), ("appointments", "appointments")];
/// Messages per second.
pub(super) const PER_SECOND: u32 = 20;
/// An analyte that the archive does not know.
pub(super) const UNKNOWN_ANALYTE: &str = "unobtainium";

/// A message before it is sent.
#[derive(Debug, PartialEq)]
struct DemoMessage {
    queue: &'static str,
    message_type: &'static str,
    body: Value,
}

/// Sends messages one after another. It waits for the last one: an aborted request might be accepted and not counted.
pub(super) async fn send(client: &ApiClient, end: &Shutdown) -> Result<()> {
    let mut ticks = interval(Duration::from_secs(1) / PER_SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0.. {
        tokio::select! { _ = ticks.tick() => (), () = end.draining() => break }
        let DemoMessage { queue, message_type, body } = message(number);
        let headers = HeaderMap::from_iter([
            (HeaderName::from_static("bezoar-type"), HeaderValue::from_static(message_type)),
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ]);
        let body = Bytes::from(body.to_string());
        client.upload(&path(["v1", "queues", queue, "messages"]), headers, body).await?;
    }
    Ok(())
}

/// One in 4 is an appointment, one in 20 cannot be stored, one in 7 finds the archive busy at first.
fn message(number: u64) -> DemoMessage {
    let patient = 1_000 + number * 7 % 89;
    let is_busy = number % 7 == 3;
    if number % 4 == 2 {
        let booked = number % 8 == 2;
        let message_type = if booked { "appointment.booked" } else { "appointment.cancelled" };
        let body = json!({ "patient": patient, "ward": "7b", "busy": is_busy });
        return DemoMessage { queue: "appointments", message_type, body };
    }
    let analyte = if number % 20 == 5 { UNKNOWN_ANALYTE } else { "haemoglobin" };
    let body = json!({ "patient": patient, "analyte": analyte, "value": 14.1, "busy": is_busy });
    DemoMessage { queue: "lab", message_type: "lab.result", body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traffic_is_mixed() {
        let all: Vec<_> = (0..280).map(message).collect();
        let count = |fits: fn(&DemoMessage) -> bool| all.iter().filter(|it| fits(it)).count();
        assert_eq!(count(|it| it.queue == "appointments"), 70);
        assert_eq!(count(|it| it.body["analyte"] == UNKNOWN_ANALYTE), 14);
        assert_eq!(count(|it| it.body["busy"] == true), 40);
        assert!(all.iter().all(|it| ROUTES.iter().any(|(_, queue)| *queue == it.queue)));
    }
}
