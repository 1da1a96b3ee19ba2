//! Stores accepted messages.

use std::{sync::PoisonError, time::Duration};

use bezoar::{Destination, ErrorKind, Outgoing, QueueName, TransportError};
use tokio::time::Instant;
use tracing::Instrument;

use super::App;
use crate::{
    api::Problem,
    telemetry::{TRACEPARENT, accept_span, ended, traceparent},
};

impl App {
    /// Stores messages; one result each. `traced` is the caller's trace, which continues with them.
    pub(crate) async fn store(
        &self,
        queue: &QueueName,
        mut batch: Vec<Outgoing>,
        traced: Option<&str>,
    ) -> Vec<Result<(), TransportError>> {
        let incoming = self.correlation.incoming(traced);
        let span = accept_span(queue.as_str(), &batch, incoming);
        if let Some(trace) = traceparent(&span, incoming) {
            for outgoing in &mut batch {
                outgoing.message.headers.insert(TRACEPARENT.to_owned(), trace.clone().into());
            }
        }
        let started = Instant::now();
        let queue_of = Destination::from(queue);
        let transport = self.transport(queue);
        if !transport.capabilities().deduplication {
            batch.iter_mut().for_each(|outgoing| outgoing.once = None);
        }
        let sending = transport.send(&queue_of, &batch);
        let results = sending.instrument(span.clone()).await;
        self.measure(queue, &results, started.elapsed());
        self.note_full(&results);
        let refused = results.iter().any(Result::is_err);
        ended(&span, if refused { Err("refused") } else { Ok(()) });
        results
    }

    /// Whether the store was full recently. This expires soon: deliveries free space, which only another send finds out.
    pub(crate) fn was_full(&self) -> bool {
        const JUST_NOW: Duration = Duration::from_secs(10);
        let full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        full.is_some_and(|at| at.elapsed() < JUST_NOW)
    }

    fn note_full(&self, results: &[Result<(), TransportError>]) {
        let refused = |result: &Result<(), TransportError>| {
            result.as_ref().is_err_and(|error| error.kind == ErrorKind::Full)
        };
        if results.iter().any(refused) {
            let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
            if full.replace(Instant::now()).is_none_or(|at| at.elapsed() > Duration::from_secs(60))
            {
                tracing::error!(
                    "the store is full and refuses messages; free disk space, or raise store.max_size"
                );
            }
        }
    }

    fn measure(&self, queue: &QueueName, results: &[Result<(), TransportError>], took: Duration) {
        let metrics = self.metrics.queue(queue.as_str());
        let accepted = results.iter().filter(|result| result.is_ok()).count();
        if accepted > 0 {
            metrics.accepted(accepted as u64, took);
        }
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            metrics.refused(1, Problem::from(error.again()).code());
        }
    }
}
