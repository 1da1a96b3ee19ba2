//! Messages that are leased to two workers, or to none.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Mutex, time::Duration};

use async_trait::async_trait;
use bezoar_core::{Clock, Delivery, ErrorKind, MAX_DELAY, QueueAdmin, TransportError};
use jiff::Timestamp;

use super::{Control, Defect, Opened, Outcomes, Settlements, Twist, error};

pub(crate) fn controls() -> Vec<Control> {
    vec![
        Control::new(
            "delivers a message to two workers",
            || Twist {
                options: Box::new(|asked| asked.lease = Duration::ZERO),
                ..Twist::default()
            },
            &[
                "leases::a_held_message_is_hidden_from_others",
                "concurrency::many_receivers_get_each_message_once",
                "concurrency::one_subscription_serves_many_receivers",
                "restart::leases_survive",
            ],
        ),
        Control::new(
            "delivers a message twice in one receive",
            || GivesTwice,
            &["leases::a_receive_gives_a_message_once_however_short_its_lease"],
        ),
        Control::new(
            "never ends a lease",
            || Twist { options: Box::new(|asked| asked.lease = MAX_DELAY), ..Twist::default() },
            &[
                "leases::expired_lease_returns_the_message",
                "admin::depth_counts_an_expired_lease_as_ready",
                "restart::a_receipt_from_before_the_restart_is_stale_once_taken_over",
            ],
        ),
        Control::new(
            "refuses a late settlement although nobody took over",
            || RefusesWhoIsLate,
            &[
                "leases::an_expired_lease_nobody_took_over_can_be_settled",
                "leases::the_receipt_decides_and_not_the_end_of_the_lease",
            ],
        ),
        Control::new(
            "extends nothing",
            || Extends(Extension::Nothing),
            &[
                "leases::renewal_holds_a_message_beyond_its_first_lease",
                "leases::a_delivery_says_when_its_lease_ends",
            ],
        ),
        Control::new(
            "extends from the end of the lease",
            || Extends(Extension::FromTheEnd),
            &["leases::an_extension_counts_from_now"],
        ),
        Control::new(
            "renews only the first of several leases",
            || Extends(Extension::OnlyTheFirst),
            &["leases::several_leases_are_renewed_at_once"],
        ),
        Control::new(
            "requires the end of a lease without returning it",
            || AsksForTheEnd { tells: false, ends: Mutex::default() },
            &["leases::an_extended_delivery_can_be_settled"],
        ),
        Control::new(
            "requires the end of a lease",
            || AsksForTheEnd { tells: true, ends: Mutex::default() },
            &[
                "leases::a_renewal_whose_answer_was_lost_leaves_the_lease_ours",
                "cancellation::a_dropped_renewal_leaves_the_lease_ours",
            ],
        ),
        Control::new(
            "never refuses to extend",
            || Extends(Extension::NeverRefused),
            &[
                "leases::extending_after_loss_is_refused",
                "leases::extending_after_settlement_is_refused",
                "leases::a_renewal_has_one_result_for_each_delivery_in_order",
            ],
        ),
        Control::new(
            "delivers one message at a time",
            || OneAtATime,
            &["leases::a_held_message_does_not_hold_up_others"],
        ),
        Control::new(
            "forgets the token of a lease",
            ForgetsTheToken::default,
            &[
                "settlement::a_stale_complete_changes_nothing",
                "settlement::a_stale_retry_changes_nothing",
                "settlement::a_stale_dead_letter_changes_nothing",
                "settlement::a_stale_release_changes_nothing",
                "restart::a_receipt_from_before_the_restart_is_stale_once_taken_over",
            ],
        ),
    ]
}

#[derive(Debug)]
struct GivesTwice;

#[async_trait]
impl Defect for GivesTwice {
    async fn receive(
        &self,
        open: &Opened,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let received = open.inner.receive(max, wait).await?;
        let twice = received.iter().map(Delivery::copy).chain(received.iter().map(Delivery::copy));
        Ok(twice.take(max.get() as usize).collect())
    }
}

#[derive(Debug)]
struct RefusesWhoIsLate;

