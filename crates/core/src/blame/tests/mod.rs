//! Each rule on its own, and properties that hold for any sequence of calls.

mod breaking;
mod judging;
mod properties;
mod slots;

use std::time::{Duration, Instant};

use super::*;
use crate::millis;

const SECOND: Duration = Duration::from_secs(1);
const AMBIGUOUS: CallOutcome = CallOutcome::Ambiguous { fresh_connection: false };
const DROPPED: CallOutcome = CallOutcome::Ambiguous { fresh_connection: true };
const THROTTLED: CallOutcome = CallOutcome::Throttled { after: None };
const UNCOUNTED: Judgement = Judgement::Uncounted { suspected: false };
const SUSPECTED: Judgement = Judgement::Uncounted { suspected: true };
const CODE: Code = Code::from_static("http.503");

/// A route with a clock that the test advances.
struct Sim {
    blame: Blame,
    begun: Instant,
    passed: Duration,
}

impl Sim {
    fn new() -> Self {
        Self::with(BlameOptions::default())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "there is no other way to create an `Instant`; only `pass` advances it"
    )]
    fn with(options: BlameOptions) -> Self {
        Self { blame: Blame::new(options), begun: Instant::now(), passed: Duration::ZERO }
    }

    fn with_concurrency(concurrency: u32) -> Self {
        let concurrency = NonZeroU32::new(concurrency).unwrap();
        Self::with(BlameOptions { concurrency, ..BlameOptions::default() })
    }

    fn without_breaker() -> Self {
        Self::with(BlameOptions { breaker: None, ..BlameOptions::default() })
    }

    fn now(&self) -> Instant {
        self.begun + self.passed
    }

    fn moment(&self) -> Moment {
        let wall = millis(i64::try_from(self.passed.as_millis()).unwrap());
        Moment { now: self.now(), wall }
    }

    fn pass(&mut self, time: Duration) {
        self.passed += time;
    }

    fn enter(&mut self, key: u64) -> Call {
        self.try_enter(fresh(key)).unwrap()
    }

    fn try_enter(&mut self, message: MessageFacts) -> Result<Call, Duration> {
        self.blame.enter(message, self.now())
    }

    fn leave(&mut self, call: Call, outcome: CallOutcome) -> Judgement {
        self.blame.leave(call, outcome, &CODE, self.moment(), 0.0)
    }

    /// One call that takes 10 ms, with no other call in flight.
    fn call(&mut self, key: u64, outcome: CallOutcome) -> Judgement {
        let call = self.enter(key);
        self.pass(Duration::from_millis(10));
        self.leave(call, outcome)
    }

    /// Five messages fail, one after the other.
    fn open_by(&mut self, outcome: CallOutcome) {
        for key in 100..105 {
            self.call(key, outcome);
        }
        assert_eq!(self.state(), BreakerState::Open);
    }

    fn state(&self) -> BreakerState {
        self.status().state
    }

    fn status(&self) -> BreakerStatus {
        self.blame.status(self.now())
    }

    fn admit(&self) -> Admission {
        self.blame.admit(self.now())
    }
}

fn fresh(key: u64) -> MessageFacts {
    MessageFacts { key, last_failure_at: None, timed_out: false }
}

const ANY_NUMBER: Admission = Admission::UpTo(NonZeroU32::MAX);

fn up_to(number: u32) -> Admission {
    Admission::UpTo(NonZeroU32::new(number).unwrap())
}
