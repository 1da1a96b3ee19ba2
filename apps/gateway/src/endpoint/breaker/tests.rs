use std::num::NonZeroU32;

use proptest::prelude::*;
use tokio::time::{advance, timeout};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const DOWN: Verdict = Verdict::Down { at_least: Duration::ZERO };

fn options(failures: u32) -> BreakerOptions {
    BreakerOptions {
        failures: NonZeroU32::new(failures).unwrap(),
        first_pause: SECOND,
        longest_pause: 4 * SECOND,
    }
}

/// The rules once more, in words as plain as possible: numbers instead of instants, calls by their number.
#[derive(Debug)]
struct Model {
    now: u64,
    in_a_row: u32,
    pause: u64,
    mode: Mode,
    /// How often the mode changed: a call that began before the last change is old.
    changed: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Closed,
    Open { until: u64 },
    Trying { call: usize },
}

impl Model {
    fn new() -> Self {
        Self { now: 0, in_a_row: 0, pause: 1_000, mode: Mode::Closed, changed: 0 }
    }

    fn go(&mut self, mode: Mode) {
        self.mode = mode;
        self.changed += 1;
    }

    fn may_enter(&mut self, call: usize) -> bool {
        match self.mode {
            Mode::Closed => true,
            Mode::Open { until } if self.now >= until => {
                self.go(Mode::Trying { call });
                true
            }
            _ => false,
        }
    }

    /// Whether the message is postponed.
    fn ended(&mut self, call: usize, began: usize, verdict: Verdict) -> bool {
        let down = matches!(verdict, Verdict::Down { .. });
        match self.mode {
            Mode::Trying { call: probe } if probe == call => {
                if down {
                    self.pause = (self.pause * 2).min(4_000);
                    self.go(Mode::Open { until: self.now + self.pause });
                } else {
                    (self.in_a_row, self.pause) = (0, 1_000);
                    self.go(Mode::Closed);
                }
                down
            }
            Mode::Closed if began == self.changed => {
                match verdict {
                    Verdict::Up => self.in_a_row = 0,
                    Verdict::Answers => (),
                    Verdict::Down { .. } => self.in_a_row += 1,
                }
                if self.in_a_row == 3 {
                    self.go(Mode::Open { until: self.now + self.pause });
                }
                false
            }
            Mode::Closed => false,
            Mode::Open { .. } | Mode::Trying { .. } => down,
        }
    }

    fn abandoned(&mut self, call: usize) {
        if self.mode == (Mode::Trying { call }) {
            self.go(Mode::Open { until: self.now });
        }
    }

