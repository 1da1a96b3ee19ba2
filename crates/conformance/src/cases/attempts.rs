//! Attempts are counted before the handler runs, and remembered.

use std::time::Duration;

use bezoar_core::{
    Code, Counting, DETAIL_LIMIT_BYTES, DeadLetterIds, Detail, FailedTry, FailureKind,
    HISTORY_LIMIT, Ledger, Settlement, UncountedFailure, millis,
};

use crate::{
    case::Case,
    samples::{assert_as_sent, dead_letter, failed_try, full_message, message, release, retry},
    worker::Worker,
};

/// More bytes than an encoded sample try takes.
const TRY_BYTES: usize = 512;

fn retry_with(tries: Vec<FailedTry>) -> Settlement {
    Settlement::Retry { after: Duration::ZERO, tries }
}

/// The ledger after one more failed attempt.
async fn after_failing(worker: &Worker, tries: Vec<FailedTry>) -> Ledger {
    worker.settle(worker.one().await, retry_with(tries)).await;
    let again = worker.one().await;
    let ledger = again.message.ledger.clone();
    worker.complete(vec![again]).await;
    ledger
}

pub(crate) async fn an_acquisition_is_counted_before_the_handler_runs(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    for acquired in 1..=3 {
        let held = worker.one().await;
        let counted = held.message.ledger.acquired;
        match case.can().acquired {
            Counting::Exact => assert_eq!(counted, acquired, "the current acquisition is counted"),
            _ => assert!(counted >= acquired, "counted {counted} of {acquired} acquisitions"),
        }
        worker.settle(held, retry(Duration::ZERO)).await;
    }
}

pub(crate) async fn an_acquisition_without_settlement_stays_counted(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    for acquired in 1..=4 {
        let ledger = worker.one().await.message.ledger.clone();
        assert!(ledger.acquired >= acquired, "the acquisition of a worker that died stays counted");
        assert_eq!((ledger.failed, ledger.released), (0, 0), "a lost lease is not a failure");
        if case.counts_exactly() {
            assert_eq!(ledger.acquired, acquired, "no acquisition is counted twice");
        }
        case.outlast_leases().await;
    }
}

pub(crate) async fn a_failure_is_counted_and_remembered(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let mut expected = Ledger::default();
    for number in 1..=3 {
        worker.settle(worker.one().await, retry_with(vec![failed_try(number)])).await;
        expected.fail(vec![failed_try(number)]);
    }
    let ledger = worker.one().await.message.ledger.clone();
    assert_eq!((ledger.failed, ledger.released), (3, 0), "each failed attempt counts one failure");
    assert_eq!(ledger.history(), expected.history(), "each failed attempt is remembered");
}

pub(crate) async fn a_release_is_counted_and_is_no_failure(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    for _ in 0..3 {
        worker.settle(worker.one().await, release(Duration::ZERO)).await;
    }
    let ledger = worker.one().await.message.ledger.clone();
    assert_eq!(ledger.failed, 0, "a release uses up no retry");
    assert_eq!(ledger.released, 3, "each release is counted");
    assert!(ledger.history().is_empty(), "a release is not an attempt");
}

pub(crate) async fn tries_of_one_attempt_share_its_number(case: Case) {
    case.send(message("m")).await;
    let ledger =
        after_failing(&case.worker().await, vec![failed_try(5), failed_try(6), failed_try(7)])
            .await;
    assert_eq!(ledger.failed, 1, "tries of one attempt are one failure");
    let places: Vec<_> =
        ledger.history().iter().map(|it| (it.generation, it.attempt, it.try_number)).collect();
    assert_eq!(places, [(0, 1, 1), (0, 1, 2), (0, 1, 3)], "each try is remembered in its place");
}

pub(crate) async fn an_attempt_without_a_run_counts_nothing(case: Case) {
    case.send(message("m")).await;
    let ledger = after_failing(&case.worker().await, Vec::new()).await;
    assert_eq!((ledger.failed, ledger.history().len()), (0, 0), "no handler ran, so none failed");
}

pub(crate) async fn every_kind_of_failure_comes_back(case: Case) {
    case.send(message("m")).await;
    let tries = FailureKind::ALL.iter().map(|&kind| FailedTry { kind, ..failed_try(1) });
    let ledger = after_failing(&case.worker().await, tries.collect()).await;
    let kinds: Vec<_> = ledger.history().iter().map(|attempt| attempt.kind).collect();
    assert_eq!(kinds, FailureKind::ALL, "the kind of each failure is kept");
}

pub(crate) async fn the_longest_detail_comes_back(case: Case) {
    case.send(message("m")).await;
    let longest = DETAIL_LIMIT_BYTES.min(case.room_bytes());
    let detail = Detail::truncated("é".repeat(longest / "é".len()));
    let tries = vec![FailedTry { detail: detail.clone(), ..failed_try(1) }];
    let ledger = after_failing(&case.worker().await, tries).await;
    assert_eq!(ledger.history()[0].detail, detail, "a detail within its limit is kept whole");
}

