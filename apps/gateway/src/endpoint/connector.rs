//! Opens connections, with TLS for https, within a time limit.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{Uri, uri::Scheme};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use tokio::time::timeout;
use tower::{BoxError, Service};

use super::{
    CallError, CallErrorKind, NetworkRule, cuttable_connection::CuttableConnection, dial::Dial,
    tls_trust::TlsTrust,
};

/// A connection to an endpoint, with or without TLS.
pub(super) type EndpointStream = MaybeHttpsStream<CuttableConnection>;

/// DNS, TCP and TLS within one time limit, which is usually shorter than the request's.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    dial: Dial,
    trust: TlsTrust,
    timeout: Duration,
}

impl Connector {
    pub(super) fn new(network: NetworkRule, trust: TlsTrust, timeout: Duration) -> Self {
        Self { dial: Dial::new(network), trust, timeout }
    }

    async fn connect(mut self, uri: Uri) -> Result<EndpointStream, CallError> {
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return Ok(MaybeHttpsStream::Http(self.dial.call(uri).await?));
        }
        let trust = self.trust.config().await?;
        HttpsConnector::from((self.dial, trust)).call(uri).await.map_err(tls_or_ours)
    }
}

impl Service<Uri> for Connector {
    type Response = EndpointStream;
    type Error = CallError;
    type Future = BoxFuture<'static, Result<Self::Response, CallError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connected = timeout(self.timeout, self.clone().connect(uri));
        Box::pin(async move {
            connected.await.unwrap_or_else(|_| Err(CallError::plain(CallErrorKind::ConnectTimeout)))
        })
    }
}

/// An error that is not from dialling is from the TLS handshake.
fn tls_or_ours(error: BoxError) -> CallError {
    match error.downcast::<CallError>() {
        Ok(ours) => *ours,
        Err(error) => CallError::new(CallErrorKind::Tls, &*error),
    }
}
