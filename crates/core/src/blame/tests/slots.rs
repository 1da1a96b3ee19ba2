//! How many calls run at a time.

use super::*;

#[test]
fn an_endpoint_that_asks_to_wait_gets_half_as_many_calls_and_then_one_more_at_a_time() {
    let mut sim = Sim::new();
    let calls: Vec<_> = (0..16).map(|key| sim.enter(key)).collect();
    sim.pass(SECOND);
    sim.call_ends(calls, THROTTLED);
    assert_eq!(sim.blame.limit.current(), 8, "calls that ran together halve the limit once");
    sim.pass(60 * SECOND);
    for (key, expected) in [(20, 4), (21, 2), (22, 1), (23, 1)] {
        sim.blame.breaker.life(sim.moment());
        sim.call(key, THROTTLED);
        assert_eq!(sim.blame.limit.current(), expected);
    }
    let only = sim.enter(30);
    assert_eq!(sim.try_enter(fresh(31)).unwrap_err(), SOON);
    assert_eq!(sim.admit(), Admission::WaitForCall);
    sim.blame.abandon(only);
    for (successes, expected) in [(1, 2), (2, 3), (3, 4), (200, 16)] {
        for key in 0..successes {
            sim.call(key, CallOutcome::Done);
        }
        assert_eq!(sim.blame.limit.current(), expected);
    }
}

#[test]
fn messages_that_timed_out_before_use_half_of_the_slots() {
    let mut sim = Sim::with_concurrency(5);
    let slow = |key| MessageFacts { timed_out: true, ..fresh(key) };
    let first = sim.try_enter(slow(1)).unwrap();
    let _second = sim.try_enter(slow(2)).unwrap();
    assert_eq!(sim.try_enter(slow(3)).unwrap_err(), SECOND);
    let _other = sim.enter(4);
    sim.leave(first, CallOutcome::Failed);
    let _third = sim.try_enter(slow(3)).unwrap();
}

#[test]
fn with_one_slot_slow_messages_yield_once() {
    let mut sim = Sim::with_concurrency(1);
    let slow = MessageFacts { timed_out: true, ..fresh(1) };
    for _ in 0..3 {
        assert_eq!(sim.try_enter(slow).unwrap_err(), SECOND);
        let call = sim.try_enter(slow).unwrap();
        sim.leave(call, CallOutcome::Failed);
    }
}

impl Sim {
    fn call_ends(&mut self, calls: Vec<Call>, outcome: CallOutcome) {
        for call in calls {
            self.leave(call, outcome);
        }
    }
}
