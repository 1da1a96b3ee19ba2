//! Leases messages of one queue.
//!
//! If the caller's future is dropped, the fetch is kept, and the next call goes on with it: a request that was cut off
//! might already have leased messages, which nobody would see until their leases expire.
//!
//! After a fetch without an answer the next one leases a single message, and each message that arrives doubles that: one that
//! the server cannot put into an answer, or a batch that takes too long, does not hold up the others.

use std::{collections::VecDeque, fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bezoar_core::{ByteLimit, Clock, MAX_DELAY, Pauses};
use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    Limits,
    claim_check::{Bodies, NoBody},
    connection::queue_client::{Fetched, Queue},
    error::{Fault, FaultKind},
    in_parallel::in_parallel,
    transport::TransportState,
    wire::blob_reference::{self, BlobReference},
};

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

struct FetchState {
    running: Option<BoxFuture<'static, Result<Vec<Arrived>, Fault>>>,
    /// Leased, and not handed out.
    arrived: VecDeque<Arrived>,
    /// How many messages the next fetch may lease.
    most: u32,
}

impl Fetcher {
    pub(crate) fn new(state: &TransportState, queue: Arc<Queue>, lease: Duration) -> Self {
        let (limits, clock) = (state.options.limits, state.options.clock.clone());
        let bodies = state.service.bodies.clone();
        let state = FetchState { running: None, arrived: VecDeque::new(), most: limits.prefetch };
        Self { queue, lease, limits, clock, bodies, state: Mutex::new(state) }
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
            let max = max.min(state.most);
            let running = state.running.get_or_insert_with(|| self.request(max, max_bytes).boxed());
            let arrived = running.await;
            state.running = None;
            state.answered(&arrived, self.limits.prefetch);
            state.arrived.extend(arrived?);
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
        let bodies = self.bodies.clone();
        let wanted =
            LeaseRequest { max, lease, max_bytes, at_once: self.limits.publish_concurrency };
        let fetched =
            async move { lease_with_bodies(&queue, bodies.as_ref(), &*clock, wanted).await };
        let panicked = |_| Err(Fault::new(FaultKind::Other, "the fetch panicked"));
        AssertUnwindSafe(fetched).catch_unwind().map(move |ended| ended.unwrap_or_else(panicked))
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
            let arrived = running.await;
            state.running = None;
            state.arrived.extend(arrived.unwrap_or_default());
        }
        state.arrived.drain(..).collect()
    }
}

impl fmt::Debug for FetchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchState").field("arrived", &self.arrived).finish_non_exhaustive()
    }
}

impl FetchState {
    fn answered(&mut self, arrived: &Result<Vec<Arrived>, Fault>, prefetch: u32) {
        match arrived {
            Ok(some) if some.is_empty() => (),
            Ok(_) => self.most = self.most.saturating_mul(2).min(prefetch),
            Err(Fault { kind: FaultKind::NoAnswer, .. }) => self.most = 1,
            Err(_) => (),
        }
    }
}

/// What to lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseRequest {
    /// How many messages, at most.
    pub(crate) max: u32,
    pub(crate) lease: Duration,
    /// About how many bytes of bodies, at most.
    pub(crate) max_bytes: usize,
    /// How many bodies are fetched at a time.
    pub(crate) at_once: u32,
}

/// Leases messages, and fetches those of their bodies that are in Blob Storage.
pub(crate) async fn lease_with_bodies(
    queue: &Queue,
    bodies: Option<&Bodies>,
    clock: &dyn Clock,
    LeaseRequest { max, lease, max_bytes, at_once }: LeaseRequest,
) -> Result<Vec<Arrived>, Fault> {
    let until = clock.steady() + lease;
    // Of the whole batch: a slow Blob Storage must not use up the leases of messages that do not need it.
    let bodies_until = Instant::now() + lease / 4;
    let mut limit = ByteLimit::new(max_bytes);
    let arrivals = queue.lease(max, lease).await?.into_iter().map(|fetched| {
        let blob = blob_reference::find(&fetched.text);
        let has_room = blob.as_ref().is_none_or(|blob| limit.admits(blob.size));
        async move {
            let body = match blob {
                None => None,
                Some(_) if !has_room => Some(Err(NoBody::NoRoom)),
                Some(blob) => Some(body(bodies, &blob, bodies_until).await),
            };
            Arrived { fetched, body, until }
        }
    });
    Ok(in_parallel(arrivals.collect(), at_once).await)
}

async fn body(
    bodies: Option<&Bodies>,
    blob: &BlobReference,
    until: Instant,
) -> Result<Bytes, NoBody> {
    let Some(bodies) = bodies else { return Err(no_blob_endpoint()) };
    timeout_at(until, bodies.fetch(blob)).await.unwrap_or_else(|_| Err(late()))
}

fn no_blob_endpoint() -> NoBody {
    let problem = "its body is in Blob Storage, and the account has no blob endpoint";
    NoBody::Unavailable(Fault::new(FaultKind::Other, problem))
}

fn late() -> NoBody {
    let problem = "Blob Storage did not answer in time";
    NoBody::Unavailable(Fault::new(FaultKind::NoAnswer, problem))
}
