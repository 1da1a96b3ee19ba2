//! Turns off lapin's logging, which would show bodies.
//!
//! lapin logs every message that a broker returns at WARN, with headers and body, and every frame at TRACE. It does so
//! on a thread of its own, one per connection, which also runs our connect function: there we install a subscriber that
//! ignores everything. What goes wrong is in the errors that we return.

use std::{cell::RefCell, sync::LazyLock};

use lapin::{
    Connection, ConnectionProperties,
    runtime::default_runtime,
    tcp::{AMQPUriTcpExt, OwnedTLSConfig},
    uri::AMQPUri,
};
use tracing::{
    Event, Metadata, Subscriber,
    dispatcher::{DefaultGuard, Dispatch, set_default},
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
};

/// Not `Dispatch::none()`: a callsite that is first used on a thread with that one is disabled on all threads.
static NO_SUBSCRIBER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber));

thread_local! {
    /// Lives as long as its thread.
    static SILENCE: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
}

/// Connects, without logging on the connection's thread.
pub(crate) async fn connect(
    uri: AMQPUri,
    tls: OwnedTLSConfig,
    properties: ConnectionProperties,
) -> lapin::Result<Connection> {
    let connect = async move |uri: AMQPUri, runtime| {
        silence();
        Ok(uri.connect_with_config_async(tls.as_ref(), &runtime).await?)
    };
    Connection::connector(uri, default_runtime()?, connect, properties).await
}

/// Installs the silent subscriber on the current thread.
fn silence() {
    SILENCE.with_borrow_mut(|silence| {
        silence.get_or_insert_with(|| set_default(&NO_SUBSCRIBER));
    });
}

/// Ignores everything.
struct NoSubscriber;

impl Subscriber for NoSubscriber {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(u64::MAX)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