    fn shown(&self) -> BreakerState {
        match self.mode {
            Mode::Closed => BreakerState::Closed,
            Mode::Open { until } => BreakerState::Open {
                probe_in: Duration::from_millis(until.saturating_sub(self.now)),
            },
            Mode::Trying { .. } => BreakerState::HalfOpen,
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Enter,
    End(prop::sample::Index, Verdict),
    Abandon(prop::sample::Index),
}

fn any_step() -> impl Strategy<Value = Step> {
    let verdict = prop_oneof![2 => Just(Verdict::Up), 1 => Just(Verdict::Answers), 4 => Just(DOWN)];
    prop_oneof![
        2 => (0_u64..3_000).prop_map(Step::Wait),
        4 => Just(Step::Enter),
        4 => (any::<prop::sample::Index>(), verdict).prop_map(|(which, verdict)| Step::End(which, verdict)),
        1 => any::<prop::sample::Index>().prop_map(Step::Abandon),
    ]
}

proptest! {
    #[test]
    fn it_agrees_with_the_plain_rules(steps in prop::collection::vec(any_step(), 1..300)) {
        let start = Instant::now();
        let (mut machine, mut model) = (Machine::new(options(3)), Model::new());
        let mut running: Vec<(usize, usize, Ticket)> = Vec::new();
        for (call, step) in steps.into_iter().enumerate() {
            let now = start + Duration::from_millis(model.now);
            match step {
                Step::Wait(millis) => model.now += millis,
                Step::Enter => {
                    let allowed = machine.check(now);
                    let entered = machine.enter(now);
                    prop_assert_eq!(entered.map(|_| ()), allowed);
                    prop_assert_eq!(entered.is_ok(), model.may_enter(call));
                    running.extend(entered.ok().map(|ticket| (call, model.changed, ticket)));
                }
                Step::End(which, verdict) if !running.is_empty() => {
                    let (call, began, ticket) = running.swap_remove(which.index(running.len()));
                    let postponed = machine.leave(ticket, verdict, now, 0.0);
                    prop_assert_eq!(postponed.is_some(), model.ended(call, began, verdict));
                }
                Step::Abandon(which) if !running.is_empty() => {
                    let (call, _, ticket) = running.swap_remove(which.index(running.len()));
                    machine.abandon(ticket, now);
                    model.abandoned(call);
                }
                _ => (),
            }
            let now = start + Duration::from_millis(model.now);
            prop_assert_eq!(machine.state(now), model.shown());
        }
    }

    #[test]
    fn it_never_stays_open_for_good(steps in prop::collection::vec(any_step(), 1..100)) {
        let mut now = Instant::now();
        let mut machine = Machine::new(options(2));
        let mut running = Vec::new();
        for step in steps {
            match step {
                Step::Wait(millis) => now += Duration::from_millis(millis),
                Step::Enter => running.extend(machine.enter(now)),
                Step::End(which, verdict) if !running.is_empty() => {
                    machine.leave(running.swap_remove(which.index(running.len())), verdict, now, 0.5);
                }
                _ => (),
            }
        }
        running.into_iter().for_each(|ticket| machine.abandon(ticket, now));
        prop_assert!(machine.enter(now + 5 * SECOND).is_ok());
    }

    #[test]
    fn pauses_grow_to_a_bound_and_chance_adds_a_tenth(chances in prop::collection::vec(0.0_f64..1.0, 1..20)) {
        let mut now = Instant::now();
        let mut machine = Machine::new(options(1));
        let mut expected = SECOND;
        for chance in chances {
            let ticket = machine.enter(now).unwrap();
            machine.leave(ticket, DOWN, now, chance);
            let BreakerState::Open { probe_in } = machine.state(now) else { panic!("not open") };
            prop_assert!(probe_in >= expected && probe_in <= expected.mul_f64(1.1), "{probe_in:?}");
            now += probe_in;
            expected = (expected * 2).min(4 * SECOND);
        }
    }
}

#[test]
fn an_endpoint_that_asks_for_more_time_gets_it() {
    let now = Instant::now();
    let mut machine = Machine::new(options(1));
    let ticket = machine.enter(now).unwrap();
    assert_eq!(machine.leave(ticket, Verdict::Down { at_least: 9 * SECOND }, now, 0.0), None);
    assert_eq!(machine.enter(now), Err(9 * SECOND));
}

#[test]
fn no_number_is_too_large() {
    let huge = BreakerOptions {
        failures: NonZeroU32::MIN,
        first_pause: Duration::MAX,
        longest_pause: Duration::MAX,
    };
    let (now, mut machine) = (Instant::now(), Machine::new(huge));
    let ticket = machine.enter(now).unwrap();
    machine.leave(ticket, Verdict::Down { at_least: Duration::MAX }, now, 0.99);
    assert!(machine.enter(now).unwrap_err() <= Duration::from_secs(100_000));
}

const FREE: NonZeroU32 = NonZeroU32::new(16).unwrap();

fn opened() -> Breaker {
    let breaker = Breaker::new("", options(1));
    assert_eq!(breaker.enter().unwrap().end(DOWN), None);
    breaker
}

#[tokio::test(start_paused = true)]
async fn a_closed_breaker_admits_all_and_an_open_one_one_after_its_pause() {
    assert_eq!(Breaker::default().admit(FREE).await, FREE);
    let (breaker, start) = (opened(), Instant::now());
    assert!(!breaker.admits());
    assert_eq!(breaker.admit(FREE).await, NonZeroU32::MIN);
    assert!(breaker.admits());
    let paused = start.elapsed();
    assert!(paused >= SECOND && paused <= SECOND.mul_f64(1.11), "{paused:?}");
}

#[tokio::test(start_paused = true)]
async fn while_one_tries_the_others_wait_for_how_that_ends() {
    let breaker = opened();
    breaker.admit(FREE).await;
    let probe = breaker.enter().unwrap();
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    assert!(!breaker.admits());
    assert_eq!(breaker.enter().unwrap_err(), Postponed(SECOND));
    assert!(timeout(1_000 * SECOND, breaker.admit(FREE)).await.is_err());
    let waiting = tokio::spawn({
        let breaker = breaker.clone();
        async move { breaker.admit(FREE).await }
    });
    assert_eq!(probe.end(Verdict::Up), None);
    assert_eq!(waiting.await.unwrap(), FREE);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_is_anybodys_again() {
    let breaker = opened();
    breaker.admit(FREE).await;
    drop(breaker.enter().unwrap());
    assert_eq!(breaker.admit(FREE).await, NonZeroU32::MIN);
    assert!(breaker.enter().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_postpones_its_message_and_doubles_the_pause() {
    let breaker = opened();
    advance(2 * SECOND).await;
    let Some(Postponed(after)) = breaker.enter().unwrap().end(DOWN) else { panic!("counted") };
    assert!(after >= 2 * SECOND && after <= 2 * SECOND.mul_f64(1.1), "{after:?}");
    assert_eq!(breaker.enter().unwrap_err(), Postponed(after));
}

#[tokio::test(start_paused = true)]
async fn failures_that_come_in_after_it_opened_are_postponed_and_other_ends_are_not() {
    let breaker = Breaker::new("", options(1));
    let calls: Vec<_> = (0..4).map(|_| breaker.enter().unwrap()).collect();
    let verdicts = [DOWN, DOWN, Verdict::Up, Verdict::Answers];
    let ends: Vec<_> = calls.into_iter().zip(verdicts).map(|(call, end)| call.end(end)).collect();
    assert_eq!(ends.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false, false]);
    assert!(matches!(breaker.state(), BreakerState::Open { .. }), "an old success closes nothing");
}

#[tokio::test(start_paused = true)]
async fn every_change_is_news() {
    let breaker = opened();
    let mut changes = breaker.changes();
    assert!(matches!(*changes.borrow_and_update(), BreakerState::Open { .. }));
    advance(2 * SECOND).await;
    let probe = breaker.enter().unwrap();
    changes.changed().await.unwrap();
    assert_eq!(*changes.borrow_and_update(), BreakerState::HalfOpen);
    probe.end(Verdict::Answers);
    changes.changed().await.unwrap();
    assert_eq!(*changes.borrow_and_update(), BreakerState::Closed);
    assert!(!changes.has_changed().unwrap());
}
