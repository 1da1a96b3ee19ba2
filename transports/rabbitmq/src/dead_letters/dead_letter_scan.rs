//! A look through a dead-letter queue, which can only be read by taking from it and giving back.
//!
//! It consumes alone (`exclusive`), so that two never see half each, and in pieces, so that however many
//! letters there are only some are in memory. What is kept stays unanswered until the look has ended, at the
//! latest with its channel: given back earlier it would be the next to come.

use std::time::Duration;

use bezoar_core::{ErrorKind, QueueName, TransportError};
use futures_util::StreamExt;
use lapin::{
    Channel, Consumer,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions,
        BasicQosOptions, QueueDeclareOptions,
    },
    types::FieldTable,
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    connection::broker_connection::ChannelGuard,
    dead_letters::replay::ReplayPublication,
    error::{error, for_queue, from_lapin, is_exclusively_consumed, unavailable},
    publishing::publisher::{Publication, Published},
    topology,
    transport::TransportState,
    wire::{Raw, origin},
};

/// How many letters are in memory at once.
const PIECE: usize = 250;
/// For how long nothing comes from a queue that said it had more, before it is believed to be empty.
const QUIET: Duration = Duration::from_secs(2);
/// How often to look whether somebody else is done, or what was given back is there again.
const PAUSE: Duration = Duration::from_millis(20);

/// What becomes of a letter that was looked at.
pub(crate) enum ScanAction {
    Keep,
    Remove,
    /// Replaced by a copy in the same queue.
    Replace(Box<Publication>),
    /// Sent back to where it came from.
    Return(Box<ReplayPublication>),
}

impl ScanAction {
    /// Kept, by way of a copy if it needs one.
    pub(crate) fn stamped(copy: Option<Publication>) -> Self {
        copy.map_or(Self::Keep, |copy| Self::Replace(Box::new(copy)))
    }
}

impl TransportState {
    /// Looks at every letter that is in a dead-letter queue now, once, and does with each as `decide` says.
    pub(crate) async fn scan_dead_letters(
        &self,
        queue: &QueueName,
        operation: &'static str,
        decide: impl FnMut(&Raw) -> ScanAction + Send,
    ) -> Result<(), TransportError> {
        let name = self.dead_queue_name(queue, operation)?;
        let scan = DeadLetterScan { inner: self, queue, name, operation };
        let _turn = self.dead_turn.lock().await;
        scan.run(decide).await
    }

    pub(crate) fn dead_queue_name(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<String, TransportError> {
        topology::dead_queue(queue).map_err(|it| error(ErrorKind::Invalid(it), operation))
    }
}

struct DeadLetterScan<'a> {
    inner: &'a TransportState,
    queue: &'a QueueName,
    name: String,
    operation: &'static str,
}

/// How far a look has come.
#[derive(Default)]
struct Progress {
    seen: usize,
    /// Kept in all, as they were or as copies.
    kept: usize,
    /// Kept of what the present consumer was sent: the broker sends it so many less.
    kept_here: usize,
}

