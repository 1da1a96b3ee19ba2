//! Serving HTTP: bounded connections, bounded headers, patience with limits, a graceful end.

use std::{sync::Arc, time::Duration};

use axum::Router;
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

/// How many connections are served at a time; others wait to be accepted.
const CONNECTIONS: usize = 4_096;
/// How long a client may take to send the head of a request.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// How large the head of a request may be.
const HEAD_LIMIT_BYTES: usize = 128 * 1024;

/// Serves `router` until told to stop; then requests that have begun may end within `grace`.
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
        let (Ok((stream, _)), place) = accepted else {
            // Too many open files, most likely: the next may work.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let connection = graceful.watch(connection(stream, router.clone()));
        tokio::spawn(async move {
            let _ = connection.await; // a client that went away is nobody's trouble
            drop(place);
        });
    }
    drop(listener);
    let _ = timeout(grace, graceful.shutdown()).await;
}

fn connection(
    stream: TcpStream,
    router: Router,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>> {
    let _ = stream.set_nodelay(true);
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(HEAD_LIMIT_BYTES)
        .pipeline_flush(true)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
}
