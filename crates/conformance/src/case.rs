//! What each case gets: a fresh transport with one empty queue, and the steps that cases are built
//! from.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bezoar_core::{
    Acceptance, Capabilities, Counting, DeadLetter, DeadLetterAccess, DeadLetterFeed,
    DeadLetterIds, DeadLetterPage, Depth, ErrorKind, Message, Outgoing, QueueAdmin, QueueName,
    SubscribeOptions, Transport, TransportError,
};
use tokio::time::{Instant, sleep};

use crate::{
    Harness,
    pace::Pace,
    samples::{dead_letter, messages},
    worker::Worker,
};

/// The lease of the workers of a case, in ticks.
pub(crate) const LEASE: u32 = 4;

/// The longest delay or lease that a case uses, in ticks.
pub(crate) const LONG: u32 = 100;

/// The maximum number of dead letters that a case reads.
const MOST: usize = 10_000;

pub(crate) struct Case {
    pub(crate) queue: QueueName,
    harness: Box<dyn Harness>,
    pace: Arc<Pace>,
}

impl Case {
    pub(crate) async fn open(name: &str, harness: Box<dyn Harness>, pace: Arc<Pace>) -> Self {
        let case = Self { queue: unique(name), harness, pace };
        case.check_tick();
        let provision = case.admin().provision(&case.queue).await;
        provision.expect("a queue can be provisioned");
        case
    }

    /// Checks that the transport accepts the leases (1 to 100 ticks) and delays (up to 100 ticks) that
    /// cases use.
    fn check_tick(&self) {
        let (can, most) = (self.can(), self.ticks(LONG));
        let leases = [self.ticks(1), most].map(|lease| can.check_lease(lease));
        leases
            .into_iter()
            .collect::<Result<(), _>>()
            .expect("leases of 1 to 100 ticks are accepted");
        let delay = can.scheduled.map_or(Ok(()), |_| can.check_delay("delay", most));
        delay.expect("delays of up to 100 ticks are accepted");
    }

    pub(crate) fn transport(&self) -> Arc<dyn Transport> {
        self.harness.transport()
    }

    pub(crate) fn admin(&self) -> Arc<dyn QueueAdmin> {
        self.harness.admin()
    }

    pub(crate) fn can(&self) -> Capabilities {
        self.transport().capabilities()
    }

    pub(crate) fn counts_exactly(&self) -> bool {
        self.can().acquired == Counting::Exact
    }

    pub(crate) fn ticks(&self, count: u32) -> Duration {
        self.harness.tick() * count
    }

    /// Lets `ticks` pass.
    pub(crate) async fn elapse(&self, ticks: u32) {
        let by = self.ticks(ticks);
        self.pace.plan(by, self.harness.elapse(by)).await;
    }

    /// Lets a part of a tick pass.
    pub(crate) async fn elapse_a_little(&self) {
        let by = self.ticks(1) / 8;
        self.pace.plan(by, self.harness.elapse(by)).await;
    }

    /// Waits until every lease has expired.
    pub(crate) async fn outlast_leases(&self) {
        self.elapse(LEASE + 1).await;
    }

    pub(crate) async fn restart(&mut self) {
        self.harness.restart().await;
    }

    /// Provisions another queue.
    pub(crate) async fn other_queue(&self) -> QueueName {
        let queue = unique("other");
        self.admin().provision(&queue).await.expect("a queue can be provisioned");
        queue
    }

    /// The name of a queue that does not exist.
    pub(crate) fn unknown_queue(&self) -> QueueName {
        unique("unknown")
    }

    pub(crate) async fn send(&self, outgoing: impl Into<Outgoing>) {
        self.send_all([outgoing]).await;
    }

    pub(crate) async fn send_all(&self, batch: impl IntoIterator<Item = impl Into<Outgoing>>) {
        let batch: Vec<Outgoing> = batch.into_iter().map(Into::into).collect();
        for result in self.try_send(&batch).await {
            result.expect("a message that fits is accepted");
        }
    }

