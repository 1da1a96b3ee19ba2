//! From a queue to an HTTP endpoint, 64 at a time: the least that does it, and an endpoint that takes everything.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use bench_support::Measurement;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::{
    body::Incoming, client::conn::http1 as client, server::conn::http1 as server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use lapin::{message::Delivery, options::BasicAckOptions};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc},
    time::timeout,
};

use crate::broker::Bare;

/// How many requests are under way at a time.
pub(crate) const IN_FLIGHT: usize = 64;
pub(crate) const BARE: &str = "limit: queue to HTTP endpoint, lapin and hyper";

const PATIENCE: Duration = Duration::from_secs(60);

/// Takes everything, and remembers when.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) port: u16,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// How many, the first and the last.
    arrivals: Mutex<Option<(u64, Instant, Instant)>>,
    more: Notify,
}

impl Endpoint {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (port, seen) = (listener.local_addr()?.port(), Arc::<Seen>::default());
        tokio::spawn(serve(listener, seen.clone()));
        Ok(Self { port, seen })
    }

    /// Waits for so many. From the first to the last, so that nobody's start counts.
    pub(crate) async fn rate(&self, name: &str, count: u64) -> Result<Measurement> {
        loop {
            let more = self.seen.more.notified();
            let seen = *self.seen.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
            match seen {
                Some((arrived, first, last)) if arrived >= count => {
                    let seconds = last.duration_since(first).as_secs_f64();
                    return Ok(Measurement::new(name, count as f64 / seconds));
                }
                _ => timeout(PATIENCE, more)
                    .await
                    .with_context(|| format!("only {seen:?} arrived"))?,
            }
        }
    }
}

async fn serve(listener: TcpListener, seen: Arc<Seen>) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let seen = seen.clone();
        let service = service_fn(move |request| take(request, seen.clone()));
        tokio::spawn(server::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn take(
    request: Request<Incoming>,
    seen: Arc<Seen>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    if request.into_body().collect().await.is_ok() {
        let now = Instant::now();
        let mut arrivals = seen.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, first, _) = arrivals.unwrap_or((0, now, now));
        *arrivals = Some((count + 1, first, now));
        seen.more.notify_waiters();
    }
    Ok(Response::new(Empty::new()))
}

type Client = client::SendRequest<Full<Bytes>>;

/// Posts what is in a queue, and acknowledges each once it was answered.
pub(crate) async fn bare(url: &str, queue: &str, count: u64) -> Result<Measurement> {
    let (bare, endpoint) = (Bare::connect(url).await?, Endpoint::start().await?);
    let address = format!("127.0.0.1:{}", endpoint.port);
    let (free, mut clients) = mpsc::channel(IN_FLIGHT);
    for _ in 0..IN_FLIGHT {
        free.send(connect(&address).await?).await?;
    }
    let (_channel, consumer) = bare.consume(queue).await?;
    let mut consumer = consumer.take(usize::try_from(count)?);
    let mut posting = futures_util::stream::FuturesUnordered::new();
    while let Some(delivery) = consumer.try_next().await? {
        let client = loop {
            tokio::select! {
                Some(client) = clients.recv() => break client,
                Some(posted) = posting.next() => free.send(posted?).await?,
            }
        };
        posting.push(post(client, &address, delivery));
    }
    while posting.try_next().await?.is_some() {}
    let measured = endpoint.rate(BARE, count).await?;
    bare.until_ready(queue, 0).await?;
    bare.close().await;
    Ok(measured)
}

async fn connect(address: &str) -> Result<Client> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (client, running) = client::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(running);
    Ok(client)
}

async fn post(mut client: Client, address: &str, delivery: Delivery) -> Result<Client> {
    let request =
        Request::post("/").header("host", address).body(Full::new(Bytes::from(delivery.data)))?;
    client.ready().await?;
    let answer = client.send_request(request).await?;
    ensure!(answer.status().is_success(), "answered {}", answer.status());
    answer.into_body().collect().await?;
    delivery.acker.ack(BasicAckOptions::default()).await?;
    Ok(client)
}
