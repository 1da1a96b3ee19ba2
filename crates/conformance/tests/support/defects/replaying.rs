//! Dead letters that are not kept, or not replayed correctly.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    Body, Code, DeadLetter, DeadLetterAccess, DeadLetterId, DeadLetterIds, DeadLetterPage,
    Delivery, ErrorKind, Ledger, MAX_DELAY, Message, Outgoing, QueueAdmin, QueueName, Reason,
    Settlement, SubscribeOptions, Transport, TransportError, millis,
};

use super::{Control, Defect, Store, dead, error, received};

pub(crate) fn controls() -> Vec<Control> {
    [keeping(), replaying()].into_iter().flatten().collect()
}

fn keeping() -> Vec<Control> {
    vec![
        Control::new(
            "forgets the text of a reason",
            || dead(|dead| dead.reason = Reason::new(dead.reason.code().clone(), "dead")),
            &["dead_letters::reason_and_time_are_kept"],
        ),
        Control::new(
            "forgets the code of a reason",
            || dead(|dead| dead.reason = Reason::new(Code::UNKNOWN, dead.reason.to_string())),
            &["dead_letters::reason_and_time_are_kept"],
        ),
        Control::new(
            "forgets when a message was dead-lettered",
            || dead(|dead| dead.at = millis(0)),
            &["dead_letters::reason_and_time_are_kept"],
        ),
        Control::new(
            "drops the body of a dead letter",
            || dead(|dead| dead.message.body = Body::default()),
            &["dead_letters::everything_sent_is_kept"],
        ),
        Control::new(
            "drops the history of a dead letter",
            || dead(|dead| without_history(&mut dead.message)),
            &["dead_letters::the_ledger_is_kept"],
        ),
        Control::new(
            "begins a page with the last of the one before",
            || {
                Pages(|asked| DeadLetterPage {
                    after: asked.after.map(|id| DeadLetterId::from_number(id.number() - 1)),
                    ..asked
                })
            },
            &["dead_letters::pages_are_complete_and_in_order"],
        ),
        Control::new(
            "begins again after the last page",
            || Restarts(Restart::AfterTheLast),
            &["dead_letters::a_page_beyond_the_end_is_empty"],
        ),
        Control::new(
            "begins again after a letter that is gone",
            || Restarts(Restart::AfterOneThatIsGone),
            &["dead_letters::pages_continue_after_a_letter_that_is_gone"],
        ),
        Control::new(
            "lists dead letters in another order each time",
            TurnsAround::default,
            &["dead_letters::pages_are_complete_and_in_order"],
        ),
        Control::new(
            "lists dead letters by taking them out and putting them back",
            || TakesOut,
            &["dead_letters::listing_changes_nothing"],
        ),
        Control::new(
            "treats all letters of a message as one",
            || Replays(Replay::DiscardingByMessage),
            &["dead_letters::letters_of_the_same_message_id_are_told_apart"],
        ),
        Control::new(
            "keeps one letter for each message id",
            || OneForEachMessage,
            &["dead_letters::the_same_message_id_is_kept_twice"],
        ),
        Control::new(
            "numbers dead letters by their place in the list",
            || ByPlace,
            &[
                "dead_letters::an_id_is_never_given_twice",
                "restart::ids_of_dead_letters_are_not_given_again",
            ],
        ),
    ]
}

fn without_history(message: &mut Message) {
    let Ledger { acquired, failed, released, replayed, .. } = message.ledger;
    message.ledger = Ledger::restored(acquired, failed, released, replayed, Vec::new());
}

#[derive(Debug)]
struct Pages(fn(DeadLetterPage) -> DeadLetterPage);

#[async_trait]
impl Defect for Pages {
    async fn dead_letters(
        &self,
        store: &Store,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        store.memory.dead_letters(queue, (self.0)(page)).await
    }
}

/// Whether the memory transport, whose numbers rise, lists a letter after another.
fn comes_after(dead: &DeadLetter, other: Option<DeadLetterId>) -> bool {
    other.is_none_or(|other| dead.id.number() > other.number())
}

/// Lists from the start again, after some letters.
#[derive(Debug)]
struct Restarts(Restart);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restart {
    AfterTheLast,
    AfterOneThatIsGone,
}

#[async_trait]
impl Defect for Restarts {
    async fn dead_letters(
        &self,
        store: &Store,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let all = store.memory.dead_letters(queue, DeadLetterPage::default()).await?;
        let place = all.iter().position(|dead| Some(dead.id) == page.after);
        let restart = match place {
            Some(place) => self.0 == Restart::AfterTheLast && place + 1 == all.len(),
            None => self.0 == Restart::AfterOneThatIsGone,
        };
        let after = page.after.filter(|_| !restart);
        store.memory.dead_letters(queue, DeadLetterPage { after, ..page }).await
    }
}

