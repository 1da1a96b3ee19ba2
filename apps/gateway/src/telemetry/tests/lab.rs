//! A route in miniature: a queue in memory, an endpoint with moods, all layers around it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bezoar::{
    Backoff, Code, Context, CorrelationId, Failure, Jitter, Message, MessageId, MessageType,
    RetryPolicy, Router, Worker, testing::Harness,
};
use jiff::Timestamp;

use crate::telemetry::{
    Correlation, MeasureLayer, Metrics, TRACEPARENT, TraceLayer, accept_span, ended, traceparent,
};

/// What must be seen nowhere.
pub(super) const CANARY: &str = "CANARY-7f3a91";
/// A trace of a caller.
pub(super) const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What the endpoint was told about traces, try by try.
type Told = Arc<Mutex<Vec<Option<String>>>>;

pub(super) struct Lab {
    harness: Harness,
    metrics: Metrics,
    pub(super) told: Told,
}

impl Lab {
    pub(super) async fn start(metrics: &Metrics, correlation: Correlation) -> Self {
        let told = Told::default();
        let route = metrics.route("results");
        let hears = told.clone();
        let endpoint = move |context: Context| {
            hears.lock().unwrap().push(correlation.outgoing(&context));
            answer(context)
        };
        let backoff = Backoff::Fixed { delay: Duration::from_millis(1) };
        let policy = RetryPolicy::new(3, backoff, Duration::from_secs(1), Jitter::None).unwrap();
        let worker = Worker::new("lab", Router::new().fallback(endpoint)).unwrap();
        let worker = worker
            .policy(policy)
            .timeout(Duration::from_millis(200))
            .layer(TraceLayer::new("results"))
            .layer(MeasureLayer::new(route.clone()))
            .observer(route.observer());
        Self { harness: Harness::start(worker).await, metrics: metrics.clone(), told }
    }

    /// Accepts a message as the API does, and waits until it is done or dead.
    pub(super) async fn accept(&self, message_type: &str, incoming: Option<&str>) {
        let mut message = message(message_type);
        let span = accept_span("lab", &[message.clone().into()], incoming);
        if let Some(trace) = traceparent(&span, incoming) {
            message = message.with_header(TRACEPARENT, trace);
        }
        self.harness.send_message(message).await;
        ended(&span, Ok(()));
        drop(span);
        self.metrics.queue("lab").accepted(1, Duration::from_millis(1));
        self.harness.until_idle().await;
    }

    pub(super) async fn stop(self) {
        self.harness.stop().await;
    }
}

/// A message with something secret wherever there is room for it.
pub(super) fn message(message_type: &str) -> Message {
    let message_type = MessageType::new(message_type).unwrap();
    Message::new(
        MessageId::new("m-1").unwrap(),
        message_type,
        Timestamp::UNIX_EPOCH,
        CANARY.to_owned(),
    )
    .with_correlation_id(CorrelationId::new("c-7").unwrap())
    .with_header("patient", CANARY)
}

/// `good` is taken, `flaky` and `slow` on their second attempt, anything else never.
async fn answer(context: Context) -> Result<(), Failure> {
    tracing::info!("the endpoint was called");
    match (context.message.message_type.as_str(), context.attempt) {
        ("good", _) | ("flaky" | "slow", 2..) => Ok(()),
        ("slow", _) => std::future::pending().await,
        ("flaky", _) => Err(Failure::transient(CANARY).with_code(Code::new("http.503").unwrap())),
        _ => Err(Failure::permanent(CANARY)),
    }
}
