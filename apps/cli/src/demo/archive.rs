//! The archive that stores results: what a user's handler would be.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bezoar::{AttemptNumber, Code, Failure, FailureKind, Json, Router, State};
use rand::RngExt;

use super::laboratory::LabResult;

/// Whether it is up, and whether it knows how to store corrections. Clones are the same archive.
#[derive(Debug, Clone, Default)]
pub(crate) struct Archive {
    down: Arc<AtomicBool>,
    accepts_corrections: Arc<AtomicBool>,
}

impl Archive {
    pub(crate) fn go_down(&self) {
        self.down.store(true, Ordering::Relaxed);
    }

    pub(crate) fn come_back(&self) {
        self.down.store(false, Ordering::Relaxed);
    }

    pub(crate) fn accept_corrections(&self) {
        self.accepts_corrections.store(true, Ordering::Relaxed);
    }

    pub(crate) fn router(self) -> Router<Self> {
        Router::with_state(self).on("lab.result", store)
    }
}

async fn store(
    Json(result): Json<LabResult>,
    State(archive): State<Archive>,
    AttemptNumber(attempt): AttemptNumber,
) -> Result<(), Failure> {
    let pause = rand::rng().random_range(5..60);
    tokio::time::sleep(Duration::from_millis(pause)).await;
    if archive.down.load(Ordering::Relaxed) {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let failure = Failure::new(FailureKind::ExternalService, refused);
        return Err(failure.with_code(Code::from_static("archive.down")));
    }
    if result.correction && !archive.accepts_corrections.load(Ordering::Relaxed) {
        let text = format!("result {} corrects one that is stored already", result.number);
        return Err(Failure::permanent(text).with_code(Code::from_static("archive.correction")));
    }
    if result.number % 7 == 3 && attempt == 1 {
        return Err(Failure::transient("try later").with_code(Code::from_static("archive.busy")));
    }
    Ok(())
}
