//! How fast deliveries are, beside the bare client that they are made with.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy, rt::TokioExecutor};
use tokio::task::JoinSet;
use tower::Service;

use super::{LONG, context, endpoint, endpoint_with, message, options, server::Server};

const IN_FLIGHT: usize = 64;
const SPAN: Duration = Duration::from_secs(5);

/// Runs `call` over and over, `IN_FLIGHT` at a time, and says how often a second.
async fn per_second<F>(call: impl Fn() -> F + Clone + Send + 'static) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let (count, start) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (call, count) = (call.clone(), count.clone());
        tasks.spawn(async move {
            while start.elapsed() < SPAN {
                call().await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = count.load(Ordering::Relaxed) as f64;
    count / start.elapsed().as_secs_f64()
}

/// A trivial hyper server, in a runtime of its own.
fn server() -> String {
    let (told, url) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (server, mut requests) = super::server::answering(|| http::StatusCode::OK).await;
            told.send(Server::url(&server)).unwrap();
            while requests.recv().await.is_some() {}
        });
    });
    url.recv().unwrap()
}

async fn bare(url: String) -> f64 {
    let client: legacy::Client<_, Full<Bytes>> =
        legacy::Client::builder(TokioExecutor::new()).build_http();
    per_second(move || {
        let mut request = Request::new(Full::new(Bytes::from_static(&[b'x'; 1024])));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url.parse().unwrap();
        let replied = client.request(request);
        async move { drop(replied.await.unwrap().into_body().collect().await.unwrap()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: cargo test --release -p bezoar-gateway speed -- --ignored --nocapture"]
async fn deliveries_a_second() {
    let url = server();
    let mut signed = options(&url, LONG);
    signed.call.secrets = vec!["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap()];
    let bare_client = bare(url.clone()).await;
    println!("{bare_client:>9.0}/s bare client, {IN_FLIGHT} in flight, 1 KiB");
    for (name, endpoint) in
        [("endpoint", endpoint(&url, LONG)), ("endpoint, signed", endpoint_with(signed))]
    {
        let context = context(message(vec![b'x'; 1024]));
        let rate = per_second(move || {
            let delivered = endpoint.clone().call(context.clone());
            async move { delivered.await.unwrap() }
        })
        .await;
        println!("{rate:>9.0}/s {name} ({:.2} of the bare client)", rate / bare_client);
    }
}
