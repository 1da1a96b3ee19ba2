//! Exports to a collector: OTLP over HTTP, on separate threads.

use std::time::Duration;

use http::Uri;
use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use reqwest::{blocking::Client, redirect::Policy};

use super::TelemetryError;

/// How long one export may take, including retries.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// A collector.
#[derive(Debug)]
pub(super) struct Collector {
    base: String,
    client: Client,
}

impl Collector {
    /// The collector at `endpoint`. Nothing is sent yet.
    pub(super) fn new(endpoint: &str) -> Result<Self, TelemetryError> {
        check(endpoint).map_err(TelemetryError::Endpoint)?;
        Ok(Self { base: endpoint.trim_end_matches('/').to_owned(), client: client()? })
    }

    pub(super) fn spans(&self) -> Result<SpanExporter, TelemetryError> {
        let exporter = SpanExporter::builder().with_http();
        exporter
            .with_endpoint(self.path("traces"))
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(EXPORT_TIMEOUT)
            .with_http_client(self.client.clone())
            .build()
            .map_err(|error| TelemetryError::Exporter(error.into()))
    }

    pub(super) fn metrics(&self) -> Result<MetricExporter, TelemetryError> {
        let exporter = MetricExporter::builder().with_http();
        exporter
            .with_endpoint(self.path("metrics"))
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(EXPORT_TIMEOUT)
            .with_http_client(self.client.clone())
            .build()
            .map_err(|error| TelemetryError::Exporter(error.into()))
    }

    fn path(&self, signal: &str) -> String {
        format!("{}/v1/{signal}", self.base)
    }
}

/// The identity of this service in traces and metrics.
pub(super) fn resource(service_name: &str) -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    Resource::builder().with_service_name(service_name.to_owned()).with_attribute(version).build()
}

fn check(endpoint: &str) -> Result<(), &'static str> {
    let uri: Uri = endpoint.parse().map_err(|_| "is not a URL; use http://host:4318")?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("must start with http:// or https://");
    }
    if uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err("contains credentials; put them into OTEL_EXPORTER_OTLP_HEADERS");
    }
    if uri.query().is_some() {
        return Err("must not have a query, because /v1/traces and /v1/metrics are appended");
    }
    Ok(())
}

/// One client, and so one thread, for both signals. It follows no redirects: data goes only to the configured collector.
fn client() -> Result<Client, TelemetryError> {
    // Another provider may be installed already; that is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder().timeout(EXPORT_TIMEOUT).redirect(Policy::none());
    // It cannot be created on a thread that runs async code.
    let made = std::thread::spawn(|| builder.build()).join();
    let made = made.map_err(|_| TelemetryError::Exporter("the HTTP client panicked".into()))?;
    made.map_err(|error| TelemetryError::Exporter(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_checked_and_never_quoted() {
        for good in ["http://localhost:4318", "https://collector/otlp/", "http://[::1]:4318"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in
            ["", "localhost", "ftp://host", "http://", "http://u:SECRET@host", "http://h/?t=SECRET"]
        {
            let error = Collector::new(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("SECRET"), "{error}");
        }
    }
}
