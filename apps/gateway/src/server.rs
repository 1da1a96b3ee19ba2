//! The HTTP server: limits for connections, headers and time, and a graceful shutdown.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{Extension, Router, middleware::AddExtension};
use bezoar::Shutdown;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tower::Layer as _;

/// The maximum number of connections; others wait to be accepted.
const CONNECTIONS: usize = 4_096;
/// How long a client may take to send the head of a request.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// The maximum size of a request's head.
const HEAD_LIMIT_BYTES: usize = 128 * 1024;

/// The address of the client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Serves `router` until shutdown; requests in progress may then finish within `grace`.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: Shutdown,
    grace: Duration,
) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = places.clone().acquire_owned();
        let accepted = tokio::select! {
            biased;
            () = shutdown.draining() => break,
            accepted = async { (listener.accept().await, place.await) } => accepted,
        };
        let (Ok((stream, peer)), place) = accepted else {
            // Most likely too many open files: try again.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let connection = graceful.watch(connection(stream, Peer(peer.ip()), router.clone()));
        tokio::spawn(async move {
            let _ = connection.await; // a client that disconnects is not an error
            drop(place);
        });
    }
    drop(listener);
    let _ = timeout(grace, graceful.shutdown()).await;
}

fn connection(
    stream: TcpStream,
    peer: Peer,
    router: Router,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<AddExtension<Router, Peer>>> {
    let _ = stream.set_nodelay(true);
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(HEAD_LIMIT_BYTES)
        .serve_connection(
            TokioIo::new(stream),
            TowerToHyperService::new(Extension(peer).layer(router)),
        )
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::Instant,
    };

    use super::*;

    /// Longer than the deadline, so that the test ends even if the client is not disconnected.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// How long a client stays connected that sends `begin`, and then `more` every second.
    async fn connected_for(begin: &[u8], more: &[u8]) -> Duration {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = serve(listener, Router::new(), Shutdown::default(), Duration::ZERO);
        let serving = tokio::spawn(serving);
        let (mut reader, mut writer) = TcpStream::connect(address).await.unwrap().into_split();
        let (started, mut got) = (Instant::now(), Vec::new());
        let dripping = async {
            writer.write_all(begin).await.unwrap();
            while writer.write_all(more).await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = dripping => (),
            read = reader.read_to_end(&mut got) => drop(read), // closed, perhaps by a reset
            () = sleep(PATIENCE) => (),
        }
        serving.abort();
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_completes_its_request_is_disconnected() {
        let whole = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";
        let cases: [(&[u8], &[u8]); 4] =
            [(b"", b""), (b"GET / HTTP/1.1\r\nx: ", b"x"), (whole, b""), (whole, b"\r\n")];
        for (begin, more) in cases {
            let time = connected_for(begin, more).await;
            let shown = String::from_utf8_lossy(begin);
            assert!((HEAD_DEADLINE..2 * HEAD_DEADLINE).contains(&time), "{shown}: {time:?}");
        }
    }
}
