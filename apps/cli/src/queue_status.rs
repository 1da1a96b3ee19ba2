//! The state of a queue and its route as text.

use std::time::Duration;

use bezoar_gateway::api_types::BreakerState;
pub(crate) use bezoar_gateway::api_types::{QueueStatus, RouteStatus};

use crate::{
    client::{ApiClient, ApiReply, ClientError},
    humanize,
};

/// The condition of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It works, as far as known.
    Fine,
    /// It is paused, its last calls failed, or its breaker is probing.
    HeldBack,
    /// Its endpoint or broker is down.
    Down,
}

/// Fetches all queues.
pub(crate) async fn fetch(client: &ApiClient) -> Result<ApiReply, ClientError> {
    client.get("/v1/queues").await
}

/// The columns of a queue as text.
pub(crate) trait QueueText {
    /// How many messages are ready: `12`, `≤120` if only the total is known, or `?`.
    fn ready(&self) -> String;
    /// The age of the oldest ready message.
    fn oldest_ready(&self) -> String;
    /// The age of the oldest dead letter.
    fn oldest_dead(&self) -> String;
    /// Messages completed per second.
    fn per_second(&self) -> String;
    /// The route and its endpoint.
    fn leads_to(&self) -> String;
    /// The condition as text. An unavailable broker comes before everything else.
    fn state(&self) -> (Condition, String);
}

impl QueueText for QueueStatus {
    fn ready(&self) -> String {
        match (self.ready, self.total) {
            (None, Some(total)) => format!("≤{}", humanize::count(total)),
            (ready, _) => humanize::count_or_unknown(ready),
        }
    }

    fn oldest_ready(&self) -> String {
        humanize::oldest(self.ready, self.oldest_ready_seconds)
    }

    fn oldest_dead(&self) -> String {
        humanize::oldest(self.dead, self.oldest_dead_seconds)
    }

    fn per_second(&self) -> String {
        match &self.route {
            Some(route) => route.per_second.map_or(humanize::UNKNOWN.to_owned(), humanize::rate),
            None => humanize::NONE.to_owned(),
        }
    }

    fn leads_to(&self) -> String {
        self.route
            .as_ref()
            .map_or(humanize::NONE.to_owned(), |route| format!("{} → {}", route.name, route.to))
    }

    fn state(&self) -> (Condition, String) {
        let of_route = || self.route.as_ref().and_then(|route| route.problem.as_ref());
        if let Some(problem) = self.problem.as_ref().or_else(of_route) {
            return (Condition::Down, problem.clone());
        }
        match &self.route {
            Some(route) => route_state(route),
            None => (Condition::Fine, "no route".to_owned()),
        }
    }
}

/// Whether a route is paused.
pub(crate) fn is_paused(route: &RouteStatus) -> bool {
    route.paused.is_some()
}

fn route_state(route: &RouteStatus) -> (Condition, String) {
    match (route.paused.as_deref(), route.breaker) {
        // Some reasons already begin with "paused".
        (Some(why), _) if why.starts_with("paused") => (Condition::HeldBack, why.to_owned()),
        (Some(why), _) => (Condition::HeldBack, format!("paused: {why}")),
        (None, BreakerState::Closed) if route.failed_calls > 0 => {
            let code = route.failed_code.as_deref().unwrap_or(humanize::UNKNOWN);
            let calls = humanize::plural(route.failed_calls, "call");
            (Condition::HeldBack, format!("failing ({code}, {calls})"))
        }
        (None, BreakerState::Closed) => (Condition::Fine, "running".to_owned()),
        (None, BreakerState::Open) => (Condition::Down, breaker_in_words(route)),
        (None, BreakerState::HalfOpen) => (Condition::HeldBack, breaker_in_words(route)),
        (None, BreakerState::Unknown) => (Condition::Fine, humanize::UNKNOWN.to_owned()),
    }
}

/// `breaker open (http.503) for 2 m, next probe in 8 s`
fn breaker_in_words(route: &RouteStatus) -> String {
    let age =
        |seconds: f64| humanize::age(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let code = route.breaker_code.as_ref().map(|code| format!(" ({code})"));
    let open = route.breaker_open_seconds.map(|seconds| format!(" for {}", age(seconds)));
    let probe = match route.breaker_next_probe_seconds {
        Some(seconds) if route.breaker == BreakerState::Open => {
            Some(format!(", next probe in {}", age(seconds)))
        }
        _ => None,
    };
    [Some(format!("breaker {}", route.breaker)), code, open, probe].into_iter().flatten().collect()
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
        let mut failing = route(json!(null), json!("closed"));
        failing["failed_calls"] = 3.into();
        failing["failed_code"] = "connect.refused".into();
        check(failing, Condition::HeldBack, "failing (connect.refused, 3 calls)");
        check(route(json!(null), json!("open")), Condition::Down, "breaker open");
        check(route(json!(null), json!("half-open")), Condition::HeldBack, "breaker half-open");
        check(route(json!(null), json!("ajar")), Condition::Fine, "?");
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
