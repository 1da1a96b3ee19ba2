//! Dead letters that are not kept, or not sent back as they should be.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{
    Body, Code, DeadLetter, DeadLetterId, ErrorKind, Ledger, MAX_DELAY, Message, Outgoing, Page,
    QueueAdmin, QueueName, Reason, Selection, Transport, TransportError, millis,
};

use super::{Control, Defect, Store, dead, error, received};

pub(crate) fn controls() -> Vec<Control> {
    [keeping(), redriving()].into_iter().flatten().collect()
}

fn keeping() -> Vec<Control> {
    vec![
        Control::new(
            "forgets the words of a reason",
            || dead(|dead| dead.reason = Reason::new(dead.reason.code().clone(), "dead")),
            &["dead_letters::reason_and_time_are_kept"],
        ),
        Control::new(
            "forgets the code of a reason",
            || dead(|dead| dead.reason = Reason::new(Code::UNKNOWN, dead.reason.to_string())),
            &["dead_letters::reason_and_time_are_kept"],
        ),
        Control::new(
            "forgets when a message died",
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
            || Pages(|asked| Page { after: asked.after.map(|id| DeadLetterId(id.0 - 1)), ..asked }),
            &["dead_letters::pages_are_complete_and_in_order"],
        ),
        Control::new(
            "begins again after the last page",
            || Pages(|asked| Page { after: asked.after.filter(|id| id.0 < i64::MAX), ..asked }),
            &["dead_letters::a_page_beyond_the_end_is_empty"],
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
struct Pages(fn(Page) -> Page);

#[async_trait]
impl Defect for Pages {
    async fn dead_letters(
        &self,
        store: &Store,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        store.memory.dead_letters(queue, (self.0)(page)).await
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
        page: Page,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let all = store.memory.dead_letters(queue, Page::default()).await?;
        let placed =
            (1..).zip(all).map(|(place, dead)| DeadLetter { id: DeadLetterId(place), ..dead });
        Ok(placed
            .filter(|dead| Some(dead.id) > page.after)
            .take(page.limit.get() as usize)
            .collect())
    }
}

fn redriving() -> Vec<Control> {
    vec![
        Control::new(
            "redrives and keeps the dead letter",
            || Redrives(Redrive::Keeping),
            &[
                "redrive::redriven_messages_are_delivered_once",
                "redrive::a_second_redrive_finds_nothing",
                "concurrency::one_of_many_redrives_wins",
            ],
        ),
        Control::new(
            "redrives all whatever was chosen",
            || Redrives(Redrive::All),
            &["redrive::only_the_chosen_are_redriven"],
        ),
        Control::new(
            "refuses a selection with an unknown id",
            || Redrives(Redrive::Strictly),
            &["redrive::unknown_ids_are_passed_over", "redrive::a_purge_passes_over_unknown_ids"],
        ),
        Control::new(
            "counts what was asked for instead of what was done",
            || Redrives(Redrive::CountingIds),
            &[
                "redrive::an_id_named_twice_is_redriven_once",
                "redrive::a_second_redrive_finds_nothing",
            ],
        ),
        Control::new(
            "redrives for any queue",
            || Redrives(Redrive::FromAnyQueue),
            &["redrive::the_ids_of_another_queue_are_passed_over"],
        ),
        Control::new(
            "redrives only the first hundred",
            || Redrives(Redrive::AHundred),
            &["redrive::hundreds_are_redriven_by_their_ids"],
        ),
        Control::new(
            "redrives in the same generation",
            || Redrives(Redrive::SameGeneration),
            &[
                "redrive::a_redriven_message_is_a_new_generation",
                "redrive::a_redriven_message_can_die_again",
            ],
        ),
        Control::new(
            "takes a redriven message for a repetition",
            || Redrives(Redrive::AsARepetition),
            &["once::a_redriven_message_is_no_repetition"],
        ),
        Control::new(
            "loses the history with a redrive",
            || {
                received(|held| {
                    if held.message.ledger.replayed > 0 {
                        without_history(Arc::make_mut(&mut held.message));
                    }
                })
            },
            &[
                "redrive::a_redriven_message_is_a_new_generation",
                "redrive::everything_sent_comes_back",
            ],
        ),
        Control::new(
            "purges all whatever was chosen",
            || Redrives(Redrive::PurgingAll),
            &["redrive::only_the_chosen_are_purged", "redrive::a_purge_passes_over_unknown_ids"],
        ),
        Control::new(
            "purges nothing",
            || Redrives(Redrive::PurgingNothing),
            &["redrive::a_purge_of_all_leaves_none_and_touches_nothing_else"],
        ),
    ]
}

#[derive(Debug)]
struct Redrives(Redrive);

#[derive(Debug)]
enum Redrive {
    Keeping,
    All,
    Strictly,
    CountingIds,
    FromAnyQueue,
    AHundred,
    SameGeneration,
    AsARepetition,
    PurgingAll,
    PurgingNothing,
}

#[async_trait]
impl Defect for Redrives {
    async fn redrive(
        &self,
        store: &Store,
        queue: &QueueName,
        selection: &Selection,
    ) -> Result<u64, TransportError> {
        let memory = &store.memory;
        match self.0 {
            Redrive::All => memory.redrive(queue, &Selection::All).await,
            Redrive::Keeping => resend(store, queue, Ledger::replay, None).await,
            Redrive::SameGeneration => {
                let count = resend(store, queue, |_| (), None).await?;
                memory.purge(queue, selection).await?;
                Ok(count)
            }
            Redrive::AsARepetition => {
                let count = resend(store, queue, Ledger::replay, Some(MAX_DELAY)).await?;
                memory.purge(queue, selection).await?;
                Ok(count)
            }
            Redrive::Strictly => {
                let count = memory.redrive(queue, selection).await?;
                if count < chosen(selection) { Err(error(ErrorKind::Other)) } else { Ok(count) }
            }
            Redrive::CountingIds => {
                Ok(memory.redrive(queue, selection).await?.max(chosen(selection)))
            }
            Redrive::FromAnyQueue => {
                let mut count = 0;
                for queue in memory.queues().await? {
                    count += memory.redrive(&queue, selection).await?;
                }
                Ok(count)
            }
            Redrive::AHundred => match selection {
                Selection::Ids(ids) => {
                    let first = ids.iter().copied().take(100).collect();
                    memory.redrive(queue, &Selection::Ids(first)).await
                }
                Selection::All => memory.redrive(queue, selection).await,
            },
            Redrive::PurgingAll | Redrive::PurgingNothing => memory.redrive(queue, selection).await,
        }
    }

    async fn purge(
        &self,
        store: &Store,
        queue: &QueueName,
        selection: &Selection,
    ) -> Result<u64, TransportError> {
        match self.0 {
            Redrive::PurgingAll => store.memory.purge(queue, &Selection::All).await,
            Redrive::PurgingNothing => Ok(0),
            Redrive::Strictly => {
                let count = store.memory.purge(queue, selection).await?;
                if count < chosen(selection) { Err(error(ErrorKind::Other)) } else { Ok(count) }
            }
            _ => store.memory.purge(queue, selection).await,
        }
    }
}

fn chosen(selection: &Selection) -> u64 {
    match selection {
        Selection::All => 0,
        Selection::Ids(ids) => ids.len() as u64,
    }
}

/// Sends copies of all dead letters.
async fn resend(
    store: &Store,
    queue: &QueueName,
    change: fn(&mut Ledger),
    once: Option<Duration>,
) -> Result<u64, TransportError> {
    let dead = store.memory.dead_letters(queue, Page::default()).await?;
    let mut again: Vec<Message> = dead.into_iter().map(|dead| dead.message).collect();
    again.iter_mut().for_each(|message| change(&mut message.ledger));
    let batch: Vec<_> = again.into_iter().map(|it| Outgoing { once, ..it.into() }).collect();
    Ok(store.memory.send(&queue.into(), &batch).await.len() as u64)
}
