//! Starts telemetry, and flushes it at shutdown.

use std::{error::Error, time::Duration};

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::{error::OTelSdkResult, trace::SdkTracerProvider};
use tokio::{sync::oneshot, time::timeout};
use tracing::{Dispatch, dispatcher::set_global_default};
use tracing_subscriber::{EnvFilter, Registry, fmt::writer::BoxMakeWriter, layer::SubscriberExt};

use super::{
    Metrics, TelemetryError, TelemetryOptions,
    log_queue::LogQueue,
    logs::{self, FilterHandle, LogLayer},
    otlp::{self, Collector},
    trace,
};

/// How long the end of the process waits for somebody to read the log.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Logs, metrics and traces of this process.
#[derive(Debug)]
pub struct Telemetry {
    metrics: Metrics,
    tracer: Option<SdkTracerProvider>,
    filter: Option<FilterHandle>,
    pub(super) log: Option<LogQueue>,
}

impl Telemetry {
    /// Starts what `options` ask for, for the whole process. Does not wait for a collector.
    ///
    /// # Errors
    ///
    /// An invalid filter or endpoint, or a second start in one process.
    pub fn start(options: &TelemetryOptions) -> Result<Self, TelemetryError> {
        let log = LogQueue::start(std::io::stderr()).map_err(TelemetryError::Log)?;
        let writer = log.clone();
        let (mut telemetry, dispatch) =
            Self::build(options, BoxMakeWriter::new(move || writer.clone()))?;
        if let Some(dispatch) = dispatch {
            set_global_default(dispatch).map_err(|_| TelemetryError::AlreadyStarted)?;
        }
        telemetry.metrics.show_dropped_log_lines(log.dropped());
        telemetry.log = Some(log);
        Ok(telemetry)
    }

    /// Logs the place of a panic instead of printing its text, which may contain personal data. For the whole process.
    pub fn log_panics_without_text() {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string);
            tracing::error!(place, "panicked; text hidden");
        }));
    }

    /// Prints lines for people among those of the log, also if logging is off. Like the log it never waits.
    pub fn say(&self, lines: &str) {
        if let Some(log) = &self.log {
            log.push(format!("{lines}\n").as_bytes());
        }
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
        Ok((Self { metrics, tracer, filter, log: None }, dispatch))
    }

    /// The metrics. Cheap to clone.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Changes the log filter. If logging is off, it stays off.
    pub fn set_log_filter(&self, filter: LogDirectives) {
        if let Some(handle) = &self.filter {
            // The layer lives as long as the process.
            let _ = handle.reload(filter.0);
        }
    }

    /// Exports buffered data and writes the rest of the log, each for at most `deadline`. Call it last: metrics and
    /// traces end here, and of the log only what is written before the process ends.
    ///
    /// # Errors
    ///
    /// [`TelemetryError::NotFlushed`] if the collector did not accept it in time.
    pub async fn shutdown(self, deadline: Duration) -> Result<(), TelemetryError> {
        let Self { metrics, tracer, log, .. } = self;
        let flush_traces =
            move || tracer.map_or(Ok(()), |tracer| tracer.shutdown_with_timeout(deadline));
        let flush_metrics = move || metrics.shutdown();
        let traces = in_time("traces", deadline, flush_traces);
        let metrics = in_time("metrics", deadline, flush_metrics);
        let (traces, metrics) = tokio::join!(traces, metrics);
        // Last: what was not exported is said in the log.
        let written = match log {
            Some(log) => {
                let write = move || {
                    log.flush(LAST_LINES);
                    Ok(())
                };
                in_time("log lines", deadline, write).await
            }
            None => Ok(()),
        };
        traces.and(metrics).and(written)
    }
}

/// A log filter that is valid.
#[derive(Debug)]
pub struct LogDirectives(EnvFilter);

impl LogDirectives {
    /// A level, or levels by target: `info,bezoar_runtime=debug`.
    ///
    /// # Errors
    ///
    /// [`TelemetryError::Filter`] if it is neither.
    pub fn parse(filter: &str) -> Result<Self, TelemetryError> {
        logs::parse(filter).map(Self)
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
