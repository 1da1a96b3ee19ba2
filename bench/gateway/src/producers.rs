//! Clients that post one message after the other over connections of their own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::endpoint::micros_since;

const BODY_BYTES: usize = 1024;

/// Where messages are posted.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: String,
    pub(crate) path: String,
    pub(crate) token: Option<String>,
}

/// When a message was sent and when its acceptance was known, in microseconds after the epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) number: u64,
    pub(crate) begun: u32,
    pub(crate) accepted: u32,
}

/// Posts `count` messages over so many connections, each of which waits for one answer after the other.
pub(crate) async fn post_all(
    target: &Target,
    connections: u32,
    count: u64,
    epoch: Instant,
) -> Result<Vec<Sent>> {
    let next = Arc::new(AtomicU64::new(0));
    let producing: Vec<_> = (0..connections)
        .map(|_| tokio::spawn(produce(target.clone(), next.clone(), count, epoch)))
        .collect();
    let mut all = Vec::with_capacity(usize::try_from(count)?);
    for produced in producing {
        all.extend(produced.await??);
    }
    Ok(all)
}

async fn produce(
    target: Target,
    next: Arc<AtomicU64>,
    count: u64,
    epoch: Instant,
) -> Result<Vec<Sent>> {
    let mut client = Client::connect(&target).await?;
    let mut all = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return Ok(all);
        }
        let begun = micros_since(epoch);
        client.post(body(number)).await?;
        all.push(Sent { number, begun, accepted: micros_since(epoch) });
    }
}

/// A message with its number in front.
pub(crate) fn body(number: u64) -> Bytes {
    let mut body = vec![b'x'; BODY_BYTES];
    body[..8].copy_from_slice(&number.to_le_bytes());
    body.into()
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    connection: SendRequest<Full<Bytes>>,
    template: Request<()>,
}

impl Client {
    pub(crate) async fn connect(target: &Target) -> Result<Self> {
        let stream = TcpStream::connect(&target.address).await?;
        stream.set_nodelay(true)?;
        let (connection, running) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(running);
        let mut template = Request::post(target.path.parse::<Uri>()?)
            .header(header::HOST, &target.address)
            .body(())?;
        if let Some(token) = &target.token {
            let value = HeaderValue::try_from(format!("Bearer {token}"))?;
            template.headers_mut().insert(header::AUTHORIZATION, value);
        }
        Ok(Self { connection, template })
    }

    /// Sends a body to the target and waits for the answer, which must be a good one.
    pub(crate) async fn post(&mut self, body: Bytes) -> Result<Bytes> {
        let (head, ()) = self.template.clone().into_parts();
        self.exchange(Request::from_parts(head, Full::new(body))).await
    }

    /// Sends a body somewhere else.
    pub(crate) async fn send(&mut self, path: &str, body: Bytes) -> Result<Bytes> {
        let (mut head, ()) = self.template.clone().into_parts();
        head.uri = path.parse()?;
        self.exchange(Request::from_parts(head, Full::new(body))).await
    }

    /// Asks for something.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Bytes> {
        let (mut head, ()) = self.template.clone().into_parts();
        head.method = http::Method::GET;
        head.uri = path.parse()?;
        self.exchange(Request::from_parts(head, Full::default())).await
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Bytes> {
        self.connection.ready().await.context("the connection was closed")?;
        let response = self.connection.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "answered {status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}
