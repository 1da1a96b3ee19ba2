//! Delays and waits that are wrong.

use std::{num::NonZeroU32, sync::Mutex, time::Duration};

use async_trait::async_trait;
use bezoar_core::{
    Delivery, Destination, ErrorKind, MAX_DELAY, Outgoing, Settlement, Transport, TransportError,
};
use tokio::time::{Instant, sleep};

use super::{
    Acceptances, Control, Defect, Opened, Outcomes, Settlements, Store, Twist, error, settled,
};

pub(crate) fn controls() -> Vec<Control> {
    [delays(), waits()].into_iter().flatten().collect()
}

fn delays() -> Vec<Control> {
    vec![
        Control::new(
            "delivers early",
            || delayed(|_| Duration::ZERO),
            &[
                "delays::a_delayed_message_is_not_early",
                "delays::delayed_messages_come_each_at_its_time",
                "delays::messages_that_are_due_come_in_the_order_of_their_times",
                "admin::depth_counts_a_delay_that_has_ended_as_ready",
                "restart::delayed_messages_survive",
            ],
        ),
        Control::new(
            "lets a delay hold up those behind it",
            HoldsUp::default,
            &[
                "delays::a_long_delay_does_not_hold_up_a_short_one",
                "delays::a_delay_does_not_hold_up_what_is_ready",
                "delays::delayed_messages_come_each_at_its_time",
            ],
        ),
        Control::new(
            "lets a retry hold up those behind it",
            HoldsUpRetries::default,
            &["delays::a_long_retry_does_not_hold_up_a_short_one"],
        ),
        Control::new(
            "shortens a long delay",
            || delayed(|delay| delay.min(MAX_DELAY)),
            &["delays::a_delay_beyond_the_limit_is_refused"],
        ),
        Control::new(
            "does not support the delay that it declares",
            || Twist {
                capabilities: Box::new(|can| can.scheduled = Some(MAX_DELAY * 2)),
                ..Twist::default()
            },
            &["delays::the_longest_declared_delay_is_accepted"],
        ),
        Control::new(
            "retries at once",
            || {
                settled(|said| {
                    if let Settlement::Retry { after, .. } = said {
                        *after = Duration::ZERO;
                    }
                })
            },
            &[
                "delays::a_retry_is_not_early",
                "admin::depth_counts_a_delay_that_has_ended_as_ready",
            ],
        ),
        Control::new(
            "releases at once",
            || {
                settled(|said| {
                    if let Settlement::Release { after } = said {
                        *after = Duration::ZERO;
                    }
                })
            },
            &["delays::a_released_message_is_not_early"],
        ),
        Control::new(
            "computes times that overflow",
            || {
                settled(|said| match said {
                    Settlement::Retry { after, .. } if *after > MAX_DELAY => {
                        *after = Duration::ZERO
                    }
                    _ => (),
                })
            },
            &["delays::an_endless_retry_is_kept"],
        ),
    ]
}

fn delayed(change: fn(Duration) -> Duration) -> Twist {
    let sent = move |outgoing: &mut Outgoing| outgoing.delay = change(outgoing.delay);
    Twist { sent: Box::new(sent), ..Twist::default() }
}

/// Makes a short delay behind a long one as long as that.
#[derive(Debug, Default)]
struct HoldsUp(Mutex<Duration>);

#[async_trait]
impl Defect for HoldsUp {
    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        let mut batch = batch.to_vec();
        for outgoing in &mut batch {
            let mut longest = self.0.lock().unwrap();
            *longest = outgoing.delay.max(*longest);
            outgoing.delay = *longest;
        }
        store.memory.send(to, &batch).await
    }
}

#[derive(Debug, Default)]
struct HoldsUpRetries(Mutex<Duration>);

#[async_trait]
impl Defect for HoldsUpRetries {
    async fn settle(&self, open: &Opened, mut batch: Settlements) -> Outcomes {
        for (_, said) in &mut batch {
            if let Settlement::Retry { after, .. } = said {
                let mut longest = self.0.lock().unwrap();
                *longest = (*after).max(*longest);
                *after = *longest;
            }
        }
        open.inner.settle(batch).await
    }
}

fn waits() -> Vec<Control> {
    vec![
        Control::new(
            "waits longer than it may",
            || Waits(|_| Some(Duration::from_secs(3_600))),
            &["waiting::receive_on_an_empty_queue_ends_with_its_wait"],
        ),
        Control::new(
            "does not wait",
            || Waits(|_| Some(Duration::ZERO)),
            &["waiting::a_waiting_receive_finds_what_is_sent_meanwhile"],
        ),
        Control::new(
            "refuses a long wait",
            || Waits(|wait| (wait <= MAX_DELAY).then_some(wait)),
            &["waiting::an_endless_wait_is_no_error"],
        ),
        Control::new(
            "polls only rarely",
            || Polls(Duration::from_secs(5)),
            &[
                "waiting::a_waiting_receive_wakes_when_a_message_is_sent",
                "waiting::a_waiting_receive_wakes_when_a_message_is_handed_back",
            ],
        ),
        Control::new(
            "polls only at the end of its wait",
            || Polls(Duration::MAX),
            &[
                "waiting::a_waiting_receive_finds_what_is_sent_meanwhile",
                "waiting::a_waiting_receive_wakes_when_a_delay_ends",
                "waiting::a_waiting_receive_wakes_when_a_lease_ends",
            ],
        ),
    ]
}

/// Waits longer or shorter than requested, or refuses.
#[derive(Debug)]
struct Waits(fn(Duration) -> Option<Duration>);

#[async_trait]
impl Defect for Waits {
    async fn receive(
        &self,
        open: &Opened,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let wait = (self.0)(wait).ok_or_else(|| error(ErrorKind::Other))?;
        open.inner.receive(max, wait).await
    }
}

/// Polls at once, and then at this interval.
#[derive(Debug)]
struct Polls(Duration);

#[async_trait]
impl Defect for Polls {
    async fn receive(
        &self,
        open: &Opened,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let deadline = Instant::now() + wait.min(MAX_DELAY);
        loop {
            let received = open.inner.receive(max, Duration::ZERO).await?;
            if !received.is_empty() || Instant::now() >= deadline {
                return Ok(received);
            }
            sleep(self.0.min(deadline - Instant::now())).await;
        }
    }
}
