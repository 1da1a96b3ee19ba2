//! The options of the transport: the account, limits, and how messages of other programs are read.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use bezoar_core::{Clock, Invalid, QueueName, SubscribeOptions, SystemClock};

use crate::{Account, ClaimCheck, connection::queue_name, error::LONGEST_DELAY};

/// The account, and how its queues are used.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the queues are, and how to sign in.
    pub account: Account,
    /// Whether `provision` creates queues, and `subscribe` a missing poison queue. If not, a missing queue is an
    /// error. On by default.
    pub create_if_missing: bool,
    /// The names of poison queues that are not the default, `<queue>-poison`, by queue.
    pub poison_queues: BTreeMap<QueueName, QueueName>,
    /// How long Azure keeps a message that was sent and not completed. After that it deletes the message without a
    /// trace. `None`, the default, keeps it for ever. Poison records are always kept for ever.
    pub time_to_live: Option<Duration>,
    /// How many messages are fetched, handled and sent at a time, and how often.
    pub limits: Limits,
    /// Where bodies are stored that do not fit into a message. `None`, the default, refuses them. Bodies that were
    /// stored are read in any case, from the container of [`ClaimCheck::default`] if this is `None`.
    pub claim_check: Option<ClaimCheck>,
    /// How the text of messages from other programs is read.
    pub foreign_text: ForeignText,
    /// What a poison record says about the error.
    pub error_texts: ErrorTexts,
    /// How long dead letters that a feed handed out stay invisible to other readers: 1 s to 7 days. Default 30 s.
    pub dead_letter_lease: Duration,
    /// The timeout of one request, including the connection. Default 30 s.
    pub request_timeout: Duration,
    /// The clock. Requests that are signed with an account key carry its time.
    pub clock: Arc<dyn Clock>,
}

/// How many messages are fetched, handled and sent at a time, and how often.
///
/// The transport itself uses `prefetch` and `publish_concurrency`, and polls as the last two say where it waits. The
/// others belong to the worker: pass them to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a message is leased: 1 s to 7 days. Default 30 s. The lease is renewed while its handler runs.
    pub visibility_timeout: Duration,
    /// How often a message may be delivered without an outcome before it is dead-lettered: 1 to 100. Default 5.
    pub max_dequeue_count: u32,
    /// How many loops fetch messages: 1 to 100. Default 5.
    pub fetch_loops: u32,
    /// How many messages each loop handles at a time: 1 to 32, at most `prefetch`. Default 1.
    pub batch_concurrency: u32,
    /// How many messages one fetch may lease: 1 to 32. Default 16. A fetch never leases more than were requested.
    pub prefetch: u32,
    /// How many messages of a batch are sent at a time: 1 to 128. Default 16.
    pub publish_concurrency: u32,
    /// The first pause before an empty queue is polled again; each pause is twice as long as the last. Default 1 s.
    pub first_poll: Duration,
    /// The longest pause before an empty queue is polled again. Default 5 s.
    pub longest_poll: Duration,
}

/// How the text of messages from other programs is read. Messages that Bezoar sent are recognized by their envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ForeignText {
    /// Base64 that decodes to UTF-8 text is decoded; everything else is the body as it is. The default.
    #[default]
    Detect,
    /// The text is the body.
    Plain,
    /// The text is base64. Text that is not is the body as it is.
    Base64,
}

/// What a poison record says about the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ErrorTexts {
    /// The error's own text, which may contain personal data. The default.
    #[default]
    Keep,
    /// The reason in words that are safe to show, instead of the error's text.
    Redact,
    /// Nothing.
    Omit,
}

/// Every option that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidOptions(pub Vec<Invalid>);

impl Options {
    /// The default options for an account.
    pub fn new(account: Account) -> Self {
        Self {
            account,
            create_if_missing: true,
            poison_queues: BTreeMap::new(),
            time_to_live: None,
            limits: Limits::default(),
            claim_check: None,
            foreign_text: ForeignText::default(),
            error_texts: ErrorTexts::default(),
            dead_letter_lease: Duration::from_secs(30),
            request_timeout: Duration::from_secs(30),
            clock: Arc::new(SystemClock),
        }
    }

    /// Checks every option.
    ///
    /// # Errors
    ///
    /// [`InvalidOptions`] names all options that are out of their range.
    pub fn check(&self) -> Result<(), InvalidOptions> {
        let mut problems = self.limits.problems();
        problems.extend(outside("dead_letter_lease", LEASES, self.dead_letter_lease));
        problems.extend(outside("request_timeout", SECOND..=HOUR, self.request_timeout));
        problems.extend(self.time_to_live.and_then(|it| outside("time_to_live", SECOND..=TTL, it)));
        problems.extend(self.claim_check.iter().flat_map(ClaimCheck::problems));
        if self.claim_check.is_some() && self.account.blob_endpoint.is_none() {
            problems
                .push(Invalid::new("claim_check", "needs BlobEndpoint in the connection string"));
        }
        problems.extend(self.poison_queue_problems());
        if problems.is_empty() { Ok(()) } else { Err(InvalidOptions(problems)) }
    }
}

