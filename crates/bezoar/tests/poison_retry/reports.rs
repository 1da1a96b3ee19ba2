//! The spans and log lines of a run.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use bezoar::{CorrelationIds, PoisonRetry};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt, registry};

use crate::{
    memory_queue::{Fault, MemoryQueue},
    support::{Deliveries, processor},
};

#[derive(Debug, Clone, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

/// Everything that was reported. Clones are the same.
#[derive(Debug, Clone, Default)]
struct Captured {
    spans: Arc<Mutex<BTreeMap<u64, Fields>>>,
    lines: Arc<Mutex<Vec<(Level, Fields)>>>,
}

impl<S: Subscriber> Layer<S> for Captured {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        self.spans.lock().unwrap().insert(id.into_u64(), fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        values.record(self.spans.lock().unwrap().get_mut(&id.into_u64()).unwrap());
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.lines.lock().unwrap().push((*event.metadata().level(), fields));
    }
}

impl Captured {
    async fn of(processor: &PoisonRetry) -> Self {
        let captured = Self::default();
        // The runtime of a test has one thread, so this covers its tasks.
        let _guard = tracing::subscriber::set_default(registry().with(captured.clone()));
        let _ = processor.run_once().await;
        captured
    }

    /// The span of the message with this id; that of the run for `None`.
    fn span(&self, id: Option<&str>) -> Fields {
        let spans = self.spans.lock().unwrap();
        let has_id = |it: &&Fields| it.0.get("message.id").map(String::as_str) == id;
        spans.values().find(has_id).unwrap_or_else(|| panic!("no span of {id:?}")).clone()
    }

    fn line(&self, text: &str) -> (Level, Fields) {
        let lines = self.lines.lock().unwrap();
        let has_text = |it: &&(Level, Fields)| it.1.0["message"].contains(text);
        lines.iter().find(has_text).unwrap_or_else(|| panic!("no {text:?} in {lines:?}")).clone()
    }
}

#[track_caller]
fn check(fields: &Fields, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(fields.0.get(name).map(String::as_str), Some(*value), "{name} in {fields:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_and_each_message_have_a_span_with_a_status() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    for (id, body, count) in [("a", "accept", 2), ("r", "refuse", 1), ("d", "undecodable", 0)] {
        queue.put(id, body, count);
    }
    let captured = Captured::of(&processor(&queue, &deliveries)).await;
    check(
        &captured.span(None),
        &[
            ("message.count", "3"),
            ("messaging.batch.message_count", "3"),
            ("messaging.destination.name", "results-poison"),
            ("otel.status_code", "OK"),
        ],
    );
    for (id, count, status) in [("a", "2", "OK"), ("r", "1", "ERROR"), ("d", "0", "ERROR")] {
        let correlation = format!("c-{id}");
        check(
            &captured.span(Some(id)),
            &[
                ("correlation.id", &correlation),
                ("retry.count", count),
                ("messaging.message.id", id),
                ("messaging.message.conversation_id", &correlation),
                ("otel.status_code", status),
            ],
        );
    }
    check(&captured.span(Some("r")), &[("error.type", "http.400")]);
}

#[tokio::test(start_paused = true)]
async fn log_lines_have_their_fields_and_no_payload() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    for (id, body, count) in
        [("a", "accept", 0), ("r", "CANARY", 1), ("p", "panic", 0), ("d", "CANARY", 3)]
    {
        queue.put(id, body, count);
    }
    let captured = Captured::of(&processor(&queue, &deliveries)).await;
    let (level, retried) = captured.line("retry 2 of 3 in 8 m");
    assert_eq!(level, Level::WARN);
    check(
        &retried,
        &[
            ("queue", "results-poison"),
            ("message_id", "r"),
            ("correlation_id", "c-r"),
            ("retry_count", "2"),
            ("max_attempts", "3"),
            ("delay_ms", "480000"),
            ("code", "http.400"),
        ],
    );
    let (level, dead) = captured.line("dead-lettered: max retries (3) exhausted");
    assert_eq!(level, Level::ERROR);
    check(&dead, &[("message_id", "d"), ("correlation_id", "c-d"), ("retry_count", "3")]);
    let (_, done) = captured.line("processed 4 messages");
    check(&done, &[("queue", "results-poison"), ("message_count", "4"), ("delivered", "1")]);
    let shown = format!("{captured:?}");
    assert!(!shown.contains("CANARY"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_is_a_quiet_line() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    let captured = Captured::of(&processor(&queue, &deliveries)).await;
    assert_eq!(captured.line("poison queue is empty").0, Level::INFO);
    assert_eq!(captured.lines.lock().unwrap().len(), 1);
    check(&captured.span(None), &[("message.count", "0"), ("otel.status_code", "OK")]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_proceed_is_an_error_in_the_log_and_its_span() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    queue.fail_at(0, Fault::Refused);
    let captured = Captured::of(&processor(&queue, &deliveries)).await;
    let (level, line) = captured.line("poison retry cannot proceed");
    assert_eq!(level, Level::ERROR);
    check(&line, &[("queue", "results-poison"), ("message_count", "0")]);
    check(&captured.span(None), &[("otel.status_code", "ERROR"), ("error.type", "not_authorized")]);
}

#[tokio::test(start_paused = true)]
async fn correlation_ids_can_be_hidden() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    queue.put("m", "refuse", 0);
    let processor = processor(&queue, &deliveries).correlation_ids(CorrelationIds::Hidden);
    let shown = format!("{:?}", Captured::of(&processor).await);
    assert!(shown.contains("retry 1 of 3") && !shown.contains("c-m"), "{shown}");
}
