//! A message is the same as a request and as a batch line.

use serde_json::{Value, json};

use super::*;

fn arguments(headers: &[&str]) -> Arguments {
    Arguments {
        message_type: Some(MessageType::new("lab.größe").unwrap()),
        correlation_id: None,
        content_type: None,
        headers: headers.iter().map(|text| (*text).into()).collect(),
        delay: Some(Duration::from_secs(5)),
    }
}

fn item(envelope: &Envelope, body: &[u8]) -> (String, Value) {
    let mut line = Vec::new();
    envelope.write_item(&MessageId::new("m-1").unwrap(), body, &mut line);
    let line = String::from_utf8(line).unwrap();
    let value = serde_json::from_str(&line).unwrap();
    (line, value)
}

#[test]
fn a_request_carries_the_envelope_in_its_headers() {
    let envelope = Envelope::new(arguments(&["Source=a=b ü", "empty="])).unwrap();
    let headers = envelope.headers(&MessageId::new("m-1").unwrap(), b"{}");
    let text = |name: &str| String::from_utf8(headers[name].as_bytes().to_vec()).unwrap();
    assert_eq!(text("bezoar-id"), "m-1");
    assert_eq!(text("bezoar-type"), "lab.größe");
    assert_eq!(text("bezoar-delay"), "5000ms");
    assert_eq!(text("bezoar-header-source"), "a=b ü");
    assert_eq!(text("bezoar-header-empty"), "");
    assert_eq!(text("content-type"), "application/json");
    assert_eq!(headers.len(), 6);
}

#[test]
fn json_is_unchanged_and_other_bodies_are_base64() {
    let envelope = Envelope::new(arguments(&["Source=x"])).unwrap();
    let (line, value) = item(&envelope, br#"{"b":1.50, "a" : 1}"#);
    assert!(line.contains(r#""body":{"b":1.50, "a" : 1}}"#), "{line}");
    assert_eq!(value["headers"], json!({ "source": "x" }));
    assert_eq!((&value["id"], &value["type"]), (&json!("m-1"), &json!("lab.größe")));
    for body in [&b"plain"[..], b"7", b"{not json}", b"\xff\x00", b"", b" {}"] {
        let (_, value) = item(&envelope, body);
        assert_eq!(STANDARD.decode(value["body_base64"].as_str().unwrap()).unwrap(), body);
        assert!(value.get("body").is_none());
    }
}

#[test]
fn an_invalid_header_is_rejected_and_not_quoted() {
    for header in ["CANARY", "=CANARY", "a b=CANARY", "a=CANARY ", "a=\nCANARY", "ä=CANARY"] {
        let Err(problem) = Envelope::new(arguments(&[header])) else { panic!("{header}") };
        assert!(problem.contains("--header") && !problem.contains("CANARY"), "{problem}");
    }
}

#[test]
fn surrounding_spaces_are_rejected() {
    let correlation_id = Some(CorrelationId::new(" c").unwrap());
    let Err(problem) = Envelope::new(Arguments { correlation_id, ..arguments(&[]) }) else {
        panic!()
    };
    assert_eq!(problem, "--correlation-id must not start or end with a space");
}
