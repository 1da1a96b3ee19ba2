//! An endpoint that refuses everything, until it is mended; then it refuses only a few.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::watch, time::timeout};

use crate::{
    evidence::{Call, is_poison},
    support::PATIENCE,
};

/// Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) port: u16,
    mended: Arc<AtomicBool>,
    calls: Arc<Mutex<Vec<Call>>>,
    progress: watch::Sender<u64>,
}

impl Endpoint {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mended, calls, progress) = <_>::default();
        let endpoint = Self { port, mended, calls, progress };
        tokio::spawn(endpoint.clone().serve(listener));
        endpoint
    }

    /// From now on it takes what it can, and remembers.
    pub(crate) fn mend(&self) {
        self.mended.store(true, Ordering::SeqCst);
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Waits for so many calls since it was mended.
    pub(crate) async fn until(&self, count: u64) {
        let mut progress = self.progress.subscribe();
        let waited = timeout(PATIENCE, progress.wait_for(|calls| *calls >= count)).await;
        waited.expect("it is called").unwrap();
    }

    async fn serve(self, listener: TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let endpoint = self.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| endpoint.answer(request));
                // It ends when the gateway is killed.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Empty<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        let _ = body.collect().await;
        let refused =
            if self.mended.load(Ordering::SeqCst) { self.remember(&head.headers) } else { true };
        let status = if refused { 422 } else { 200 };
        Ok(Response::builder().status(status).body(Empty::new()).unwrap())
    }

    fn remember(&self, headers: &HeaderMap) -> bool {
        let text = |name: &str| {
            headers.get(name).map_or_else(String::new, |it| it.to_str().unwrap().to_owned())
        };
        let call = Call {
            replay: text("bezoar-replay"),
            message: text("bezoar-id"),
            delivery: text("bezoar-delivery").parse().unwrap(),
            redelivered: text("bezoar-redelivered") == "true",
        };
        let refused = is_poison(&call.message);
        self.calls.lock().unwrap().push(call);
        self.progress.send_modify(|count| *count += 1);
        refused
    }
}
