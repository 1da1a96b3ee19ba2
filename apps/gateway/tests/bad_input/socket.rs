//! Bytes out, replies back.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::support::{Lab, PATIENCE};

/// Closes the connection after its reply, so that whatever came before it is answered by then.
pub(crate) const LAST: &str = "GET /healthz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
/// After this a client that is not answered gives up.
const GIVES_UP: Duration = Duration::from_millis(300);

/// One reply.
#[derive(Debug, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

impl Reply {
    /// A refusal of ours, with words, or one of the HTTP library: a bare status for what is no HTTP.
    pub(crate) fn is_refusal(&self) -> bool {
        let ours = self.content_type == "application/problem+json" && self.body.contains("detail");
        let bare = [400, 414, 431].contains(&self.status) && self.body.is_empty();
        (400..500).contains(&self.status) && (ours || bare)
    }
}

pub(crate) async fn connect(lab: &Lab) -> TcpStream {
    TcpStream::connect(lab.gateway.address()).await.unwrap()
}

/// A request with our token; `more` are further lines of its head.
pub(crate) fn request(lab: &Lab, line: &str, more: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{line} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {}\r\n{more}\r\n",
        lab.token()
    );
    [head.as_bytes(), body].concat()
}

/// Sends it all and reads until the connection is closed, by the gateway or by a client that gives up.
pub(crate) async fn exchange(lab: &Lab, bytes: &[u8]) -> Vec<Reply> {
    let (mut reader, mut writer) = connect(lab).await.into_split();
    let mut got = Vec::new();
    let talking = async {
        // Who is refused early may not get rid of the rest.
        let _ = writer.write_all(bytes).await;
        if timeout(GIVES_UP, reader.read_to_end(&mut got)).await.is_err() {
            let _ = writer.shutdown().await;
            let _ = reader.read_to_end(&mut got).await;
        }
    };
    timeout(PATIENCE, talking).await.expect("the connection is closed");
    replies(&got)
}

/// All of ours have a length.
fn replies(mut bytes: &[u8]) -> Vec<Reply> {
    let mut all = Vec::new();
    while let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let header = |name: &str| {
            head.lines().filter_map(|line| line.split_once(": ")).find(|(it, _)| *it == name)
        };
        let length = header("content-length").map_or(0, |(_, value)| value.parse().unwrap());
        let body = &bytes[end + 4..end + 4 + length];
        all.push(Reply {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            content_type: header("content-type").map_or("", |(_, value)| value).to_owned(),
            body: String::from_utf8(body.to_vec()).unwrap(),
        });
        bytes = &bytes[end + 4 + length..];
    }
    assert!(bytes.is_empty(), "half a reply: {}", String::from_utf8_lossy(bytes));
    all
}
