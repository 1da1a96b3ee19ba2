//! The only list of cases for catalogues, like `../list.rs` for transports.

use std::{fmt, pin::Pin, time::Duration};

use tokio::{runtime::Builder, time::timeout};

use super::{CatalogueHarness, cases, store::Store};

/// A case of the list for catalogues.
pub struct CatalogueCase {
    /// The subject of the case.
    pub subject: &'static str,
    /// The name of the case: the promise that it checks.
    pub name: &'static str,
    case: fn(Store) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl fmt::Debug for CatalogueCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.subject, self.name)
    }
}

impl CatalogueCase {
    /// Runs the case against a fresh store.
    ///
    /// # Panics
    ///
    /// If the store breaks the promise, or takes longer than the harness's deadline.
    pub async fn run(&self, harness: Box<dyn CatalogueHarness>) {
        let deadline = harness.deadline();
        let case = async { (self.case)(Store::open(harness).await).await };
        if timeout(deadline, case).await.is_err() {
            panic!("{self:?}: still waiting after {deadline:?}");
        }
    }
}

/// Every case for catalogues.
pub fn catalogue_cases() -> Vec<CatalogueCase> {
    macro_rules! listed {
        ($($subject:ident { $($case:ident,)* })*) => {
            vec![$($(CatalogueCase {
                subject: stringify!($subject),
                name: stringify!($case),
                case: |store| Box::pin(cases::$subject::$case(store)),
            },)*)*]
        };
    }
    crate::for_each_catalogue_case!([listed])
}

