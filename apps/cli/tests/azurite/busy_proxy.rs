//! A proxy in front of Azurite that answers like an account that is throttled.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::TcpListener;

#[derive(Debug, Clone)]
pub(crate) struct BusyProxy {
    pub(crate) port: u16,
    server: u16,
    is_busy: Arc<AtomicBool>,
    refused: Arc<AtomicU32>,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl BusyProxy {
    pub(crate) async fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let proxy = Self { port, server, is_busy: Arc::default(), refused: Arc::default(), client };
        tokio::spawn(proxy.clone().serve(listener));
        proxy
    }

    pub(crate) fn set_busy(&self, busy: bool) {
        self.is_busy.store(busy, Ordering::SeqCst);
    }

    /// How many requests it refused.
    pub(crate) fn refused(&self) -> u32 {
        self.refused.load(Ordering::SeqCst)
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
        let (mut head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        if self.is_busy.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            let refused = Response::builder().status(503).header("x-ms-error-code", "ServerBusy");
            return refused.body(Full::default()).unwrap();
        }
        let path = head.uri.path_and_query().unwrap();
        head.uri = format!("http://127.0.0.1:{}{path}", self.server).parse::<Uri>().unwrap();
        match self.client.request(Request::from_parts(head, Full::new(body))).await {
            Ok(reply) => {
                let (head, body) = reply.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                Response::from_parts(head, Full::new(body))
            }
            Err(_) => Response::builder().status(500).body(Full::default()).unwrap(),
        }
    }
}
