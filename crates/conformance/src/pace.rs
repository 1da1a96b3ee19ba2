//! Whether a case went at the pace that it was written for. Where time really passes, a busy machine
//! can stop a case for longer than a tick; what is due by then is not early.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

pub(crate) struct Pace {
    started: Instant,
    planned: Mutex<Duration>,
}

impl Pace {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), planned: Mutex::default() }
    }

    /// Runs a step that takes up to `at_most`, as the case expects.
    pub(crate) async fn plan<T>(&self, at_most: Duration, step: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let result = step.await;
        let taken = started.elapsed().min(at_most);
        *self.planned.lock().expect("nothing panics with the lock") += taken;
        result
    }

    /// The time that passed without being part of the case.
    pub(crate) fn lost(&self) -> Duration {
        let planned = *self.planned.lock().expect("nothing panics with the lock");
        self.started.elapsed().saturating_sub(planned)
    }
}
