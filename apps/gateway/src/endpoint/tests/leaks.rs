//! Nothing that may be personal or secret is ever shown, in errors or in logs.

use std::{
    fmt::Write as _,
    io,
    sync::{Arc, Mutex},
};

use bezoar::{CorrelationId, HandlerError};
use tracing::level_filters::LevelFilter;

use super::{
    Endpoint, FixedClock, LONG, SHORT, client, client_for, deliver, message, options,
    server::{Server, hung_up},
};
use crate::endpoint::{EndpointOptions, EndpointUrl, NetworkRule};

const CANARY: &str = "CANARY";

#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An endpoint with a canary wherever one fits.
fn poisoned(url: &EndpointUrl) -> EndpointOptions {
    let mut options = options("http://x/", SHORT);
    options.call.url = url.clone();
    options.call.headers.insert("authorization", "Bearer CANARY").unwrap();
    options.call.secrets = vec!["CANARY".parse().unwrap()];
    options
}

/// All that is shown of an endpoint and of what came of a delivery.
async fn shown_after_delivery(endpoint: &Endpoint) -> String {
    let body = b"CANARY".to_vec();
    let message = message(body)
        .with_header(CANARY, CANARY)
        .with_correlation_id(CorrelationId::new("c-1").unwrap());
    let mut text = format!("{endpoint:?} ");
    let Err(error) = deliver(endpoint, message).await else { return text };
    write!(text, "{error} {error:?} ").unwrap();
    if let HandlerError::Failed(failed) = &error {
        write!(text, "{failed} {failed:?} {:?}", failed.0).unwrap();
    }
    text
}

async fn bad_endpoints() -> Vec<Server> {
    let problem = r#"{"type":"about:blank","title":"CANARY","detail":"CANARY"}"#;
    let length = problem.len();
    vec![
        Server::saying("HTTP/1.1 500 CANARY\r\nx-CANARY: CANARY\r\ncontent-length: 6\r\n\r\nCANARY").await,
        Server::saying("HTTP/1.1 302 CANARY\r\nlocation: http://CANARY/\r\ncontent-length: 0\r\n\r\n").await,
        Server::saying(format!(
            "HTTP/1.1 422 X\r\ncontent-type: application/problem+json\r\ncontent-length: {length}\r\n\r\n{problem}"
        ))
        .await,
        Server::saying("CANARY CANARY CANARY\r\n\r\n").await,
        Server::saying("HTTP/1.1 200 OK\r\nCANARY CANARY\r\n\r\n").await,
        Server::saying("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nCANARY\r\n").await,
        Server::saying("HTTP/1.1 410 CANARY\r\ncontent-length: 6\r\n\r\nCANARY").await,
        Server::start(|mut stream| async move { hung_up(&mut stream).await }).await,
        Server::start(|_| async {}).await,
    ]
}

#[tokio::test]
async fn a_canary_appears_in_no_error_and_no_log() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    tracing::trace!("control");

    let servers = bad_endpoints().await;
    let mut urls: Vec<_> = servers.iter().map(Server::url).collect();
    urls.extend(
        ["http://127.0.0.1:1/", "https://127.0.0.1:1/", "http://nobody.invalid/"].map(Into::into),
    );
    for url in urls {
        let url = format!("{url}hook/CANARY?token=CANARY").parse().unwrap();
        for client in [client(), client_for(NetworkRule::default())] {
            let endpoint = Endpoint::new(poisoned(&url), client.clone(), Arc::new(FixedClock));
            let shown = shown_after_delivery(&endpoint).await;
            assert!(!shown.contains(CANARY), "{shown}");
            let shown = format!("{:?} {client:?}", poisoned(&url));
            assert!(!shown.contains(CANARY), "{shown}");
        }
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("control"), "the log is listened to");
    assert!(!log.contains(CANARY), "{log}");
}

#[tokio::test]
async fn the_detail_holds_what_people_need_to_see() {
    let server = Server::saying("HTTP/1.1 500 X\r\ncontent-length: 6\r\n\r\nCANARY").await;
    let endpoint = super::endpoint(&server.url(), LONG);
    let failure = super::failure(super::send(&endpoint).await);
    assert_eq!(failure.detail.reveal(), CANARY);
    let refused = super::failure(super::send(&super::endpoint("http://127.0.0.1:1/", LONG)).await);
    assert!(refused.detail.reveal().contains("refused"), "{}", refused.detail.reveal());
}
