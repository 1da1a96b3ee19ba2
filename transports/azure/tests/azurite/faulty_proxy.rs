//! A proxy in front of Azurite that answers some requests itself, loses their answers, or holds them back.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use test_support::azurite::Azurite;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// What the proxy does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Answers with this status and Azure's error code, and these header lines.
    Answer(u16, &'static str, String),
    /// Passes the request on, and closes the connection instead of answering.
    LoseAnswer,
    /// Passes the request on, and answers with this status and Azure's error code.
    ReplaceAnswer(u16, &'static str),
    /// Passes the request on when [`FaultyProxy::release`] is called.
    Hold,
}

pub(crate) struct FaultyProxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    /// The port of Azurite's service.
    to: u16,
    rule: Mutex<Option<Rule>>,
    hits: AtomicU32,
    released: watch::Sender<bool>,
}

/// Which requests are hit: those whose first line contains the text, and how many of them.
struct Rule {
    requests: &'static str,
    left: u32,
    fault: Fault,
}

impl FaultyProxy {
    /// A proxy in front of the queue service.
    pub(crate) async fn start() -> Self {
        Self::start_in_front_of(Azurite::shared().queue_port()).await
    }

    pub(crate) async fn start_in_front_of(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (rule, hits, released) =
            (Mutex::default(), AtomicU32::new(0), watch::Sender::new(false));
        let shared = Arc::new(Shared { to, rule, hits, released });
        let its = shared.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, its.clone()));
            }
        });
        Self { port, shared, task }
    }

    pub(crate) fn connection_string(&self) -> String {
        Azurite::shared().connection_string_through(self.port)
    }

    /// Hits the next `count` requests whose first line contains `requests`, such as `DELETE`.
    pub(crate) fn hit(&self, requests: &'static str, count: u32, fault: Fault) {
        *self.shared.rule.lock().unwrap() = Some(Rule { requests, left: count, fault });
    }

    /// How many requests were hit.
    pub(crate) fn hits(&self) -> u32 {
        self.shared.hits.load(Ordering::SeqCst)
    }

    /// Waits until so many requests were hit.
    pub(crate) async fn until_hit(&self, count: u32) {
        while self.hits() < count {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// Passes on what was held back, and holds back nothing more.
    pub(crate) fn release(&self) {
        self.shared.released.send_replace(true);
    }
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves one request; the client connects again for the next.
async fn serve(mut client: TcpStream, shared: Arc<Shared>) {
    let Some(request) = read_request(&mut client).await else { return };
    let fault = fault(&request, &shared.rule);
    shared.hits.fetch_add(fault.is_some().into(), Ordering::SeqCst);
    let forwarded = forward(&request, shared.to);
    let answer = match fault {
        Some(Fault::Answer(status, code, headers)) => answer(status, code, &headers),
        Some(Fault::LoseAnswer) => return drop(forwarded.await),
        Some(Fault::ReplaceAnswer(status, code)) => {
            forwarded.await;
            answer(status, code, "")
        }
        Some(Fault::Hold) => {
            let _ = shared.released.subscribe().wait_for(|released| *released).await;
            forwarded.await.unwrap_or_default()
        }
        None => forwarded.await.unwrap_or_default(),
    };
    let _ = client.write_all(&answer).await;
}

fn answer(status: u16, code: &str, headers: &str) -> Vec<u8> {
    let code = if code.is_empty() { String::new() } else { format!("x-ms-error-code: {code}\r\n") };
    let head = format!("HTTP/1.1 {status} Fault\r\n{code}{headers}");
    format!("{head}connection: close\r\ncontent-length: 0\r\n\r\n").into_bytes()
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

async fn forward(request: &[u8], port: u16) -> Option<Vec<u8>> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let end = request.windows(4).position(|it| it == b"\r\n\r\n")?;
    let (head, rest) = request.split_at(end);
    server.write_all(&[head, b"\r\nconnection: close", rest].concat()).await.ok()?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await.ok()?;
    Some(answer)
}
