//! Leases messages of one queue.
//!
//! Each fetch runs in a task of its own. If the caller's future is dropped, the fetch goes on, and its messages wait for
//! the next call: a request that was cut off might already have leased messages, which nobody would see until their
//! leases expire.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use bezoar_core::{ByteLimit, Clock, MAX_DELAY, Pauses};
use bytes::Bytes;
use tokio::{
    sync::Mutex,
    task::JoinHandle,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    Limits,
    claim_check::{Bodies, NoBody},
    connection::queue_client::{Fetched, Queue},
    error::{Fault, FaultKind},
    transport::TransportState,
    wire::blob_reference,
};

fn no_blob_endpoint() -> NoBody {
    let problem = "its body is in Blob Storage, and the account has no blob endpoint";
    NoBody::Unavailable(Fault::new(FaultKind::Other, problem))
}

fn late() -> NoBody {
    let problem = "Blob Storage did not answer in time";
    NoBody::Unavailable(Fault::new(FaultKind::NoAnswer, problem))
}

/// A leased message.
pub(crate) struct Arrived {
    pub(crate) fetched: Fetched,
    /// The body in Blob Storage, if it refers to one.
    pub(crate) body: Option<Result<Bytes, NoBody>>,
    /// When the lease expires, by the steady clock.
    pub(crate) until: Duration,
}

impl fmt::Debug for Arrived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrived").field("until", &self.until).finish_non_exhaustive()
    }
}

impl Arrived {
    fn size(&self) -> usize {
        let body = self.body.as_ref().and_then(|it| it.as_ref().ok());
        self.fetched.text.len() + body.map_or(0, Bytes::len)
    }
}

#[derive(Debug)]
pub(crate) struct Fetcher {
    queue: Arc<Queue>,
    lease: Duration,
    limits: Limits,
    clock: Arc<dyn Clock>,
    bodies: Option<Bodies>,
    /// Locked while fetching: one fetch at a time.
    state: Mutex<FetchState>,
}

#[derive(Debug, Default)]
struct FetchState {
    running: Option<JoinHandle<Result<Vec<Arrived>, Fault>>>,
    /// Leased, and not handed out.
    arrived: VecDeque<Arrived>,
}

impl Fetcher {
    pub(crate) fn new(state: &TransportState, queue: Arc<Queue>, lease: Duration) -> Self {
        let (limits, clock) = (state.options.limits, state.options.clock.clone());
        let bodies = state.service.bodies.clone();
        Self { queue, lease, limits, clock, bodies, state: Mutex::default() }
    }

    /// Leases up to `max` messages and about `max_bytes`. Polls an empty queue until `wait` has passed.
    pub(crate) async fn next(
        &self,
        max: u32,
        max_bytes: usize,
        wait: Duration,
    ) -> Result<Vec<Arrived>, Fault> {
        let deadline = Instant::now() + wait.min(MAX_DELAY);
        let mut pauses = Pauses::new(self.limits.first_poll, self.limits.longest_poll);
        loop {
            let some = self.fetch(max, max_bytes).await?;
            let now = Instant::now();
            if !some.is_empty() || now >= deadline {
                return Ok(some);
            }
            sleep_until((now + pauses.lengthen()).min(deadline)).await;
        }
    }

    async fn fetch(&self, max: u32, max_bytes: usize) -> Result<Vec<Arrived>, Fault> {
        let mut state = self.state.lock().await;
        if state.arrived.is_empty() {
            let running =
                state.running.get_or_insert_with(|| tokio::spawn(self.request(max, max_bytes)));
            let ended = running.await;
            state.running = None;
            let panicked = |_| Err(Fault::new(FaultKind::Other, "the fetch panicked"));
            state.arrived.extend(ended.unwrap_or_else(panicked)?);
        }
        Ok(self.hand_out(&mut state, max, max_bytes))
    }

    /// Never asks for more than were requested: what waits for a handler uses up its lease.
    fn request(
        &self,
        max: u32,
        max_bytes: usize,
    ) -> impl Future<Output = Result<Vec<Arrived>, Fault>> + use<> {
        let (queue, clock, lease) = (self.queue.clone(), self.clock.clone(), self.lease);
        let (max, bodies) = (max.min(self.limits.prefetch), self.bodies.clone());
        async move {
            let until = clock.steady() + lease;
            // Of the whole batch: a slow Blob Storage must not use up the leases of messages that do not need it.
            let bodies_until = Instant::now() + lease / 4;
            let (mut limit, mut arrived) = (ByteLimit::new(max_bytes), Vec::new());
            for fetched in queue.lease(max, lease).await? {
                let body = match (&bodies, blob_reference::find(&fetched.text)) {
                    (_, None) => None,
                    (None, Some(_)) => Some(Err(no_blob_endpoint())),
                    (Some(_), Some(blob)) if !limit.admits(blob.size) => Some(Err(NoBody::NoRoom)),
                    (Some(bodies), Some(blob)) => {
                        let body = timeout_at(bodies_until, bodies.fetch(&blob)).await;
                        Some(body.unwrap_or_else(|_| Err(late())))
                    }
                };
                arrived.push(Arrived { fetched, body, until });
            }
            Ok(arrived)
        }
    }

    /// A message that has waited for more than half of its lease is left to expire.
    fn hand_out(&self, state: &mut FetchState, max: u32, max_bytes: usize) -> Vec<Arrived> {
        let fresh_until = self.clock.steady() + self.lease / 2;
        state.arrived.retain(|it| it.until > fresh_until);
        let mut limit = ByteLimit::new(max_bytes);
        let admitted = state.arrived.iter().take(max as usize);
        let count = admitted.take_while(|it| limit.admits(it.size())).count();
        state.arrived.drain(..count).collect()
    }

    /// What was leased and not handed out, after a running fetch has ended.
    pub(crate) async fn take_back(&self) -> Vec<Arrived> {
        let mut state = self.state.lock().await;
        if let Some(running) = &mut state.running {
            let ended = running.await;
            state.running = None;
            state.arrived.extend(ended.ok().and_then(Result::ok).unwrap_or_default());
        }
        state.arrived.drain(..).collect()
    }
}
