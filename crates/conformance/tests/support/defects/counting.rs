//! Attempts that are not counted, or not remembered.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{Detail, FailedTry, Failure, FailureKind, HISTORY_LIMIT, Settlement, millis};

use super::{Control, Defect, Opened, Outcomes, Settlements, Twist, received, settled};

pub(crate) fn controls() -> Vec<Control> {
    vec![
        Control::new(
            "counts an acquisition only when it is settled",
            || received(|held| Arc::make_mut(&mut held.message).ledger.acquired -= 1),
            &["attempts::an_acquisition_is_counted_before_the_handler_runs"],
        ),
        Control::new(
            "forgets an acquisition without an outcome",
            || {
                received(|held| {
                    let ledger = &mut Arc::make_mut(&mut held.message).ledger;
                    ledger.acquired = ledger.failed + ledger.released + 1;
                })
            },
            &[
                "attempts::an_acquisition_without_settlement_stays_counted",
                "restart::leases_survive",
            ],
        ),
        Control::new(
            "forgets why a message is retried",
            || tries(Vec::clear),
            &[
                "attempts::a_failure_is_counted_and_remembered",
                "dead_letters::the_ledger_is_kept",
                "restart::ledgers_survive",
            ],
        ),
        Control::new(
            "counts a release as a failure",
            || {
                settled(|said| {
                    if let Settlement::Release { after } = *said {
                        *said = Settlement::Retry { after, tries: vec![made_up()] };
                    }
                })
            },
            &["attempts::a_release_is_counted_and_is_no_failure"],
        ),
        Control::new(
            "remembers only the last try of an attempt",
            || tries(|tries| drop(tries.drain(..tries.len().saturating_sub(1)))),
            &["attempts::tries_of_one_attempt_share_its_number"],
        ),
        Control::new(
            "counts a failure where no handler ran",
            || {
                tries(|tries| {
                    if tries.is_empty() {
                        tries.push(made_up());
                    }
                })
            },
            &["attempts::an_attempt_without_a_run_counts_nothing"],
        ),
        Control::new(
            "forgets the kind of a failure",
            || tries(|tries| tries.iter_mut().for_each(|a| a.kind = FailureKind::Unknown)),
            &["attempts::every_kind_of_failure_comes_back"],
        ),
        Control::new(
            "cuts details short",
            || {
                tries(|tries| {
                    for attempt in tries {
                        let start = attempt.detail.reveal().chars().take(256).collect();
                        attempt.detail = Detail::new(start);
                    }
                })
            },
            &["attempts::the_longest_detail_comes_back"],
        ),
        Control::new(
            "stops counting when the history is full",
            || StopsToCount,
            &["attempts::a_long_history_is_bounded"],
        ),
        Control::new(
            "never flags a redelivery",
            || received(|held| held.redelivered = false),
            &["attempts::what_may_have_been_worked_on_unnoticed_is_redelivered"],
        ),
        Control::new(
            "flags every later delivery as redelivered",
            || received(|held| held.redelivered = held.message.ledger.acquired > 1),
            &["attempts::what_may_have_been_worked_on_unnoticed_is_redelivered"],
        ),
        Control::new(
            "forgets uncounted failures",
            || {
                settled(|said| {
                    if let Settlement::Uncounted { after, .. } = *said {
                        *said = Settlement::Release { after };
                    }
                })
            },
            &[
                "attempts::uncounted_failures_are_summed_up_and_use_no_retry",
                "attempts::a_dead_letter_keeps_the_summary_and_a_replay_forgets_it",
            ],
        ),
        Control::new(
            "delivers again without a delay after an uncounted failure",
            || {
                settled(|said| {
                    if let Settlement::Uncounted { after, .. } = said {
                        *after = Duration::ZERO;
                    }
                })
            },
            &["attempts::an_uncounted_failure_returns_after_its_delay"],
        ),
        Control::new(
            "never clears an acquisition without an outcome",
            || {
                received(|held| {
                    let ledger = &mut Arc::make_mut(&mut held.message).ledger;
                    if ledger.failed > 0 {
                        ledger.released = 0;
                    }
                })
            },
            &["attempts::an_outcome_clears_acquisitions_without_one"],
        ),
        Control::new(
            "marks retried messages",
            || {
                received(|held| {
                    if held.message.ledger.failed > 0 {
                        let message = Arc::make_mut(&mut held.message);
                        message.headers.insert("retried".to_owned(), "yes".into());
                    }
                })
            },
            &[
                "attempts::what_was_sent_is_unchanged_by_retries",
                "settlement::retry_returns_the_message",
            ],
        ),
    ]
}

/// Changes the tries that are recorded.
fn tries(change: fn(&mut Vec<FailedTry>)) -> Twist {
    settled(move |said| {
        if let Settlement::Retry { tries, .. } | Settlement::DeadLetter { tries, .. } = said {
            change(tries);
        }
    })
}

fn made_up() -> FailedTry {
    FailedTry::new(millis(0), Duration::ZERO, &Failure::transient("made up"))
}

#[derive(Debug)]
struct StopsToCount;

#[async_trait]
impl Defect for StopsToCount {
    async fn settle(&self, open: &Opened, mut batch: Settlements) -> Outcomes {
        for (held, said) in &mut batch {
            if let Settlement::Retry { tries, .. } = said
                && held.message.ledger.history().len() >= HISTORY_LIMIT
            {
                tries.clear();
            }
        }
        open.inner.settle(batch).await
    }
}