impl DeadLetterScan<'_> {
    async fn run(
        &self,
        mut decide: impl FnMut(&Raw) -> ScanAction + Send,
    ) -> Result<(), TransportError> {
        let channel = self.inner.dead.guarded_channel(self.operation).await?;
        let total = self.ready(&channel).await?;
        if total == 0 {
            return Ok(());
        }
        let (mut channel, mut consumer) = self.open(channel).await?;
        channel.keep_until_closed(&consumer);
        let mut progress = Progress::default();
        while progress.seen < total {
            let most = PIECE.min(total - progress.seen);
            let piece = self.piece(&channel, &mut consumer, most).await?;
            if piece.is_empty() {
                break;
            }
            progress.seen += piece.len();
            let fates = piece.into_iter().map(|(tag, raw)| (tag, decide(&raw))).collect();
            self.carry_out(&channel, fates, &mut progress).await?;
            if progress.kept_here > PIECE / 2 {
                self.cancel(&channel, &consumer).await?;
                consumer = self.consume(&channel).await?.map_err(|it| self.failed(&it))?;
                channel.keep_until_closed(&consumer);
                progress.kept_here = 0;
            }
        }
        self.cancel(&channel, &consumer).await?;
        self.requeue_kept(&channel, progress.kept).await
    }

    /// Begins to consume, alone, when nobody else does.
    async fn open(
        &self,
        mut channel: ChannelGuard,
    ) -> Result<(ChannelGuard, Consumer), TransportError> {
        let deadline = Instant::now() + self.inner.options.connect_timeout;
        loop {
            match self.consume(&channel).await? {
                Ok(consumer) => return Ok((channel, consumer)),
                Err(taken) if is_exclusively_consumed(&taken) && Instant::now() < deadline => {
                    sleep(PAUSE).await
                }
                Err(taken) if is_exclusively_consumed(&taken) => {
                    return Err(unavailable(
                        self.operation,
                        "somebody else reads these dead letters",
                    ));
                }
                Err(source) => return Err(self.failed(&source)),
            }
            channel = self.inner.dead.guarded_channel(self.operation).await?;
        }
    }

    async fn consume(&self, channel: &Channel) -> Result<lapin::Result<Consumer>, TransportError> {
        let opening = async {
            let most = u16::try_from(PIECE).expect("a piece is small");
            channel.basic_qos(most, BasicQosOptions::default()).await?;
            let alone = BasicConsumeOptions { exclusive: true, ..Default::default() };
            let name = self.name.as_str().into();
            channel.basic_consume(name, "".into(), alone, FieldTable::default()).await
        };
        self.inner.dead.with_timeout(opening, self.operation).await
    }

    async fn cancel(&self, channel: &Channel, consumer: &Consumer) -> Result<(), TransportError> {
        let cancel = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
        let cancelled = self.inner.dead.with_timeout(cancel, self.operation).await?;
        cancelled.map_err(|source| self.failed(&source))
    }

    /// Up to `most` letters; none if there are no more.
    async fn piece(
        &self,
        channel: &Channel,
        consumer: &mut Consumer,
        most: usize,
    ) -> Result<Vec<(u64, Raw)>, TransportError> {
        let mut piece = Vec::new();
        while piece.len() < most {
            let quiet = if piece.is_empty() { QUIET } else { PAUSE };
            match timeout(quiet, consumer.next()).await {
                Ok(Some(Ok(letter))) => {
                    piece.push((
                        letter.delivery_tag,
                        origin::with_original_route(Raw::from(letter)),
                    ));
                }
                Ok(Some(Err(source))) => return Err(self.failed(&source)),
                Ok(None) => return Err(unavailable(self.operation, "the broker stopped sending")),
                Err(_) if piece.is_empty() && self.ready(channel).await? > 0 => (),
                Err(_) => break,
            }
        }
        Ok(piece)
    }

    async fn ready(&self, channel: &Channel) -> Result<usize, TransportError> {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declare =
            channel.queue_declare(self.name.as_str().into(), passive, FieldTable::default());
        let found = self.inner.dead.with_timeout(declare, self.operation).await?;
        Ok(found.map_err(|source| self.failed(&source))?.message_count() as usize)
    }

    /// Stores what is to be stored, then removes what is kept elsewhere. The first failure ends the look:
    /// what was not removed comes back with the end of the channel.
    async fn carry_out(
        &self,
        channel: &Channel,
        fates: Vec<(u64, ScanAction)>,
        progress: &mut Progress,
    ) -> Result<(), TransportError> {
        let (mut gone, mut copies, mut returns) = (Vec::new(), Vec::new(), Vec::new());
        for (tag, fate) in fates {
            match fate {
                ScanAction::Keep => {
                    progress.kept += 1;
                    progress.kept_here += 1;
                }
                ScanAction::Remove => gone.push(tag),
                ScanAction::Replace(copy) => {
                    progress.kept += 1;
                    copies.push((tag, *copy));
                }
                ScanAction::Return(back) => returns.push((tag, *back)),
            }
        }
        let (replaced, copied) = self.replace(copies).await;
        let (requeued, sent) = self.publish_replays(returns).await;
        gone.extend(replaced.into_iter().chain(requeued));
        self.remove(channel, gone).await?;
        copied.and(sent)
    }

    /// The tags of those that were replaced, and what went wrong with others.
    async fn replace(&self, copies: Vec<(u64, Publication)>) -> Stored {
        let (tags, copies): (Vec<_>, Vec<_>) = copies.into_iter().unzip();
        let outcomes = self.inner.publisher.publish(copies, self.operation).await;
        let stored = outcomes.into_iter().map(|outcome| match outcome? {
            Published::Stored => Ok(()),
            Published::NotRouted => Err(crate::error::queue_not_found(self.queue, self.operation)),
        });
        sort_out(tags, stored)
    }

    /// The tags of those that were sent back, and what went wrong with others.
    async fn publish_replays(&self, returns: Vec<(u64, ReplayPublication)>) -> Stored {
        let (tags, returns): (Vec<_>, Vec<_>) = returns.into_iter().unzip();
        let sent = self.inner.publish_replays(self.queue, &returns, self.operation).await;
        sort_out(tags, sent.into_iter())
    }

    async fn remove(&self, channel: &Channel, gone: Vec<u64>) -> Result<(), TransportError> {
        let removing = async {
            for tag in gone {
                channel.basic_ack(tag, BasicAckOptions::default()).await?;
            }
            Ok(())
        };
        let removed = self.inner.dead.with_timeout(removing, self.operation).await?;
        removed.map_err(|source: lapin::Error| from_lapin(&source, self.operation))
    }

    /// Gives back what was kept and what was sent ahead, and waits until it is there again.
    async fn requeue_kept(&self, channel: &Channel, kept: usize) -> Result<(), TransportError> {
        let all = BasicNackOptions { multiple: true, requeue: true };
        let back = self.inner.dead.with_timeout(channel.basic_nack(0, all), self.operation);
        back.await?.map_err(|source| self.failed(&source))?;
        let deadline = Instant::now() + QUIET;
        while self.ready(channel).await? < kept && Instant::now() < deadline {
            sleep(PAUSE).await;
        }
        Ok(())
    }

    fn failed(&self, source: &lapin::Error) -> TransportError {
        for_queue(source, self.queue, self.operation)
    }
}

/// The tags of what was stored, and the first failure.
type Stored = (Vec<u64>, Result<(), TransportError>);

fn sort_out(tags: Vec<u64>, outcomes: impl Iterator<Item = Result<(), TransportError>>) -> Stored {
    let (mut stored, mut first) = (Vec::new(), Ok(()));
    for (tag, outcome) in tags.into_iter().zip(outcomes) {
        match outcome {
            Ok(()) => stored.push(tag),
            Err(failed) => first = first.and(Err(failed)),
        }
    }
    (stored, first)
}
