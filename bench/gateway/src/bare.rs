//! The limit of both together: the least that takes a message by HTTP, keeps it in SQLite, posts it to the
//! endpoint and removes it. No retry, no lease that ends, no route, no log: only the work that cannot be left out.

use std::{convert::Infallible, path::Path, sync::mpsc, thread};

use anyhow::{Context as _, Result};
use bench_support::{BATCH, limit::Table};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::oneshot};

use crate::producers::{Client, Target};

/// What the one thread that writes is asked to do.
enum Job {
    Insert(Bytes, oneshot::Sender<()>),
    /// Hands out the next message.
    Claim(oneshot::Sender<(i64, Bytes)>),
    Delete(i64),
}

/// Starts it with so many posters, and says where it listens.
pub(crate) async fn start(folder: &Path, endpoint: &Target, posters: u32) -> Result<Target> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let (jobs, inbox) = mpsc::channel();
    let table = Table::open(folder)?;
    thread::spawn(move || write(table, &inbox));
    for _ in 0..posters {
        tokio::spawn(post(Client::connect(endpoint).await?, jobs.clone()));
    }
    tokio::spawn(serve(listener, jobs));
    Ok(Target { address, path: "/".to_owned(), token: None })
}

/// Whatever has arrived is done in one go: inserts, then deletes, then claims.
fn write(mut table: Table, inbox: &mpsc::Receiver<Job>) -> Result<()> {
    let (mut waiting, mut inserts, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
    while let Ok(first) = inbox.recv() {
        for job in std::iter::once(first).chain(inbox.try_iter().take(BATCH as usize)) {
            match job {
                Job::Insert(body, stored) => inserts.push((body, stored)),
                Job::Claim(poster) => waiting.push(poster),
                Job::Delete(id) => deletes.push(id),
            }
        }
        if !inserts.is_empty() {
            table.insert(inserts.iter().map(|(body, _)| &body[..]))?;
            for (_, stored) in inserts.drain(..) {
                let _ = stored.send(());
            }
        }
        if !deletes.is_empty() {
            table.delete(deletes.drain(..))?;
        }
        if !waiting.is_empty() {
            for (id, body) in table.claim(u32::try_from(waiting.len())?)? {
                let poster = waiting.pop().context("no more are claimed than wait")?;
                let _ = poster.send((id, body.into()));
            }
        }
    }
    Ok(())
}

async fn serve(listener: TcpListener, jobs: mpsc::Sender<Job>) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let jobs = jobs.clone();
        let service = service_fn(move |request| accept(request, jobs.clone()));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn accept(
    request: Request<Incoming>,
    jobs: mpsc::Sender<Job>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (stored, accepted) = oneshot::channel();
    if let Ok(body) = request.into_body().collect().await {
        let _ = jobs.send(Job::Insert(body.to_bytes(), stored));
    }
    let mut response = Response::new(Empty::new());
    let is_stored = accepted.await.is_ok();
    *response.status_mut() =
        if is_stored { StatusCode::ACCEPTED } else { StatusCode::INTERNAL_SERVER_ERROR };
    Ok(response)
}

async fn post(mut client: Client, jobs: mpsc::Sender<Job>) {
    loop {
        let (poster, claimed) = oneshot::channel();
        let _ = jobs.send(Job::Claim(poster));
        let Ok((id, body)) = claimed.await else { return };
        if client.post(body).await.is_err() || jobs.send(Job::Delete(id)).is_err() {
            return;
        }
    }
}
