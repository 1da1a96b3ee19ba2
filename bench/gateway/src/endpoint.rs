//! An endpoint that takes everything, and remembers when.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::timeout,
};

use crate::producers::Target;

/// How long nothing may arrive before a run is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What arrived. A message's number is in the first bytes of its body.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) port: u16,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    epoch: Instant,
    /// When each message arrived first, in microseconds after the epoch; 0 if it did not.
    arrivals: Vec<AtomicU32>,
    arrived: AtomicU64,
    refuses: AtomicBool,
    more: Notify,
}

impl Endpoint {
    /// Listens for messages with numbers below `count`.
    pub(crate) async fn start(epoch: Instant, count: u64) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let arrivals = (0..count).map(|_| AtomicU32::new(0)).collect();
        let (arrived, refuses, more) = <_>::default();
        let state = Arc::new(State { epoch, arrivals, arrived, refuses, more });
        tokio::spawn(serve(listener, state.clone()));
        Ok(Self { port, state })
    }

    /// Where it is.
    pub(crate) fn target(&self) -> Target {
        let address = format!("127.0.0.1:{}", self.port);
        Target { address, path: "/".to_owned(), token: None }
    }

    /// Whether it answers 422 to everything from now on, and takes nothing.
    pub(crate) fn set_refusing(&self, refuses: bool) {
        self.state.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Waits until so many messages have arrived.
    pub(crate) async fn arrived(&self, count: u64) -> Result<()> {
        loop {
            let more = self.state.more.notified();
            let arrived = self.state.arrived.load(Ordering::Acquire);
            if arrived >= count {
                return Ok(());
            }
            let waited = timeout(PATIENCE, more).await;
            waited.with_context(|| format!("{arrived} of {count} arrived, and then no more"))?;
        }
    }

    /// When a message arrived, in microseconds after the epoch.
    pub(crate) fn arrival(&self, number: u64) -> u32 {
        self.state.arrival(number).map_or(0, |place| place.load(Ordering::Relaxed))
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, state.clone()));
    }
}

async fn connection(stream: TcpStream, state: Arc<State>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| take(request, &state));
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn take(
    request: Request<Incoming>,
    state: &State,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let mut response = Response::new(Empty::new());
    match request.into_body().collect().await {
        Ok(_) if state.refuses.load(Ordering::Relaxed) => {
            *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
        }
        Ok(body) => state.took(&body.to_bytes()),
        Err(_) => {}
    }
    Ok(response)
}

impl State {
    fn arrival(&self, number: u64) -> Option<&AtomicU32> {
        self.arrivals.get(usize::try_from(number).ok()?)
    }

    fn took(&self, body: &[u8]) {
        let number = body.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let Some(place) = number.and_then(|number| self.arrival(number)) else { return };
        let now = micros_since(self.epoch);
        if place.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.arrived.fetch_add(1, Ordering::Release);
            self.more.notify_waiters();
        }
    }
}

/// Never 0, which means not yet.
pub(crate) fn micros_since(epoch: Instant) -> u32 {
    u32::try_from(epoch.elapsed().as_micros()).unwrap_or(u32::MAX).max(1)
}
