//! Whether the message or the endpoint is to blame for a failed call.

use super::*;

#[test]
fn each_outcome_is_judged_alone_without_other_messages() {
    for (outcome, expected) in [
        (CallOutcome::Done, Judgement::Counts),
        (CallOutcome::Answered, Judgement::Counts),
        (THROTTLED, UNCOUNTED),
        (CallOutcome::Unsent, UNCOUNTED),
        (AMBIGUOUS, UNCOUNTED),
        (DROPPED, SUSPECTED),
        (CallOutcome::Misdirected, Judgement::Counts),
        (CallOutcome::Unacknowledged, Judgement::Counts),
        (CallOutcome::Gone, Judgement::PauseRoute),
        (CallOutcome::Failed, Judgement::Counts),
    ] {
        assert_eq!(Sim::new().call(1, outcome), expected, "{outcome:?}");
        assert_eq!(
            Sim::without_breaker().call(1, outcome),
            expected,
            "{outcome:?} without breaker"
        );
    }
}

#[test]
fn a_failed_probe_counts_and_an_unsent_call_never_does() {
    let mut sim = Sim::new();
    sim.open_by(CallOutcome::Failed);
    sim.pass(SECOND);
    assert_eq!(sim.call(1, CallOutcome::Failed), Judgement::Counts);
    assert_eq!(sim.call(2, CallOutcome::Unsent), UNCOUNTED);
    assert_eq!(sim.call(3, THROTTLED), UNCOUNTED);
    for key in 10..20 {
        sim.blame.breaker.life(sim.moment());
        sim.call(key, CallOutcome::Done);
    }
    assert_eq!(sim.call(2, CallOutcome::Unsent), UNCOUNTED, "whatever neighbours do");
}

/// Message 1 fails, other messages have these outcomes, message 1 fails again: checks whether it becomes
/// suspected.
fn check_neighbours(others: &[CallOutcome], expected: Judgement) {
    let mut sim = Sim::without_breaker();
    sim.call(1, AMBIGUOUS);
    for (outcome, key) in others.iter().zip(10..) {
        sim.call(key, *outcome);
    }
    assert_eq!(sim.call(1, AMBIGUOUS), expected, "{others:?}");
}

#[test]
fn successes_of_others_are_evidence_against_a_message_and_their_failures_are_not() {
    use CallOutcome::{Answered, Done, Failed, Unsent};
    check_neighbours(&[], UNCOUNTED);
    check_neighbours(&[Done], SUSPECTED);
    check_neighbours(&[Answered, Answered], UNCOUNTED);
    check_neighbours(&[Done, AMBIGUOUS], UNCOUNTED);
    check_neighbours(&[Done, Unsent], UNCOUNTED);
    check_neighbours(&[Done, Done, Done, Unsent], UNCOUNTED);
    check_neighbours(&[Done, Done, Done, Done, Unsent], SUSPECTED);
    check_neighbours(&[Done, Failed, Failed, Answered, AMBIGUOUS], SUSPECTED);
    check_neighbours(&[Done, Done, Done, Done, Unsent, AMBIGUOUS], UNCOUNTED);
}

#[test]
fn the_first_failure_never_makes_a_message_suspected() {
    let mut sim = Sim::new();
    sim.call(2, CallOutcome::Done);
    sim.call(3, CallOutcome::Done);
    assert_eq!(sim.call(1, AMBIGUOUS), UNCOUNTED);
}

#[test]
fn a_message_is_alone_only_if_no_other_call_overlaps() {
    let mut sim = Sim::new();
    let first = sim.enter(1);
    let second = sim.enter(2);
    assert_eq!(sim.leave(second, DROPPED), UNCOUNTED, "another call was in flight when it started");
    assert_eq!(sim.leave(first, DROPPED), UNCOUNTED, "another call started and ended meanwhile");
    assert_eq!(sim.call(3, DROPPED), SUSPECTED);
}

#[test]
fn a_wrong_credential_or_acknowledgement_costs_as_many_messages_as_open_the_breaker() {
    for outcome in [CallOutcome::Misdirected, CallOutcome::Unacknowledged] {
        let mut sim = Sim::new();
        let calls: Vec<_> = (0..16).map(|key| sim.enter(key)).collect();
        let judged: Vec<_> = calls.into_iter().map(|call| sim.leave(call, outcome)).collect();
        assert_eq!(judged[..5], [Judgement::Counts; 5]);
        assert_eq!(judged[5..], [UNCOUNTED; 11]);
        assert_eq!(sim.state(), BreakerState::Open);
        sim.pass(SECOND);
        assert_eq!(sim.call(20, outcome), UNCOUNTED, "the probe");
        sim.pass(2 * SECOND);
        sim.call(21, CallOutcome::Done);
        assert_eq!(sim.call(22, outcome), Judgement::Counts, "others succeed again");
    }
}

#[test]
fn a_credential_that_expires_under_load_costs_no_more_messages() {
    let mut sim = Sim::new();
    let calls: Vec<_> = (0..15).map(|key| sim.enter(key)).collect();
    sim.call(20, CallOutcome::Done);
    let judged = calls.into_iter().map(|call| sim.leave(call, CallOutcome::Misdirected));
    assert_eq!(judged.filter(|it| *it == Judgement::Counts).count(), 5);
}

#[test]
fn without_a_breaker_a_wrong_credential_always_counts() {
    let mut sim = Sim::without_breaker();
    for key in 0..20 {
        assert_eq!(sim.call(key, CallOutcome::Misdirected), Judgement::Counts);
    }
}

#[test]
fn gone_is_about_the_message_once_something_succeeded() {
    let mut sim = Sim::new();
    sim.call(1, CallOutcome::Answered);
    assert_eq!(sim.call(2, CallOutcome::Gone), Judgement::PauseRoute);
    sim.call(1, CallOutcome::Done);
    assert_eq!(sim.call(2, CallOutcome::Gone), Judgement::Counts);
}

#[test]
fn failures_are_counted_until_the_endpoint_answers() {
    for mut sim in [Sim::new(), Sim::without_breaker()] {
        let calls = |sim: &Sim| sim.blame.streak().map_or(0, |streak| streak.calls);
        assert_eq!(calls(&sim), 0);
        sim.call(1, CallOutcome::Unsent);
        sim.call(1, CallOutcome::Failed);
        assert_eq!(sim.blame.streak(), Some(&FailureStreak { calls: 2, code: CODE }));
        for life in [CallOutcome::Done, CallOutcome::Answered] {
            sim.call(2, CallOutcome::Unsent);
            sim.call(3, life);
            assert_eq!(calls(&sim), 0, "{life:?}");
        }
    }
}
