//! A server that answers at once, in memory, and speaks just enough of the queue protocol to measure its clients. It
//! checks nothing, so it proves nothing about correctness.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    net::TcpListener,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use anyhow::Result;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};

const TIME: &str = "Tue, 17 Nov 2026 12:00:00 GMT";

/// The texts in each queue, as XML.
#[derive(Debug, Default)]
struct Queues(Mutex<HashMap<String, VecDeque<String>>>);

/// Starts it on a thread of its own; returns its port.
pub(crate) fn start() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || runtime.block_on(serve(listener)));
    Ok(port)
}

async fn serve(listener: TcpListener) -> Result<()> {
    let (listener, queues) = (tokio::net::TcpListener::from_std(listener)?, Arc::default());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let queues: Arc<Queues> = Arc::clone(&queues);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, queues.clone()));
            let http = http1::Builder::new().timer(TokioTimer::new()).clone();
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    queues: Arc<Queues>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let queue = head.uri.path().split('/').nth(2).unwrap_or_default();
    let is_message = head.uri.path().contains("/messages");
    Ok(match (head.method, is_message) {
        (Method::POST, true) => {
            queues.push(queue, &String::from_utf8_lossy(&body));
            xml(StatusCode::CREATED, &message("", ""))
        }
        (Method::GET, true) => {
            let text =
                queues.pop(queue).map(|text| message(&text, "<DequeueCount>1</DequeueCount>"));
            xml(StatusCode::OK, &text.unwrap_or_default())
        }
        (Method::PUT, false) => plain(StatusCode::CREATED),
        (Method::GET, false) => plain(StatusCode::OK),
        _ => plain(StatusCode::NO_CONTENT),
    })
}

impl Queues {
    fn push(&self, queue: &str, body: &str) {
        let text = body.split_once("<MessageText>").map_or("", |(_, rest)| rest);
        let text = text.split_once("</MessageText>").map_or("", |(text, _)| text);
        self.with(queue, |texts| texts.push_back(text.to_owned()));
    }

    fn pop(&self, queue: &str) -> Option<String> {
        self.with(queue, VecDeque::pop_front)
    }

    fn with<T>(&self, queue: &str, work: impl FnOnce(&mut VecDeque<String>) -> T) -> T {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(queues.entry(queue.to_owned()).or_default())
    }
}

fn message(text: &str, more: &str) -> String {
    let text =
        if text.is_empty() { String::new() } else { format!("<MessageText>{text}</MessageText>") };
    format!(
        "<QueueMessage><MessageId>5974b586-0df3-4e2d-ad0c-18e3892bfca2</MessageId>\
         <InsertionTime>{TIME}</InsertionTime><ExpirationTime>{TIME}</ExpirationTime>\
         <PopReceipt>AgAAAAMAAAAAAAAA0000</PopReceipt><TimeNextVisible>{TIME}</TimeNextVisible>\
         {more}{text}</QueueMessage>"
    )
}

fn xml(status: StatusCode, messages: &str) -> Response<Full<Bytes>> {
    let head = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";
    let body = format!("{head}<QueueMessagesList>{messages}</QueueMessagesList>");
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let content_type = http::HeaderValue::from_static("application/xml");
    response.headers_mut().insert(http::header::CONTENT_TYPE, content_type);
    response
}

fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    let count = http::HeaderValue::from_static("0");
    response.headers_mut().insert("x-ms-approximate-messages-count", count);
    response
}
