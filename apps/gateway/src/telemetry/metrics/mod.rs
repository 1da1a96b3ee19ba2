//! What is counted and measured: one meter, read by Prometheus and sent to a collector.
//!
//! What happens often costs an atomic addition: counts are kept in `queue.rs` and `route.rs`, and read only
//! when somebody asks. Only durations go through the SDK, with their labels ready made.

mod instruments;
mod measure;
mod measured_try;
mod named;
mod observer;
mod queue;
mod queue_gauges;
mod reasons;
mod route;

use std::sync::Arc;

use bezoar::{Clock, SystemClock};
use opentelemetry_prometheus::exporter;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    metrics::{MeterProviderBuilder, SdkMeterProvider},
};
use prometheus::{Encoder, Registry, TextEncoder};

use self::{
    instruments::{Histograms, Series},
    queue::QueueSeries,
    route::RouteSeries,
};
use super::{TelemetryError, TelemetryOptions, otlp};

pub use measure::MeasureLayer;
pub use observer::RouteObserver;
pub use queue::QueueMetrics;
pub use queue_gauges::QueueGauges;
pub use route::{BreakerState, RouteMetrics};

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is counted and measured. Cheap to clone.
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

    /// Only for [`render`](Self::render), without anything else of telemetry: for tests and tools.
    pub fn local() -> Self {
        Self::shown(SdkMeterProvider::builder(), Arc::new(SystemClock))
    }

    /// Read by nobody.
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

    /// Whether anybody can read them; if not, there is no `/metrics`.
    pub fn is_on(&self) -> bool {
        self.0.registry.is_some()
    }

    /// The metrics of a queue that is configured.
    pub fn queue(&self, name: &str) -> QueueMetrics {
        QueueMetrics { shared: self.0.clone(), series: self.0.series.queues.at(name) }
    }

    /// The metrics for what is not configured, whose name is the caller's and no label.
    pub fn unknown_queue(&self) -> QueueMetrics {
        QueueMetrics { shared: self.0.clone(), series: self.0.series.queues.other() }
    }

    /// The metrics of a route that is configured. What it is doing is shown as long as a handle to it
    /// exists; what it has done stays.
    pub fn route(&self, name: &str) -> RouteMetrics {
        RouteMetrics { shared: self.0.clone(), series: self.0.series.routes.at(name) }
    }

    /// What is known of a queue at present.
    pub fn set_queue(&self, name: &str, figures: &QueueGauges) {
        self.0.series.queues.at(name).show(Some(*figures));
    }

    /// Shows no more figures of a queue that is gone.
    pub fn forget_queue(&self, name: &str) {
        self.0.series.queues.at(name).show(None);
    }

    /// All of it as text; empty if metrics are off.
    pub fn render(&self) -> String {
        let Some(registry) = &self.0.registry else { return String::new() };
        let mut text = Vec::new();
        // Fails only for a family without samples, which are not gathered.
        let _ = TextEncoder::new().encode(&registry.gather(), &mut text);
        String::from_utf8(text).expect("the encoder writes text")
    }

    /// Sends the last of it. Blocks.
    pub(super) fn shutdown(&self) -> OTelSdkResult {
        self.0.provider.shutdown()
    }
}
