//! The state of a queue and its route, as the gateway's API returns it.

use std::time::Duration;

use serde::Deserialize;

use crate::{
    client::{ApiClient, ApiReply, ClientError},
    humanize,
};

/// A snapshot of a queue; `None` means unknown.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct QueueStatus {
    pub(crate) queue: String,
    /// All messages together, if the broker counts no other way.
    #[serde(default)]
    total: Option<u64>,
    pub(crate) ready: Option<u64>,
    pub(crate) delayed: Option<u64>,
    pub(crate) in_flight: Option<u64>,
    pub(crate) dead: Option<u64>,
    oldest_ready_seconds: Option<f64>,
    oldest_dead_seconds: Option<f64>,
    /// Why the counts are unknown, if the broker is unavailable.
    #[serde(default)]
    problem: Option<String>,
    pub(crate) route: Option<RouteStatus>,
}

/// The route that consumes a queue.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct RouteStatus {
    pub(crate) name: String,
    to: String,
    /// Why it is paused, if it is.
    paused: Option<String>,
    breaker: Option<String>,
    /// Why the breaker is open, for how long, and when it probes next; `None` while it is closed.
    #[serde(default)]
    breaker_code: Option<String>,
    #[serde(default)]
    breaker_open_seconds: Option<f64>,
    #[serde(default)]
    breaker_next_probe_seconds: Option<f64>,
    pub(crate) per_second: Option<f64>,
    /// Why the queue is unavailable, if it is.
    #[serde(default)]
    problem: Option<String>,
}

/// The condition of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It works, as far as known.
    Fine,
    /// It is paused, or its breaker is probing.
    HeldBack,
    /// Its endpoint or broker is down.
    Down,
}

/// Fetches all queues.
pub(crate) async fn fetch(client: &ApiClient) -> Result<ApiReply, ClientError> {
    client.get("/v1/queues").await
}

impl QueueStatus {
    /// How many messages are ready: `12`, `≤120` if only the total is known, or `?`.
    pub(crate) fn ready(&self) -> String {
        match (self.ready, self.total) {
            (None, Some(total)) => format!("≤{}", humanize::count(total)),
            (ready, _) => humanize::count_or_unknown(ready),
        }
    }

    /// The age of the oldest ready message.
    pub(crate) fn oldest_ready(&self) -> String {
        humanize::oldest(self.ready, self.oldest_ready_seconds)
    }

    /// The age of the oldest dead letter.
    pub(crate) fn oldest_dead(&self) -> String {
        humanize::oldest(self.dead, self.oldest_dead_seconds)
    }

    /// Messages completed per second.
    pub(crate) fn per_second(&self) -> String {
        match &self.route {
            Some(route) => route.per_second.map_or(humanize::UNKNOWN.to_owned(), humanize::rate),
            None => humanize::NONE.to_owned(),
        }
    }

    /// The route and its endpoint.
    pub(crate) fn leads_to(&self) -> String {
        self.route
            .as_ref()
            .map_or(humanize::NONE.to_owned(), |route| format!("{} → {}", route.name, route.to))
    }

    /// The condition as text. An unavailable broker comes before everything else.
    pub(crate) fn state(&self) -> (Condition, String) {
        let of_route = || self.route.as_ref().and_then(|route| route.problem.as_ref());
        if let Some(problem) = self.problem.as_ref().or_else(of_route) {
            return (Condition::Down, problem.clone());
        }
        match &self.route {
            Some(route) => route.state(),
            None => (Condition::Fine, "no route".to_owned()),
        }
    }
}

impl RouteStatus {
    /// Whether it is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    fn state(&self) -> (Condition, String) {
        match (self.paused.as_deref(), self.breaker.as_deref()) {
            // Some reasons already begin with "paused".
            (Some(why), _) if why.starts_with("paused") => (Condition::HeldBack, why.to_owned()),
            (Some(why), _) => (Condition::HeldBack, format!("paused: {why}")),
            (None, Some("closed")) => (Condition::Fine, "running".to_owned()),
            (None, Some("open")) => (Condition::Down, self.breaker_in_words("open")),
            (None, Some(other)) => (Condition::HeldBack, self.breaker_in_words(other)),
            (None, None) => (Condition::Fine, humanize::UNKNOWN.to_owned()),
        }
    }

    /// `breaker open (http.503) for 2 m, next probe in 8 s`
    fn breaker_in_words(&self, state: &str) -> String {
        let age =
            |seconds: f64| humanize::age(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let code = self.breaker_code.as_ref().map(|code| format!(" ({code})"));
        let open = self.breaker_open_seconds.map(|seconds| format!(" for {}", age(seconds)));
        let probe = match self.breaker_next_probe_seconds {
            Some(seconds) if state == "open" => Some(format!(", next probe in {}", age(seconds))),
            _ => None,
        };
        [Some(format!("breaker {state}")), code, open, probe].into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(route: Value, condition: Condition, state: &str) {
        let status: QueueStatus =
            serde_json::from_value(json!({ "queue": "q", "route": route })).unwrap();
        assert_eq!(status.state(), (condition, state.to_owned()));
    }

    fn route(paused: Value, breaker: Value) -> Value {
        json!({ "name": "r", "to": "http://h/", "paused": paused, "breaker": breaker })
    }

    #[test]
    fn states_are_described() {
        let why = json!("paused by an operator");
        check(json!(null), Condition::Fine, "no route");
        check(route(json!(null), json!("closed")), Condition::Fine, "running");
        check(route(json!(null), json!("open")), Condition::Down, "breaker open");
        check(route(json!(null), json!("half-open")), Condition::HeldBack, "breaker half-open");
        check(route(json!(null), json!(null)), Condition::Fine, "?");
        check(route(why, json!("open")), Condition::HeldBack, "paused by an operator");
        check(route(json!("gone"), json!("closed")), Condition::HeldBack, "paused: gone");
    }

    #[test]
    fn an_open_breaker_says_why_since_when_and_when_it_probes() {
        let why = |state: &str| {
            let mut route = route(json!(null), json!(state));
            route["breaker_code"] = json!("http.503");
            route["breaker_open_seconds"] = json!(125.4);
            route["breaker_next_probe_seconds"] = json!(8.9);
            route
        };
        let open = "breaker open (http.503) for 2 m, next probe in 8 s";
        check(why("open"), Condition::Down, open);
        check(why("half-open"), Condition::HeldBack, "breaker half-open (http.503) for 2 m");
    }

    #[test]
    fn missing_values_are_unknown() {
        let status: QueueStatus = serde_json::from_value(json!({ "queue": "q" })).unwrap();
        let ages = [status.oldest_ready(), status.oldest_dead()];
        assert_eq!((status.ready, ages), (None, ["?".to_owned(), "?".to_owned()]));
        assert_eq!((status.per_second().as_str(), status.leads_to().as_str()), ("–", "–"));
    }
}