impl Options {
    /// A poison queue belongs to one queue: a replay sends its letters back there.
    fn poison_queue_problems(&self) -> Vec<Invalid> {
        let mut problems = Vec::new();
        let mut owners = BTreeMap::new();
        for (queue, poison) in &self.poison_queues {
            let names = [queue, poison].map(queue_name::check);
            problems.extend(names.into_iter().filter_map(Result::err));
            if queue == poison {
                let problem = format!("{queue:?} is its own poison queue");
                problems.push(Invalid::new("poison_queues", problem));
            }
            if let Some(other) = owners.insert(poison, queue) {
                let problem = format!("{poison:?} is the poison queue of {other:?} and {queue:?}");
                problems.push(Invalid::new("poison_queues", problem));
            }
        }
        problems
    }
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const LEASES: RangeInclusive<Duration> = SECOND..=LONGEST_DELAY;
/// Azure takes the seconds as a 32-bit number.
const TTL: Duration = Duration::from_secs(i32::MAX as u64);

impl Default for Limits {
    fn default() -> Self {
        Self {
            visibility_timeout: Duration::from_secs(30),
            max_dequeue_count: 5,
            fetch_loops: 5,
            batch_concurrency: 1,
            prefetch: 16,
            publish_concurrency: 16,
            first_poll: SECOND,
            longest_poll: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// How many messages are handled at a time in total: fetch loops × concurrency within a batch.
    pub fn concurrency(&self) -> u32 {
        self.fetch_loops.saturating_mul(self.batch_concurrency)
    }

    /// How a worker opens a queue.
    pub fn subscribe_options(&self) -> SubscribeOptions {
        SubscribeOptions::default().with_lease(self.visibility_timeout)
    }

    fn problems(&self) -> Vec<Invalid> {
        let counts = [
            ("max_dequeue_count", 1..=100, self.max_dequeue_count),
            ("fetch_loops", 1..=100, self.fetch_loops),
            ("batch_concurrency", 1..=32, self.batch_concurrency),
            ("prefetch", 1..=32, self.prefetch),
            ("publish_concurrency", 1..=128, self.publish_concurrency),
        ];
        let counts = counts.into_iter().filter(|(_, range, count)| !range.contains(count));
        let mut problems: Vec<_> = counts
            .map(|(field, range, count)| {
                let problem =
                    format!("is {count}, it must be {} to {}", range.start(), range.end());
                Invalid::new(field, problem)
            })
            .collect();
        problems.extend(outside("visibility_timeout", LEASES, self.visibility_timeout));
        let pauses = Duration::from_millis(1)..=HOUR;
        problems.extend(outside("first_poll", pauses.clone(), self.first_poll));
        problems.extend(outside("longest_poll", pauses, self.longest_poll));
        if self.batch_concurrency > self.prefetch {
            let problem =
                format!("is {}, more than prefetch {}", self.batch_concurrency, self.prefetch);
            problems.push(Invalid::new("batch_concurrency", problem));
        }
        if self.first_poll > self.longest_poll {
            problems.push(Invalid::new("first_poll", "is longer than longest_poll"));
        }
        problems
    }
}

fn outside(field: &'static str, range: RangeInclusive<Duration>, it: Duration) -> Option<Invalid> {
    let problem = || {
        let (from, to) = (range.start().as_secs_f64(), range.end().as_secs_f64());
        format!("is {} s, it must be {from} s to {to} s", it.as_secs_f64())
    };
    (!range.contains(&it)).then(|| Invalid::new(field, problem()))
}

impl fmt::Display for InvalidOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&problems.join("; "))
    }
}

impl std::error::Error for InvalidOptions {}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new("UseDevelopmentStorage=true".parse().unwrap())
    }

    #[test]
    fn the_defaults_are_valid_and_documented() {
        assert_eq!(options().check(), Ok(()));
        assert_eq!(Limits::default().concurrency(), 5);
        let lease = Limits::default().subscribe_options().lease;
        assert_eq!(lease, Duration::from_secs(30));
    }

    #[test]
    fn every_limit_is_refused_on_both_sides() {
        type Set = fn(&mut Limits, u32);
        let limits: [(&str, u32, Set); 5] = [
            ("max_dequeue_count", 100, |it, to| it.max_dequeue_count = to),
            ("fetch_loops", 100, |it, to| it.fetch_loops = to),
            ("batch_concurrency", 32, |it, to| (it.batch_concurrency, it.prefetch) = (to, 32)),
            ("prefetch", 32, |it, to| it.prefetch = to),
            ("publish_concurrency", 128, |it, to| it.publish_concurrency = to),
        ];
        for (field, most, set) in limits {
            for (value, valid) in [(0, false), (1, true), (most, true), (most + 1, false)] {
                let mut options = options();
                set(&mut options.limits, value);
                let refused = options.check().err().map(|it| it.to_string()).unwrap_or_default();
                assert_eq!(!refused.contains(field), valid, "{field} = {value}: {refused}");
            }
        }
    }

    #[test]
    fn all_violations_are_in_one_error() {
        let mut options = options();
        options.limits.prefetch = 33;
        options.limits.batch_concurrency = 40;
        options.limits.visibility_timeout = Duration::from_millis(999);
        options.limits.longest_poll = Duration::ZERO;
        options.dead_letter_lease = Duration::MAX;
        options.time_to_live = Some(Duration::ZERO);
        let queue = QueueName::new("Not Valid").unwrap();
        options.poison_queues.insert(queue.clone(), queue);
        let [a, b, shared] = ["aaa", "bbb", "shared"].map(|it| QueueName::new(it).unwrap());
        options.poison_queues.extend([(a, shared.clone()), (b, shared)]);
        let refused = options.check().unwrap_err().to_string();
        for field in [
            "prefetch is 33, it must be 1 to 32",
            "batch_concurrency is 40, more than prefetch 33",
            "visibility_timeout is 0.999 s, it must be 1 s to 604800 s",
            "first_poll is longer than longest_poll",
            "dead_letter_lease",
            "time_to_live",
            "longest_poll is 0 s, it must be 0.001 s to 3600 s",
            "queue name",
            "\"Not Valid\" is its own poison queue",
            "\"shared\" is the poison queue of \"aaa\" and \"bbb\"",
        ] {
            assert!(refused.contains(field), "{field}: {refused}");
        }
    }
}
