//! A gateway that answers as it is told, and remembers what it was asked.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    /// A header's text, empty if there is none.
    pub(crate) fn header(&self, name: &str) -> String {
        let value = self.headers.get(name).map(|value| value.as_bytes().to_vec());
        String::from_utf8(value.unwrap_or_default()).unwrap()
    }

    /// The JSON of its body.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The lines of a batch.
    pub(crate) fn items(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// What is answered.
pub(crate) enum Answer {
    Json(u16, Value),
    /// Asks to come again at once.
    Busy,
    Text(u16, &'static str),
    /// Lines of JSON, and whether the connection breaks after them.
    Lines(String, Ending),
    /// Closes the connection.
    Hangup,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Whole,
    BreaksOff,
}

pub(crate) fn problem(status: u16, code: &str, detail: &str) -> Answer {
    let name = format!("urn:bezoar:problem:{code}");
    Answer::Json(status, json!({ "type": name, "status": status, "detail": detail }))
}

/// Says of every line that it was accepted.
pub(crate) fn accept_all(asked: &Asked) -> Answer {
    if !asked.target.ends_with("/batches") {
        return Answer::Json(202, json!({ "id": asked.header("bezoar-id") }));
    }
    let results: Vec<_> = asked.items().iter().map(|item| json!({ "id": item["id"] })).collect();
    Answer::Json(202, json!({ "accepted": results.len(), "refused": 0, "results": results }))
}

pub(crate) struct Gateway {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Gateway {
    /// Starts one. `answer` is given how many requests came before.
    pub(crate) fn start(answer: impl Fn(usize, &Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), answer)
    }

    /// The same at an address.
    pub(crate) fn start_at(
        address: SocketAddr,
        answer: impl Fn(usize, &Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        runtime.spawn(serve(listener, asked.clone(), Arc::new(answer)));
        Self { address, asked, _runtime: runtime }
    }

    /// One that always answers this.
    pub(crate) fn answering(body: Value) -> Self {
        Self::start(move |_, _| Answer::Json(200, body.clone()))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

type Reply = UnsyncBoxBody<Bytes, Hangup>;
type Answering = dyn Fn(usize, &Asked) -> Answer + Send + Sync;

async fn serve(listener: TcpListener, asked: Arc<Mutex<Vec<Asked>>>, answer: Arc<Answering>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (asked, answer) = (asked.clone(), answer.clone());
        let service = service_fn(move |request| reply(request, asked.clone(), answer.clone()));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn reply(
    request: Request<Incoming>,
    all: Arc<Mutex<Vec<Asked>>>,
    answer: Arc<Answering>,
) -> Result<Response<Reply>, Hangup> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Hangup)?.to_bytes();
    let (method, target) = (head.method.to_string(), head.uri.to_string());
    let asked = Asked { method, target, headers: head.headers, body };
    let before = {
        let mut all = all.lock().unwrap();
        all.push(asked.clone());
        all.len() - 1
    };
    match answer(before, &asked) {
        Answer::Hangup => Err(Hangup),
        Answer::Lines(text, ending) => {
            Ok(respond_with(200, "application/x-ndjson", lines(text, ending)))
        }
        Answer::Text(status, text) => Ok(respond(status, "text/html", text.to_owned())),
        Answer::Json(status, body) => Ok(respond(status, "application/json", body.to_string())),
        Answer::Busy => {
            let body =
                json!({ "type": "urn:bezoar:problem:busy", "detail": "too many at present" });
            let mut busy = respond(503, "application/problem+json", body.to_string());
            busy.headers_mut().insert("retry-after", 0.into());
            Ok(busy)
        }
    }
}

fn respond(status: u16, kind: &str, body: String) -> Response<Reply> {
    let body = Full::new(body.into()).map_err(|never| match never {});
    respond_with(status, kind, body.boxed_unsync())
}

fn respond_with(status: u16, kind: &str, body: Reply) -> Response<Reply> {
    Response::builder().status(status).header("content-type", kind).body(body).unwrap()
}

/// Pieces without a length before them.
fn lines(text: String, ending: Ending) -> Reply {
    let pieces: Vec<_> = text.into_bytes().chunks(1_000).map(Bytes::copy_from_slice).collect();
    let pieces = pieces.into_iter().map(|piece| Ok(Frame::data(piece)));
    let broken = (ending == Ending::BreaksOff).then_some(Err(Hangup));
    StreamBody::new(stream::iter(pieces.chain(broken))).boxed_unsync()
}

#[derive(Debug)]
struct Hangup;

impl std::fmt::Display for Hangup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hung up")
    }
}

impl std::error::Error for Hangup {}
