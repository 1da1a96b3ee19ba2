//! A proxy in front of Azurite that answers some requests itself, or loses their answers.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use test_support::azurite::Azurite;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// What the proxy does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Answers with this status and Azure's error code, and these header lines.
    Answer(u16, &'static str, String),
    /// Passes the request on, and closes the connection instead of answering.
    LoseAnswer,
}

pub(crate) struct FaultyProxy {
    pub(crate) port: u16,
    rule: Arc<Mutex<Option<Rule>>>,
    hits: Arc<AtomicU32>,
    task: JoinHandle<()>,
}

/// Which requests are hit: those whose first line contains the text, and how many of them.
struct Rule {
    requests: &'static str,
    left: u32,
    fault: Fault,
}

impl FaultyProxy {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (rule, hits) = (Arc::<Mutex<Option<Rule>>>::default(), Arc::<AtomicU32>::default());
        let (its_rule, its_hits) = (rule.clone(), hits.clone());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, its_rule.clone(), its_hits.clone()));
            }
        });
        Self { port, rule, hits, task }
    }

    pub(crate) fn connection_string(&self) -> String {
        Azurite::shared().connection_string_through(self.port)
    }

    /// Hits the next `count` requests whose first line contains `requests`, such as `DELETE`.
    pub(crate) fn hit(&self, requests: &'static str, count: u32, fault: Fault) {
        *self.rule.lock().unwrap() = Some(Rule { requests, left: count, fault });
    }

    /// How many requests were hit.
    pub(crate) fn hits(&self) -> u32 {
        self.hits.load(Ordering::SeqCst)
    }
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves one request; the client connects again for the next.
async fn serve(mut client: TcpStream, rule: Arc<Mutex<Option<Rule>>>, hits: Arc<AtomicU32>) {
    let Some(request) = read_request(&mut client).await else { return };
    let fault = fault(&request, &rule);
    hits.fetch_add(fault.is_some().into(), Ordering::SeqCst);
    let answer = match fault {
        Some(Fault::Answer(status, code, headers)) => {
            let head = format!("HTTP/1.1 {status} Fault\r\nx-ms-error-code: {code}\r\n{headers}");
            format!("{head}connection: close\r\ncontent-length: 0\r\n\r\n").into_bytes()
        }
        Some(Fault::LoseAnswer) => return drop(forward(&request).await),
        None => forward(&request).await.unwrap_or_default(),
    };
    let _ = client.write_all(&answer).await;
}

fn fault(request: &[u8], rule: &Mutex<Option<Rule>>) -> Option<Fault> {
    let head = String::from_utf8_lossy(request);
    let mut rule = rule.lock().unwrap();
    let rule = rule.as_mut().filter(|it| it.left > 0)?;
    if !head.lines().next()?.contains(rule.requests) {
        return None;
    }
    rule.left -= 1;
    Some(rule.fault.clone())
}

async fn read_request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        if client.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
        let head = String::from_utf8_lossy(&request).into_owned();
        let Some(end) = head.find("\r\n\r\n") else { continue };
        let length = head[..end].lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())?.ok()
        });
        if request.len() >= end + 4 + length.unwrap_or(0) {
            return Some(request);
        }
    }
}

async fn forward(request: &[u8]) -> Option<Vec<u8>> {
    let port = Azurite::shared().queue_port();
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let end = request.windows(4).position(|it| it == b"\r\n\r\n")?;
    let (head, rest) = request.split_at(end);
    server.write_all(&[head, b"\r\nconnection: close", rest].concat()).await.ok()?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await.ok()?;
    Some(answer)
}
