//! The defects, and the cases that must catch each.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use bezoar_core::{
    QueueName,
    catalogue::{CatalogueError, Filter, HeldLetters, ItemState, OperationKind, Selection},
    millis,
};

use super::{broken::Defect, recognition};

/// A defect, and the cases that must catch it.
pub(crate) struct Control {
    pub(crate) name: &'static str,
    pub(crate) caught_by: &'static [&'static str],
    pub(crate) defect: Arc<Defect>,
}

pub(crate) fn control(
    name: &'static str,
    caught_by: &'static [&'static str],
    spoil: impl FnOnce(&mut Defect),
) -> Control {
    let mut defect = Defect::default();
    spoil(&mut defect);
    Control { name, caught_by, defect: Arc::new(defect) }
}

pub(crate) fn controls() -> Vec<Control> {
    let mut all = recognition::controls();
    all.extend(
        [lists(), operations(), versions_and_imports(), intake(), log_and_settings()]
            .into_iter()
            .flatten(),
    );
    all
}

fn lists() -> Vec<Control> {
    vec![
        control(
            "forgets the history where it leaves out the body",
            &["lists::a_record_without_its_body_has_everything_else"],
            |it| {
                it.without_body = Box::new(|record| record.message.ledger = Default::default());
            },
        ),
        control(
            "returns the body although it should not",
            &["lists::a_record_without_its_body_has_everything_else"],
            |it| it.without_body = Box::new(|record| record.message.body = "x".into()),
        ),
        control("lists the oldest first", &["lists::pages_are_complete_and_newest_first"], |it| {
            it.listed = Box::new(|listed| listed.reverse());
        }),
        control(
            "ignores where a page starts",
            &["lists::a_page_goes_on_where_its_last_letter_was_even_if_that_is_gone"],
            |it| it.request = Box::new(|request| request.after = None),
        ),
        control(
            "returns more than requested",
            &["lists::a_page_of_none_or_too_many_is_bounded"],
            |it| {
                it.request = Box::new(|request| request.limit = request.limit.max(5));
            },
        ),
        control(
            "ignores a filter's queue",
            &["lists::every_filter_finds_what_matches_and_counts_it"],
            |it| it.filter = Box::new(|filter| filter.queues = None),
        ),
        control(
            "ignores a filter's times",
            &["lists::every_filter_finds_what_matches_and_counts_it"],
            |it| it.filter = Box::new(|filter| filter.until = None),
        ),
        control(
            "counts one too few",
            &["lists::every_filter_finds_what_matches_and_counts_it"],
            |it| {
                it.counted = Box::new(|count| count.count = count.count.saturating_sub(1));
            },
        ),
        control(
            "shows the time of arrival as that of dead-lettering",
            &[
                "broker_intake::the_time_of_death_is_kept",
                "imports::an_import_keeps_the_time_of_death",
            ],
            |it| {
                it.listed =
                    Box::new(|listed| listed.iter_mut().for_each(|it| it.died_at = it.arrived_at));
            },
        ),
        control("forgets headers", &["lists::a_record_has_the_message_as_it_was_sent"], |it| {
            it.record = Box::new(|record| record.message.headers.clear());
        }),
        control("loses the hour", &["causes::hours_pass"], |it| {
            it.causes = Box::new(|causes| causes.iter_mut().for_each(|it| it.last_hour = 0));
        }),
        control(
            "lists the smallest cause first",
            &["causes::the_same_failure_is_one_cause_and_the_largest_is_first"],
            |it| it.causes = Box::new(|causes| causes.reverse()),
        ),
        control(
            "forgets notes",
            &["causes::an_empty_note_removes_a_note_and_none_keeps_it"],
            |it| {
                it.mark = Box::new(|mark| mark.1 = Some(mark.1.clone().unwrap_or_default()));
            },
        ),
        control(
            "marks everything as open",
            &["causes::a_resolved_cause_regresses_and_keeps_its_note"],
            |it| {
                it.mark = Box::new(|mark| mark.0 = bezoar_core::catalogue::CauseState::Open);
            },
        ),
    ]
}

