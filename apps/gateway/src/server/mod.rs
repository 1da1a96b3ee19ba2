//! The HTTP server: limits for connections, headers and time, and a graceful shutdown.

mod connections;
mod open_files;
mod patient_stream;

use std::{sync::Arc, time::Duration};

use axum::{Extension, Router, middleware::AddExtension};
use bezoar::Shutdown;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tower::Layer as _;

pub(crate) use connections::Peer;
pub use open_files::raise_open_file_limit;

use self::{connections::Connections, patient_stream::PatientStream};

/// The maximum number of connections.
const CONNECTIONS: usize = 4_096;
/// How long a client may take to send the head of a request.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// The maximum size of a request's head.
const HEAD_LIMIT_BYTES: usize = 128 * 1024;

/// Serves `router` until shutdown; requests in progress may then finish within `grace`.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: Shutdown,
    grace: Duration,
) {
    let graceful = GracefulShutdown::new();
    // The other half of the files is for the store, brokers and endpoints.
    let connections = Connections::new(CONNECTIONS.min(open_files::limit() / 2));
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.draining() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, address)) = accepted else {
            // Most likely too many open files: free some, and try again.
            connections.close_oldest();
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let peer = connections.add(address.ip());
        tokio::spawn(attend(stream, peer, router.clone(), graceful.watcher(), shutdown.clone()));
    }
    drop(listener);
    let _ = timeout(grace, graceful.shutdown()).await;
}

/// Serves a connection until it ends or has to make room for another. One that has sent nothing yet costs no buffers.
async fn attend(
    stream: TcpStream,
    peer: Arc<Peer>,
    router: Router,
    watcher: Watcher,
    shutdown: Shutdown,
) {
    tokio::select! {
        () = peer.closing() => return,
        () = shutdown.draining() => return,
        begun = timeout(HEAD_DEADLINE, stream.readable()) => if begun.is_err() { return },
    }
    let connection = watcher.watch(connection(stream, peer.clone(), router));
    tokio::select! {
        () = peer.closing() => (),
        _ = connection => (), // a client that disconnects is not an error
    }
}

type HttpConnection = http1::Connection<TokioIo<PatientStream<TcpStream>>, HttpService>;
type HttpService = TowerToHyperService<AddExtension<Router, Arc<Peer>>>;

fn connection(stream: TcpStream, peer: Arc<Peer>, router: Router) -> HttpConnection {
    let _ = stream.set_nodelay(true);
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(HEAD_LIMIT_BYTES)
        .serve_connection(
            TokioIo::new(PatientStream::new(stream)),
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
