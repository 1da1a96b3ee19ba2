//! An endpoint that fails one request in five, and remembers what it took.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
};

use crate::{
    evidence::Delivery,
    message::{body, hash, is_poison},
};

/// Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) port: u16,
    seed: u64,
    requests: Arc<Mutex<HashMap<String, u64>>>,
    delivered: Arc<Mutex<HashMap<String, Vec<Delivery>>>>,
    /// How many requests there were.
    pub(crate) progress: watch::Sender<usize>,
}

/// What a request is answered with.
enum Answer {
    Status(u16),
    Reset,
}

impl Endpoint {
    pub(crate) async fn start(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, delivered, progress) = <_>::default();
        let endpoint = Self { port, seed, requests, delivered, progress };
        tokio::spawn(endpoint.clone().serve(listener));
        endpoint
    }

    pub(crate) fn delivered(&self) -> HashMap<String, Vec<Delivery>> {
        self.delivered.lock().unwrap().clone()
    }

    async fn serve(self, listener: TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // What is closed here is closed by a reset.
            stream.set_zero_linger().unwrap();
            tokio::spawn(self.clone().connection(stream));
        }
    }

    async fn connection(self, stream: TcpStream) {
        let reset = Notify::new();
        let service = service_fn(async |request: Request<Incoming>| {
            let status = match self.take(request).await {
                Answer::Status(status) => status,
                Answer::Reset => {
                    reset.notify_one();
                    std::future::pending().await
                }
            };
            let reply = Response::builder().status(status).body(Empty::<Bytes>::new());
            Ok::<_, Infallible>(reply.unwrap())
        });
        let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            _ = serving => (), // the gateway was killed
            () = reset.notified() => (),
        }
    }

    async fn take(&self, request: Request<Incoming>) -> Answer {
        let (head, incoming) = request.into_parts();
        let Ok(collected) = incoming.collect().await else { return Answer::Reset };
        let id = head.headers["bezoar-id"].to_str().unwrap();
        let answer = self.answer(id);
        if let Answer::Status(200) = answer {
            let intact = collected.to_bytes() == body(id);
            let delivery = Delivery { intact, redelivered: is_redelivered(&head.headers) };
            self.delivered.lock().unwrap().entry(id.to_owned()).or_default().push(delivery);
        }
        self.progress.send_modify(|count| *count += 1);
        answer
    }

    /// By seed, id and how often it came: the same in each run.
    fn answer(&self, id: &str) -> Answer {
        if is_poison(id) {
            return Answer::Status(400);
        }
        let mut requests = self.requests.lock().unwrap();
        let before = requests.entry(id.to_owned()).or_default();
        *before += 1;
        match hash((self.seed, id, *before)) % 15 {
            0 => Answer::Status(500),
            1 => Answer::Status(503),
            2 => Answer::Reset,
            _ => Answer::Status(200),
        }
    }
}

fn is_redelivered(headers: &HeaderMap) -> bool {
    headers.get("bezoar-redelivered").is_some_and(|value| value == "true")
}
