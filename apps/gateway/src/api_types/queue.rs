//! Queues and routes.

use bezoar::blame;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{names::named, reading};

/// The counts of a queue, and its route. Unknown values are null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct QueueStatus {
    /// Its name; `NAME/QUEUE` if it is on a broker.
    #[schema(example = "hospital/results")]
    pub queue: String,
    /// What keeps it.
    #[schema(example = "sqlite")]
    pub transport: String,
    /// All messages together, where they cannot be counted apart.
    pub total: Option<u64>,
    /// Messages that can be delivered now.
    pub ready: Option<u64>,
    /// Messages that wait for their time.
    pub delayed: Option<u64>,
    /// Messages that are with a worker.
    pub in_flight: Option<u64>,
    /// Dead letters.
    pub dead: Option<u64>,
    /// The age of the oldest ready message.
    pub oldest_ready_seconds: Option<f64>,
    /// The age of the oldest dead letter.
    pub oldest_dead_seconds: Option<f64>,
    /// How long ago its messages were counted; null if they never were.
    pub counted_seconds_ago: Option<f64>,
    /// Why the counts are unknown, if they are.
    pub problem: Option<String>,
    /// The route that consumes it, if there is one.
    pub route: Option<RouteStatus>,
}

/// A route: what consumes a queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RouteStatus {
    /// Its name.
    pub name: String,
    /// The queue that it consumes.
    pub from: String,
    /// The endpoint, without path and query.
    #[schema(example = "http://localhost:3000")]
    pub to: String,
    /// Why it is paused, if it is.
    pub paused: Option<String>,
    /// The state of its breaker.
    pub breaker: BreakerState,
    /// Why the breaker is open; null while it is closed, as are the next two.
    pub breaker_code: Option<String>,
    /// How long it has been open.
    pub breaker_open_seconds: Option<f64>,
    /// When it probes the endpoint next.
    pub breaker_next_probe_seconds: Option<f64>,
    /// Calls that failed since its endpoint last accepted a message or answered about one.
    pub failed_calls: u64,
    /// The code of the latest of them; null if there are none.
    #[schema(example = "connect.refused")]
    pub failed_code: Option<String>,
    /// Messages completed per second.
    pub per_second: Option<f64>,
    /// Why its queue is unavailable, if it is.
    pub problem: Option<String>,
}

named! {
    /// The state of a breaker.
    BreakerState {
        /// Messages are delivered.
        Closed = "closed",
        /// A few messages are delivered to see whether the endpoint works again.
        HalfOpen = "half-open",
        /// Messages wait until the endpoint works again.
        Open = "open",
    }
}

/// Whether a route is paused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RoutePause {
    /// The name of the route.
    pub route: String,
    /// Whether it is paused now.
    pub paused: bool,
}

/// Discards all dead letters that are on a queue's broker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BrokerDiscardRequest {
    /// The reason, recorded in the audit log.
    pub reason: String,
    /// The expected number; another number is refused.
    #[serde(deserialize_with = "reading::whole")]
    pub expect: u64,
}

/// How many dead letters were replayed on the broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BrokerReplayed {
    /// Their number.
    pub replayed: u64,
}

/// How many dead letters were discarded on the broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BrokerDiscarded {
    /// Their number.
    pub discarded: u64,
}

impl From<blame::BreakerState> for BreakerState {
    fn from(state: blame::BreakerState) -> Self {
        match state {
            blame::BreakerState::Closed => Self::Closed,
            blame::BreakerState::HalfOpen => Self::HalfOpen,
            blame::BreakerState::Open => Self::Open,
        }
    }
}
