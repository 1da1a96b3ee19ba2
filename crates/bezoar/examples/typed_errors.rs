//! Typed errors that decide whether a message is retried, state that handlers share, and a layer that tells them who
//! sent the message. Ends when every message is done or dead.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use bezoar::{
    Bezoar, Code, Context, Extension, Failure, FailureKind, Json, Router, Shutdown, State,
    TypedMessage, Worker,
};
use serde::{Deserialize, Serialize};
use tower::{ServiceBuilder, layer::layer_fn};

#[derive(Serialize, Deserialize)]
struct LabResult {
    value: f64,
}

impl TypedMessage for LabResult {
    const TYPE: &'static str = "lab.result";
}

#[derive(Debug, thiserror::Error)]
enum LabError {
    #[error("the value is negative")]
    Implausible,
    #[error("the archive does not answer")]
    Archive(#[source] std::io::Error),
}

impl LabError {
    /// What each error means, in one place.
    fn kind(&self) -> (FailureKind, Code) {
        match self {
            Self::Implausible => (FailureKind::Permanent, Code::from_static("implausible")),
            Self::Archive(_) => (FailureKind::ExternalService, Code::from_static("archive")),
        }
    }
}

/// What the handlers share. Clones share one state.
#[derive(Clone)]
struct Lab {
    calls: Arc<AtomicU32>,
    open: Arc<AtomicU32>,
    shutdown: Shutdown,
}

impl Lab {
    /// Fails at the first call.
    fn archive(&self) -> Result<(), LabError> {
        match self.calls.fetch_add(1, Ordering::SeqCst) {
            0 => Err(LabError::Archive(std::io::ErrorKind::ConnectionRefused.into())),
            _ => Ok(()),
        }
    }

    fn one_less(&self) {
        if self.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.shutdown.drain();
        }
    }
}

/// Which analyzer sent the message, from a header.
#[derive(Clone)]
struct Analyzer(String);

async fn store(
    Json(result): Json<LabResult>,
    State(lab): State<Lab>,
    Extension(Analyzer(analyzer)): Extension<Analyzer>,
) -> Result<(), Failure> {
    if result.value < 0.0 {
        lab.one_less();
        Err(LabError::Implausible)?; // permanent, because `LabError::kind` says so
    }
    lab.archive()?; // retried
    println!("stored a result of {analyzer}");
    lab.one_less();
    Ok(())
}

fn worker(lab: Lab) -> Result<Worker, bezoar::Invalid> {
    let router = Router::with_state(lab).classify(LabError::kind).on_message(store);
    let analyzer = layer_fn(|inner| {
        let tell = |mut context: Context| {
            let name = context.message.headers.get("analyzer").map(|name| name.reveal().clone());
            context.extensions.insert(Analyzer(name.unwrap_or_default()));
            context
        };
        ServiceBuilder::new().map_request(tell).service(inner)
    });
    Ok(Worker::new("lab", router)?.layer(analyzer))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bezoar: Bezoar = bezoar::connect("memory:").await?;
    bezoar.provision("lab").await?;
    for value in [14.1, -1.0] {
        bezoar.message(&LabResult { value }).header("analyzer", "A7").send_to("lab").await?;
    }
    let (calls, open) = (Arc::default(), Arc::new(AtomicU32::new(2)));
    let shutdown = Shutdown::default();
    let lab = Lab { calls, open, shutdown: shutdown.clone() };
    bezoar.run_until(worker(lab)?, shutdown).await?;

    for dead in bezoar.dead_letters("lab").await? {
        println!("dead letter: {}", dead.reason);
        for failed in dead.message.ledger.history() {
            println!("attempt {} failed: {} ({})", failed.attempt, failed.kind, failed.code);
        }
    }
    Ok(())
}
