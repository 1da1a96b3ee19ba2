//! A queue and its route, as the API returns them.

use std::time::Duration;

use jiff::Timestamp;

use super::queue_status::QueueStatus;
use crate::{
    api_types,
    route::{Route, describe},
};

impl QueueStatus {
    /// The queue as the API returns it; unknown values are null.
    pub(crate) fn to_api(&self) -> api_types::QueueStatus {
        let age = |since: Option<Timestamp>| since.map(|since| self.age(since).as_secs_f64());
        api_types::QueueStatus {
            queue: self.queue.to_string(),
            transport: self.transport.to_owned(),
            total: self.depth.total,
            ready: self.depth.ready,
            delayed: self.depth.delayed,
            in_flight: self.depth.leased,
            dead: self.depth.dead,
            oldest_ready_seconds: age(self.depth.oldest_ready),
            oldest_dead_seconds: age(self.depth.oldest_dead),
            counted_seconds_ago: self.counted.map(|age| age.as_secs_f64()),
            problem: self.problem.as_ref().map(describe),
            route: self.route.as_deref().map(Route::to_api),
        }
    }
}

impl Route {
    /// The route as the API returns it.
    pub(crate) fn to_api(&self) -> api_types::RouteStatus {
        let (breaker, streak) = (self.breaker(), self.streak());
        let while_open = |time: Duration| breaker.code.is_some().then_some(time.as_secs_f64());
        api_types::RouteStatus {
            name: self.name().to_owned(),
            from: self.queue().to_string(),
            to: self.config().to.origin().to_owned(),
            paused: self.paused().map(str::to_owned),
            breaker: breaker.state.into(),
            breaker_code: breaker.code.as_ref().map(ToString::to_string),
            breaker_open_seconds: while_open(breaker.open_for),
            breaker_next_probe_seconds: while_open(breaker.next_probe),
            failed_calls: streak.as_ref().map_or(0, |streak| streak.calls),
            failed_code: streak.map(|streak| streak.code.to_string()),
            per_second: Some(self.per_second()),
            problem: self.problem(),
        }
    }
}