    pub(crate) async fn try_send(
        &self,
        batch: &[Outgoing],
    ) -> Vec<Result<Acceptance, TransportError>> {
        let results = self.transport().send(&(&self.queue).into(), batch).await;
        assert_eq!(results.len(), batch.len(), "a batch has one result per message");
        results
    }

    /// The error with which this message is refused.
    pub(crate) async fn refusal(&self, outgoing: impl Into<Outgoing>) -> TransportError {
        let result = self.try_send(&[outgoing.into()]).await.pop().expect("there is one");
        result.expect_err("this message must be refused")
    }

    pub(crate) async fn worker(&self) -> Worker {
        self.worker_of(&self.queue).await
    }

    pub(crate) async fn worker_of(&self, queue: &QueueName) -> Worker {
        self.worker_with(queue, self.options()).await
    }

    pub(crate) async fn worker_with(&self, queue: &QueueName, options: SubscribeOptions) -> Worker {
        let opened = self.transport().subscribe(queue, options).await;
        Worker::new(opened.expect("a queue can be opened"), &self.can(), self.pace.clone())
    }

    /// How the workers of a case open a queue.
    pub(crate) fn options(&self) -> SubscribeOptions {
        SubscribeOptions::default().with_lease(self.ticks(LEASE))
    }

    /// How many bytes of headers or history a message may have: a fraction of the transport's limit, so that they fit
    /// whatever its encoding adds.
    pub(crate) fn room_bytes(&self) -> usize {
        self.can().max_encoded_bytes.map_or(usize::MAX, |most| most / 4)
    }

    pub(crate) fn lag(&self) -> Duration {
        self.can().lag
    }

    pub(crate) async fn depth(&self) -> Depth {
        self.admin().depth(&self.queue).await.expect("the depth of a queue can be read")
    }

    /// Asserts how many messages are ready, delayed, leased and dead.
    pub(crate) async fn assert_depth(&self, expected: [u64; 4], when: &str) {
        let until = Instant::now() + self.lag();
        let mut depth = self.depth().await;
        while !self.shows(&depth, expected) && Instant::now() < until {
            sleep(Duration::from_millis(10)).await;
            depth = self.depth().await;
        }
        let [ready, delayed, leased, dead] = expected;
        assert!(
            self.shows(&depth, expected),
            "{when} there are {ready} ready, {delayed} delayed, {leased} leased, {dead} dead; got {depth:?}"
        );
    }

    fn shows(&self, depth: &Depth, expected: [u64; 4]) -> bool {
        let counts = [depth.ready, depth.delayed, depth.leased, depth.dead];
        counts.into_iter().zip(expected).all(|(count, expected)| match count {
            Some(count) => count == expected,
            None => !self.can().knows_depth,
        })
    }

    /// Asserts that a missing age is allowed: only if the capabilities do not promise ages.
    pub(crate) fn cannot_tell_ages(&self) {
        assert!(!self.can().knows_ages, "a queue with a ready message has an age");
    }

    /// All dead letters, sorted by id.
    pub(crate) async fn dead(&self) -> Vec<DeadLetter> {
        if self.can().dead_letter_access { self.listed().await } else { self.fed().await }
    }

    /// All dead letters, read in small pages.
    async fn listed(&self) -> Vec<DeadLetter> {
        let mut dead: Vec<DeadLetter> = Vec::new();
        while dead.len() < MOST {
            let page = self.page_after(dead.last(), 7).await;
            if page.is_empty() {
                break;
            }
            dead.extend(page);
        }
        dead
    }

    /// All dead letters as a feed hands them out. None is removed.
    async fn fed(&self) -> Vec<DeadLetter> {
        let waiting = self.depth().await.dead.unwrap_or(0);
        let feed = self.feed().await;
        let mut dead: Vec<DeadLetter> = Vec::new();
        while dead.len() < MOST {
            let some = feed.next(NonZeroU32::MAX, self.lag()).await.expect("a feed can be read");
            // On a busy machine opening the feed may take longer than the lag.
            if some.is_empty() && dead.len() as u64 >= waiting {
                break;
            }
            dead.extend(some);
        }
        dead.sort_by_key(|letter| letter.id.number());
        dead
    }

