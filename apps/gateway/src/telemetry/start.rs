//! Starts telemetry, and flushes it at shutdown.

use std::{error::Error, time::Duration};

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::{error::OTelSdkResult, trace::SdkTracerProvider};
use tokio::{sync::oneshot, time::timeout};
use tracing::{Dispatch, dispatcher::set_global_default};
use tracing_subscriber::{Registry, fmt::writer::BoxMakeWriter, layer::SubscriberExt};

use super::{
    Metrics, TelemetryError, TelemetryOptions,
    logs::{self, FilterHandle, LogLayer},
    otlp::{self, Collector},
    trace,
};

/// Logs, metrics and traces of this process.
#[derive(Debug)]
pub struct Telemetry {
    metrics: Metrics,
    tracer: Option<SdkTracerProvider>,
    filter: Option<FilterHandle>,
}

impl Telemetry {
    /// Starts what `options` ask for, for the whole process. Does not wait for a collector.
    ///
    /// # Errors
    ///
    /// An invalid filter or endpoint, or a second start in one process.
    pub fn start(options: &TelemetryOptions) -> Result<Self, TelemetryError> {
        let (telemetry, dispatch) = Self::build(options, BoxMakeWriter::new(std::io::stderr))?;
        if let Some(dispatch) = dispatch {
            set_global_default(dispatch).map_err(|_| TelemetryError::AlreadyStarted)?;
        }
        Ok(telemetry)
    }

    /// The same, without installing anything.
    pub(super) fn build(
        options: &TelemetryOptions,
        writer: BoxMakeWriter,
    ) -> Result<(Self, Option<Dispatch>), TelemetryError> {
        let logs = logs::layer(&options.log, writer)?;
        let collector = options.otlp_endpoint.as_deref().map(Collector::new).transpose()?;
        let traced = collector.as_ref().filter(|_| options.traces);
        let tracer = traced.map(|collector| tracer(options, collector)).transpose()?;
        let metrics = match options.metrics {
            true => Metrics::new(options, collector.as_ref())?,
            false => Metrics::off(),
        };
        let (log_layer, filter) = logs.unzip();
        let dispatch = dispatch(log_layer, tracer.as_ref());
        Ok((Self { metrics, tracer, filter }, dispatch))
    }

    /// The metrics. Cheap to clone.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Changes the log filter. If logging is off, it stays off.
    ///
    /// # Errors
    ///
    /// An invalid filter; the old one stays.
    pub fn set_log_filter(&self, filter: &str) -> Result<(), TelemetryError> {
        let filter = logs::parse(filter)?;
        if let Some(handle) = &self.filter {
            // The layer lives as long as the process.
            let _ = handle.reload(filter);
        }
        Ok(())
    }

    /// Exports buffered data, for at most `deadline`. Call it last: metrics and traces end here, only the log continues.
    ///
    /// # Errors
    ///
    /// [`TelemetryError::NotFlushed`] if the collector did not accept it in time.
    pub async fn shutdown(self, deadline: Duration) -> Result<(), TelemetryError> {
        let Self { metrics, tracer, .. } = self;
        let flush_traces =
            move || tracer.map_or(Ok(()), |tracer| tracer.shutdown_with_timeout(deadline));
        let flush_metrics = move || metrics.shutdown();
        let traces = in_time("traces", deadline, flush_traces);
        let metrics = in_time("metrics", deadline, flush_metrics);
        let (traces, metrics) = tokio::join!(traces, metrics);
        traces.and(metrics)
    }
}

/// The subscriber. Parts that are off get no layer: an empty layer would have every span created for nothing.
fn dispatch(log: Option<LogLayer>, tracer: Option<&SdkTracerProvider>) -> Option<Dispatch> {
    let tracer = tracer.map(|provider| provider.tracer("bezoar"));
    let registry = Registry::default();
    match (log, tracer) {
        (None, None) => None,
        (Some(log), None) => Some(registry.with(log).into()),
        (None, Some(tracer)) => Some(registry.with(trace::layer(tracer)).into()),
        (Some(log), Some(tracer)) => Some(registry.with(log).with(trace::layer(tracer)).into()),
    }
}

fn tracer(
    options: &TelemetryOptions,
    collector: &Collector,
) -> Result<SdkTracerProvider, TelemetryError> {
    let builder = SdkTracerProvider::builder().with_resource(otlp::resource(&options.service_name));
    Ok(builder.with_batch_exporter(collector.spans()?).build())
}

/// Runs `flush`, which blocks, on a separate thread. Not on the runtime's blocking threads: the SDK waits up to 5 s for
/// metrics regardless of the deadline, and a runtime does not end before its blocking threads do.
async fn in_time(
    signal: &'static str,
    deadline: Duration,
    flush: impl FnOnce() -> OTelSdkResult + Send + 'static,
) -> Result<(), TelemetryError> {
    let failed = |source: Option<Box<dyn Error + Send + Sync>>| TelemetryError::NotFlushed {
        signal,
        source,
    };
    let (done, ended) = oneshot::channel();
    let thread = std::thread::Builder::new().name(format!("flush {signal}"));
    let started = thread.spawn(move || done.send(flush()));
    started.map_err(|error| failed(Some(error.into())))?;
    match timeout(deadline, ended).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error))) => Err(failed(Some(error.into()))),
        Ok(Err(_)) | Err(_) => Err(failed(None)),
    }
}
