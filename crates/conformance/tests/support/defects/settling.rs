//! Settlements that are applied wrongly.

use std::{num::NonZeroU32, sync::Mutex, time::Duration};

use async_trait::async_trait;
use bezoar_core::{Delivery, ErrorKind, Settlement, Transport, TransportError};

use super::{Control, Defect, Opened, Outcomes, Settlements, Twist, error, settled};

pub(crate) fn controls() -> Vec<Control> {
    vec![
        Control::new(
            "completes nothing",
            || {
                instead(
                    |said| matches!(said, Settlement::Complete),
                    Settlement::Release { after: Duration::ZERO },
                )
            },
            &[
                "settlement::complete_removes_the_message",
                "restart::a_settlement_before_the_restart_stands",
                "concurrency::many_receivers_get_each_message_once",
            ],
        ),
        Control::new(
            "loses messages that are retried",
            || instead(|said| matches!(said, Settlement::Retry { .. }), Settlement::Complete),
            &["settlement::retry_returns_the_message"],
        ),
        Control::new(
            "loses messages that are released",
            || instead(|said| matches!(said, Settlement::Release { .. }), Settlement::Complete),
            &["settlement::release_returns_the_message"],
        ),
        Control::new(
            "loses messages that are dead-lettered",
            || instead(|said| matches!(said, Settlement::DeadLetter { .. }), Settlement::Complete),
            &["settlement::dead_letter_sets_the_message_aside"],
        ),
        Control::new(
            "keeps dead-lettered messages in their queue too",
            || KeepsTheDead,
            &[
                "dead_letters::a_dead_letter_is_not_delivered",
                "settlement::dead_letter_sets_the_message_aside",
            ],
        ),
        Control::new(
            "returns results of settlements in the wrong order",
            || Twist { settled_results: Box::new(|results| results.reverse()), ..Twist::default() },
            &[
                "settlement::a_batch_has_one_result_for_each_delivery_in_order",
                "settlement::a_delivery_twice_in_a_batch_is_settled_once",
            ],
        ),
        Control::new(
            "returns a result for an empty batch of settlements",
            || Twist {
                settled_results: Box::new(|results| {
                    if results.is_empty() {
                        results.push(Ok(()));
                    }
                }),
                ..Twist::default()
            },
            &["settlement::an_empty_batch_has_no_results"],
        ),
        Control::new(
            "never refuses a settlement",
            || Twist {
                settled_results: Box::new(|results| results.fill_with(|| Ok(()))),
                ..Twist::default()
            },
            &[
                "settlement::a_second_settlement_is_refused",
                "settlement::a_delivery_twice_in_a_batch_is_settled_once",
                "concurrency::one_of_many_settlements_wins",
            ],
        ),
        Control::new(
            "completes all earlier deliveries with one settlement",
            CompletesEarlierOnes::default,
            &["settlement::a_settlement_leaves_neighbours_alone"],
        ),
        Control::new(
            "cannot retry large messages",
            || CannotRetryTheLarge,
            &["bodies::a_body_of_the_greatest_size_can_be_retried_and_set_aside"],
        ),
    ]
}

/// Applies `other` instead of each settlement for which `which` is true.
fn instead(which: fn(&Settlement) -> bool, other: Settlement) -> Twist {
    settled(move |said| {
        if which(said) {
            *said = other.clone();
        }
    })
}

#[derive(Debug)]
struct KeepsTheDead;

#[async_trait]
impl Defect for KeepsTheDead {
    async fn settle(&self, open: &Opened, batch: Settlements) -> Outcomes {
        for (held, said) in &batch {
            if matches!(said, Settlement::DeadLetter { .. }) {
                open.store
                    .memory
                    .send(&(&open.queue).into(), &[(*held.message).clone().into()])
                    .await;
            }
        }
        open.inner.settle(batch).await
    }
}

#[derive(Debug, Default)]
struct CompletesEarlierOnes(Mutex<Vec<Delivery>>);

#[async_trait]
impl Defect for CompletesEarlierOnes {
    async fn receive(
        &self,
        open: &Opened,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let received = open.inner.receive(max, wait).await?;
        self.0.lock().unwrap().extend(received.iter().map(Delivery::copy));
        Ok(received)
    }

    async fn settle(&self, open: &Opened, batch: Settlements) -> Outcomes {
        let results = open.inner.settle(batch).await;
        let earlier = std::mem::take(&mut *self.0.lock().unwrap());
        open.inner
            .settle(earlier.into_iter().map(|held| (held, Settlement::Complete)).collect())
            .await;
        results
    }
}

#[derive(Debug)]
struct CannotRetryTheLarge;

#[async_trait]
impl Defect for CannotRetryTheLarge {
    async fn settle(&self, open: &Opened, batch: Settlements) -> Outcomes {
        if batch.iter().any(|(held, _)| held.message.body.len() > 250_000) {
            return batch.iter().map(|_| Err(error(ErrorKind::Other))).collect();
        }
        open.inner.settle(batch).await
    }
}