/// Reverses the list each time it is read from the start.
#[derive(Debug, Default)]
struct TurnsAround(AtomicBool);

#[async_trait]
impl Defect for TurnsAround {
    async fn dead_letters(
        &self,
        store: &Store,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let mut all = store.memory.dead_letters(queue, DeadLetterPage::default()).await?;
        if page.after.is_none() {
            self.0.fetch_not(Ordering::SeqCst);
        }
        if self.0.load(Ordering::SeqCst) {
            all.reverse();
        }
        let place = all.iter().position(|dead| Some(dead.id) == page.after);
        let rest = all.into_iter().skip(place.map_or(0, |place| place + 1));
        Ok(rest.take(page.limit.get() as usize).collect())
    }
}

/// Gives the letters new ids at each listing.
#[derive(Debug)]
struct TakesOut;

#[async_trait]
impl Defect for TakesOut {
    async fn dead_letters(
        &self,
        store: &Store,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let listed = store.memory.dead_letters(queue, page).await?;
        let some: Vec<_> = listed.iter().map(|dead| dead.id).collect();
        store.memory.replay(queue, &DeadLetterIds::Ids(some)).await?;
        let open = store.memory.subscribe(queue, SubscribeOptions::default()).await?;
        let taken = open.receive(NonZeroU32::MAX, Duration::ZERO).await?;
        let put_back = |(held, dead): (Delivery, &DeadLetter)| {
            (held, Settlement::DeadLetter { reason: dead.reason.clone(), tries: Vec::new() })
        };
        open.settle(taken.into_iter().zip(&listed).map(put_back).collect()).await;
        Ok(listed)
    }
}

#[derive(Debug)]
struct OneForEachMessage;

#[async_trait]
impl Defect for OneForEachMessage {
    async fn dead_letters(
        &self,
        store: &Store,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let mut listed = store.memory.dead_letters(queue, DeadLetterPage::default()).await?;
        let mut seen = Vec::new();
        listed.retain(|dead| {
            let new = !seen.contains(&dead.message.id);
            seen.push(dead.message.id.clone());
            new
        });
        listed.retain(|dead| comes_after(dead, page.after));
        listed.truncate(page.limit.get() as usize);
        Ok(listed)
    }
}

#[derive(Debug)]
struct ByPlace;

#[async_trait]
impl Defect for ByPlace {
    async fn dead_letters(
        &self,
        store: &Store,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let all = store.memory.dead_letters(queue, DeadLetterPage::default()).await?;
        let placed = (1..)
            .zip(all)
            .map(|(place, dead)| DeadLetter { id: DeadLetterId::from_number(place), ..dead });
        Ok(placed
            .filter(|dead| comes_after(dead, page.after))
            .take(page.limit.get() as usize)
            .collect())
    }
}

fn replaying() -> Vec<Control> {
    vec![
        Control::new(
            "replays and keeps the dead letter",
            || Replays(Replay::Keeping),
            &[
                "replay::replayed_messages_are_delivered_once",
                "replay::a_second_replay_finds_nothing",
                "concurrency::one_of_many_replays_wins",
            ],
        ),
        Control::new(
            "replays all, whatever was selected",
            || Replays(Replay::All),
            &["replay::only_the_chosen_are_replayed"],
        ),
        Control::new(
            "refuses a selection with an unknown id",
            || Replays(Replay::Strictly),
            &["replay::unknown_ids_are_ignored", "replay::a_discard_ignores_unknown_ids"],
        ),
        Control::new(
            "counts the requested letters instead of the replayed ones",
            || Replays(Replay::CountingIds),
            &[
                "replay::an_id_named_twice_is_replayed_once",
                "replay::a_second_replay_finds_nothing",
            ],
        ),
        Control::new(
            "replays for any queue",
            || Replays(Replay::FromAnyQueue),
            &["replay::the_ids_of_another_queue_are_ignored"],
        ),
        Control::new(
            "replays only the first hundred",
            || Replays(Replay::AHundred),
            &["replay::hundreds_are_replayed_by_their_ids"],
        ),
        Control::new(
            "replays in the same generation",
            || Replays(Replay::SameGeneration),
            &[
                "replay::a_replayed_message_is_a_new_generation",
                "replay::a_replayed_message_can_die_again",
            ],
        ),
        Control::new(
            "treats a replayed message as a duplicate",
            || Replays(Replay::AsARepetition),
            &["once::a_replayed_message_is_no_repetition"],
        ),
        Control::new(
            "loses the history with a replay",
            || {
                received(|held| {
                    if held.message.ledger.replayed > 0 {
                        without_history(Arc::make_mut(&mut held.message));
                    }
                })
            },
            &[
                "replay::a_replayed_message_is_a_new_generation",
                "replay::everything_sent_comes_back",
            ],
        ),
        Control::new(
            "discards all, whatever was selected",
            || Replays(Replay::DiscardingAll),
            &["replay::only_the_chosen_are_discarded", "replay::a_discard_ignores_unknown_ids"],
        ),
        Control::new(
            "discards nothing",
            || Replays(Replay::DiscardingNothing),
            &["replay::a_discard_of_all_leaves_none_and_touches_nothing_else"],
        ),
    ]
}