fn operations() -> Vec<Control> {
    vec![
        control(
            "silently leaves out letters that others hold",
            &["plans::letters_held_by_another_operation_are_named_and_refused"],
            |it| it.plan = Box::new(|plan| plan.held = HeldLetters::Skip),
        ),
        control(
            "does not say who holds the others",
            &["plans::letters_held_by_another_operation_can_be_left_out"],
            |it| it.operation = Box::new(|operation| operation.held.clear()),
        ),
        control(
            "ignores the expected number",
            &["plans::another_number_than_expected_plans_nothing"],
            |it| {
                it.plan = Box::new(|plan| plan.expect = None);
            },
        ),
        control(
            "forgets which request planned an operation",
            &[
                "requests::a_repeated_request_plans_nothing",
                "requests::of_equal_requests_at_once_one_plans",
                "requests::a_key_of_another_request_is_refused",
                "requests::each_actor_has_its_own_keys",
                "requests::a_request_that_was_refused_can_be_repeated",
                "requests::a_request_is_known_after_a_restart",
            ],
            |it| {
                it.plan = Box::new(|plan| plan.request = None);
            },
        ),
        control(
            "discards only open letters",
            &[
                "plans::a_discard_takes_everything_that_is_counted",
                "versions::an_edited_original_can_be_discarded",
            ],
            |it| {
                it.plan = Box::new(|plan| {
                    if plan.kind == OperationKind::Discard
                        && let Selection::Matching(filter) = &mut plan.selection
                    {
                        *filter = Filter { state: Some("open"), ..filter.clone() };
                    }
                });
            },
        ),
        control("selects everything", &["plans::a_missing_id_plans_nothing"], |it| {
            it.plan = Box::new(|plan| plan.selection = Selection::Matching(Filter::default()));
        }),
        control(
            "has no canary",
            &[
                "operations::a_canary_goes_first_and_the_rest_only_after_it",
                "operations::a_failed_canary_holds_the_rest_back",
            ],
            |it| {
                it.plan = Box::new(|plan| {
                    if let OperationKind::Replay { canary, .. } = &mut plan.kind {
                        *canary = 0;
                    }
                });
            },
        ),
        control(
            "does more than requested",
            &["operations::a_replay_ends_when_every_outcome_is_known"],
            |it| {
                it.most = Box::new(|most| *most = 1_000);
            },
        ),
        control(
            "does not say why it stopped",
            &["operations::a_stopped_operation_says_why_and_goes_on_when_told"],
            |it| {
                it.operation = Box::new(|operation| operation.stopped = None);
            },
        ),
        control(
            "lists operations oldest first",
            &["operations::operations_are_listed_newest_first_and_running_ones_apart"],
            |it| {
                it.operations = Box::new(|operations| operations.reverse());
            },
        ),
        control(
            "shows every message as completed",
            &["operations::a_cancelled_replay_frees_what_was_not_sent"],
            |it| {
                it.items = Box::new(|items| {
                    items.iter_mut().for_each(|it| it.state = ItemState::Completed)
                });
            },
        ),
        control(
            "forgets the earlier dead letters of a message",
            &[
                "outcomes::a_dead_letter_knows_which_ones_it_was_before",
                "outcomes::a_broker_letter_that_fails_again_knows_which_one_it_was",
            ],
            |it| {
                it.record = Box::new(|record| record.earlier.clear());
            },
        ),
        control(
            "forgets replayed letters",
            &["outcomes::a_replayed_dead_letter_says_what_became_of_it"],
            |it| {
                it.refusal = Box::new(|error| {
                    if let CatalogueError::Replayed { id, .. } = error {
                        *error = CatalogueError::NoDeadLetter(*id);
                    }
                });
            },
        ),
        control(
            "forgets discarded letters",
            &["outcomes::a_discarded_dead_letter_says_so"],
            |it| {
                it.refusal = Box::new(|error| {
                    if let CatalogueError::Discarded { id, .. } = error {
                        *error = CatalogueError::NoDeadLetter(*id);
                    }
                });
            },
        ),
    ]
}

fn versions_and_imports() -> Vec<Control> {
    vec![
        control(
            "approves every edit",
            &["versions::an_unapproved_version_waits_for_somebody_else"],
            |it| {
                it.edited = Box::new(|edited| edited.1 = false);
            },
        ),
        control(
            "lets editors approve",
            &["versions::an_unapproved_version_waits_for_somebody_else"],
            |it| {
                it.approval = Box::new(|action| action.actor.push_str(" again"));
            },
        ),
        control(
            "keeps the old body",
            &["versions::a_version_takes_the_place_of_its_original_which_stays"],
            |it| {
                it.edited = Box::new(|edited| edited.0.body = "old".into());
            },
        ),
        control(
            "imports under new stamps",
            &[
                "imports::the_same_letter_is_imported_once",
                "imports::another_letter_under_a_known_stamp_is_a_conflict",
            ],
            |it| {
                it.imported = Box::new(|records| {
                    for (stamp, _) in records {
                        stamp.push_str(&format!(" {}", rand::random::<u64>()));
                    }
                });
            },
        ),
        control(
            "ignores another letter under a known stamp",
            &[
                "imports::another_letter_under_a_known_stamp_is_a_conflict",
                "imports::a_stamp_stands_for_its_letter_after_that_is_gone",
            ],
            |it| {
                let known = Mutex::new(HashMap::new());
                it.imported = Box::new(move |records| {
                    let mut known = known.lock().unwrap();
                    for (stamp, record) in records {
                        *record =
                            known.entry(stamp.clone()).or_insert_with(|| record.clone()).clone();
                    }
                });
            },
        ),
        control(
            "imports edited letters as open",
            &["imports::what_could_not_be_replayed_there_cannot_be_here"],
            |it| {
                it.imported = Box::new(|records| {
                    for (_, record) in records {
                        record.entry.state = bezoar_core::catalogue::DeadLetterState::Open;
                    }
                });
            },
        ),
        control(
            "resets the time of dead-lettering",
            &["imports::an_import_keeps_the_time_of_death"],
            |it| {
                it.imported = Box::new(|records| {
                    records.iter_mut().for_each(|(_, it)| it.entry.died_at = jiff::Timestamp::MAX);
                });
            },
        ),
        control(
            "expires everything",
            &[
                "expiry::old_letters_are_removed_and_young_ones_stay",
                "expiry::what_just_arrived_does_not_expire_however_long_it_is_dead",
            ],
            |it| {
                it.expiry = Box::new(|before| *before = jiff::Timestamp::MAX);
            },
        ),
        control(
            "expires nothing",
            &["expiry::old_letters_are_removed_and_young_ones_stay"],
            |it| {
                it.expiry = Box::new(|before| *before = millis(0));
            },
        ),
    ]
}

