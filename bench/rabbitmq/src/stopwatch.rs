//! When each of many messages set out and arrived. A message's number is in the first bytes of its body.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use bench_support::Percentiles;
use tokio::{sync::Notify, time::timeout};

use crate::broker::BODY;

/// How long nothing may arrive before a run is given up.
const PATIENCE: Duration = Duration::from_secs(90);

/// Times are microseconds after the epoch; 0 means not yet.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    epoch: Instant,
    begun: Vec<AtomicU32>,
    ended: Vec<AtomicU32>,
    arrived: AtomicU64,
    more: Notify,
}

impl Stopwatch {
    /// For messages with numbers below `count`.
    pub(crate) fn new(count: u64) -> Self {
        let times = || (0..count).map(|_| AtomicU32::new(0)).collect();
        let (arrived, more) = <_>::default();
        Self { epoch: Instant::now(), begun: times(), ended: times(), arrived, more }
    }

    /// The message with this number sets out now.
    pub(crate) fn begin(&self, number: u64) {
        if let Some(begun) = at(&self.begun, number) {
            begun.store(self.now(), Ordering::Relaxed);
        }
    }

    /// The message with this body sets out now.
    pub(crate) fn begin_body(&self, body: &[u8]) {
        number(body).into_iter().for_each(|number| self.begin(number));
    }

    /// The message with this body is there. Only the first time counts.
    pub(crate) fn end_body(&self, body: &[u8]) {
        let place = number(body).and_then(|number| at(&self.ended, number));
        let Some(place) = place else { return };
        if place.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.arrived.fetch_add(1, Ordering::Release);
            self.more.notify_waiters();
        }
    }

    /// Waits until all have arrived.
    pub(crate) async fn all(&self) -> Result<()> {
        let count = self.ended.len() as u64;
        loop {
            let more = self.more.notified();
            let arrived = self.arrived.load(Ordering::Acquire);
            if arrived >= count {
                return Ok(());
            }
            let waited = timeout(PATIENCE, more).await;
            waited.with_context(|| format!("{arrived} of {count} arrived, and then no more"))?;
        }
    }

    /// How long each was under way.
    pub(crate) fn percentiles(&self) -> Percentiles {
        self.took().map(|(_, micros)| u32::try_from(micros).unwrap_or(0)).collect()
    }

    /// How long each was under way, in microseconds, with its number.
    pub(crate) fn took(&self) -> impl Iterator<Item = (u64, i64)> {
        let load = |time: &AtomicU32| i64::from(time.load(Ordering::Relaxed));
        let both = self.begun.iter().zip(&self.ended);
        (0..).zip(both.map(move |(begun, ended)| load(ended) - load(begun)))
    }

    fn now(&self) -> u32 {
        u32::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u32::MAX).max(1)
    }
}

fn at(times: &[AtomicU32], number: u64) -> Option<&AtomicU32> {
    times.get(usize::try_from(number).ok()?)
}

fn number(body: &[u8]) -> Option<u64> {
    body.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// A body with its number in front.
pub(crate) fn numbered(number: u64) -> Vec<u8> {
    let mut body = BODY.to_vec();
    body[..8].copy_from_slice(&number.to_le_bytes());
    body
}
