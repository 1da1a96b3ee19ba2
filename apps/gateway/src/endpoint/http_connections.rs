//! Connections to an HTTP endpoint. Each carries one request at a time; idle ones are kept for a while.
//!
//! A connection that was used last is used first, so that the others can end. A server may close an idle connection at
//! the moment it is used again. So a request on a kept connection that gets no reply is sent once more, on a new
//! connection, with a header that it may have been seen before. One of which no byte was written simply goes to
//! the next connection.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Uri};
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::client::legacy::connect::Connection;
use tokio::time::{Instant, sleep_until, timeout_at};
use tower::Service;

use super::{
    AckMode, CallError, CallErrorKind,
    client::{IdleLimits, NoReply},
    connector::Connector,
    cuttable_connection::ConnectionSwitch,
    reply::{End, EndpointReply},
    request::REDELIVERED,
};

/// The maximum size of a reply's head, and the read buffer for bodies.
const BUFFER_LIMIT_BYTES: usize = 64 * 1024;

type HttpRequest = Request<Full<Bytes>>;

/// The connections to one endpoint.
pub(super) struct HttpConnections {
    connector: Connector,
    uri: Uri,
    idle: Arc<IdleHttp>,
}

impl HttpConnections {
    /// For the host and port of `uri`; opens none yet.
    pub(super) fn new(connector: Connector, uri: Uri, limits: IdleLimits) -> Self {
        Self { connector, uri, idle: Arc::new(IdleHttp { limits, parked: Mutex::default() }) }
    }

    /// Sends a request and returns the reply, or why there is none; keeps the body of a success if `ack` needs it. `build`
    /// builds the same request each time. Dropping the future closes the connection.
    pub(super) async fn send(
        &self,
        build: impl Fn() -> HttpRequest,
        ack: AckMode,
        deadline: Instant,
    ) -> Result<EndpointReply, NoReply> {
        let mut request = build();
        while let Some(mut kept) = self.idle.take() {
            match kept.exchange(request, ack, deadline).await {
                Err(Unanswered { unsent: Some(unsent), .. }) => request = *unsent,
                Err(Unanswered { error, .. }) if error.kind == CallErrorKind::Reset => {
                    request = build();
                    request.headers_mut().insert(REDELIVERED, HeaderValue::from_static("true"));
                    // Its connection is not kept: a server that closes all of them would see each message twice.
                    let (reply, _) = Box::pin(self.send_first(request, ack, deadline)).await?;
                    return Ok(reply);
                }
                Err(Unanswered { error, .. }) => {
                    return Err(NoReply { error, fresh_connection: false });
                }
                Ok(reply) => {
                    self.idle.keep(kept);
                    return Ok(reply);
                }
            }
        }
        // Boxed: it is large and rare, and this future is moved with each request.
        let (reply, fresh) = Box::pin(self.send_first(request, ack, deadline)).await?;
        self.idle.keep(fresh);
        Ok(reply)
    }

    /// Sends the first request on a new connection, and returns that too.
    async fn send_first(
        &self,
        request: HttpRequest,
        ack: AckMode,
        deadline: Instant,
    ) -> Result<(EndpointReply, HttpConnection), NoReply> {
        let mut fresh = self.connect(deadline).await?;
        let reply = fresh.exchange(request, ack, deadline).await;
        let reply = reply.map_err(|it| NoReply { error: it.error, fresh_connection: true })?;
        Ok((reply, fresh))
    }

    async fn connect(&self, deadline: Instant) -> Result<HttpConnection, NoReply> {
        let connecting = async {
            let stream = self.connector.clone().call(self.uri.clone()).await?;
            let mut extras = http::Extensions::new();
            stream.connected().get_extras(&mut extras);
            let switch = extras.remove::<ConnectionSwitch>().unwrap_or_default();
            let mut builder = http1::Builder::new();
            let shaking_hands = builder.max_buf_size(BUFFER_LIMIT_BYTES).handshake(stream);
            let (requests, connection) =
                shaking_hands.await.map_err(|error| CallError::requesting(&error))?;
            tokio::spawn(connection); // it ends when `requests` is dropped, or when the switch cuts it
            Ok(HttpConnection { requests, switch, is_busy: false })
        };
        let connected = timeout_at(deadline, connecting).await;
        let late = |_| Err(CallError::plain(CallErrorKind::ConnectTimeout));
        connected.unwrap_or_else(late).map_err(|error| NoReply { error, fresh_connection: false })
    }
}

