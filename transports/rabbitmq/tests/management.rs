//! The client of the management API, with servers that misbehave and with TLS. Needs no broker.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    error::Error,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use bezoar_core::{ErrorKind, QueueAdmin, TransportError};
use bezoar_rabbitmq::{Options, Pem, RabbitTransport};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use test_support::certificates;
use tokio::time::Instant;

const QUEUES: &str = r#"{"items":[{"name":"results"}]}"#;

/// Answers each connection with `answer`, in threads of its own. Returns the port.
fn serve(answer: impl Fn(TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, answer) = (stream.unwrap(), answer.clone());
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}

/// Reads a request that has no body.
fn read_request(stream: &mut impl Read) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        request.extend(byte);
    }
}

fn answer_queues(mut stream: impl Read + Write) {
    read_request(&mut stream);
    let (head, length) = ("HTTP/1.1 200 OK\r\nconnection: close", QUEUES.len());
    let _ = write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{QUEUES}");
    let _ = stream.flush();
}

async fn queues(url: &str, ca: Option<Pem>) -> Result<usize, TransportError> {
    let options = Options {
        management_url: Some(url.into()),
        management_ca: ca,
        connect_timeout: Duration::from_secs(2),
        ..Options::from_url("amqp://localhost").unwrap()
    };
    RabbitTransport::open(options)?.queues().await.map(|queues| queues.len())
}

/// The reason why the queues could not be listed. It takes no longer than the timeout, and repeats no password.
async fn refusal(url: &str, ca: Option<Pem>) -> String {
    let started = Instant::now();
    let refused = queues(url, ca).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{refused:?}");
    let source = refused.source().unwrap().to_string();
    assert!(!source.contains("CANARY"), "{source}");
    source
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = serve(answer_queues);
    let port = serve(move |mut stream| {
        read_request(&mut stream);
        let to = format!("http://127.0.0.1:{elsewhere}/api/queues/%2F");
        let _ = write!(stream, "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
    });
    let reason = refusal(&format!("http://me:CANARY@127.0.0.1:{port}"), None).await;
    assert!(reason.contains("redirect") && reason.contains("management_url"), "{reason}");
}

#[tokio::test]
async fn an_answer_without_an_end_is_refused() {
    let port = serve(|mut stream| {
        read_request(&mut stream);
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n\r\n[");
        while stream.write_all(&[b' '; 65_536]).is_ok() {}
    });
    let reason = refusal(&format!("http://me:CANARY@127.0.0.1:{port}"), None).await;
    assert!(reason.contains("larger than 16 MiB"), "{reason}");
}

#[tokio::test]
async fn an_answer_that_says_it_is_too_large_is_refused() {
    let port = serve(|mut stream| {
        read_request(&mut stream);
        let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n[");
        std::thread::sleep(Duration::from_secs(5));
    });
    let reason = refusal(&format!("http://me:CANARY@127.0.0.1:{port}"), None).await;
    assert!(reason.contains("larger than 16 MiB"), "{reason}");
}

#[tokio::test]
async fn a_server_that_sends_byte_by_byte_is_given_up() {
    let port = serve(|mut stream| {
        read_request(&mut stream);
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n\r\n[");
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let reason = refusal(&format!("http://me:CANARY@127.0.0.1:{port}"), None).await;
    assert!(reason.contains("did not answer in time"), "{reason}");
}

#[tokio::test]
async fn a_list_of_queues_without_an_end_is_given_up() {
    let page: Vec<_> = (0..500).map(|number| format!(r#"{{"name":"q{number}"}}"#)).collect();
    let page = format!(r#"{{"items":[{}]}}"#, page.join(","));
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{page}", page.len());
    let port = serve(move |mut stream| {
        loop {
            read_request(&mut stream);
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    let url = format!("http://127.0.0.1:{port}");
    let listed = tokio::time::timeout(Duration::from_secs(20), queues(&url, None)).await;
    let refused = listed.expect("it ends").unwrap_err();
    assert!(refused.source().unwrap().to_string().contains("more than 100000"), "{refused:?}");
}

/// A management API with the certificate `server.pem` of this folder. Returns its port.
fn serve_tls(folder: &Path) -> u16 {
    let certificate = CertificateDer::from_pem_file(folder.join("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![certificate], key).unwrap());
    serve(move |stream| {
        let connection = ServerConnection::new(config.clone()).unwrap();
        answer_queues(StreamOwned::new(connection, stream));
    })
}

#[tokio::test]
async fn a_private_certificate_authority_is_trusted_only_where_it_is_configured() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("management-certificates");
    std::fs::create_dir_all(&folder).unwrap();
    certificates::create(&folder).unwrap();
    let url = format!("https://me:CANARY@localhost:{}", serve_tls(&folder));
    let ca = |name: &str| Some(Pem::File(folder.join(name)));

    assert_eq!(queues(&url, ca("ca.pem")).await.unwrap(), 1);
    for wrong in [None, ca("stranger.pem")] {
        let reason = refusal(&url, wrong).await;
        assert!(reason.contains("management_ca") && reason.contains("certificate"), "{reason}");
    }
    let missing = queues(&url, ca("missing.pem")).await.unwrap_err();
    assert!(missing.to_string().contains("management_ca"), "{missing}");
    let key = queues(&url, ca("server.key")).await.unwrap_err();
    assert!(key.to_string().contains("management_ca"), "{key}");
}
