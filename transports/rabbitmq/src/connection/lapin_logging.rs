//! Connections whose thread keeps silent.
//!
//! lapin tells the log of every message that a broker returns, with its headers and its body, at WARN, and of
//! every frame at TRACE. It does so on a thread of its own, one for each connection, on which it also
//! connects: there nobody listens from then on. What goes wrong is told by the errors that we return.

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

/// A dispatcher of its own, not the empty one: what is first logged on a thread with that is taken for not
/// wanted on any.
static NO_SUBSCRIBER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber));

thread_local! {
    /// Ends with its thread.
    static SILENCE: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
}

/// Connects as lapin does.
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

/// The thread that runs this has no subscriber any more.
fn silence() {
    SILENCE.with_borrow_mut(|silence| {
        silence.get_or_insert_with(|| set_default(&NO_SUBSCRIBER));
    });
}

/// Listens to nothing.
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
