//! Opens TCP connections, only to allowed addresses.
//!
//! The order matters: resolve the name, filter the addresses by [`NetworkRule`], connect to one of the filtered
//! addresses. The address that was checked is the one that is dialled, so that a DNS answer that changes in between
//! (DNS rebinding) gains nothing. Several addresses are tried with a staggered start, as in Happy Eyeballs (RFC 8305).

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use http::Uri;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep_until},
};
use tower::Service;

use super::{
    CallError, CallErrorKind, NetworkRule, cuttable_connection::CuttableConnection, dns::Lookups,
    url::default_port,
};

/// The maximum number of addresses that are tried for one name.
const MOST_ADDRESSES: usize = 8;
/// The head start of an address before the next one is tried in parallel (RFC 8305), so that a broken IPv6 route does
/// not use up the whole connect timeout.
const STAGGER: Duration = Duration::from_millis(250);

/// Opens connections. The address that is checked is the one that is dialled.
#[derive(Debug, Clone)]
pub(super) struct Dial {
    network: Arc<NetworkRule>,
    lookups: Lookups,
}

impl Dial {
    pub(super) fn new(network: NetworkRule) -> Self {
        Self { network: Arc::new(network), lookups: Lookups::default() }
    }

    async fn connect(self, uri: Uri) -> Result<CuttableConnection, CallError> {
        let addresses = self.candidates(&uri).await?;
        let permitted: Vec<_> = addresses
            .iter()
            .filter(|address| self.network.permits(address.ip()))
            .take(MOST_ADDRESSES)
            .copied()
            .collect();
        if permitted.is_empty() {
            return Err(denied(&addresses));
        }
        Ok(CuttableConnection::new(first_of(permitted).await?))
    }

    /// An IP address in the URL is used as it is. Everything else, including unusual notations of addresses, is resolved
    /// as a name, and the result is checked.
    async fn candidates(&self, uri: &Uri) -> Result<Vec<SocketAddr>, CallError> {
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let port = uri.port_u16().or_else(|| default_port(uri)).unwrap_or_default();
        match host.parse::<IpAddr>() {
            Ok(address) => Ok(vec![SocketAddr::new(address, port)]),
            Err(_) => self.lookups.addresses(host, port).await,
        }
    }
}

fn denied(addresses: &[SocketAddr]) -> CallError {
    let Some(first) = addresses.first() else {
        return CallError::new(
            CallErrorKind::Dns,
            &io::Error::other("the host name has no address"),
        );
    };
    let text = format!("the address {} is not allowed", first.ip());
    CallError::new(CallErrorKind::Denied, &io::Error::other(text))
}

/// The first connection that succeeds; each address has a head start over the next.
async fn first_of(addresses: Vec<SocketAddr>) -> Result<TcpStream, CallError> {
    let mut waiting = addresses.into_iter();
    let mut dialling = FuturesUnordered::new();
    let mut last = CallError::plain(CallErrorKind::Connect);
    loop {
        if let Some(address) = waiting.next() {
            dialling.push(dial(address));
        }
        let patience = Instant::now() + STAGGER;
        tokio::select! {
            biased;
            dialled = dialling.next() => match dialled {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => last = error,
                None => return Err(last),
            },
            () = sleep_until(patience), if waiting.len() > 0 => (),
        }
    }
}

async fn dial(address: SocketAddr) -> Result<TcpStream, CallError> {
    let stream =
        TcpStream::connect(address).await.map_err(|error| CallError::connecting(&error))?;
    if stream.local_addr().is_ok_and(|own| own == address) {
        // Linux may connect a socket to itself if the chosen local port is the one dialled.
        return Err(CallError::plain(CallErrorKind::Refused));
    }
    stream.set_nodelay(true).map_err(|error| CallError::connecting(&error))?;
    Ok(stream)
}

impl Service<Uri> for Dial {
    type Response = CuttableConnection;
    type Error = CallError;
    type Future = BoxFuture<'static, Result<Self::Response, CallError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}
