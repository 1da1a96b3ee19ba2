//! The lock, those who wait, and what routes tell each other. The rules are tested beside [`Blame`].

use std::{sync::Arc, time::Duration};

use bezoar::{Message, MessageId, MessageType, QueueName, blame::BreakerOptions};
use tokio::time::timeout;

use super::*;

const FREE: NonZeroU32 = NonZeroU32::new(16).unwrap();
const CODE: Code = Code::from_static("http.500");
const SECOND: Duration = Duration::from_secs(1);

fn context(id: u32) -> Context {
    let id = MessageId::new(format!("m-{id}")).unwrap();
    let message_type = MessageType::new("lab.result").unwrap();
    let message = Message::new(id, message_type, Timestamp::UNIX_EPOCH, "");
    Context::new(Arc::new(message), QueueName::new("lab").unwrap())
}

fn call(breaker: &RouteBreaker, id: u32, outcome: CallOutcome) -> Judgement {
    breaker.enter(&context(id)).unwrap().end(outcome, &CODE, Timestamp::UNIX_EPOCH)
}

fn open(breaker: &RouteBreaker, outcome: CallOutcome) {
    for id in 0..5 {
        let _ = call(breaker, id, outcome);
    }
    assert_eq!(breaker.status().state, BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn waiting_deliveries_proceed_when_the_pause_ends() {
    let breaker = RouteBreaker::default();
    open(&breaker, CallOutcome::Failed);
    assert!(!breaker.admits());
    let before = Instant::now();
    assert_eq!(breaker.admit(FREE).await.get(), 5);
    let waited = before.elapsed();
    assert!(waited >= SECOND && waited <= SECOND.mul_f64(1.11), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn waiting_deliveries_proceed_when_it_closes() {
    let breaker = RouteBreaker::default();
    let late = breaker.enter(&context(9)).unwrap();
    open(&breaker, CallOutcome::Failed);
    let waiting = tokio::spawn({
        let breaker = breaker.clone();
        async move { breaker.admit(FREE).await }
    });
    tokio::task::yield_now().await;
    let _ = late.end(CallOutcome::Done, &CODE, Timestamp::UNIX_EPOCH);
    let admitted = timeout(SECOND / 10, waiting).await.expect("at once").unwrap();
    assert_eq!(admitted, FREE);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_lets_the_next_through() {
    let breaker = RouteBreaker::default();
    open(&breaker, CallOutcome::Ambiguous { fresh_connection: false });
    breaker.probe_now();
    assert_eq!(breaker.admit(FREE).await.get(), 1);
    let probe = breaker.enter(&context(7)).unwrap();
    assert_eq!(breaker.status().state, BreakerState::HalfOpen);
    assert!(timeout(60 * SECOND, breaker.admit(FREE)).await.is_err());
    drop(probe);
    assert_eq!(breaker.admit(FREE).await.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn routes_to_one_origin_share_only_that_nothing_can_be_sent() {
    let origins = Origins::default();
    let make = |route, origin| origins.breaker(route, origin, BlameOptions::default());
    let (one, two) = (make("one", "http://h:1"), make("two", "http://h:1"));
    let other = make("other", "http://h:2");
    open(&one, CallOutcome::Unsent);
    assert_eq!(two.status().state, BreakerState::Open);
    assert_eq!(other.status().state, BreakerState::Closed);
    two.admit(FREE).await;
    let _ = call(&two, 7, CallOutcome::Done);
    assert!(one.admits(), "it can be reached, so that the other route probes at once");

    let (one, two) = (make("one", "http://h:3"), make("two", "http://h:3"));
    open(&one, CallOutcome::Failed);
    assert_eq!(two.status().state, BreakerState::Closed);
}

#[test]
fn a_replayed_message_is_another_one() {
    let first = context(1);
    let mut replayed = Message::clone(&first.message);
    replayed.ledger.replay();
    let replayed = Context::new(Arc::new(replayed), first.queue.clone());
    assert_eq!(facts(&first), facts(&context(1)));
    assert_ne!(facts(&first).key, facts(&replayed).key);
}

#[test]
fn options_of_core_are_those_of_the_documentation() {
    let options = BreakerOptions::default();
    assert_eq!((options.failures.get(), options.first_pause), (5, SECOND));
    assert_eq!(options.longest_pause, 15 * SECOND);
}