    /// The feed of the queue's dead letters.
    pub(crate) async fn feed(&self) -> Box<dyn DeadLetterFeed> {
        self.feed_of(&self.queue).await
    }

    pub(crate) async fn feed_of(&self, queue: &QueueName) -> Box<dyn DeadLetterFeed> {
        let feed = self.admin().dead_letter_feed(queue).await.expect("a feed can be opened");
        feed.expect("there is a feed where the capabilities say so")
    }

    pub(crate) async fn page_after(
        &self,
        last: Option<&DeadLetter>,
        limit: u32,
    ) -> Vec<DeadLetter> {
        let limit = NonZeroU32::new(limit).expect("the limit is not 0");
        let page = DeadLetterPage { after: last.map(|dead| dead.id), limit };
        self.page(&self.queue, page).await.expect("dead letters can be listed")
    }

    pub(crate) async fn page(
        &self,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let admin = self.admin();
        access(&*admin).dead_letters(queue, page).await
    }

    /// Sends `count` messages and dead-letters them.
    pub(crate) async fn kill(&self, count: usize) -> Vec<DeadLetter> {
        self.kill_these(messages(count)).await
    }

    pub(crate) async fn kill_these(&self, messages: Vec<Message>) -> Vec<DeadLetter> {
        let (worker, mut left) = (self.worker().await, messages.len());
        self.send_all(messages).await;
        while left > 0 {
            let some = worker.take(left.min(16)).await;
            left -= some.len();
            let batch = some.into_iter().map(|held| (held, dead_letter())).collect();
            for result in worker.subscription.settle(batch).await {
                result.expect("a leased delivery can be dead-lettered");
            }
        }
        self.dead().await
    }

    /// Replays dead letters. Where there is only a feed, all of them.
    pub(crate) async fn replay(&self, ids: DeadLetterIds) -> u64 {
        let replayed = if self.can().dead_letter_access {
            self.replay_of(&self.queue, &ids).await
        } else {
            let most = self.all_dead(&ids).await;
            self.feed().await.replay_all(most, self.lag()).await
        };
        replayed.expect("dead letters can be replayed")
    }

    pub(crate) async fn replay_of(
        &self,
        queue: &QueueName,
        ids: &DeadLetterIds,
    ) -> Result<u64, TransportError> {
        let admin = self.admin();
        access(&*admin).replay(queue, ids).await
    }

    /// Discards dead letters. Where there is only a feed, all of them.
    pub(crate) async fn discard(&self, ids: DeadLetterIds) -> u64 {
        let discarded = if self.can().dead_letter_access {
            self.discard_of(&self.queue, &ids).await
        } else {
            let most = self.all_dead(&ids).await;
            self.feed().await.discard_all(most, self.lag()).await
        };
        discarded.expect("dead letters can be discarded")
    }

    pub(crate) async fn discard_of(
        &self,
        queue: &QueueName,
        ids: &DeadLetterIds,
    ) -> Result<u64, TransportError> {
        let admin = self.admin();
        access(&*admin).discard(queue, ids).await
    }

    async fn all_dead(&self, ids: &DeadLetterIds) -> u64 {
        assert_eq!(
            *ids,
            DeadLetterIds::All,
            "a case that selects dead letters needs access to them"
        );
        self.dead().await.len() as u64
    }
}

fn access(admin: &dyn QueueAdmin) -> &dyn DeadLetterAccess {
    admin.dead_letter_access().expect("there is access where the capabilities say so")
}

/// Asserts that the error names the missing queue.
#[track_caller]
pub(crate) fn assert_not_found<T>(result: Result<T, TransportError>, queue: &QueueName) {
    let kind = result.err().expect("an unknown queue is an error").kind;
    assert_eq!(kind, ErrorKind::QueueNotFound(queue.clone()), "the error names the unknown queue");
}

/// A name that is valid on every broker: short, with lowercase letters, digits and single hyphens.
fn unique(name: &str) -> QueueName {
    let start = name[..name.len().min(40)].trim_end_matches('_').replace('_', "-");
    QueueName::new(format!("{start}-{:08x}", rand::random::<u32>())).expect("valid name")
}
