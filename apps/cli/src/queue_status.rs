//! What the gateway tells of a queue, and how its route does.

use std::time::Duration;

use serde::Deserialize;

use crate::{
    client::{ApiClient, ApiReply, ClientError},
    humanize,
};

/// A queue at one moment; what is not known is `None`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct QueueStatus {
    pub(crate) queue: String,
    pub(crate) ready: Option<u64>,
    pub(crate) delayed: Option<u64>,
    pub(crate) in_flight: Option<u64>,
    pub(crate) dead: Option<u64>,
    oldest_ready_seconds: Option<f64>,
    oldest_dead_seconds: Option<f64>,
    /// Why the broker cannot tell, if it cannot.
    #[serde(default)]
    trouble: Option<String>,
    pub(crate) route: Option<RouteStatus>,
}

/// The route that empties a queue.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct RouteStatus {
    pub(crate) name: String,
    to: String,
    /// Why, if it is.
    paused: Option<String>,
    breaker: Option<String>,
    /// Why the breaker is open, since when, and when the endpoint is probed; nothing of it while it is closed.
    #[serde(default)]
    breaker_code: Option<String>,
    #[serde(default)]
    breaker_open_seconds: Option<f64>,
    #[serde(default)]
    breaker_next_probe_seconds: Option<f64>,
    pub(crate) per_second: Option<f64>,
    /// Why the queue cannot be worked on, if it cannot.
    #[serde(default)]
    trouble: Option<String>,
}

/// What a route is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It works, as far as is known.
    Fine,
    /// Somebody may want to know.
    HeldBack,
    /// Its endpoint or its broker is down.
    Down,
}

/// Asks for all queues.
pub(crate) async fn fetch(client: &ApiClient) -> Result<ApiReply, ClientError> {
    client.get("/v1/queues").await
}

impl QueueStatus {
    /// The age of the oldest message that could be delivered.
    pub(crate) fn oldest_ready(&self) -> String {
        humanize::oldest(self.ready, self.oldest_ready_seconds)
    }

    /// The age of the oldest dead letter.
    pub(crate) fn oldest_dead(&self) -> String {
        humanize::oldest(self.dead, self.oldest_dead_seconds)
    }

    /// Messages completed each second.
    pub(crate) fn per_second(&self) -> String {
        match &self.route {
            Some(route) => route.per_second.map_or(humanize::UNKNOWN.to_owned(), humanize::rate),
            None => humanize::NONE.to_owned(),
        }
    }

    /// The route and where it leads.
    pub(crate) fn leads_to(&self) -> String {
        self.route
            .as_ref()
            .map_or(humanize::NONE.to_owned(), |route| format!("{} → {}", route.name, route.to))
    }

    /// What the route is doing, in words. Before all else, that its broker cannot be worked with.
    pub(crate) fn state(&self) -> (Condition, String) {
        let of_route = || self.route.as_ref().and_then(|route| route.trouble.as_ref());
        if let Some(trouble) = self.trouble.as_ref().or_else(of_route) {
            return (Condition::Down, trouble.clone());
        }
        match &self.route {
            Some(route) => route.state(),
            None => (Condition::Fine, "no route".to_owned()),
        }
    }
}

impl RouteStatus {
    /// Whether it was told to take no messages.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    fn state(&self) -> (Condition, String) {
        match (self.paused.as_deref(), self.breaker.as_deref()) {
            // The reason often begins with the word already.
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
    fn a_state_is_told_in_words() {
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
    fn what_is_missing_is_not_known() {
        let status: QueueStatus = serde_json::from_value(json!({ "queue": "q" })).unwrap();
        let ages = [status.oldest_ready(), status.oldest_dead()];
        assert_eq!((status.ready, ages), (None, ["?".to_owned(), "?".to_owned()]));
        assert_eq!((status.per_second().as_str(), status.leads_to().as_str()), ("–", "–"));
    }
}
