//! The only list of cases, so that tests, controls and functions cannot drift apart: a function that is
//! missing here is dead code, and a listed case without a function does not compile.

use std::{fmt, pin::Pin};

use crate::{case::Case, cases, needs, needs::Need};

/// A case of the list.
pub struct Listed {
    /// The subject of the case.
    pub subject: &'static str,
    /// The name of the case: the promise that it checks.
    pub name: &'static str,
    pub(crate) needs: &'static [Need],
    pub(crate) case: fn(Case) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.subject, self.name)
    }
}

/// Every case.
pub fn all() -> Vec<Listed> {
    macro_rules! listed {
        ($($subject:ident { $($case:ident $(if $need:ident $(and $more:ident)*)?,)* })*) => {
            vec![$($(Listed {
                subject: stringify!($subject),
                name: stringify!($case),
                needs: &[$(needs::$need, $(needs::$more,)*)?],
                case: |case| Box::pin(cases::$subject::$case(case)),
            },)*)*]
        };
    }
    crate::for_each_case!([listed])
}

/// Generates a test for every case, in one module per subject.
///
/// Takes an async function without arguments that creates a fresh [`Harness`](crate::Harness).
/// Attributes before it, such as `#[ignore = "needs a broker"]`, are added to every test.
#[macro_export]
macro_rules! suite {
    // A path, because an expression could begin with an attribute of its own.
    ($(#[$attribute:meta])* $harness:path) => {
        $crate::for_each_case!([$crate::suite_modules] { [$(#[$attribute])*] $harness });
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! suite_modules {
    (
        { $attributes:tt $harness:expr }
        $($subject:ident { $($case:ident $(if $need:ident $(and $more:ident)*)?,)* })*
    ) => {
        $(mod $subject {
            #[allow(unused_imports, reason = "the harness may be named by a full path")]
            use super::*;
            $($crate::suite_case! { $attributes $harness, $subject, $case })*
        })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! suite_case {
    ([$(#[$attribute:meta])*] $harness:expr, $subject:ident, $case:ident) => {
        #[test]
        $(#[$attribute])*
        fn $case() {
            $crate::check(stringify!($subject), stringify!($case), $harness);
        }
    };
}

/// Passes the list to the macro named in brackets, after the other arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_case {
    ([$($then:tt)+] $($first:tt)*) => { $($then)+! { $($first)*
        sending {
            a_message_arrives_as_it_was_sent,
            a_batch_has_one_result_for_each_message,
            an_empty_batch_has_no_results,
            a_large_batch_arrives_whole,
            messages_arrive_in_the_order_of_sending if ordering,
            a_message_id_may_repeat,
            queues_are_separate,
            a_topic_is_refused_where_there_are_none if no_topics,
            receive_gives_no_more_than_asked_for,
            receive_gives_what_is_there_when_asked_for_more,
            a_receive_ends_with_its_bytes,
        }
        once {
            the_same_id_is_accepted_once if deduplication,
            a_repetition_is_reported_as_one if deduplication,
            the_same_id_with_another_body_is_a_conflict if deduplication,
            a_repetition_after_the_message_is_done_is_still_one if deduplication,
            the_same_id_is_accepted_again_after_its_time if deduplication,
            another_queue_may_have_the_same_id if deduplication,
            a_replayed_message_is_no_repetition if deduplication,
        }
        envelope {
            every_field_comes_back,
            absent_fields_stay_absent,
            names_of_any_script_come_back,
            names_of_full_length_come_back,
            times_keep_their_milliseconds,
            an_expiry_stays_with_its_message if time_to_live,
            a_ledger_is_sent_with_its_message,
            a_history_is_kept_whatever_the_counts_say,
        }
        bodies {
            an_empty_body_comes_back,
            a_single_byte_comes_back,
            every_byte_value_comes_back,
            text_that_is_not_utf_8_comes_back,
            a_body_that_looks_encoded_is_left_as_it_is,
            a_body_of_the_greatest_size_comes_back,
            one_byte_more_is_refused_with_all_that_matters,
            a_refused_message_does_not_hinder_its_batch,
            a_body_of_the_greatest_size_can_be_retried_and_set_aside,
        }
        headers {
            an_empty_value_comes_back,
            names_of_any_script_come_back,
            control_characters_and_quotes_come_back,
            names_that_differ_only_in_case_are_kept_apart,
            names_like_our_own_come_back,
            many_headers_come_back,
            long_headers_come_back,
            headers_beyond_the_limit_are_refused,
            a_header_without_a_name_is_refused,
        }
        waiting {
            receive_on_an_empty_queue_ends_with_its_wait,
            a_waiting_receive_finds_what_is_sent_meanwhile,
            a_waiting_receive_wakes_when_a_message_is_sent if wakes,
            a_waiting_receive_wakes_when_a_message_is_handed_back if wakes,
            a_waiting_receive_wakes_when_a_delay_ends if scheduled,
            a_waiting_receive_wakes_when_a_lease_ends if expiry,
            an_endless_wait_is_no_error,
        }
        delays {
            a_delayed_message_is_not_early if scheduled,
            delayed_messages_come_each_at_its_time if scheduled,
            messages_that_are_due_come_in_the_order_of_their_times if scheduled and ordering,
            a_long_delay_does_not_hold_up_a_short_one if scheduled,
            a_delay_does_not_hold_up_what_is_ready if scheduled,
            the_longest_declared_delay_is_accepted if scheduled,
            a_delay_beyond_the_limit_is_refused,
            a_retry_is_not_early if scheduled,
            a_long_retry_does_not_hold_up_a_short_one if scheduled,
            a_released_message_is_not_early if scheduled,
            an_endless_retry_is_kept if scheduled,
        }
        ordering {
            later_messages_of_a_key_wait if ordering_keys,
            a_batch_of_one_key_is_handed_out_one_at_a_time if ordering_keys,
            a_retry_keeps_its_place if ordering_keys and scheduled,
            a_dead_letter_lets_the_next_message_go if ordering_keys,
            a_lost_lease_keeps_the_place if ordering_keys and expiry,
            keys_do_not_wait_for_each_other if ordering_keys,
            a_key_is_of_its_queue if ordering_keys,
            a_delay_holds_up_its_key if ordering_keys and scheduled,
            a_replayed_message_joins_at_the_end_of_its_key if ordering_keys,
            depth_counts_what_waits_for_its_key_as_delayed if ordering_keys,
            what_is_not_kept_is_refused,
        }
        leases {
            a_held_message_is_hidden_from_others,
            a_delivery_says_when_its_lease_ends,
            a_receive_gives_a_message_once_however_short_its_lease if expiry,
            expired_lease_returns_the_message if expiry,
            an_expired_lease_nobody_took_over_can_be_settled if expiry,
            the_shortest_and_the_longest_lease_are_accepted if expiry,
            the_receipt_decides_and_not_the_end_of_the_lease,
            renewal_holds_a_message_beyond_its_first_lease if expiry,
            an_extension_counts_from_now if expiry,
            an_extended_delivery_can_be_settled,
            extending_after_loss_is_refused if expiry and fencing,
            extending_after_settlement_is_refused if fencing,
            a_held_message_does_not_hold_up_others,
            several_leases_are_renewed_at_once if expiry,
            a_renewal_has_one_result_for_each_delivery_in_order if fencing,
            a_renewal_whose_answer_was_lost_leaves_the_lease_ours if expiry,
        }
        settlement {
            complete_removes_the_message,
            retry_returns_the_message,
            release_returns_the_message,
            dead_letter_sets_the_message_aside,
            a_batch_has_one_result_for_each_delivery_in_order if fencing,
            an_empty_batch_has_no_results,
            a_second_settlement_is_refused if fencing,
            a_delivery_twice_in_a_batch_is_settled_once if fencing,
            a_stale_complete_changes_nothing if expiry and fencing,
            a_stale_retry_changes_nothing if expiry and fencing,
            a_stale_dead_letter_changes_nothing if expiry and fencing,
            a_stale_release_changes_nothing if expiry and fencing,
            a_settlement_leaves_neighbours_alone,
        }
        attempts {
            an_acquisition_is_counted_before_the_handler_runs if counting,
            an_acquisition_without_settlement_stays_counted if expiry and counting,
            a_failure_is_counted_and_remembered,
            a_release_is_counted_and_is_no_failure,
            tries_of_one_attempt_share_its_number,
            an_attempt_without_a_run_counts_nothing,
            every_kind_of_failure_comes_back,
            the_longest_detail_comes_back,
            a_long_history_is_bounded,
            what_may_have_been_worked_on_unnoticed_is_redelivered if expiry and counting,
            what_was_sent_is_unchanged_by_retries,
            uncounted_failures_are_summed_up_and_use_no_retry,
            an_uncounted_failure_returns_after_its_delay if scheduled,
            a_dead_letter_keeps_the_summary_and_a_replay_forgets_it,
            an_outcome_clears_acquisitions_without_one if expiry and counting,
        }
        dead_letters {
            reason_and_time_are_kept,
            everything_sent_is_kept,
            the_ledger_is_kept,
            pages_are_complete_and_in_order if access,
            a_page_beyond_the_end_is_empty if access,
            pages_continue_after_a_letter_that_is_gone if access,
            listing_changes_nothing if access,
            access_to_an_unknown_queue_is_refused if access,
            the_same_message_id_is_kept_twice,
            letters_of_the_same_message_id_are_told_apart if access,
            an_id_is_never_given_twice,
            a_dead_letter_is_not_delivered,
        }
        replay {
            replayed_messages_are_delivered_once,
            only_the_chosen_are_replayed if access,
            a_second_replay_finds_nothing if access,
            unknown_ids_are_ignored if access,
            an_id_named_twice_is_replayed_once if access,
            the_ids_of_another_queue_are_ignored if access,
            hundreds_are_replayed_by_their_ids if access,
            a_replayed_message_is_a_new_generation,
            a_replayed_message_can_die_again,
            everything_sent_comes_back,
            only_the_chosen_are_discarded if access,
            a_discard_of_all_leaves_none_and_touches_nothing_else,
            a_discard_ignores_unknown_ids if access,
        }
        admin {
            depth_follows_a_message_through_its_life,
            depth_counts_an_expired_lease_as_ready if expiry,
            depth_counts_a_delay_that_has_ended_as_ready if scheduled,
            the_oldest_ready_message_tells_its_age if scheduled,
            the_age_of_a_returned_message_begins_with_its_return if expiry,
            the_oldest_dead_letter_tells_its_age,
            provisioning_again_keeps_everything,
            queues_are_listed_by_name,
            a_sound_queue_has_no_findings,
            a_missing_queue_is_found_and_not_made,
            sending_to_an_unknown_queue_is_refused,
            opening_an_unknown_queue_is_refused,
            the_depth_of_an_unknown_queue_is_refused,
            dead_letters_are_offered_as_declared,
        }
        feed {
            a_feed_hands_out_every_letter_once if feed,
            a_letter_in_a_feed_is_whole if feed,
            an_empty_feed_ends_with_its_wait if feed,
            a_waiting_feed_finds_what_dies_meanwhile if feed,
            a_feed_hands_out_no_more_than_asked_for if feed,
            reading_a_feed_removes_nothing if feed,
            what_was_not_removed_is_handed_out_by_the_next_feed if feed,
            removed_letters_are_gone if feed,
            removing_unknown_ids_changes_nothing if feed,
            two_feeds_share_the_letters if feed,
            a_replayed_letter_is_delivered_with_its_ledger if feed,
            a_replay_leaves_the_letter_until_it_is_removed if feed,
            a_replay_has_one_result_for_each_message if feed,
            a_dropped_next_loses_nothing if feed,
            feeds_of_queues_are_separate if feed,
            opening_a_feed_of_an_unknown_queue_is_refused if feed,
        }
        concurrency {
            many_receivers_get_each_message_once,
            many_senders_lose_nothing,
            senders_and_receivers_get_along,
            one_subscription_serves_many_receivers,
            one_of_many_settlements_wins if fencing,
            one_of_many_replays_wins if single_copy and access,
        }
        cancellation {
            dropped_receives_lose_nothing,
            dropped_receives_count_nothing if exact_counting,
            a_dropped_wait_takes_nothing,
            a_wait_dropped_while_sending_loses_nothing,
            a_dropped_send_is_whole_or_nothing,
            a_dropped_settlement_is_done_or_not if expiry,
            a_dropped_renewal_leaves_the_lease_ours if expiry,
            closing_gives_back_what_was_not_handed_out,
        }
        restart {
            ready_messages_survive if durable,
            ordering_keys_survive if durable and ordering_keys,
            delayed_messages_survive if durable and scheduled,
            leases_survive if durable and expiry,
            a_settlement_before_the_restart_stands if durable,
            a_receipt_from_before_the_restart_is_stale_once_taken_over if durable and expiry and fencing,
            ledgers_survive if durable,
            dead_letters_survive if durable,
            ids_of_dead_letters_are_not_given_again if durable,
            empty_queues_survive if durable,
        }
    }};
}
