//! Batches that are no JSON, the wrong JSON, or partly right.

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::support::Lab;

const BATCHES: &str = "/v1/queues/default/batches";
const ARRAY: &str = "application/json";
const LINES: &str = "application/x-ndjson";

/// The whole is refused, and nothing of it is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_batch_is_refused_as_a_whole() {
    let lab = Lab::start("").await;
    let good = "{\"body\":1}\n";
    let cases: [(&str, Vec<u8>, u16); 12] = [
        (ARRAY, b"".into(), 400),
        (ARRAY, b"null".into(), 400),
        (ARRAY, b"{\"body\":1}".into(), 400),
        (ARRAY, b"[{\"body\":1},".into(), 400),
        (ARRAY, b"[{\"body\":1}] and more".into(), 400),
        (ARRAY, b"[{\"body\":\"\xff\"}]".into(), 400),
        (ARRAY, b"\xef\xbb\xbf[]".into(), 400),
        (ARRAY, b"\xff\xfe[\0]\0".into(), 400),
        (ARRAY, "[".repeat(100_000).into(), 400),
        (ARRAY, "{\"a\":".repeat(100_000).into(), 400),
        (LINES, [good.as_bytes(), b"\xff\n"].concat(), 400),
        (LINES, good.repeat(10_001).into(), 413),
    ];
    for (kind, body, expected) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        let (status, answer) =
            lab.call(Method::POST, BATCHES, &[("content-type", kind)], Bytes::from(body)).await;
        assert_eq!(status.as_u16(), expected, "{shown}: {answer}");
        assert!(answer["detail"].is_string(), "{shown}: {answer}");
    }
    lab.until("default", |row| row["ready"] == 0).await;
}

/// Of each message it is said what became of it, and what is in the queue are those that were accepted.
#[tokio::test(flavor = "multi_thread")]
async fn each_item_is_stored_or_says_why_not() {
    let lab = Lab::start("").await;
    let nested = |open: &str, close: &str| open.repeat(10_000) + "1" + &close.repeat(10_000);
    let deep = format!("{{\"body\":{}}}", nested("[", "]"));
    let cases: [(&str, bool); 24] = [
        ("{\"body\":null}", true),
        ("{\"body\":1e999999}", true), // as it was written
        ("{\"body\":{\"a\":1,\"a\":2}}", true),
        (&deep, true), // nobody reads it here
        ("{\"id\":\"gr\\u00f6\\u00dfe\",\"body\":\"\"}", true),
        ("1", false),
        ("null", false),
        ("[]", false),
        ("{}", false),
        ("\"body\"", false),
        (&nested("[", "]"), false),
        (&format!("{{\"headers\":{}}}", nested("[", "]")), false),
        (&format!("{{\"x\":{}}}", nested("{\"a\":", "}")), false),
        ("{\"id\":\"a\",\"id\":\"b\",\"body\":1}", false),
        ("{\"id\":1,\"body\":1}", false),
        ("{\"id\":\"a\\u0000b\",\"body\":1}", false),
        ("{\"id\":\"\\ud800\",\"body\":1}", false),
        ("{\"delay\":5,\"body\":1}", false),
        ("{\"delay\":\"1e999s\",\"body\":1}", false),
        ("{\"delay\":\"99999999999999999999s\",\"body\":1}", false),
        ("{\"headers\":{\"a\":1},\"body\":1}", false),
        ("{\"type\":\"\",\"body\":1}", false),
        ("{\"body\":1,\"body_base64\":\"\"}", false),
        ("{\"bdoy\":1}", false),
    ];
    let array = format!("[{}]", cases.map(|(item, _)| item).join(","));
    // Line ends of any kind, and blank lines, are no messages.
    let lines = format!("\r\n{}\r\n \n\n", cases.map(|(item, _)| item).join("\r\n"));
    let good = cases.iter().filter(|(_, good)| *good).count();
    for (kind, body) in [(ARRAY, array), (LINES, lines)] {
        let (status, answer) = lab.post(BATCHES, &[("content-type", kind)], &body).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
        assert_eq!(answer["accepted"], good, "{answer}");
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results.len(), cases.len());
        for ((item, good), result) in cases.iter().zip(results) {
            let shown = &item[..item.len().min(60)];
            assert_eq!(result["error"]["detail"].is_string(), !good, "{shown}: {result}");
        }
    }
    // The one with an id of its own was there already.
    lab.until("default", |row| row["ready"] == 2 * good - 1).await;
}
