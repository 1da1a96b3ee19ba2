//! A proxy in front of Azurite that answers as Azurite cannot be made to, and remembers what it answered.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::{net::TcpListener, sync::watch, time::timeout};

use crate::support::PATIENCE;

/// As long as every other time of this format, so that the length of an answer stays.
const LONG_AGO: &str = "Wed, 01 Jan 2020 00:00:00 GMT";

#[derive(Debug, Clone)]
pub(crate) struct AzureProxy {
    pub(crate) port: u16,
    server: u16,
    behaviour: Arc<Mutex<Behaviour>>,
    answered: watch::Sender<Vec<Answered>>,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// As Azurite does.
    Forward,
    /// Like an account that is throttled.
    Busy,
    /// As if every blob were years old.
    OldBlobs,
}

/// A request that it answered.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) method: Method,
    pub(crate) query: String,
    pub(crate) status: u16,
}

impl AzureProxy {
    pub(crate) async fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let behaviour = Arc::new(Mutex::new(Behaviour::Forward));
        let proxy = Self { port, server, behaviour, answered: watch::Sender::default(), client };
        tokio::spawn(proxy.clone().serve(listener));
        proxy
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    /// How many of its answers fit.
    pub(crate) fn count(&self, fits: impl Fn(&Answered) -> bool) -> usize {
        self.answered.borrow().iter().filter(|it| fits(it)).count()
    }

    /// Waits until so many of its answers fit.
    pub(crate) async fn until(&self, count: usize, fits: impl Fn(&Answered) -> bool) {
        let mut answered = self.answered.subscribe();
        let waiting = answered.wait_for(|all| all.iter().filter(|it| fits(it)).count() >= count);
        timeout(PATIENCE, waiting).await.expect("it is asked").unwrap();
    }

    async fn serve(self, listener: TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let proxy = self.clone();
            tokio::spawn(async move {
                let service =
                    service_fn(async |request| Ok::<_, Infallible>(proxy.answer(request).await));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (method, query) = (request.method().clone(), request.uri().query().map(str::to_owned));
        let behaviour = *self.behaviour.lock().unwrap();
        let reply = match behaviour {
            Behaviour::Busy => {
                let busy = Response::builder().status(503).header("x-ms-error-code", "ServerBusy");
                busy.body(Full::default()).unwrap()
            }
            Behaviour::Forward => self.forward(request).await.map(Full::new),
            Behaviour::OldBlobs => self.forward(request).await.map(|it| Full::new(aged(&it))),
        };
        let status = reply.status().as_u16();
        let query = query.unwrap_or_default();
        self.answered.send_modify(|all| all.push(Answered { method, query, status }));
        reply
    }

    async fn forward(&self, request: Request<Incoming>) -> Response<Bytes> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let path = head.uri.path_and_query().unwrap();
        head.uri = format!("http://127.0.0.1:{}{path}", self.server).parse::<Uri>().unwrap();
        match self.client.request(Request::from_parts(head, Full::new(body))).await {
            Ok(reply) => {
                let (head, body) = reply.into_parts();
                Response::from_parts(head, body.collect().await.unwrap().to_bytes())
            }
            Err(_) => Response::builder().status(500).body(Bytes::new()).unwrap(),
        }
    }
}

/// A list of blobs with another time of their last change.
fn aged(list: &Bytes) -> Bytes {
    const BEGIN: &str = "<Last-Modified>";
    let Ok(text) = std::str::from_utf8(list) else { return list.clone() };
    let mut parts = text.split(BEGIN);
    let mut aged = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        aged.extend([BEGIN, LONG_AGO, &part[LONG_AGO.len()..]]);
    }
    aged.into()
}
