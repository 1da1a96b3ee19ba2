//! Ordering keys that are forgotten, shared, or block the wrong messages.

use std::sync::Mutex;

use async_trait::async_trait;
use bezoar_core::{Acceptance, Destination, OrderingKey, Outgoing, Settlement, Transport, millis};

use super::{
    Acceptances, Control, Defect, Opened, Outcomes, Settlements, Store, Twist, sent, settled,
};

pub(crate) fn controls() -> Vec<Control> {
    vec![
        Control::new(
            "ignores ordering keys",
            || sent(|message| message.ordering_key = None),
            &[
                "ordering::later_messages_of_a_key_wait",
                "ordering::a_batch_of_one_key_is_handed_out_one_at_a_time",
                "ordering::a_retry_keeps_its_place",
                "ordering::a_lost_lease_keeps_the_place",
                "ordering::keys_do_not_wait_for_each_other",
                "ordering::a_delay_holds_up_its_key",
                "ordering::a_replayed_message_joins_at_the_end_of_its_key",
                "ordering::depth_counts_what_waits_for_its_key_as_delayed",
                "restart::ordering_keys_survive",
            ],
        ),
        Control::new(
            "has one order for everything",
            || sent(|message| message.ordering_key = OrderingKey::new("all").ok()),
            &["ordering::keys_do_not_wait_for_each_other"],
        ),
        Control::new(
            "unblocks the next message after a failure",
            || LetsGo,
            &["ordering::a_retry_keeps_its_place"],
        ),
        Control::new(
            "blocks a key forever after a dead letter",
            || {
                settled(|said| {
                    if matches!(said, Settlement::DeadLetter { .. }) {
                        *said = Settlement::Release { after: bezoar_core::MAX_DELAY };
                    }
                })
            },
            &["ordering::a_dead_letter_lets_the_next_message_go"],
        ),
        Control::new(
            "treats the same key in two queues as one",
            AcrossQueues::default,
            &["ordering::a_key_is_of_its_queue"],
        ),
        Control::new(
            "accepts `once` without support for it",
            || Twist {
                capabilities: Box::new(|can| can.deduplication = false),
                ..Twist::default()
            },
            &["ordering::what_is_not_kept_is_refused"],
        ),
        Control::new(
            "accepts ordering keys without support for them",
            || Twist {
                capabilities: Box::new(|can| can.ordering_keys = false),
                ..Twist::default()
            },
            &["ordering::what_is_not_kept_is_refused"],
        ),
        Control::new(
            "accepts an expiry without support for it",
            || Twist { capabilities: Box::new(|can| can.time_to_live = false), ..Twist::default() },
            &["ordering::what_is_not_kept_is_refused"],
        ),
        Control::new(
            "forgets when a message expires",
            || sent(|message| message.expires_at = None),
            &["envelope::an_expiry_stays_with_its_message"],
        ),
        Control::new(
            "expires messages at another time",
            || sent(|message| message.expires_at = message.expires_at.map(|_| millis(0))),
            &["envelope::an_expiry_stays_with_its_message"],
        ),
    ]
}

/// Sends a failed message again, behind those that wait for it.
#[derive(Debug)]
struct LetsGo;

#[async_trait]
impl Defect for LetsGo {
    async fn settle(&self, open: &Opened, batch: Settlements) -> Outcomes {
        let mut outcomes = Vec::new();
        for (held, settlement) in batch {
            let message = (*held.message).clone();
            let Settlement::Retry { after, .. } = settlement else {
                outcomes.extend(open.inner.settle(vec![(held, settlement)]).await);
                continue;
            };
            outcomes.extend(open.inner.settle(vec![(held, Settlement::Complete)]).await);
            let again = [Outgoing::from(message).after(after)];
            open.store.memory.send(&(&open.queue).into(), &again).await;
        }
        outcomes
    }
}

/// Holds back a message forever if its key was used in another queue.
#[derive(Debug, Default)]
struct AcrossQueues(Mutex<Vec<(OrderingKey, Destination)>>);

#[async_trait]
impl Defect for AcrossQueues {
    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        let mut outcomes = Vec::new();
        for outgoing in batch {
            let key = outgoing.message.ordering_key.clone();
            let elsewhere = {
                let mut seen = self.0.lock().unwrap();
                let elsewhere =
                    seen.iter().any(|(used, queue)| Some(used) == key.as_ref() && queue != to);
                seen.extend(key.map(|key| (key, to.clone())));
                elsewhere
            };
            if elsewhere {
                outcomes.push(Ok(Acceptance::New));
            } else {
                outcomes.extend(store.memory.send(to, std::slice::from_ref(outgoing)).await);
            }
        }
        outcomes
    }
}
