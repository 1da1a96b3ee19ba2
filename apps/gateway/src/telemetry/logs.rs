//! Writes the log to stderr.

use std::io::IsTerminal;

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{FilterExt, filter_fn},
    fmt::{self, writer::BoxMakeWriter},
    registry::LookupSpan,
    reload,
};

use super::{LogFormat, LogOptions, TelemetryError, trace};

/// Changes the filter at run time.
pub(super) type FilterHandle = reload::Handle<EnvFilter, Registry>;
/// The layer that writes the log.
pub(super) type LogLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The layer that writes the log, and the handle of its filter; `None` if logging is off.
pub(super) fn layer(
    options: &LogOptions,
    writer: BoxMakeWriter,
) -> Result<Option<(LogLayer, FilterHandle)>, TelemetryError> {
    let (filter, handle) = reload::Layer::new(parse(&options.filter)?);
    let filter = filter.and(filter_fn(is_fit_for_logs));
    let layer: LogLayer = match options.format {
        LogFormat::Off => return Ok(None),
        LogFormat::Text => text(writer).with_filter(filter).boxed(),
        LogFormat::Json => json(writer).with_filter(filter).boxed(),
    };
    Ok(Some((layer, handle)))
}

/// Parses a filter.
pub(super) fn parse(filter: &str) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::builder().parse(filter).map_err(TelemetryError::Filter)
}

fn text<S>(writer: BoxMakeWriter) -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    fmt::layer().with_writer(writer).with_ansi(colours)
}

/// An event's fields are beside its level and time, those of the message's span under `span`.
fn json<S>(writer: BoxMakeWriter) -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fmt::layer().json().flatten_event(true).with_span_list(false).with_writer(writer)
}

/// Always excluded, whatever the filter says: spans for traces only, whose fields the message's span already has; what
/// the exporter says beyond warnings, which quotes the collector's address and replies; and of the AMQP client, which
/// quotes whole messages, and of Microsoft's client, which quotes URLs and repeats each failed request.
fn is_fit_for_logs(metadata: &Metadata<'_>) -> bool {
    let beyond =
        |name: &str, level: Level| metadata.target().starts_with(name) && *metadata.level() > level;
    let chatter = beyond("opentelemetry", Level::WARN)
        || beyond("lapin", Level::ERROR)
        || beyond("typespec_client_core", Level::ERROR);
    metadata.target() != trace::TARGET && !chatter
}
