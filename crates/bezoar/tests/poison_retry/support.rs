//! An endpoint that does what a message's body says, and counts deliveries.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bezoar::{
    Code, Context, Failure, FailureError, FailureKind, Jitter, PoisonRetry,
    poison_retry::PoisonRetryOptions,
};
use tower::{BoxError, service_fn, util::BoxCloneSyncService};

use crate::memory_queue::MemoryQueue;

/// The deliveries of each message. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deliveries(Arc<Mutex<BTreeMap<String, u32>>>);

impl Deliveries {
    pub(crate) fn of(&self, id: &str) -> u32 {
        self.0.lock().unwrap().get(id).copied().unwrap_or_default()
    }

    fn count(&self, id: &str) -> u32 {
        let mut deliveries = self.0.lock().unwrap();
        let count = deliveries.entry(id.to_owned()).or_default();
        *count += 1;
        *count
    }
}

/// `accept` succeeds, `accept 2` at the second delivery; `reject` is permanent, `panic` panics, `hang` never ends, and
/// everything else is refused.
pub(crate) fn endpoint(deliveries: Deliveries) -> BoxCloneSyncService<Context, (), BoxError> {
    BoxCloneSyncService::new(service_fn(move |context: Context| {
        let deliveries = deliveries.clone();
        async move {
            let body = String::from_utf8(context.message.body.reveal().to_vec()).unwrap();
            let count = deliveries.count(context.message.id.as_str());
            match body.split_once(' ').unwrap_or((body.as_str(), "1")) {
                ("accept", at) if count >= at.parse().unwrap() => Ok(()),
                ("reject", _) => {
                    let failure =
                        Failure::permanent("rejected").with_code(Code::from_static("hl7.AR"));
                    Err(FailureError(failure).into())
                }
                ("panic", _) => panic!("CANARY"),
                ("hang", _) => std::future::pending().await,
                _ => Err(refused()),
            }
        }
    }))
}

pub(crate) fn refused() -> BoxError {
    let failure = Failure::new(FailureKind::ExternalService, "CANARY");
    FailureError(failure.with_code(Code::from_static("http.400"))).into()
}

/// Options without jitter, so that delays are exact.
pub(crate) fn options() -> PoisonRetryOptions {
    PoisonRetryOptions { jitter: Jitter::None, ..PoisonRetryOptions::default() }
}

pub(crate) fn processor(queue: &MemoryQueue, deliveries: &Deliveries) -> PoisonRetry {
    processor_with(queue, deliveries, options())
}

pub(crate) fn processor_with(
    queue: &MemoryQueue,
    deliveries: &Deliveries,
    options: PoisonRetryOptions,
) -> PoisonRetry {
    PoisonRetry::new(Arc::new(queue.clone()), options, endpoint(deliveries.clone())).unwrap()
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