fn intake() -> Vec<Control> {
    fn other() -> QueueName {
        QueueName::new("hospital/a").expect("valid name")
    }
    vec![
        control(
            "counts a success in another queue as its own",
            &[
                "broker_intake::a_success_in_another_queue_completes_nothing",
                "broker_intake::a_canary_passes_only_by_its_own_success",
            ],
            |it| {
                it.outcome_queue = Box::new(|queue| *queue = other());
            },
        ),
        control(
            "ignores outcomes",
            &[
                "broker_intake::a_replay_completes_when_the_broker_says_so",
                "broker_intake::outcomes_find_messages_under_new_ids_and_ignore_strangers",
            ],
            |it| {
                it.outcomes = Box::new(Vec::clear);
            },
        ),
        control(
            "takes letters in under new ids",
            &[
                "broker_intake::a_letter_is_taken_in_once_with_everything_it_has",
                "restarts::what_was_taken_in_is_still_known",
            ],
            |it| {
                it.letters = Box::new(|letters| {
                    letters.iter_mut().for_each(|letter| {
                        letter.id = bezoar_core::DeadLetterId::from_number(rand::random())
                    });
                });
            },
        ),
        control(
            "takes nothing in",
            &["broker_intake::a_letter_is_taken_in_once_with_everything_it_has"],
            |it| {
                it.letters = Box::new(Vec::clear);
            },
        ),
        control(
            "replaces the time of dead-lettering by that of intake",
            &[
                "broker_intake::the_time_of_death_is_kept",
                "causes::a_late_arrival_counts_in_the_hour_of_its_death",
                "lists::newest_first_is_by_the_time_of_death",
            ],
            |it| {
                it.letters = Box::new(|letters| {
                    letters.iter_mut().for_each(|letter| letter.at = jiff::Timestamp::MAX);
                });
            },
        ),
        control(
            "forgets announcements",
            &[
                "broker_intake::an_announced_letter_has_its_reason_and_history",
                "broker_intake::an_announcement_counts_once_and_not_for_ever",
            ],
            |it| {
                it.announced = Box::new(Vec::clear);
            },
        ),
    ]
}

fn log_and_settings() -> Vec<Control> {
    vec![
        control(
            "says that it accepts writes although it is full",
            &["settings::a_full_store_does_not_accept_writes"],
            |it| it.writable = Box::new(|answer| *answer = Ok(())),
        ),
        control("logs a wrong actor", &["audit_log::an_entry_has_what_was_said_and_when"], |it| {
            it.action = Box::new(|action| action.actor = "eve".to_owned());
        }),
        control(
            "changes the log",
            &["audit_log::every_action_is_in_the_log_once_and_in_order"],
            |it| {
                it.audit = Box::new(|(entries, _)| {
                    entries.iter_mut().for_each(|entry| entry.reason = "none".to_owned());
                });
            },
        ),
        control("loses the end of the log", &["audit_log::many_at_once_write_one_chain"], |it| {
            it.audit = Box::new(|(entries, _)| entries.retain(|entry| entry.number < 40));
        }),
        control(
            "cuts long texts",
            &["audit_log::a_text_that_is_too_long_is_refused_with_its_action"],
            |it| {
                it.action = Box::new(|action| action.reason.truncate(9));
            },
        ),
        control(
            "forgets settings",
            &[
                "settings::a_setting_has_the_last_value_and_can_be_removed",
                "restarts::settings_and_the_audit_log_survive",
            ],
            |it| {
                it.value = Box::new(|value| *value = None);
            },
        ),
    ]
}
