//! An endpoint that does what the body says, and remembers what came.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::watch, time::timeout};

use crate::support::PATIENCE;

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) body: Bytes,
    pub(crate) at: Instant,
    /// The header `x-gateway`.
    pub(crate) gateway: String,
    pub(crate) attempt: u32,
    /// The status of the answer; 0 for none.
    pub(crate) status: u16,
    /// Whether it was answered. Not if its gateway was killed first.
    pub(crate) is_done: bool,
}

/// Bodies that begin with `poison` are refused until it is cured, and `flaky` ones fail the first time. Others that contain
/// `refuse` are refused, and those with `hang up` get no answer.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) port: u16,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    cured: Arc<AtomicBool>,
    takes: Duration,
    count: watch::Sender<usize>,
    running: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
}

impl Endpoint {
    pub(crate) async fn start() -> Self {
        Self::slow(Duration::ZERO).await
    }

    /// Each request takes so long.
    pub(crate) async fn slow(takes: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (arrivals, cured, count, running, peak) = <_>::default();
        let endpoint = Self { port, arrivals, cured, takes, count, running, peak };
        tokio::spawn(endpoint.clone().serve(listener));
        endpoint
    }

    /// Accepts poison from now on.
    pub(crate) fn cure(&self) {
        self.cured.store(true, Ordering::SeqCst);
    }

    /// The requests that were answered.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.begun().into_iter().filter(|it| it.is_done).collect()
    }

    /// All requests, also those that were cut off.
    pub(crate) fn begun(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap().clone()
    }

    /// The most requests at a time.
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }

    /// Waits until the answered requests look like this.
    pub(crate) async fn until(&self, fits: impl Fn(&[Arrival]) -> bool) {
        let mut count = self.count.subscribe();
        let fits = |_: &usize| fits(&self.arrivals());
        timeout(PATIENCE, count.wait_for(fits)).await.expect("the messages arrive").unwrap();
    }

    async fn serve(self, listener: TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let endpoint = self.clone();
            tokio::spawn(async move {
                let service = service_fn(async |request| {
                    let reply = match endpoint.take(request).await {
                        0 => return Err(io::Error::other("hangs up")),
                        422 => Response::builder().status(422).header("retry-after", 3_600),
                        status => Response::builder().status(status),
                    };
                    Ok(reply.body(Empty::<Bytes>::new()).unwrap())
                });
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn take(&self, request: Request<Incoming>) -> u16 {
        let (head, incoming) = request.into_parts();
        let Ok(collected) = incoming.collect().await else { return 400 };
        let text = |name: &str| {
            let value = head.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (at, body) = (Instant::now(), collected.to_bytes());
        let attempt = text("bezoar-attempt").parse().unwrap_or(0);
        let status = self.status(&body, attempt);
        let gateway = text("x-gateway");
        let arrival = Arrival { body, at, gateway, attempt, status, is_done: false };
        let number = {
            let mut arrivals = self.arrivals.lock().unwrap();
            arrivals.push(arrival);
            arrivals.len() - 1
        };
        self.peak.fetch_max(self.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(self.takes).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.arrivals.lock().unwrap()[number].is_done = true;
        self.count.send_modify(|count| *count += 1);
        status
    }

    fn status(&self, body: &[u8], attempt: u32) -> u16 {
        match body {
            _ if body.starts_with(b"poison") && !self.cured.load(Ordering::SeqCst) => 400,
            _ if body.starts_with(b"flaky") && attempt <= 1 => 500,
            _ if contains(body, "refuse") => 422,
            _ if contains(body, "hang up") => 0,
            _ => 200,
        }
    }
}

fn contains(body: &[u8], word: &str) -> bool {
    String::from_utf8_lossy(body).contains(word)
}