impl fmt::Debug for HttpConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConnections").finish_non_exhaustive()
    }
}

/// A connection. If it is dropped before a reply is complete, it is cut.
struct HttpConnection {
    requests: SendRequest<Full<Bytes>>,
    switch: ConnectionSwitch,
    /// Whether a request or its reply is not complete.
    is_busy: bool,
}

/// Why a request has no reply.
struct Unanswered {
    error: CallError,
    /// The request, if nothing of it was sent.
    unsent: Option<Box<HttpRequest>>,
}

impl Unanswered {
    fn new(error: &hyper::Error, unsent: Option<HttpRequest>) -> Self {
        Self { error: CallError::requesting(error), unsent: unsent.map(Box::new) }
    }

    fn late() -> Self {
        Self { error: CallError::plain(CallErrorKind::Timeout), unsent: None }
    }
}

impl HttpConnection {
    async fn exchange(
        &mut self,
        request: HttpRequest,
        ack: AckMode,
        deadline: Instant,
    ) -> Result<EndpointReply, Unanswered> {
        self.is_busy = true;
        let sending = async {
            if let Err(error) = self.requests.ready().await {
                return Err(Unanswered::new(&error, Some(request)));
            }
            let sent = self.requests.try_send_request(request).await;
            sent.map_err(|mut failed| {
                let unsent = failed.take_message();
                Unanswered::new(failed.error(), unsent)
            })
        };
        let response = timeout_at(deadline, sending).await.map_err(|_| Unanswered::late())??;
        let reply = EndpointReply::read(response, ack, deadline).await;
        self.is_busy = reply.end != End::Complete || self.switch.is_stuck();
        Ok(reply)
    }

    /// Whether it can carry another request: nothing is left to read or to write, and the server keeps it open.
    fn is_usable(&self) -> bool {
        !self.is_busy && !self.requests.is_closed()
    }
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        if self.is_busy {
            self.switch.cut();
        }
    }
}

/// Idle connections, the one that was used last at the end.
struct IdleHttp {
    limits: IdleLimits,
    parked: Mutex<Parked>,
}

#[derive(Default)]
struct Parked {
    connections: Vec<(HttpConnection, Instant)>,
    /// Whether a task closes connections that are idle for too long.
    is_watched: bool,
}

impl IdleHttp {
    /// The connection that was used last, if any is alive.
    fn take(&self) -> Option<HttpConnection> {
        let now = Instant::now();
        let mut parked = self.parked();
        loop {
            let (connection, since) = parked.connections.pop()?;
            if connection.is_usable() && since + self.limits.timeout > now {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next request, within the limits.
    fn keep(self: &Arc<Self>, connection: HttpConnection) {
        let mut parked = self.parked();
        if !connection.is_usable() || parked.connections.len() >= self.limits.most {
            return;
        }
        parked.connections.push((connection, Instant::now()));
        if !std::mem::replace(&mut parked.is_watched, true) {
            tokio::spawn(close_when_idle(Arc::downgrade(self)));
        }
    }

    /// Closes connections that have been idle for too long; returns when the next one will have been.
    fn close_expired(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut parked = self.parked();
        let end = |since: Instant| since + self.limits.timeout;
        parked.connections.retain(|(it, since)| it.is_usable() && end(*since) > now);
        let next = parked.connections.first().map(|(_, since)| end(*since));
        parked.is_watched = next.is_some();
        next
    }

    fn parked(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs as long as connections are idle.
async fn close_when_idle(idle: Weak<IdleHttp>) {
    while let Some(next) = idle.upgrade().and_then(|idle| idle.close_expired()) {
        sleep_until(next).await;
    }
}
