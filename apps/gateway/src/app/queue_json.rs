//! The JSON of a queue in the API.

use std::time::Duration;

use bezoar::Code;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::queue_status::QueueStatus;
use crate::route::describe;

impl QueueStatus {
    /// Its JSON in the API; unknown values are null.
    pub(crate) fn to_json(&self) -> Value {
        let age = |since: Option<Timestamp>| since.map(|since| self.age(since).as_secs_f64());
        let route = self.route.as_ref().map(|route| {
            let breaker = route.breaker();
            let while_open = |time: Duration| breaker.code.is_some().then_some(time.as_secs_f64());
            json!({
                "name": route.name(),
                "to": route.config().to.origin(),
                "paused": route.paused(),
                "breaker": breaker.state.as_str(),
                "breaker_code": breaker.code.as_ref().map(Code::as_str),
                "breaker_open_seconds": while_open(breaker.open_for),
                "breaker_next_probe_seconds": while_open(breaker.next_probe),
                "per_second": route.per_second(),
                "problem": route.problem(),
            })
        });
        json!({
            "queue": self.queue.as_str(),
            "transport": self.transport,
            "total": self.depth.total,
            "ready": self.depth.ready,
            "delayed": self.depth.delayed,
            "in_flight": self.depth.leased,
            "dead": self.depth.dead,
            "oldest_ready_seconds": age(self.depth.oldest_ready),
            "oldest_dead_seconds": age(self.depth.oldest_dead),
            "problem": self.problem.as_ref().map(describe),
            "route": route,
        })
    }
}
