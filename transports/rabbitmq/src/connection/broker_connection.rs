//! A connection that comes back.
//!
//! lapin's own recovery is off: with it a publish during an outage neither fails nor returns.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use bezoar_core::{ErrorKind, TransportError};
use lapin::{Channel, Connection, ConnectionProperties, tcp::OwnedTLSConfig, uri::AMQPUri};
use tokio::{
    runtime::Handle,
    sync::Mutex,
    time::{Instant, timeout},
};

use crate::{
    Options,
    connection::lapin_logging,
    connection::tls,
    error::{
        error, from_lapin, is_out_of_channels, is_stale_channel_error, unavailable,
        while_connecting,
    },
};

/// How often each side shows that it is there, unless the URL says otherwise. After twice as long without a
/// sign a connection is given up; what a broker proposes by itself is a minute.
const HEARTBEAT_SECONDS: u16 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// How many numbers of channels that ended badly are passed over.
const STALE_TRIES: u32 = 16;
/// How many channels are kept for the next questions.
const IDLE_CHANNELS_LIMIT: usize = 8;
/// A connection that takes longer to close a channel is lost anyway.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// A channel that is closed with this value, and what it holds goes back. lapin alone would keep one whose
/// consumer was being started when the future was dropped.
#[derive(Debug)]
pub(crate) struct ChannelGuard(Channel);

impl From<Channel> for ChannelGuard {
    fn from(channel: Channel) -> Self {
        Self(channel)
    }
}

impl std::ops::Deref for ChannelGuard {
    type Target = Channel;

    fn deref(&self) -> &Channel {
        &self.0
    }
}

impl Drop for ChannelGuard {
    fn drop(&mut self) {
        if let (true, Ok(runtime)) = (self.status().connected(), Handle::try_current()) {
            let channel = self.0.clone();
            runtime.spawn(async move {
                let _ = timeout(CLOSED_WITHIN, channel.close(200, "closed".into())).await;
            });
        }
    }
}

/// One connection at a time, made when it is needed, and made again after it was lost.
#[derive(Debug)]
pub(crate) struct BrokerConnection {
    options: Arc<Options>,
    name: &'static str,
    /// Held while connecting, so that many who need a connection make one.
    state: Mutex<State>,
    /// Channels on which questions were answered.
    idle_channels: std::sync::Mutex<Vec<Channel>>,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Arc<Connection>>,
    failures: u32,
    not_before: Option<Instant>,
}

impl BrokerConnection {
    pub(crate) fn new(options: Arc<Options>, name: &'static str) -> Self {
        Self { options, name, state: Mutex::default(), idle_channels: std::sync::Mutex::default() }
    }

    /// The connection. Soon after a failure it fails at once, so that an outage makes no storm.
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
                "the broker could not be reached, the next try is soon",
            ));
        }
        match self.connect(operation).await {
            Ok(connection) => {
                *state = State { connection: Some(connection.clone()), ..State::default() };
                Ok(connection)
            }
            Err(failed) => {
                let pause = FIRST_PAUSE * 2_u32.saturating_pow(state.failures.min(16));
                state.failures += 1;
                state.not_before = Some(Instant::now() + pause.min(self.options.reconnect_pause));
                tracing::warn!(link = self.name, failures = state.failures, "cannot connect");
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
                Err(stale) if is_stale_channel_error(&stale) && tries < STALE_TRIES => (),
                created => return created.map_err(|source| from_lapin(&source, operation)),
            }
        }
    }

    /// A channel for questions, one after the other, that may end it. Only on a connection that holds nothing: it
    /// is replaced when too many channels of it have ended.
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
                self.close().await;
                self.channel(operation).await
            }
            created => created.map_err(|source| from_lapin(&source, operation)),
        }
    }

    /// Keeps the channel of a question that was answered for the next one. One whose answer nobody waited for is not
    /// to be kept: that answer may end it under somebody else's question.
    pub(crate) fn reuse(&self, channel: Channel) {
        let mut idle_channels = self.idle_channels();
        if channel.status().connected() && idle_channels.len() < IDLE_CHANNELS_LIMIT {
            idle_channels.push(channel);
        }
    }

    fn idle_channels(&self) -> std::sync::MutexGuard<'_, Vec<Channel>> {
        self.idle_channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new channel that nobody else uses.
    pub(crate) async fn guarded_channel(
        &self,
        operation: &'static str,
    ) -> Result<ChannelGuard, TransportError> {
        self.channel(operation).await.map(ChannelGuard)
    }

    /// What the broker answers, if it does in time: lapin waits for ever.
    pub(crate) async fn with_timeout<T>(
        &self,
        request: impl Future<Output = T>,
        operation: &'static str,
    ) -> Result<T, TransportError> {
        timeout(self.options.connect_timeout, request)
            .await
            .map_err(|_| unavailable(operation, "the broker did not answer in time"))
    }

    /// Ends the connection, and with it all leases.
    pub(crate) async fn close(&self) {
        let connection = self.state.lock().await.connection.take();
        self.idle_channels().clear();
        if let Some(connection) = connection {
            // One that is gone already is as good as closed.
            let _ = self.with_timeout(connection.close(200, "closed".into()), "close").await;
        }
    }

    /// To the first host that lets us in. One that refuses who we are ends it: the others would as well, and
    /// may lock the user out.
    async fn connect(&self, operation: &'static str) -> Result<Arc<Connection>, TransportError> {
        let invalid = |invalid| error(ErrorKind::Invalid(invalid), operation);
        let uris = self.options.uris().map_err(invalid)?;
        let tls = tls::configuration(&self.options).map_err(invalid)?;
        let mut first = None;
        for uri in uris {
            match self.connect_to(uri, tls.clone(), operation).await {
                Ok(connection) => return Ok(Arc::new(connection)),
                Err(refused) if refused.kind == ErrorKind::NotAuthorized => return Err(refused),
                Err(failed) => first = first.or(Some(failed)),
            }
        }
        Err(first.unwrap_or_else(|| unavailable(operation, "there is no host to connect to")))
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
                "{address} does not answer; check host and port, and that it is a broker and not something else"
            ))),
        }
    }
}
