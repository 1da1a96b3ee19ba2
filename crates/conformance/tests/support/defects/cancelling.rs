//! Defects that lose messages when a future is dropped or a queue is closed.

use std::{num::NonZeroU32, time::Duration};

use async_trait::async_trait;
use bezoar_core::{
    Acceptance, Delivery, Destination, Outgoing, Settlement, Transport, TransportError,
};
use tokio::{task::yield_now, time::sleep};

use super::{Acceptances, Control, Defect, Opened, Outcomes, Settlements, Store};

pub(crate) fn controls() -> Vec<Control> {
    vec![
        Control::new(
            "loses messages of a dropped receive",
            || Receives(Reception::Removing),
            &["cancellation::dropped_receives_lose_nothing"],
        ),
        Control::new(
            "counts messages of a dropped receive",
            || Receives(Reception::Lingering),
            &["cancellation::dropped_receives_count_nothing"],
        ),
        Control::new(
            "continues a receive that was dropped",
            || Receives(Reception::InBackground),
            &[
                "cancellation::a_dropped_wait_takes_nothing",
                "cancellation::a_wait_dropped_while_sending_loses_nothing",
            ],
        ),
        Control::new(
            "prefetches and releases nothing",
            || Receives(Reception::FetchingAhead),
            &["cancellation::closing_gives_back_what_was_not_handed_out"],
        ),
        Control::new(
            "accepts before it has stored",
            || AcceptsTooSoon,
            &["cancellation::a_dropped_send_is_whole_or_nothing"],
        ),
        Control::new(
            "removes a message before it dead-letters it",
            || RemovesFirst,
            &["cancellation::a_dropped_settlement_is_done_or_not"],
        ),
    ]
}

#[derive(Debug)]
struct Receives(Reception);

#[derive(Debug)]
enum Reception {
    Removing,
    Lingering,
    InBackground,
    FetchingAhead,
}

#[async_trait]
impl Defect for Receives {
    async fn receive(
        &self,
        open: &Opened,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        match self.0 {
            Reception::Removing => {
                let received = open.inner.receive(max, wait).await?;
                let removed = received.iter().map(|held| (held.copy(), Settlement::Complete));
                open.inner.settle(removed.collect()).await;
                yield_now().await;
                Ok(received)
            }
            Reception::Lingering => {
                let received = open.inner.receive(max, wait).await?;
                yield_now().await;
                Ok(received)
            }
            Reception::InBackground => {
                let inner = open.inner.clone();
                tokio::spawn(async move { inner.receive(max, wait).await }).await.unwrap()
            }
            Reception::FetchingAhead => {
                if open.buffer.lock().unwrap().is_empty() {
                    let more = open.inner.receive(NonZeroU32::MAX, wait).await?;
                    open.buffer.lock().unwrap().extend(more);
                }
                let mut buffer = open.buffer.lock().unwrap();
                let count = buffer.len().min(max.get() as usize);
                Ok(buffer.drain(..count).collect())
            }
        }
    }
}

#[derive(Debug)]
struct AcceptsTooSoon;

#[async_trait]
impl Defect for AcceptsTooSoon {
    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        let (memory, to, batch) = (store.memory.clone(), to.clone(), batch.to_vec());
        let results = batch.iter().map(|_| Ok(Acceptance::New)).collect();
        tokio::spawn(async move {
            sleep(Duration::from_secs(1)).await;
            memory.send(&to, &batch).await;
        });
        results
    }
}

#[derive(Debug)]
struct RemovesFirst;

#[async_trait]
impl Defect for RemovesFirst {
    async fn settle(&self, open: &Opened, batch: Settlements) -> Outcomes {
        let mut results = Vec::new();
        for (held, said) in batch {
            let message = held.message.clone();
            results.extend(open.inner.settle(vec![(held, Settlement::Complete)]).await);
            yield_now().await;
            if said != Settlement::Complete {
                open.store.memory.send(&(&open.queue).into(), &[(*message).clone().into()]).await;
                let again = open.inner.receive(NonZeroU32::MIN, Duration::ZERO).await.unwrap();
                open.inner
                    .settle(again.into_iter().map(|held| (held, said.clone())).collect())
                    .await;
            }
        }
        results
    }
}
