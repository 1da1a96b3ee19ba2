//! When the breaker opens, how it probes and when it closes.

use super::*;

const EVIDENCE: [CallOutcome; 6] = [
    THROTTLED,
    CallOutcome::Unsent,
    AMBIGUOUS,
    CallOutcome::Misdirected,
    CallOutcome::Unacknowledged,
    CallOutcome::Failed,
];

#[test]
fn distinct_messages_open_it_and_one_message_never_does() {
    for outcome in EVIDENCE {
        let mut sim = Sim::new();
        for _ in 0..50 {
            sim.call(1, outcome);
        }
        assert_eq!(sim.state(), BreakerState::Closed, "{outcome:?}");
        for key in 2..6 {
            sim.call(key, outcome);
        }
        assert_eq!(sim.state(), BreakerState::Open, "{outcome:?}");
        assert_eq!((sim.status().code, sim.status().messages), (Some(CODE), 5));
    }
    let mut sim = Sim::new();
    for (outcome, key) in EVIDENCE.into_iter().zip(1..6) {
        sim.call(key, outcome);
    }
    assert_eq!(sim.state(), BreakerState::Open, "evidence of any kind adds up");
}

#[test]
fn without_acknowledgements_there_is_one_probe_and_the_pauses_grow_further() {
    let mut sim = Sim::new();
    sim.open_by(CallOutcome::Unacknowledged);
    let mut pauses = Vec::new();
    for key in 200..212 {
        pauses.push(sim.status().next_probe.as_secs());
        sim.pass(sim.status().next_probe);
        assert_eq!(sim.admit(), up_to(1));
        sim.call(key, CallOutcome::Unacknowledged);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    // As soon as the endpoint fails in another way, the usual limit applies.
    sim.pass(sim.status().next_probe);
    sim.call(300, AMBIGUOUS);
    assert_eq!(sim.status().next_probe, 15 * SECOND);
}

#[test]
fn without_a_breaker_nothing_opens() {
    let mut sim = Sim::without_breaker();
    for key in 0..50 {
        sim.call(key, CallOutcome::Failed);
    }
    assert_eq!((sim.state(), sim.admit()), (BreakerState::Closed, ANY_NUMBER));
}

#[test]
fn a_sign_of_life_clears_the_evidence_and_closes() {
    for life in [CallOutcome::Done, CallOutcome::Answered] {
        let mut sim = Sim::new();
        for key in 0..4 {
            sim.call(key, CallOutcome::Failed);
        }
        sim.call(10, life);
        for key in 20..24 {
            sim.call(key, CallOutcome::Failed);
        }
        assert_eq!(sim.state(), BreakerState::Closed);
        sim.call(24, CallOutcome::Failed);
        assert_eq!(sim.state(), BreakerState::Open);
        sim.pass(SECOND);
        sim.call(30, life);
        assert_eq!((sim.state(), sim.admit()), (BreakerState::Closed, ANY_NUMBER));
    }
}

#[test]
fn a_call_that_started_before_a_sign_of_life_is_not_evidence() {
    let mut sim = Sim::new();
    let calls: Vec<_> = (0..10).map(|key| sim.enter(key)).collect();
    sim.pass(SECOND);
    sim.call(20, CallOutcome::Done);
    for call in calls {
        sim.leave(call, CallOutcome::Failed);
    }
    assert_eq!(sim.state(), BreakerState::Closed);
}

#[test]
fn poison_messages_retried_together_among_successes_do_not_open_it() {
    let mut sim = Sim::new();
    let failed = sim.moment().wall;
    sim.pass(SECOND);
    sim.call(20, CallOutcome::Done);
    sim.pass(SECOND);
    for key in 0..10 {
        let again = MessageFacts { last_failure_at: Some(failed), ..fresh(key) };
        let call = sim.try_enter(again).unwrap();
        assert_eq!(sim.leave(call, CallOutcome::Failed), Judgement::Counts);
    }
    assert_eq!(sim.state(), BreakerState::Closed);
}

#[test]
fn the_pause_doubles_up_to_its_limit_and_is_reset_by_a_sign_of_life() {
    let mut sim = Sim::new();
    let mut key = 1_000;
    for _ in 0..2 {
        sim.open_by(CallOutcome::Failed);
        for seconds in [1, 2, 4, 8, 15, 15] {
            assert_eq!(sim.admit(), Admission::Wait(seconds * SECOND));
            sim.pass(seconds * SECOND);
            for _ in 0..5 {
                key += 1;
                sim.call(key, CallOutcome::Failed);
            }
        }
        sim.pass(15 * SECOND);
        sim.call(1, CallOutcome::Done);
        sim.pass(SECOND);
    }
}

#[test]
fn jitter_adds_up_to_a_tenth_and_the_endpoint_can_ask_for_more() {
    let mut sim = Sim::new();
    for key in 0..5 {
        let call = sim.enter(key);
        let _ = sim.blame.leave(call, CallOutcome::Failed, &CODE, sim.moment(), 0.5);
    }
    assert_eq!(sim.status().next_probe, Duration::from_millis(1_050));

    let mut sim = Sim::new();
    sim.open_by(CallOutcome::Throttled { after: Some(30 * SECOND) });
    assert!(sim.status().next_probe > 29 * SECOND);
    sim.pass(30 * SECOND);
    for key in 0..5 {
        sim.call(key, CallOutcome::Throttled { after: Some(Duration::from_secs(1 << 40)) });
    }
    assert_eq!(sim.status().next_probe, Duration::from_secs(86_400), "a day at most");
}

#[test]
fn a_round_has_five_probes_or_one_if_each_may_do_damage() {
    for (outcome, probes) in EVIDENCE.into_iter().zip([5, 5, 1, 1, 1, 5]) {
        let mut sim = Sim::new();
        sim.open_by(outcome);
        assert!(sim.try_enter(fresh(1)).is_err(), "admitted before the pause is over");
        sim.pass(SECOND);
        assert_eq!(sim.admit(), up_to(probes.min(sim.blame.limit.current())), "{outcome:?}");
    }
    let mut sim = Sim::new();
    sim.open_by(CallOutcome::Failed);
    sim.pass(SECOND);
    let calls: Vec<_> = (1..=5).map(|key| sim.enter(key)).collect();
    assert_eq!((sim.admit(), sim.state()), (Admission::WaitForCall, BreakerState::HalfOpen));
    assert!(sim.try_enter(fresh(6)).is_err());
    for call in calls {
        assert_eq!(sim.state(), BreakerState::HalfOpen);
        sim.leave(call, CallOutcome::Failed);
    }
    assert_eq!(sim.admit(), Admission::Wait(2 * SECOND));
}

#[test]
fn a_round_uses_one_probe_if_the_previous_round_calls_for_care() {
    let mut sim = Sim::new();
    sim.open_by(AMBIGUOUS);
    sim.pass(SECOND);
    sim.call(1, AMBIGUOUS);
    sim.pass(2 * SECOND);
    assert_eq!(sim.admit(), up_to(1));
    sim.call(2, CallOutcome::Failed);
    sim.pass(4 * SECOND);
    assert_eq!(sim.admit(), up_to(5), "each poison message must not cost a pause");
    for (key, outcome) in (3..).zip([CallOutcome::Failed, AMBIGUOUS, CallOutcome::Failed]) {
        sim.call(key, outcome);
    }
    sim.call(6, CallOutcome::Failed);
    sim.call(7, CallOutcome::Failed);
    sim.pass(8 * SECOND);
    assert_eq!(sim.admit(), up_to(1));
}

#[test]
fn an_abandoned_probe_leaves_its_place_to_another_message() {
    let mut sim = Sim::new();
    sim.open_by(AMBIGUOUS);
    sim.pass(SECOND);
    let call = sim.enter(1);
    assert_eq!(sim.admit(), Admission::WaitForCall);
    sim.blame.abandon(call);
    assert_eq!(sim.admit(), up_to(1));
    sim.call(2, AMBIGUOUS);
    assert_eq!(sim.admit(), Admission::Wait(2 * SECOND));
}

#[test]
fn tried_messages_yield_once_in_each_round() {
    let mut sim = Sim::new();
    sim.open_by(CallOutcome::Failed);
    sim.pass(SECOND);
    assert_eq!(sim.try_enter(fresh(100)).unwrap_err(), SOON);
    let untried = sim.enter(1);
    let tried = sim.enter(100);
    sim.leave(untried, CallOutcome::Failed);
    sim.leave(tried, CallOutcome::Failed);
    assert_eq!(sim.try_enter(fresh(100)).unwrap_err(), 2 * SOON, "it has one try more");
    for key in 2..5 {
        sim.call(key, CallOutcome::Failed);
    }
    sim.pass(2 * SECOND);
    assert_eq!(sim.try_enter(fresh(1)).unwrap_err(), SOON, "a new round");
    let _passed = sim.enter(1);
}

#[test]
fn calls_that_were_in_flight_when_it_opened_do_not_lengthen_the_pause() {
    let mut sim = Sim::new();
    let calls: Vec<_> = (0..11).map(|key| sim.enter(key)).collect();
    sim.open_by(CallOutcome::Failed);
    let next = sim.status().next_probe;
    for call in calls {
        assert_eq!(sim.leave(call, CallOutcome::Failed), Judgement::Counts);
    }
    assert_eq!(sim.status().next_probe, next);
}

#[test]
fn routes_to_the_same_host_share_whether_it_is_reachable() {
    let mut sim = Sim::new();
    for key in 0..5 {
        sim.blame.unsent_elsewhere((key, sim.now()), &CODE, sim.now(), 0.0);
    }
    assert_eq!((sim.state(), sim.admit()), (BreakerState::Open, Admission::Wait(SECOND)));
    sim.blame.reachable(sim.now());
    assert_eq!((sim.state(), sim.admit()), (BreakerState::Open, up_to(5)));

    let mut sim = Sim::new();
    sim.open_by(CallOutcome::Failed);
    sim.blame.reachable(sim.now());
    assert!(
        matches!(sim.admit(), Admission::Wait(_)),
        "being reachable says nothing about failures"
    );
}

#[test]
fn an_operator_can_probe_at_once() {
    let mut sim = Sim::new();
    sim.blame.probe_now(sim.now());
    sim.open_by(CallOutcome::Throttled { after: Some(Duration::from_secs(3_600)) });
    sim.pass(SECOND);
    sim.blame.probe_now(sim.now());
    assert!(matches!(sim.admit(), Admission::UpTo(_)));
    assert_eq!(sim.status().open_for, SECOND);
}
