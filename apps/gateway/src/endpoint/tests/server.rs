//! Servers that do as they are told.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Request, Response, StatusCode, request::Parts};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};

use super::LONG;

/// How many connections there were, and how many of them are over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Connections {
    pub(super) accepted: usize,
    pub(super) ended: usize,
}

/// A server on a free port; it ends with its test.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    connections: watch::Receiver<Connections>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Does `behave` with each connection, which is over when that returns.
    pub(super) async fn start<F>(behave: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (counts, connections) = watch::channel(Connections::default());
        let accepting = async move {
            let mut tasks = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counts.send_modify(|counts| counts.accepted += 1);
                let (behaving, counts) = (behave(stream), counts.clone());
                tasks.spawn(async move {
                    behaving.await;
                    counts.send_modify(|counts| counts.ended += 1);
                });
            }
        };
        Self { address, connections, _tasks: JoinSet::from_iter([accepting]) }
    }

    /// Reads one request and answers with these bytes, whatever they are; then waits for us to hang up.
    pub(super) async fn saying(reply: impl Into<Vec<u8>>) -> Self {
        let reply = Arc::new(reply.into());
        Self::start(move |mut stream| {
            let reply = reply.clone();
            async move {
                read_request(&mut stream).await;
                let _ = stream.write_all(&reply).await;
                hung_up(&mut stream).await;
            }
        })
        .await
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(super) fn connections(&self) -> Connections {
        *self.connections.borrow()
    }

    /// Waits until there was a connection, and none is left open.
    pub(super) async fn all_ended(&self) {
        let mut connections = self.connections.clone();
        let ended = connections.wait_for(|it| it.accepted > 0 && it.accepted == it.ended);
        timeout(LONG, ended).await.expect("connections are leaked").unwrap();
    }
}

/// Reads the head of a request and as much of a body as `content-length` says.
pub(super) async fn read_request(stream: &mut TcpStream) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if is_whole(&bytes) {
            return bytes;
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return bytes,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

/// Waits for the other side to close the connection, however it does that.
pub(super) async fn hung_up(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}

/// What a well-behaved server was asked.
pub(super) type Seen = (Parts, Bytes);

/// A well-behaved server that answers by `status`, and what it is asked.
pub(super) async fn answering(
    status: impl Fn() -> StatusCode + Send + Sync + 'static,
) -> (Server, mpsc::UnboundedReceiver<Seen>) {
    let (seen, requests) = mpsc::unbounded_channel();
    let status = Arc::new(status);
    let server = Server::start(move |stream| {
        let (seen, status) = (seen.clone(), status.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let (seen, status) = (seen.clone(), status.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                let _ = seen.send((parts, body));
                let mut response = Response::new(Full::new(Bytes::from_static(b"ok")));
                *response.status_mut() = status();
                Ok::<_, Infallible>(response)
            }
        });
        async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        }
    })
    .await;
    (server, requests)
}
