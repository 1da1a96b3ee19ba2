//! Sends and handles messages at the same time, as one of two processes.

use std::{num::NonZeroU32, time::Duration};

use bezoar_core::{Delivery, Settlement};
use bezoar_sqlite::SqliteTransport;

use super::support::*;

/// How many messages each of the two sends.
pub(crate) const MESSAGES_EACH: usize = 150;

/// Sends and handles messages at the same time until all are handled; dead-letters every tenth.
pub(crate) async fn send_and_handle(
    transport: SqliteTransport,
    name: &str,
    handled: impl Fn(String),
    over: impl Fn() -> bool,
) {
    let send = async {
        for number in 0..MESSAGES_EACH {
            send(&transport, &message(&format!("{name}-{number}"), noise(20))).await.unwrap();
        }
    };
    let handle = async {
        let subscription = subscription(&transport).await;
        while !over() {
            let max = NonZeroU32::new(7).unwrap();
            let held = subscription.receive(max, Duration::from_millis(20)).await.unwrap();
            let ids = ids(&held);
            let batch = held.into_iter().map(|held| (outcome(&held), held));
            all_accepted(subscription.settle(batch.map(|(it, held)| (held, it)).collect()).await);
            ids.into_iter().for_each(&handled);
        }
    };
    tokio::join!(send, handle);
}

fn outcome(held: &Delivery) -> Settlement {
    assert!(!held.redelivered && held.message.ledger.acquired == 1, "{held:?}");
    match held.message.id.as_str().ends_with('0') {
        true => Settlement::DeadLetter { reason: reason(), tries: vec![failed_try()] },
        false => Settlement::Complete,
    }
}