#[async_trait]
impl Defect for RefusesWhoIsLate {
    async fn settle(&self, open: &Opened, batch: Settlements) -> Outcomes {
        let now = open.store.clock.now();
        if batch.iter().any(|(held, _)| held.lease_until.is_some_and(|until| until < now)) {
            return batch.iter().map(|_| Err(error(ErrorKind::LeaseLost))).collect();
        }
        open.inner.settle(batch).await
    }
}

#[derive(Debug)]
struct Extends(Extension);

#[derive(Debug)]
enum Extension {
    Nothing,
    FromTheEnd,
    OnlyTheFirst,
    NeverRefused,
}

#[async_trait]
impl Defect for Extends {
    async fn extend(
        &self,
        open: &Opened,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Outcomes {
        match self.0 {
            Extension::Nothing => deliveries.iter().map(|_| Ok(())).collect(),
            Extension::OnlyTheFirst => {
                let _ = open.inner.extend(&mut deliveries[..1], lease).await;
                deliveries.iter().map(|_| Ok(())).collect()
            }
            Extension::NeverRefused => {
                let _ = open.inner.extend(deliveries, lease).await;
                deliveries.iter().map(|_| Ok(())).collect()
            }
            Extension::FromTheEnd => {
                let until = deliveries[0].lease_until.unwrap();
                let left = open.store.clock.now().duration_until(until);
                open.inner.extend(deliveries, lease + left.unsigned_abs()).await
            }
        }
    }
}

/// Uses the last known end of a lease as if it were the receipt.
#[derive(Debug)]
struct AsksForTheEnd {
    tells: bool,
    ends: Mutex<BTreeMap<i64, Option<Timestamp>>>,
}

#[async_trait]
impl Defect for AsksForTheEnd {
    async fn extend(
        &self,
        open: &Opened,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Outcomes {
        let mut renewed: Vec<_> = deliveries.iter().map(Delivery::copy).collect();
        let outcomes = open.inner.extend(&mut renewed, lease).await;
        let ends = renewed.iter().map(|it| (key(it), it.lease_until));
        self.ends.lock().unwrap().extend(ends);
        tokio::task::yield_now().await; // the response may get lost here
        for (delivery, renewed) in deliveries.iter_mut().zip(renewed).filter(|_| self.tells) {
            delivery.lease_until = renewed.lease_until;
        }
        outcomes
    }

    async fn settle(&self, open: &Opened, batch: Settlements) -> Outcomes {
        let ends = self.ends.lock().unwrap().clone();
        let lost = |(delivery, _): &(Delivery, _)| {
            ends.get(&key(delivery)).is_some_and(|end| *end != delivery.lease_until)
        };
        if batch.iter().any(lost) {
            return batch.iter().map(|_| Err(error(ErrorKind::LeaseLost))).collect();
        }
        open.inner.settle(batch).await
    }
}

#[derive(Debug)]
struct OneAtATime;

#[async_trait]
impl Defect for OneAtATime {
    async fn receive(
        &self,
        open: &Opened,
        _max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        if open.store.memory.depth(&open.queue).await?.leased > Some(0) {
            return Ok(Vec::new());
        }
        open.inner.receive(NonZeroU32::MIN, wait).await
    }
}

/// Settles with the newest lease of a message, even that of another worker.
#[derive(Debug, Default)]
struct ForgetsTheToken(Mutex<BTreeMap<i64, Delivery>>);

#[async_trait]
impl Defect for ForgetsTheToken {
    async fn receive(
        &self,
        open: &Opened,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let received = open.inner.receive(max, wait).await?;
        for delivery in &received {
            self.0.lock().unwrap().insert(key(delivery), delivery.copy());
        }
        Ok(received)
    }

    async fn settle(&self, open: &Opened, mut batch: Settlements) -> Outcomes {
        for (delivery, _) in &mut batch {
            *delivery = self.0.lock().unwrap()[&key(delivery)].copy();
        }
        open.inner.settle(batch).await
    }
}

fn key(delivery: &Delivery) -> i64 {
    let [key, ..] = delivery.receipt.numbers().expect("receipts in memory are numbers");
    key
}
