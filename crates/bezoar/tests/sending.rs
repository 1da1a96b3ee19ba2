//! What a sender can say about a message, and typed messages from sender to handler.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bezoar::{
    Bezoar, Clock, Context, ErrorKind, Failure, Json, Message, QueueName, Router, State,
    TypedMessage, Worker,
    testing::{Harness, VirtualClock},
};
use serde::{Deserialize, Serialize};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize, Deserialize)]
struct LabResult {
    value: f64,
}

impl TypedMessage for LabResult {
    const TYPE: &'static str = "lab.result";
}

async fn bezoar() -> (Bezoar, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::default());
    let options =
        bezoar::memory::Options { clock: clock.clone(), ..bezoar::memory::Options::default() };
    let transport = bezoar::memory::MemoryTransport::new(options);
    let bezoar = Bezoar::new(transport).with_clock(clock.clone());
    bezoar.provision("lab").await.unwrap();
    (bezoar, clock)
}

/// What can be received now.
async fn received(bezoar: &Bezoar) -> Vec<Message> {
    let lab = QueueName::new("lab").unwrap();
    let subscription = bezoar.transport().subscribe(&lab, Default::default()).await.unwrap();
    let ten = NonZeroU32::new(10).unwrap();
    let deliveries = subscription.receive(ten, Duration::ZERO).await.unwrap();
    deliveries.into_iter().map(|delivery| (*delivery.message).clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_typed_message_finds_the_handler_of_its_type() {
    async fn store(
        Json(result): Json<LabResult>,
        State(lab): State<Bezoar>,
    ) -> Result<(), Failure> {
        lab.send("archive", "stored", &result.value).await?;
        Ok(())
    }
    let worker = |lab| Worker::new("lab", Router::with_state(lab).on_message(store)).unwrap();
    let lab = Harness::start_with(worker).await;
    lab.bezoar().provision("archive").await.unwrap();
    lab.send_typed(&LabResult { value: 14.1 }).await;
    lab.bezoar().send_message("lab", &LabResult { value: 14.2 }).await.unwrap();
    lab.until_idle().await;
    assert!(lab.dead_letters().await.is_empty());
    let archive = QueueName::new("archive").unwrap();
    assert_eq!(lab.bezoar().admin().depth(&archive).await.unwrap().ready, Some(2));
}

#[tokio::test(start_paused = true)]
async fn everything_that_a_sender_says_reaches_the_queue() {
    let (bezoar, _) = bezoar().await;
    let cause = bezoar.message(&LabResult { value: 1.0 }).correlation_id("order-17").build();
    let cause = Context::new(Arc::new(cause.unwrap().message), QueueName::new("ward").unwrap());
    let sent = bezoar.message(&LabResult { value: 14.1 });
    let sent = sent.header("ward", "7b").caused_by(&cause).id("m-1").send_to("lab").await;
    assert_eq!(sent.unwrap().as_str(), "m-1");

    let [message] = &received(&bezoar).await[..] else { panic!("one message") };
    assert_eq!((message.id.as_str(), message.message_type.as_str()), ("m-1", "lab.result"));
    assert_eq!(message.headers["ward"].reveal(), "7b");
    assert_eq!(message.causation_id.as_ref(), Some(&cause.message.id));
    assert_eq!(message.correlation_id.as_ref().unwrap().as_str(), "order-17");
    assert_eq!(message.content_type.as_ref().unwrap().as_str(), "application/json");
    assert_eq!(&message.body.reveal()[..], br#"{"value":14.1}"#);
}

#[tokio::test(start_paused = true)]
async fn a_delay_and_a_time_hold_a_message_back() {
    let (bezoar, clock) = bezoar().await;
    let result = || bezoar.message(&LabResult { value: 1.0 });
    result().id("delay").delay(10 * SECOND).send_to("lab").await.unwrap();
    result().id("at").at(clock.now() + 20 * SECOND).send_to("lab").await.unwrap();
    result().id("past").at(clock.now() - SECOND).send_to("lab").await.unwrap();
    for (after, expected) in [(0, "past"), (10, "delay"), (10, "at")] {
        tokio::time::advance(after * SECOND).await;
        let ids: Vec<_> = received(&bezoar).await.into_iter().map(|it| it.id.to_string()).collect();
        assert_eq!(ids, [expected], "after {after} s");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ordering_key_and_an_expiry_are_part_of_the_message() {
    let (bezoar, clock) = bezoar().await;
    let result = bezoar.message(&LabResult { value: 1.0 });
    let built = result.ordering_key("patient-7").time_to_live(60 * SECOND).build().unwrap();
    assert_eq!(built.message.ordering_key.unwrap().as_str(), "patient-7");
    assert_eq!(built.message.expires_at.unwrap(), clock.now() + 60 * SECOND);
    for refused in [
        bezoar.message(&LabResult { value: 1.0 }).ordering_key("").build(),
        bezoar.message(&LabResult { value: 1.0 }).time_to_live(Duration::ZERO).build(),
        bezoar.message(&LabResult { value: 1.0 }).time_to_live(Duration::MAX).build(),
    ] {
        assert!(matches!(refused.unwrap_err().kind, ErrorKind::Invalid(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_sent_once_is_stored_once() {
    let (bezoar, _) = bezoar().await;
    for _ in 0..3 {
        let result = bezoar.message(&LabResult { value: 1.0 });
        result.id("order-17").once(60 * SECOND).send_to("lab").await.unwrap();
    }
    assert_eq!(received(&bezoar).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_refused_names_itself_and_sends_nothing() {
    let (bezoar, _) = bezoar().await;
    let result = || bezoar.message(&LabResult { value: 1.0 });
    let refused = [
        result().id("").send_to("lab").await,
        result().correlation_id("a\nb").send_to("lab").await,
        result().delay(Duration::from_secs(400 * 86_400)).send_to("lab").await,
        result().header("", "x").send_to("lab").await,
        result().send_to("").await,
        bezoar.message_of_type("", &1).send_to("lab").await,
        bezoar
            .message_of_type("map", &std::collections::HashMap::from([((1, 2), 3)]))
            .send_to("lab")
            .await,
    ];
    let fields =
        ["message id", "correlation id", "delay", "header", "queue", "message type", "value"];
    for (refused, field) in refused.into_iter().zip(fields) {
        let error = refused.unwrap_err();
        let ErrorKind::Invalid(invalid) = &error.kind else { panic!("{error}") };
        assert!(invalid.field.contains(field), "{} is not {field}", invalid.field);
    }
    assert!(received(&bezoar).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_batch_takes_messages_with_delays_of_their_own() {
    let (bezoar, _) = bezoar().await;
    let batch = (0..3).map(|number| {
        let result = bezoar.message(&LabResult { value: f64::from(number) });
        result.delay(number * SECOND).build().unwrap()
    });
    let batch: Vec<_> = batch.collect();
    assert!(bezoar.publisher().send_batch("lab", batch).await.iter().all(Result::is_ok));
    assert_eq!(received(&bezoar).await.len(), 1);
}
