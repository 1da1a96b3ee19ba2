//! Endpoints behind TLS.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ConfigBuilder, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{WantsServerCert, WebPkiClientVerifier},
};

use super::{
    Endpoint, FixedClock, LONG, NetworkRule, SHORT, deliver, hl7, message, options, server::Server,
    shown,
};
use crate::endpoint::{ClientOptions, EndpointClient, TlsOptions};

/// A certificate for localhost and its key, made for these tests and used nowhere else.
const PEM: &[u8] = include_bytes!("localhost.pem");

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(PEM).unwrap()
}

fn pem() -> &'static str {
    std::str::from_utf8(PEM).unwrap()
}

fn trusting() -> TlsOptions {
    TlsOptions::default().trust_only(pem()).unwrap()
}

/// Answers one request behind TLS, in a thread of its own.
fn serve() -> SocketAddr {
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    serve_with(config.with_safe_default_protocol_versions().unwrap().with_no_client_auth())
}

/// The same, for clients with a certificate only.
fn serve_known() -> SocketAddr {
    let mut known = RootCertStore::empty();
    known.add(certificate()).unwrap();
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(known), provider.clone());
    let config = ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    serve_with(config.with_client_cert_verifier(verifier.build().unwrap()))
}

fn serve_with(config: ConfigBuilder<ServerConfig, WantsServerCert>) -> SocketAddr {
    let key = PrivateKeyDer::from_pem_slice(PEM).unwrap();
    let config = Arc::new(config.with_single_cert(vec![certificate()], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut tls = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
        let mut buffer = [0; 4096];
        // A client that does not trust us hangs up here.
        let Ok(read @ 1..) = tls.read(&mut buffer) else { return };
        let reply = match buffer[0] {
            0x0b => super::mllp::ack("AA", &buffer[1..read]),
            _ => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec(),
        };
        let _ = tls.write_all(&reply);
    });
    address
}

async fn check(host: &str, port: impl Fn() -> u16, tls: Option<TlsOptions>, expected: &str) {
    check_within(LONG, host, port, tls, expected).await;
}

async fn check_within(
    connect_timeout: Duration,
    host: &str,
    port: impl Fn() -> u16,
    tls: Option<TlsOptions>,
    expected: &str,
) {
    let client = EndpointClient::new(ClientOptions {
        network: NetworkRule::any(),
        connect_timeout,
        ..ClientOptions::default()
    });
    let client = client.with_tls(tls);
    // The server behind TLS speaks both.
    for scheme in ["https", "mllps"] {
        let port = port();
        let url = format!("{scheme}://{host}:{port}/");
        let endpoint = Endpoint::new(options(&url, 2 * LONG), client.clone(), Arc::new(FixedClock));
        let sent = deliver(&endpoint, message(hl7("MSG-1"))).await;
        assert_eq!(shown(&sent), expected, "{url}");
    }
}

#[tokio::test]
async fn a_trusted_endpoint_is_reached_by_name_and_by_address() {
    check("localhost", || serve().port(), Some(trusting()), "done").await;
    check("127.0.0.1", || serve().port(), Some(trusting()), "done").await;
}

#[tokio::test]
async fn an_endpoint_that_asks_for_a_certificate_gets_it() {
    let known = trusting().identify(pem(), pem()).unwrap();
    check("localhost", || serve_known().port(), Some(known), "done").await;
    let client = EndpointClient::new(ClientOptions {
        network: NetworkRule::any(),
        tls: trusting(),
        ..ClientOptions::default()
    });
    let url = format!("https://localhost:{}/", serve_known().port());
    let endpoint = Endpoint::new(options(&url, LONG), client, Arc::new(FixedClock));
    let sent = shown(&deliver(&endpoint, message(hl7("MSG-1"))).await);
    assert_ne!(sent, "done", "without one it is refused");
}

#[test]
fn certificates_and_keys_that_do_not_fit_are_refused() {
    let error = |options: Result<TlsOptions, bezoar::Invalid>| options.unwrap_err().to_string();
    let tls = TlsOptions::default;
    assert_eq!(error(tls().trust_only("x")), "tls_ca has no certificate in PEM");
    assert_eq!(error(tls().identify("x", pem())), "tls_certificate has no certificate in PEM");
    assert_eq!(error(tls().identify(pem(), "x")), "tls_key is not a private key in PEM");
    assert_eq!(
        format!("{:?}", trusting().identify(pem(), pem()).unwrap()),
        "TlsOptions { own_roots: true, client_certificate: true }"
    );
}

#[tokio::test]
async fn one_that_is_not_trusted_is_not() {
    check("localhost", || serve().port(), None, "transient (tls), uses up no retry").await;
    check("127.1", || serve().port(), Some(trusting()), "transient (tls), uses up no retry").await;
}

#[tokio::test]
async fn one_without_tls_says_so_and_one_that_is_silent_is_a_timeout() {
    let plain = Server::saying("HTTP/1.1 400 No\r\n\r\n").await;
    let port = plain.address.port();
    // It waits for the end of a request that never comes, so that the handshake is never answered.
    check_within(
        SHORT,
        "localhost",
        || port,
        Some(trusting()),
        "transient (connect.timeout), uses up no retry",
    )
    .await;
    let rude = Server::start(|mut stream| async move {
        use tokio::io::AsyncWriteExt;
        stream.write_all(b"HTTP/1.1 400 No\r\n\r\n").await.unwrap();
        super::server::hung_up(&mut stream).await;
    })
    .await;
    check(
        "localhost",
        || rude.address.port(),
        Some(trusting()),
        "transient (tls), uses up no retry",
    )
    .await;
    plain.all_ended().await;
    rude.all_ended().await;
}