/// Runs the case `subject::name` as a test, with a fresh harness. Called by
/// [`catalogue_suite!`](crate::catalogue_suite).
///
/// # Panics
///
/// If the store breaks the promise.
pub fn check_catalogue<H: CatalogueHarness + 'static, F: Future<Output = H>>(
    subject: &str,
    name: &str,
    harness: impl FnOnce() -> F,
) {
    let cases = catalogue_cases();
    let case = cases.iter().find(|case| case.subject == subject && case.name == name);
    let case = case.expect("the suite is generated from the same list");
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("the runtime can start");
    runtime.block_on(async { case.run(Box::new(harness().await)).await });
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// Generates a test for every case for catalogues, in one module per subject.
///
/// Takes an async function without arguments that creates a fresh [`CatalogueHarness`]. Attributes before it, such as
/// `#[ignore = "needs a server"]`, are added to every test.
#[macro_export]
macro_rules! catalogue_suite {
    // A path, because an expression could begin with an attribute of its own.
    ($(#[$attribute:meta])* $harness:path) => {
        $crate::for_each_catalogue_case!([$crate::catalogue_suite_modules] { [$(#[$attribute])*] $harness });
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! catalogue_suite_modules {
    ({ $attributes:tt $harness:expr } $($subject:ident { $($case:ident,)* })*) => {
        $(mod $subject {
            #[allow(unused_imports, reason = "the harness may be named by a full path")]
            use super::*;
            $($crate::catalogue_suite_case! { $attributes $harness, $subject, $case })*
        })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! catalogue_suite_case {
    ([$(#[$attribute:meta])*] $harness:expr, $subject:ident, $case:ident) => {
        #[test]
        $(#[$attribute])*
        fn $case() {
            $crate::check_catalogue(stringify!($subject), stringify!($case), $harness);
        }
    };
}

/// Passes the list to the macro named in brackets, after the other arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_catalogue_case {
    ([$($then:tt)+] $($first:tt)*) => { $($then)+! { $($first)*
        lists {
            a_summary_says_what_happened,
            every_filter_finds_what_matches_and_counts_it,
            pages_are_complete_and_newest_first,
            a_page_goes_on_where_its_last_letter_was_even_if_that_is_gone,
            a_page_of_none_or_too_many_is_bounded,
            a_record_has_the_message_as_it_was_sent,
            a_record_without_its_body_has_everything_else,
            a_missing_dead_letter_is_named,
            nothing_sensitive_is_shown_by_debug,
            newest_first_is_by_the_time_of_death,
            pages_mix_letters_that_died_here_and_elsewhere,
        }
        causes {
            the_same_failure_is_one_cause_and_the_largest_is_first,
            two_queues_have_two_causes,
            dead_workers_are_a_cause_of_their_own,
            hours_pass,
            a_resolved_cause_regresses_and_keeps_its_note,
            an_empty_note_removes_a_note_and_none_keeps_it,
            an_unknown_cause_cannot_be_marked,
            causes_of_a_time_have_dead_letters_of_that_time,
            a_cause_is_found_by_its_id_after_its_last_dead_letter,
            a_late_arrival_counts_in_the_hour_of_its_death,
        }
        plans {
            what_dies_after_the_plan_does_not_join,
            of_two_plans_at_once_one_gets_each_letter,
            letters_held_by_another_operation_are_named_and_refused,
            letters_held_by_another_operation_can_be_left_out,
            a_missing_id_plans_nothing,
            another_number_than_expected_plans_nothing,
            an_impossible_rate_is_refused,
            an_empty_selection_has_ended_at_once,
            a_discard_takes_everything_that_is_counted,
        }
        requests {
            a_repeated_request_plans_nothing,
            of_equal_requests_at_once_one_plans,
            a_key_of_another_request_is_refused,
            each_actor_has_its_own_keys,
            a_request_that_was_refused_can_be_repeated,
            a_request_is_known_after_a_restart,
        }
        operations {
            a_replay_ends_when_every_outcome_is_known,
            a_discard_removes_letters_and_ends,
            a_replayed_message_keeps_its_id_and_history,
            a_replay_under_new_ids_names_the_old_one,
            a_canary_goes_first_and_the_rest_only_after_it,
            a_failed_canary_holds_the_rest_back,
            a_stopped_operation_says_why_and_goes_on_when_told,
            a_cancelled_replay_frees_what_was_not_sent,
            a_paused_operation_does_nothing_until_it_is_resumed,
            a_command_that_makes_no_sense_is_refused,
            a_missing_operation_is_named,
            operations_are_listed_newest_first_and_running_ones_apart,
            items_are_listed_after_a_place,
            a_replay_wakes_a_waiting_consumer,
        }
        outcomes {
            a_message_that_fails_again_is_a_new_dead_letter,
            a_dead_letter_knows_which_ones_it_was_before,
            a_replayed_dead_letter_says_what_became_of_it,
            a_discarded_dead_letter_says_so,
            a_broker_letter_that_fails_again_knows_which_one_it_was,
            a_retry_in_between_is_no_outcome,
            each_outcome_counts_once_and_for_its_own_replay,
            a_paused_replay_ends_with_its_last_outcome,
            another_messages_success_completes_nothing,
        }
        versions {
            a_version_takes_the_place_of_its_original_which_stays,
            a_version_keeps_the_time_of_death,
            a_version_that_dies_again_is_still_the_version,
            an_edited_original_cannot_be_replayed,
            an_edited_original_can_be_discarded,
            only_the_last_version_can_be_edited,
            discarding_a_version_opens_its_original_again,
            an_unapproved_version_waits_for_somebody_else,
            a_version_of_an_unapproved_one_approves_nothing,
            what_is_taken_or_missing_cannot_be_edited,
            an_edit_that_does_not_fit_is_refused,
        }
        imports {
            an_imported_letter_is_like_any_other,
            an_import_keeps_the_time_of_death,
            the_same_letter_is_imported_once,
            another_letter_under_a_known_stamp_is_a_conflict,
            a_stamp_stands_for_its_letter_after_that_is_gone,
            an_import_creates_missing_queues,
            what_could_not_be_replayed_there_cannot_be_here,
            an_import_beyond_the_limits_adds_nothing,
        }
        expiry {
            old_letters_are_removed_and_young_ones_stay,
            an_expiry_is_audited_only_if_it_removes_something,
            letters_of_an_operation_do_not_expire,
            what_just_arrived_does_not_expire_however_long_it_is_dead,
        }
        broker_intake {
            a_letter_is_taken_in_once_with_everything_it_has,
            another_letter_with_the_same_id_is_not_ignored,
            the_time_of_death_is_kept,
            a_death_in_the_future_is_one_of_now,
            what_was_taken_in_long_ago_is_forgotten,
            a_replay_completes_when_the_broker_says_so,
            a_success_in_another_queue_completes_nothing,
            a_failure_in_another_queue_fails_nothing,
            a_canary_passes_only_by_its_own_success,
            outcomes_find_messages_under_new_ids_and_ignore_strangers,
            one_that_cannot_be_given_back_fails_here,
            an_adopted_queue_changes_no_other,
            an_announced_letter_has_its_reason_and_history,
            an_announced_letter_without_an_id_is_found_by_its_content,
            an_announcement_counts_once_and_not_for_ever,
            what_was_announced_is_found_until_it_is_forgotten,
            a_full_store_takes_nothing_in,
            a_full_store_can_be_emptied,
        }
        recognition {
            a_letter_that_was_stored_and_not_removed_is_taken_in_once,
            equal_letters_that_come_for_the_first_time_are_all_kept,
            as_many_equal_letters_are_recognized_as_were_taken_in,
            a_letter_that_may_have_been_removed_is_kept_and_marked,
            another_letter_is_not_taken_for_one_that_is_known,
            a_letter_that_another_session_took_over_stays_on_the_broker,
            letters_with_an_id_and_without_one_are_not_compared,
            a_letter_that_comes_twice_in_one_session_is_kept_and_marked,
            a_letter_whose_dead_letter_is_gone_is_kept_and_marked,
            a_letter_that_was_replayed_and_died_again_is_another_one,
            a_possible_copy_has_the_reason_of_its_original,
        }
        audit_log {
            every_action_is_in_the_log_once_and_in_order,
            an_entry_has_what_was_said_and_when,
            many_at_once_write_one_chain,
            a_text_that_is_too_long_is_refused_with_its_action,
        }
        settings {
            a_setting_has_the_last_value_and_can_be_removed,
            a_setting_that_is_too_long_is_refused,
            a_store_that_accepts_writes_says_so_and_logs_nothing,
            a_full_store_does_not_accept_writes,
        }
        restarts {
            dead_letters_causes_and_ids_survive,
            a_running_operation_goes_on_where_it_was,
            settings_and_the_audit_log_survive,
            what_was_taken_in_is_still_known,
        }
    }};
}
