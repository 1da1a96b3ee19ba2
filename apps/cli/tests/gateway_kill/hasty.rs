//! A gateway that answers 202 before anything is durable: the negative control.

use std::{convert::Infallible, env, path::Path, process::Command};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{client::legacy::Client, rt::TokioExecutor, rt::TokioIo};
use serde_json::json;
use tokio::{net::TcpListener, sync::mpsc};

use crate::{endpoint::Endpoint, support::program::Program};

const PORT: &str = "BEZOAR_TEST_ENDPOINT_PORT";

type Message = (String, Bytes);

/// This binary again, as the process below.
pub(crate) fn start(folder: &Path, endpoint: &Endpoint) -> Program {
    std::fs::write(folder.join("token"), "none").unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "hasty::the_gateway_that_promises_too_early"]);
    command.args(["--ignored", "--nocapture"]).env(PORT, endpoint.port.to_string());
    Program::start(&mut command)
}

#[tokio::test]
#[ignore = "the process that the negative control starts and kills"]
async fn the_gateway_that_promises_too_early() {
    let Ok(port) = env::var(PORT) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    eprintln!("listening on http://{}", listener.local_addr().unwrap());
    let (queue, messages) = mpsc::unbounded_channel();
    tokio::spawn(deliver(messages, format!("http://127.0.0.1:{port}/")));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let queue = queue.clone();
        let service = service_fn(move |request| answer(request, queue.clone()));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

/// Promises at once what is only in memory.
async fn answer(
    request: Request<Incoming>,
    queue: mpsc::UnboundedSender<Message>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let (status, answer) = match head.uri.path() {
        "/v1/queues" => {
            (200, json!([{ "queue": "lab", "ready": 0, "delayed": 0, "in_flight": 0 }]))
        }
        "/v1/dead-letters" => (200, json!({ "items": [], "next": null })),
        _ => {
            let id = head.headers["bezoar-id"].to_str().unwrap().to_owned();
            queue.send((id, body.collect().await.unwrap().to_bytes())).unwrap();
            (202, json!({}))
        }
    };
    Ok(Response::builder().status(status).body(Full::new(answer.to_string().into())).unwrap())
}

/// One at a time, until the endpoint takes it or refuses it for good.
async fn deliver(mut messages: mpsc::UnboundedReceiver<Message>, url: String) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    while let Some((id, body)) = messages.recv().await {
        loop {
            let request =
                Request::builder().method(Method::POST).uri(&url).header("bezoar-id", &id);
            let reply = client.request(request.body(Full::new(body.clone())).unwrap()).await;
            if reply.is_ok_and(|reply| !reply.status().is_server_error()) {
                break;
            }
        }
    }
}
