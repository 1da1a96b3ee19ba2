//! Stores accepted messages.

use std::time::Duration;

use bezoar::{Acceptance, Destination, Outgoing, QueueName, TransportError};
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
    ) -> Vec<Result<Acceptance, TransportError>> {
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
        let mut results = sending.instrument(span.clone()).await;
        match self.broker(queue) {
            None => self.writes.learn(&results),
            // The store may be a database too, and is not meant.
            Some(_) => results
                .iter_mut()
                .filter_map(|result| result.as_mut().err())
                .filter(|error| error.transport == "postgres")
                .for_each(|error| error.transport = "postgres broker"),
        }
        self.measure(queue, &results, started.elapsed());
        let refused = results.iter().any(Result::is_err);
        ended(&span, if refused { Err("refused") } else { Ok(()) });
        results
    }

    fn measure(
        &self,
        queue: &QueueName,
        results: &[Result<Acceptance, TransportError>],
        took: Duration,
    ) {
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
