//! A small HTTP server in this process, the endpoint of the gateways in `demo` and `bench`.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, task::JoinSet, time::sleep};

/// The response of an endpoint.
pub(crate) type EndpointResponse = Response<Full<Bytes>>;

/// An endpoint that serves until it is dropped.
#[derive(Debug)]
pub(crate) struct LocalEndpoint {
    /// The address it listens on.
    pub(crate) address: SocketAddr,
    _serving: JoinSet<()>,
}

impl LocalEndpoint {
    /// Serves requests to `address` with `handler`.
    pub(crate) async fn start<H, F>(address: SocketAddr, handler: H) -> Result<Self>
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = EndpointResponse> + Send + 'static,
    {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("the endpoint cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, handler));
        Ok(Self { address, _serving: serving })
    }
}

async fn serve<H, F>(listener: TcpListener, handler: H)
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = EndpointResponse> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Most likely too many open files: try again.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let _ = stream.set_nodelay(true);
        let handler = handler.clone();
        let service = service_fn(move |request| {
            let answer = handler(request);
            async { Ok::<_, Infallible>(answer.await) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new());
        // A client that disconnects is not an error.
        connections.spawn(async move {
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