#[derive(Debug)]
struct Replays(Replay);

#[derive(Debug)]
enum Replay {
    Keeping,
    All,
    Strictly,
    CountingIds,
    FromAnyQueue,
    AHundred,
    SameGeneration,
    AsARepetition,
    DiscardingAll,
    DiscardingNothing,
    DiscardingByMessage,
}

#[async_trait]
impl Defect for Replays {
    async fn replay(
        &self,
        store: &Store,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Result<u64, TransportError> {
        let memory = &store.memory;
        match self.0 {
            Replay::All => memory.replay(queue, &DeadLetterIds::All).await,
            Replay::Keeping => resend(store, queue, Ledger::replay, None).await,
            Replay::SameGeneration => {
                let count = resend(store, queue, |_| (), None).await?;
                memory.discard(queue, selection).await?;
                Ok(count)
            }
            Replay::AsARepetition => {
                let count = resend(store, queue, Ledger::replay, Some(MAX_DELAY)).await?;
                memory.discard(queue, selection).await?;
                Ok(count)
            }
            Replay::Strictly => {
                let count = memory.replay(queue, selection).await?;
                if count < chosen(selection) { Err(error(ErrorKind::Other)) } else { Ok(count) }
            }
            Replay::CountingIds => {
                Ok(memory.replay(queue, selection).await?.max(chosen(selection)))
            }
            Replay::FromAnyQueue => {
                let mut count = 0;
                for queue in memory.queues().await? {
                    count += memory.replay(&queue, selection).await?;
                }
                Ok(count)
            }
            Replay::AHundred => match selection {
                DeadLetterIds::Ids(ids) => {
                    let first = ids.iter().copied().take(100).collect();
                    memory.replay(queue, &DeadLetterIds::Ids(first)).await
                }
                DeadLetterIds::All => memory.replay(queue, selection).await,
            },
            Replay::DiscardingAll | Replay::DiscardingNothing | Replay::DiscardingByMessage => {
                memory.replay(queue, selection).await
            }
        }
    }

    async fn discard(
        &self,
        store: &Store,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Result<u64, TransportError> {
        match self.0 {
            Replay::DiscardingAll => store.memory.discard(queue, &DeadLetterIds::All).await,
            Replay::DiscardingNothing => Ok(0),
            Replay::DiscardingByMessage => {
                let listed = store.memory.dead_letters(queue, DeadLetterPage::default()).await?;
                let meant = |dead: &&DeadLetter| match selection {
                    DeadLetterIds::All => true,
                    DeadLetterIds::Ids(ids) => ids.contains(&dead.id),
                };
                let messages: Vec<_> =
                    listed.iter().filter(meant).map(|it| &it.message.id).collect();
                let same = listed.iter().filter(|dead| messages.contains(&&dead.message.id));
                let same = same.map(|dead| dead.id).collect();
                store.memory.discard(queue, &DeadLetterIds::Ids(same)).await
            }
            Replay::Strictly => {
                let count = store.memory.discard(queue, selection).await?;
                if count < chosen(selection) { Err(error(ErrorKind::Other)) } else { Ok(count) }
            }
            _ => store.memory.discard(queue, selection).await,
        }
    }
}

fn chosen(selection: &DeadLetterIds) -> u64 {
    match selection {
        DeadLetterIds::All => 0,
        DeadLetterIds::Ids(ids) => ids.len() as u64,
    }
}

/// Sends copies of all dead letters.
async fn resend(
    store: &Store,
    queue: &QueueName,
    change: fn(&mut Ledger),
    once: Option<Duration>,
) -> Result<u64, TransportError> {
    let dead = store.memory.dead_letters(queue, DeadLetterPage::default()).await?;
    let mut again: Vec<Message> = dead.into_iter().map(|dead| dead.message).collect();
    again.iter_mut().for_each(|message| change(&mut message.ledger));
    let outgoing = |message: Message| {
        let outgoing = Outgoing::from(message);
        once.map_or(outgoing.clone(), |window| outgoing.once(window))
    };
    let batch: Vec<_> = again.into_iter().map(outgoing).collect();
    Ok(store.memory.send(&queue.into(), &batch).await.len() as u64)
}
