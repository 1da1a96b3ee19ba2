//! An endpoint that fails as it is told, in virtual time.

use std::{sync::Mutex, time::Duration};

use bezoar::{Code, Failure, FailureKind, blame::CallOutcome};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::time::{Instant, sleep};

use super::{Nature, Plan};

/// How long a call takes that is not answered.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How the endpoint does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Weather {
    Healthy,
    /// Nobody listens.
    Refused,
    /// It asks to wait.
    Throttled(Option<Duration>),
    /// A proxy answers for it.
    Unavailable,
    /// It answers 500 to everything.
    Failing,
    /// It never answers.
    Hanging,
    /// It answers this part of all requests with 503.
    Shedding(f64),
    /// This part of its instances refuses connections.
    Rolling(f64),
    /// It does not accept our credential.
    Unauthorized,
    /// It answers 200 without the acknowledgement that the route expects.
    Unacknowledged,
}

#[derive(Debug)]
pub(super) struct Simulated {
    plan: Plan,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    chance: StdRng,
    /// When it crashed last.
    crashed: Option<Instant>,
}

type Ended = (CallOutcome, Option<Failure>);

impl Simulated {
    pub(super) fn new(plan: &Plan) -> Self {
        let chance = StdRng::seed_from_u64(plan.seed);
        let state = Mutex::new(State { chance, crashed: None });
        Self { plan: plan.clone(), started: Instant::now(), state }
    }

    /// One call.
    pub(super) async fn call(&self, nature: Nature) -> Ended {
        let began = Instant::now();
        if self.is_restarting() {
            sleep(Duration::from_millis(1)).await;
            return refused();
        }
        let (takes, ended) = self.decide(nature);
        sleep(takes).await;
        match nature {
            Nature::Dropper if ended.0 == CallOutcome::Done => self.crash(),
            // What was in flight when it crashed ended without an answer.
            _ if self.crashed_since(began) => dropped(),
            _ => ended,
        }
    }

    fn weather(&self) -> Weather {
        let passed = self.started.elapsed();
        let now = self.plan.weather.iter().find(|(until, _)| passed < *until);
        now.map_or(Weather::Healthy, |(_, weather)| *weather)
    }

    fn decide(&self, nature: Nature) -> (Duration, Ended) {
        let mut state = self.state.lock().unwrap();
        let latency = self.plan.latency.mul_f64(state.chance.random_range(0.5..1.5));
        let soon = Duration::from_millis(1);
        let mut chance = |part: f64| state.chance.random_bool(part);
        match self.weather() {
            Weather::Refused => (soon, refused()),
            Weather::Rolling(part) if chance(part) => (soon, refused()),
            Weather::Throttled(after) => (soon, throttled(after)),
            Weather::Unavailable => (soon, unavailable()),
            Weather::Shedding(part) if chance(part) => (soon, unavailable()),
            Weather::Unauthorized => (soon, unauthorized()),
            Weather::Unacknowledged => (latency, unacknowledged()),
            Weather::Hanging => (TIMEOUT, timed_out()),
            Weather::Failing => (latency, failed()),
            Weather::Healthy | Weather::Rolling(_) | Weather::Shedding(_) => match nature {
                Nature::Poison => (latency, failed()),
                Nature::Mute => (latency, unacknowledged()),
                Nature::Healthy | Nature::Dropper => (latency, (CallOutcome::Done, None)),
            },
        }
    }

    fn crash(&self) -> Ended {
        if self.plan.restart.is_some() {
            self.state.lock().unwrap().crashed = Some(Instant::now());
        }
        dropped()
    }

    fn is_restarting(&self) -> bool {
        let crashed = self.state.lock().unwrap().crashed;
        crashed.zip(self.plan.restart).is_some_and(|(at, restart)| at.elapsed() < restart)
    }

    fn crashed_since(&self, began: Instant) -> bool {
        self.state.lock().unwrap().crashed.is_some_and(|at| at >= began)
    }
}

fn ended(outcome: CallOutcome, kind: FailureKind, code: &'static str) -> Ended {
    let failure = Failure::new(kind, code).with_code(Code::from_static(code));
    (outcome, Some(failure))
}

fn refused() -> Ended {
    ended(CallOutcome::Unsent, FailureKind::Transient, "connect.refused")
}

fn dropped() -> Ended {
    let outcome = CallOutcome::Ambiguous { fresh_connection: true };
    ended(outcome, FailureKind::Transient, "reply.reset")
}

fn unavailable() -> Ended {
    let outcome = CallOutcome::Ambiguous { fresh_connection: false };
    ended(outcome, FailureKind::ExternalService, "http.503")
}

fn unauthorized() -> Ended {
    ended(CallOutcome::Misdirected, FailureKind::Unauthorized, "http.401")
}

fn unacknowledged() -> Ended {
    ended(CallOutcome::Unacknowledged, FailureKind::Transient, "hl7.no-ack")
}

fn failed() -> Ended {
    ended(CallOutcome::Failed, FailureKind::ExternalService, "http.500")
}

fn timed_out() -> Ended {
    ended(CallOutcome::Failed, FailureKind::Transient, "timeout")
}

fn throttled(after: Option<Duration>) -> Ended {
    let (outcome, failure) =
        ended(CallOutcome::Throttled { after }, FailureKind::Transient, "http.429");
    (
        outcome,
        failure.map(|mut failure| {
            failure.retry_after = after;
            failure
        }),
    )
}
