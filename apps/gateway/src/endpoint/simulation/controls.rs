//! The rules that are simulated: ours, and others that must not keep the laws.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bezoar::{
    Code, Context, Gate, Postpone,
    blame::{BlameOptions, BreakerState, CallOutcome, Judgement},
};
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use crate::{
    endpoint::{RouteBreaker, breaker::Permit},
    route::RouteGate,
};

/// By which rules messages are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// Ours.
    Evidence,
    /// Ours, but nothing counts while the breaker is open.
    NothingCountsWhileOpen,
    /// Failures in a row open it, one message at a time probes, nothing counts while it is open, and everything
    /// counts while it is closed.
    InARow,
}

impl Rules {
    pub(super) fn oracle(self, options: BlameOptions) -> Oracle {
        match self {
            Self::InARow => Oracle::InARow(Arc::default()),
            _ => Oracle::Evidence(RouteBreaker::new("lab", options), self),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Oracle {
    Evidence(RouteBreaker, Rules),
    InARow(Arc<InARow>),
}

#[derive(Debug)]
pub(super) enum Leave {
    Evidence(Permit),
    InARow { probe: bool },
}

impl Oracle {
    pub(super) fn gate(&self) -> Arc<dyn Gate> {
        match self {
            Self::Evidence(breaker, _) => Arc::new(RouteGate::new(breaker.clone(), None)),
            Self::InARow(in_a_row) => in_a_row.clone(),
        }
    }

    pub(super) fn enter(&self, context: &Context) -> Result<Leave, Duration> {
        match self {
            Self::Evidence(breaker, _) => {
                breaker.enter(context).map(Leave::Evidence).map_err(|Postpone(wait)| wait)
            }
            Self::InARow(in_a_row) => in_a_row.enter(),
        }
    }

    pub(super) fn leave(
        &self,
        leave: Leave,
        outcome: CallOutcome,
        code: &Code,
        wall: Timestamp,
    ) -> Judgement {
        match (self, leave) {
            (Self::Evidence(breaker, rules), Leave::Evidence(permit)) => {
                let was_open = breaker.status().state != BreakerState::Closed;
                let judgement = permit.end(outcome, code, wall);
                match judgement {
                    Judgement::Counts if was_open && *rules == Rules::NothingCountsWhileOpen => {
                        Judgement::Uncounted { suspected: false }
                    }
                    judgement => judgement,
                }
            }
            (Self::InARow(in_a_row), Leave::InARow { probe }) => in_a_row.leave(probe, outcome),
            _ => unreachable!("each leaves by the rules it entered by"),
        }
    }
}

/// The breaker as it was: five failures in a row, from 5 s to a minute.
#[derive(Debug, Default)]
pub(super) struct InARow(Mutex<InARowState>);

#[derive(Debug, Default)]
struct InARowState {
    failures: u32,
    open_until: Option<Instant>,
    pause: Duration,
    probing: bool,
}

impl InARow {
    fn enter(&self) -> Result<Leave, Duration> {
        let mut state = self.0.lock().unwrap();
        match state.open_until {
            None => Ok(Leave::InARow { probe: false }),
            Some(until) if until > Instant::now() => Err(until - Instant::now()),
            Some(_) if state.probing => Err(Duration::from_secs(1)),
            Some(_) => {
                state.probing = true;
                Ok(Leave::InARow { probe: true })
            }
        }
    }

    fn leave(&self, probe: bool, outcome: CallOutcome) -> Judgement {
        let mut state = self.0.lock().unwrap();
        let works = matches!(outcome, CallOutcome::Done | CallOutcome::Answered);
        let was_open = state.open_until.is_some();
        match (was_open, works) {
            (true, true) if probe => *state = InARowState::default(),
            (true, false) if probe => {
                state.probing = false;
                state.pause = (state.pause * 2).min(Duration::from_secs(60));
                state.open_until = Some(Instant::now() + state.pause);
            }
            (false, true) => state.failures = 0,
            (false, false) => {
                state.failures += 1;
                if state.failures >= 5 {
                    state.pause = Duration::from_secs(5);
                    state.open_until = Some(Instant::now() + state.pause);
                }
            }
            _ => (),
        }
        if was_open { Judgement::Uncounted { suspected: false } } else { Judgement::Counts }
    }
}

#[async_trait]
impl Gate for InARow {
    async fn admit(&self, free: NonZeroU32) -> NonZeroU32 {
        loop {
            let (open_until, probing) = {
                let state = self.0.lock().unwrap();
                (state.open_until, state.probing)
            };
            match open_until {
                None => return free,
                Some(until) if until <= Instant::now() && !probing => return NonZeroU32::MIN,
                Some(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn is_open(&self) -> bool {
        let state = self.0.lock().unwrap();
        state.open_until.is_none_or(|until| until <= Instant::now() && !state.probing)
    }
}