pub(crate) async fn a_long_history_is_bounded(case: Case) {
    case.send(message("m")).await;
    let (worker, failures) = (case.worker().await, HISTORY_LIMIT as u32 + 8);
    for number in 0..i64::from(failures) {
        worker.settle(worker.one().await, retry_with(vec![failed_try(number)])).await;
    }
    let ledger = worker.one().await.message.ledger.clone();
    assert_eq!(ledger.failed, failures, "every failure is counted");
    assert!(ledger.history().len() <= HISTORY_LIMIT, "a bounded number is remembered");
    if case.room_bytes() >= HISTORY_LIMIT * TRY_BYTES {
        assert_eq!(ledger.history().len(), HISTORY_LIMIT, "the history is filled to its limit");
        assert_eq!(ledger.history()[0].attempt, 1, "the first attempt is remembered");
    }
    assert_eq!(
        ledger.last().map(|it| it.attempt),
        Some(failures),
        "the last attempt is remembered"
    );
}

pub(crate) async fn what_may_have_been_worked_on_unnoticed_is_redelivered(case: Case) {
    case.send_all([message("failed"), message("released"), message("lost")]).await;
    let worker = case.worker().await;
    for held in worker.take(3).await {
        assert!(!held.redelivered, "this is its first delivery");
        match held.message.id.as_str() {
            "failed" => worker.settle(held, retry(Duration::ZERO)).await,
            "released" => worker.settle(held, release(Duration::ZERO)).await,
            _ => (),
        }
    }
    case.outlast_leases().await;
    for held in worker.take(3).await {
        let unnoticed = held.message.id.as_str() != "failed";
        assert_eq!(held.redelivered, unnoticed, "{} before", held.message.id);
    }
}

pub(crate) async fn what_was_sent_is_unchanged_by_retries(case: Case) {
    case.send(full_message("m")).await;
    let worker = case.worker().await;
    for number in 0..3 {
        let held = worker.one().await;
        assert_as_sent(&held.message, &full_message("m"));
        worker.settle(held, retry_with(vec![failed_try(number)])).await;
    }
}

fn uncounted(second: i64, suspected: bool) -> UncountedFailure {
    let at = millis(1_700_000_000_000 + second * 1_001);
    let (code, waited) = (Code::from_static("http.503"), Duration::from_millis(1_001));
    UncountedFailure { at, code, suspected, waited }
}

pub(crate) async fn uncounted_failures_are_summed_up_and_use_no_retry(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let mut expected = Ledger::default();
    for second in 0..3 {
        let failure = uncounted(second, second > 0);
        expected.fail_uncounted(&failure);
        let after = Duration::ZERO;
        worker.settle(worker.one().await, Settlement::Uncounted { after, failure }).await;
    }
    let ledger = worker.one().await.message.ledger.clone();
    assert_eq!(ledger.uncounted, expected.uncounted, "the summary is kept");
    assert_eq!((ledger.failed, ledger.history().len()), (0, 0), "no retry is used up");
}

pub(crate) async fn an_uncounted_failure_returns_after_its_delay(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let (after, failure) = (case.ticks(3), uncounted(1, false));
    worker.settle(worker.one().await, Settlement::Uncounted { after, failure }).await;
    worker.none("a message is not delivered early").await;
    case.elapse(4).await;
    worker.one().await;
}

pub(crate) async fn a_dead_letter_keeps_the_summary_and_a_replay_forgets_it(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let (after, failure) = (Duration::ZERO, uncounted(1, true));
    worker.settle(worker.one().await, Settlement::Uncounted { after, failure }).await;
    worker.settle(worker.one().await, dead_letter()).await;
    let dead = case.dead().await;
    let summary = dead[0].message.ledger.uncounted.as_ref();
    assert_eq!(summary.map(|it| it.suspected), Some(1), "a dead letter keeps the summary");
    case.replay(DeadLetterIds::All).await;
    let ledger = &worker.one().await.message.ledger;
    assert_eq!(ledger.uncounted, None, "the summary belongs to one generation");
}

pub(crate) async fn an_outcome_clears_acquisitions_without_one(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    for _ in 0..2 {
        worker.one().await;
        case.outlast_leases().await;
    }
    let held = worker.one().await;
    assert!(held.message.ledger.without_outcome() >= 3, "two leases were lost, one is current");
    worker.settle(held, retry(Duration::ZERO)).await;
    let ledger = worker.one().await.message.ledger.clone();
    assert_eq!(ledger.without_outcome(), 1, "only the current acquisition is without an outcome");
}
