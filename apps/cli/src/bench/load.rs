//! Sends messages over keep-alive connections; each sends its next message when the previous one was accepted.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use bezoar::Shutdown;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{Arguments, SendLimit, latency::Latency, stamp::Stamp, target::BenchTarget};
use crate::client::{ApiClient, ClientError, path};

/// How long to wait before a refused message is sent again, unless the gateway says how long.
const PAUSE: Duration = Duration::from_millis(50);

/// The load and its progress.
#[derive(Debug)]
pub(super) struct Load {
    client: Arc<ApiClient>,
    path: String,
    body: Bytes,
    run: u64,
    epoch: Instant,
    pub(super) started: Instant,
    pub(super) limit: SendLimit,
    rate: Option<NonZeroU32>,
    stop: Shutdown,
    next: AtomicU64,
    accepted: AtomicU64,
}

/// The result of sending.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) accepted: u64,
    /// How often a message was refused and sent again later.
    pub(super) refused: u64,
    pub(super) latency: Latency,
    pub(super) last: Option<Instant>,
}

impl Load {
    pub(super) fn new(
        arguments: &Arguments,
        target: &BenchTarget,
        limit: SendLimit,
        stop: &Shutdown,
    ) -> Arc<Self> {
        let run = rand::random();
        if let Some(arrivals) = &target.arrivals {
            arrivals.watch(run);
        }
        Arc::new(Self {
            client: target.client.clone(),
            path: path(["v1", "queues", target.queue.as_str(), "messages"]),
            body: vec![b'x'; arguments.size].into(),
            run,
            epoch: target.epoch,
            started: Instant::now(),
            limit,
            rate: arguments.rate,
            stop: stop.clone(),
            next: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
        })
    }

    /// How many messages were accepted so far.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Sends over this many connections, until the limit is reached or `stop` drains.
    pub(super) async fn send(self: Arc<Self>, connections: u32) -> Result<Sent> {
        let mut senders: JoinSet<_> =
            (0..connections).map(|_| self.clone().send_in_turn()).collect();
        let mut all = Sent::default();
        while let Some(sent) = senders.join_next().await {
            all.add(&sent??);
        }
        Ok(all)
    }

    async fn send_in_turn(self: Arc<Self>) -> Result<Sent, ClientError> {
        let mut sent = Sent::default();
        while let Some((number, due)) = self.turn().await {
            let micros = due.duration_since(self.epoch).as_micros() as u64;
            let headers = headers(Stamp { run: self.run, number, micros });
            while let Err(error) =
                self.client.upload(&self.path, headers.clone(), self.body.clone()).await
            {
                if !error.is_transient() || self.stop.is_draining() {
                    return Err(error);
                }
                sent.refused += 1;
                sleep(error.retry_after().unwrap_or(PAUSE)).await;
            }
            let now = Instant::now();
            sent.accepted += 1;
            sent.latency.record(now.duration_since(due));
            sent.last = Some(now);
            self.accepted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(sent)
    }

    /// The number of the next message and when it is due; `None` at the limit.
    async fn turn(&self) -> Option<(u64, Instant)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let due = match self.rate {
            Some(rate) => {
                self.started + Duration::from_secs_f64(number as f64 / f64::from(rate.get()))
            }
            None => now,
        };
        let enough = match self.limit {
            SendLimit::Messages(most) => number >= most,
            SendLimit::Time(time) => due >= self.started + time,
        };
        if enough || self.stop.is_draining() {
            return None;
        }
        if due <= now {
            return Some((number, due));
        }
        tokio::select! {
            () = self.stop.draining() => None,
            // A late timer is our own delay, not the gateway's: measure from now.
            () = sleep_until(due) => Some((number, Instant::now())),
        }
    }
}

impl Sent {
    fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.latency.add(&other.latency);
        self.last = self.last.max(other.last);
    }
}

fn headers(stamp: Stamp) -> HeaderMap {
    let id = HeaderValue::from_str(stamp.to_id().as_str()).expect("our ids are visible ASCII");
    let octets = HeaderValue::from_static("application/octet-stream");
    HeaderMap::from_iter([
        (header::HeaderName::from_static("bezoar-id"), id),
        (header::HeaderName::from_static("bezoar-type"), HeaderValue::from_static("bench")),
        (header::CONTENT_TYPE, octets),
    ])
}
