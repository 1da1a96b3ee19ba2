//! A connection to the broker that is opened when it is needed, and again after it was lost.
//!
//! lapin's own connection recovery is off: with it a publish during an outage neither fails nor returns. Instead the
//! next user of a lost connection opens a new one, with growing pauses between attempts.

use std::{
    sync::{Arc, LazyLock, PoisonError},
    time::Duration,
};

use bezoar_core::{ErrorKind, Pauses, TransportError};
use lapin::{
    Channel, Connection, ConnectionProperties, Consumer, tcp::OwnedTLSConfig, uri::AMQPUri,
};
use tokio::{
    runtime::Handle,
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

use crate::{
    Options,
    connection::address,
    connection::lapin_logging,
    connection::tls,
    error::{
        error, from_lapin, is_closed_while_opening, is_out_of_channels, is_stale_channel_error,
        unavailable, while_connecting,
    },
};

/// The heartbeat interval, unless the URL sets one. A connection is lost after two intervals without a heartbeat. The
/// broker's own default is a minute.
const HEARTBEAT_SECONDS: u16 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// How many channel numbers with a stale error are skipped, at most.
const STALE_TRIES: u32 = 16;
/// How many idle request channels are kept for reuse.
const IDLE_CHANNELS_LIMIT: usize = 8;
/// A connection that takes longer to close a channel is as good as lost.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// Decides the order in which this process tries the hosts of a URL.
static HOST_SEED: LazyLock<u64> = LazyLock::new(rand::random);

/// A channel that is closed when this value is dropped; the broker requeues its unacknowledged messages. lapin alone
/// would keep a channel whose `basic.consume` was under way when the future was dropped.
#[derive(Debug)]
pub(crate) struct ChannelGuard {
    channel: Channel,
    consumer: Option<Consumer>,
}

impl From<Channel> for ChannelGuard {
    fn from(channel: Channel) -> Self {
        Self { channel, consumer: None }
    }
}

impl ChannelGuard {
    /// Keeps a consumer alive until the channel is closed. A lapin consumer that is dropped sends `basic.cancel`, from
    /// another thread. Written after `channel.close`, that frame makes the broker close the whole connection
    /// (`CHANNEL_ERROR - expected 'channel.open'`), and with it the channels of everybody else.
    pub(crate) fn keep_until_closed(&mut self, consumer: &Consumer) {
        self.consumer = Some(consumer.clone());
    }
}

impl std::ops::Deref for ChannelGuard {
    type Target = Channel;

    fn deref(&self) -> &Channel {
        &self.channel
    }
}

impl Drop for ChannelGuard {
    fn drop(&mut self) {
        if let (true, Ok(runtime)) = (self.status().connected(), Handle::try_current()) {
            let (channel, consumer) = (self.channel.clone(), self.consumer.take());
            runtime.spawn(async move {
                let _ = timeout(CLOSED_WITHIN, channel.close(200, "closed".into())).await;
                drop(consumer);
            });
        }
    }
}

/// One connection at a time, opened when it is needed and again after it was lost.
#[derive(Debug)]
pub(crate) struct BrokerConnection {
    options: Arc<Options>,
    name: &'static str,
    /// Locked while connecting, so that concurrent users open one connection.
    state: Mutex<State>,
    /// Request channels for reuse.
    idle_channels: std::sync::Mutex<Vec<Channel>>,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Arc<Connection>>,
    failures: u32,
    pauses: Option<Pauses>,
    not_before: Option<Instant>,
}

impl BrokerConnection {
    pub(crate) fn new(options: Arc<Options>, name: &'static str) -> Self {
        Self { options, name, state: Mutex::default(), idle_channels: std::sync::Mutex::default() }
    }

    /// The connection. Shortly after a failed attempt it fails at once, so that an outage causes no reconnect storm.
    pub(crate) async fn connection(
        &self,
        operation: &'static str,
    ) -> Result<Arc<Connection>, TransportError> {
        let mut state = self.state.lock().await;
        if let Some(connection) = state.connection.as_ref().filter(|it| it.status().connected()) {
            return Ok(connection.clone());
        }
        state.connection = None;
        if state.not_before.is_some_and(|time| Instant::now() < time) {
            return Err(unavailable(
                operation,
                "the broker is unreachable; the next attempt follows shortly",
            ));
        }
        match self.connect(operation).await {
            Ok(connection) => {
                *state = State { connection: Some(connection.clone()), ..State::default() };
                Ok(connection)
            }
            Err(failed) => {
                let longest = self.options.reconnect_pause;
                let pauses = state.pauses.get_or_insert(Pauses::new(FIRST_PAUSE, longest));
                state.not_before = Some(Instant::now() + pauses.lengthen());
                state.failures += 1;
                tracing::warn!(connection = self.name, failures = state.failures, "cannot connect");
                Err(failed)
            }
        }
    }

    /// A new channel.
    pub(crate) async fn channel(&self, operation: &'static str) -> Result<Channel, TransportError> {
        let connection = self.connection(operation).await?;
        let mut tries = 0;
        loop {
            let created = self.with_timeout(connection.create_channel(), operation).await?;
            tries += 1;
            match created {
                Err(failed)
                    if tries < STALE_TRIES
                        && (is_stale_channel_error(&failed)
                            || is_closed_while_opening(&failed)) => {}
                created => return created.map_err(|source| from_lapin(&source, operation)),
            }
        }
    }

    /// A channel for requests whose refusal closes it. Only for the connection that holds no leases: it is replaced
    /// when too many of its channels were closed by the broker.
    pub(crate) async fn request_channel(
        &self,
        operation: &'static str,
    ) -> Result<Channel, TransportError> {
        while let Some(channel) = self.idle_channels().pop() {
            if channel.status().connected() {
                return Ok(channel);
            }
        }
        let connection = self.connection(operation).await?;
        match self.with_timeout(connection.create_channel(), operation).await? {
            Err(worn) if is_stale_channel_error(&worn) || is_out_of_channels(&worn) => {
                self.replace(connection).await;
                self.channel(operation).await
            }
            Err(closed) if is_closed_while_opening(&closed) => self.channel(operation).await,
            created => created.map_err(|source| from_lapin(&source, operation)),
        }
    }

    /// Continues with another connection. Requests that are under way on this one have time to finish.
    async fn replace(&self, worn: Arc<Connection>) {
        let mut state = self.state.lock().await;
        if !state.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, &worn)) {
            return; // another request has replaced it
        }
        state.connection = None;
        self.idle_channels().clear();
        let finished = sleep(self.options.connect_timeout);
        tokio::spawn(async move {
            finished.await;
            let _ = timeout(CLOSED_WITHIN, worn.close(200, "replaced".into())).await;
        });
    }

    /// Keeps a request channel for the next request. Only after the reply has arrived: a late error reply would close
    /// the channel under the next request.
    pub(crate) fn reuse(&self, channel: Channel) {
        let mut idle_channels = self.idle_channels();
        if channel.status().connected() && idle_channels.len() < IDLE_CHANNELS_LIMIT {
            idle_channels.push(channel);
        }
    }

    fn idle_channels(&self) -> std::sync::MutexGuard<'_, Vec<Channel>> {
        self.idle_channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new channel that is closed when it is dropped.
    pub(crate) async fn guarded_channel(
        &self,
        operation: &'static str,
    ) -> Result<ChannelGuard, TransportError> {
        self.channel(operation).await.map(ChannelGuard::from)
    }

    /// Waits for the broker's reply, with a timeout: lapin alone waits forever.
    pub(crate) async fn with_timeout<T>(
        &self,
        request: impl Future<Output = T>,
        operation: &'static str,
    ) -> Result<T, TransportError> {
        timeout(self.options.connect_timeout, request)
            .await
            .map_err(|_| unavailable(operation, "the broker did not answer in time"))
    }

    /// Closes the connection, which ends all its leases.
    pub(crate) async fn close(&self) {
        let connection = self.state.lock().await.connection.take();
        self.idle_channels().clear();
        if let Some(connection) = connection {
            // If it is lost already there is nothing to close.
            let _ = self.with_timeout(connection.close(200, "closed".into()), "close").await;
        }
    }

    /// Connects to the first host that accepts, in this process's order. A refused login ends the search: the other hosts would refuse it too,
    /// and might lock the user out.
    async fn connect(&self, operation: &'static str) -> Result<Arc<Connection>, TransportError> {
        let invalid = |invalid| error(ErrorKind::Invalid(invalid), operation);
        let uris = address::shuffled(self.options.uris().map_err(invalid)?, *HOST_SEED);
        let tls = tls::configuration(&self.options).map_err(invalid)?;
        let mut first = None;
        for uri in uris {
            match self.connect_to(uri, tls.clone(), operation).await {
                Ok(connection) => return Ok(Arc::new(connection)),
                Err(refused) if refused.kind == ErrorKind::NotAuthorized => return Err(refused),
                Err(failed) => first = first.or(Some(failed)),
            }
        }
        Err(first.unwrap_or_else(|| unavailable(operation, "no host to connect to")))
    }

    async fn connect_to(
        &self,
        mut uri: AMQPUri,
        tls: OwnedTLSConfig,
        operation: &'static str,
    ) -> Result<Connection, TransportError> {
        let address = format!("{}:{}", uri.authority.host, uri.authority.port);
        let name = format!("bezoar {}", self.name);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        let connecting = lapin_logging::connect(uri, tls, properties);
        match timeout(self.options.connect_timeout, connecting).await {
            Ok(connected) => {
                connected.map_err(|source| while_connecting(&source, &address, operation))
            }
            Err(_) => Err(error(ErrorKind::Unavailable, operation).with_source(format!(
                "{address} does not answer; check host and port, and that it is a broker"
            ))),
        }
    }
}
