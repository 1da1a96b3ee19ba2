//! What reaches a well-behaved endpoint.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use bezoar::{ContentType, CorrelationId, MessageId};
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};

use super::{LONG, deliver, endpoint, endpoint_with, message, options, server::answering};

#[tokio::test]
async fn a_message_arrives_byte_for_byte() {
    let (server, mut requests) = answering(|| StatusCode::NO_CONTENT).await;
    let endpoint = endpoint(&format!("{}hook/a%20b?x=1", server.url()), LONG);
    let every_byte: Vec<u8> = (0..=255).collect();
    for body in [Vec::new(), every_byte, vec![7; 3_000_000]] {
        deliver(&endpoint, message(body.clone())).await.unwrap();
        let (parts, received) = requests.recv().await.unwrap();
        assert_eq!(
            (parts.method, parts.uri.to_string().as_str()),
            (Method::POST, "/hook/a%20b?x=1")
        );
        assert_eq!(parts.headers["content-length"], body.len().to_string());
        assert!(received == body, "{} bytes became {}", body.len(), received.len());
    }
    assert_eq!(server.connections().accepted, 1, "one connection serves all");
}

#[tokio::test]
async fn headers_arrive_as_documented() {
    let (server, mut requests) = answering(|| StatusCode::OK).await;
    let mut options = options(&server.url(), LONG);
    options.call.headers.insert("authorization", "Bearer t").unwrap();
    options.call.traceparent =
        Some(Arc::new(|context| Some(format!("00-{}-01", context.message.id))));
    let mut message = message(b"{}".to_vec())
        .with_correlation_id(CorrelationId::new("c-7").unwrap())
        .with_content_type(ContentType::new("application/json").unwrap())
        .with_header("X-Tenant", "Süd");
    message.id = MessageId::new("größe 100%").unwrap();
    deliver(&endpoint_with(options), message).await.unwrap();
    let (parts, _) = requests.recv().await.unwrap();
    let expected = [
        ("host", server.address.to_string()),
        ("authorization", "Bearer t".to_owned()),
        ("content-type", "application/json".to_owned()),
        ("bezoar-id", "gr%C3%B6%C3%9Fe 100%25".to_owned()),
        ("bezoar-type", "lab.result".to_owned()),
        ("bezoar-correlation-id", "c-7".to_owned()),
        ("bezoar-queue", "lab".to_owned()),
        ("bezoar-attempt", "1".to_owned()),
        ("bezoar-redelivered", "false".to_owned()),
        ("bezoar-header-x-tenant", "S%C3%BCd".to_owned()),
    ];
    for (name, value) in expected {
        assert_eq!(parts.headers[name], value, "{name}");
    }
    assert!(!parts.headers.contains_key("webhook-id"), "nothing to sign with");
    assert!(!parts.headers.contains_key("traceparent"), "what fits no header is left out");
}

/// HMAC by its definition (RFC 2104), so that a mistake in how we use a library does not hide itself.
fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let hash = |pad: u8, text: &[u8]| {
        Sha256::digest([block.map(|byte| byte ^ pad).as_slice(), text].concat()).to_vec()
    };
    hash(0x5c, &hash(0x36, text))
}

#[tokio::test]
async fn a_receiver_can_verify_the_signature_by_each_secret() {
    let (server, mut requests) = answering(|| StatusCode::OK).await;
    let mut options = options(&server.url(), LONG);
    let (new, old) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "plain words");
    options.call.secrets = vec![new.parse().unwrap(), old.parse().unwrap()];
    deliver(&endpoint_with(options), message(b"\x00\xffbody".to_vec())).await.unwrap();

    let (parts, body) = requests.recv().await.unwrap();
    let text = |name: &str| parts.headers[name].to_str().unwrap();
    assert_eq!((text("webhook-id"), text("webhook-timestamp")), ("m-1", "1614265330"));
    let signed = [b"m-1.1614265330.".as_slice(), &body].concat();
    let keys = [BASE64_STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap(), old.into()];
    let expected =
        keys.map(|key| format!("v1,{}", BASE64_STANDARD.encode(hmac_sha256(&key, &signed))));
    assert_eq!(text("webhook-signature").split(' ').collect::<Vec<_>>(), expected);
}
