//! Metrics: one meter, read by Prometheus and exported to a collector.
//!
//! Frequent events cost one atomic addition: counts are kept in `queue.rs` and `route.rs` and read only on export. Only
//! durations go through the SDK, with prebuilt labels.

mod instruments;
mod measure;
mod measured_try;
mod named;
mod observer;
mod poison_retry;
mod queue;
mod queue_gauges;
mod reasons;
mod refused_requests;
mod route;

use std::sync::{Arc, atomic::AtomicU64};

use bezoar::{Clock, SystemClock};
use opentelemetry_prometheus::exporter;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    metrics::{MeterProviderBuilder, SdkMeterProvider},
};
use prometheus::{Encoder, Registry, TextEncoder};

use self::{
    instruments::{Histograms, Series},
    poison_retry::PoisonRetrySeries,
    queue::QueueSeries,
    route::RouteSeries,
};
use super::{TelemetryError, TelemetryOptions, otlp};

pub use measure::MeasureLayer;
pub use observer::RouteObserver;
pub use poison_retry::PoisonRetryMetrics;
pub use queue::QueueMetrics;
pub use queue_gauges::QueueGauges;
pub use route::{BreakerState, RouteMetrics};

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<MetricsShared>);

#[derive(Debug)]
struct MetricsShared {
    series: Arc<Series>,
    histograms: Histograms,
    provider: SdkMeterProvider,
    registry: Option<Registry>,
    clock: Arc<dyn Clock>,
}

impl Metrics {
    /// For `/metrics`, and for the collector if there is one.
    pub(super) fn new(
        options: &TelemetryOptions,
        collector: Option<&otlp::Collector>,
    ) -> Result<Self, TelemetryError> {
        let resource = otlp::resource(&options.service_name);
        let mut builder = SdkMeterProvider::builder().with_resource(resource);
        if let Some(collector) = collector {
            builder = builder.with_periodic_exporter(collector.metrics()?);
        }
        Ok(Self::shown(builder, options.clock.clone()))
    }

    /// Only for [`render`](Self::render), without the rest of telemetry: for tests and tools.
    pub fn local() -> Self {
        Self::shown(SdkMeterProvider::builder(), Arc::new(SystemClock))
    }

    /// Turned off: recorded and never read.
    pub fn off() -> Self {
        Self::made(SdkMeterProvider::builder(), None, Arc::new(SystemClock))
    }

    fn shown(builder: MeterProviderBuilder, clock: Arc<dyn Clock>) -> Self {
        let registry = Registry::new();
        let exporter = exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .without_target_info()
            .build()
            .expect("a new registry has no other collector");
        Self::made(builder.with_reader(exporter), Some(registry), clock)
    }

    fn made(
        builder: MeterProviderBuilder,
        registry: Option<Registry>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let provider = builder.with_view(instruments::room).build();
        let series = Arc::new(Series::default());
        let histograms = instruments::build(&provider, &series, clock.now());
        Self(Arc::new(MetricsShared { series, histograms, provider, registry, clock }))
    }

    /// Whether metrics are on; if not, there is no `/metrics`.
    pub fn is_on(&self) -> bool {
        self.0.registry.is_some()
    }

    /// The metrics of a configured queue.
    pub fn queue(&self, name: &str) -> QueueMetrics {
        QueueMetrics { shared: self.0.clone(), series: self.0.series.queues.at(name) }
    }

    /// The metrics of unknown queues, whose names come from callers and must not become labels.
    pub fn unknown_queue(&self) -> QueueMetrics {
        QueueMetrics { shared: self.0.clone(), series: self.0.series.queues.other() }
    }

    /// Counts a request that was refused; the reason is one of our codes, such as `forbidden`.
    pub fn request_refused(&self, status: u16, reason: &'static str) {
        self.0.series.refused_requests.add(status, reason);
    }

    /// The metrics of a configured route. Its gauges are exported as long as a handle exists; its counters stay.
    pub fn route(&self, name: &str) -> RouteMetrics {
        RouteMetrics { shared: self.0.clone(), series: self.0.series.routes.at(name) }
    }

    /// The metrics of the processor of a configured poison queue. Its gauges are exported as long as a handle exists; its
    /// counters stay.
    pub fn poison_retry(&self, queue: &str) -> PoisonRetryMetrics {
        let series = self.0.series.poison_retries.at(queue);
        PoisonRetryMetrics { shared: self.0.clone(), series }
    }

    /// Sets the gauges of a queue.
    pub fn set_queue(&self, name: &str, figures: &QueueGauges) {
        self.0.series.queues.at(name).show(Some(*figures));
    }

    /// Removes the gauges of a queue that no longer exists.
    pub fn forget_queue(&self, name: &str) {
        self.0.series.queues.at(name).show(None);
    }

    /// Shows the sizes of a store's files, by what they contain; asked for at every export.
    pub fn show_store(&self, sizes: impl Fn() -> Vec<(&'static str, u64)> + Send + Sync + 'static) {
        instruments::store(&self.0.provider, sizes);
    }

    /// Shows how many lines of the log were dropped.
    pub(super) fn show_dropped_log_lines(&self, dropped: Arc<AtomicU64>) {
        instruments::log(&self.0.provider, dropped);
    }

    /// All metrics as text; empty if they are off.
    pub fn render(&self) -> String {
        let Some(registry) = &self.0.registry else { return String::new() };
        let mut text = Vec::new();
        // Fails only for a family without samples, which is never gathered.
        let _ = TextEncoder::new().encode(&registry.gather(), &mut text);
        String::from_utf8(text).expect("the encoder writes text")
    }

    /// Exports what is left. Blocks.
    pub(super) fn shutdown(&self) -> OTelSdkResult {
        self.0.provider.shutdown()
    }
}
