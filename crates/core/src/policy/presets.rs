//! Preset policies with values that are proven in other systems.

use std::time::Duration;

use super::{Backoff, Jitter, MAX_DELAY, RetryPolicy};

impl RetryPolicy {
    /// Every preset with its name in the configuration.
    pub const PRESETS: [(&'static str, Self); 5] = [
        ("jobs", Self::jobs()),
        ("poison_queue", Self::poison_queue()),
        ("outbox", Self::outbox()),
        ("webhook", Self::webhook()),
        ("broker", Self::broker()),
    ];

    /// For jobs: 3 retries after 1 s, 2 s and 4 s, ±10 %, never above 30 s before jitter.
    pub const fn jobs() -> Self {
        Self {
            max_retries: 3,
            immediate_retries: 0,
            backoff: doubling(Duration::from_secs(1)),
            cap: Duration::from_secs(30),
            jitter: Jitter::Symmetric(0.1),
        }
    }

    /// For poison queues: 3 attempts, with retries after 4 and 8 minutes, lengthened by up to 30 %. The third failure is
    /// the last: the message becomes a dead letter at once.
    ///
    /// The delay after failure c is 2^(c + 1) minutes; [`Backoff::powers_of_minutes`] takes another base.
    pub const fn poison_queue() -> Self {
        Self {
            max_retries: 2,
            immediate_retries: 0,
            backoff: doubling(Duration::from_secs(4 * 60)),
            cap: MAX_DELAY,
            jitter: Jitter::Lengthening(0.3),
        }
    }

    /// For outboxes: 5 retries from 30 s, doubling to at most an hour.
    pub const fn outbox() -> Self {
        Self {
            max_retries: 5,
            immediate_retries: 0,
            backoff: doubling(Duration::from_secs(30)),
            cap: Duration::from_secs(3_600),
            jitter: Jitter::None,
        }
    }

    /// For webhooks: 8 retries from 5 s, five-fold to at most 10 hours, ±10 %: about a day in all.
    pub const fn webhook() -> Self {
        Self {
            max_retries: 8,
            immediate_retries: 0,
            backoff: Backoff::Exponential { first: Duration::from_secs(5), multiplier: 5.0 },
            cap: Duration::from_secs(10 * 60 * 60),
            jitter: Jitter::Symmetric(0.1),
        }
    }

    /// For brokers that dead-letter what a consumer rejects: one attempt of up to 4 tries, 3 of them immediate
    /// retries, and no later retries. If later retries are configured, they use the delays [for
    /// jobs](Self::jobs).
    pub const fn broker() -> Self {
        Self { max_retries: 0, immediate_retries: 3, ..Self::jobs() }
    }
}

const fn doubling(first: Duration) -> Backoff {
    Backoff::Exponential { first, multiplier: 2.0 }
}
