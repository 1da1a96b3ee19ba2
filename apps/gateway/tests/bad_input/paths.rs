//! Paths, ids and header values that try to be something else.

use http::StatusCode;

use crate::{
    MESSAGES,
    socket::{exchange, request},
    still_accepts,
    support::Lab,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_one_segment_and_nothing_else() {
    let lab = Lab::start("").await;
    let long = "x".repeat(5_000);
    for queue in [
        "%2e%2e",
        "..",
        "%2e%2e%2fdefault",
        "default%2f",
        "%2fdefault",
        "default%00",
        "%00",
        "%0d%0a",
        "%c0%ae%c0%ae",
        "%ff",
        "%ed%a0%80",
        "%f8%88%80%80%80",
        "%25%32%65",
        "default%252e",
        "%",
        "%zz",
        "%2",
        "default;x",
        "default ",
        "DEFAULT",
        "d%C3%A9fault",
        "default%E2%80%8B",
        "%E2%80%AE",
        "",
        "default//",
        "default/../default",
        "./default",
        &long,
    ] {
        let line = format!("POST /v1/queues/{queue}/messages");
        let bytes = request(&lab, &line, "content-length: 1\r\nconnection: close\r\n", b"x");
        let replies = exchange(&lab, &bytes).await;
        let [reply] = replies.as_slice() else { panic!("{queue:?}: {replies:?}") };
        assert!(reply.is_refusal(), "{queue:?}: {reply:?}");
    }
    lab.until("default", |row| row["ready"] == 0).await;
    still_accepts(&lab).await;
}

/// What is not ASCII arrives as it was sent, or is refused; nothing becomes something else.
#[tokio::test(flavor = "multi_thread")]
async fn ids_are_taken_as_they_are_or_refused() {
    let lab = Lab::start("").await;
    let mut accepted = 0;
    let ids: [(&[u8], u16); 9] = [
        ("größe-📦".as_bytes(), 202),
        (b"two words", 202),
        ("zero\u{200b}width".as_bytes(), 202),
        (b"tab\there", 400),
        ("next\u{85}line".as_bytes(), 400),
        (b"\xff\xfe", 400),
        (b"\xc0\xae", 400),
        (b"\xed\xa0\x80", 400),
        (b"", 400),
    ];
    for (id, status) in ids {
        let more = [b"content-length: 1\r\nconnection: close\r\nbezoar-id: ", id, b"\r\n"].concat();
        let (line, marker) = (format!("POST {MESSAGES}"), "x-marker: 1\r\n");
        let bytes = request(&lab, &line, marker, b"x");
        let at = bytes.windows(marker.len()).position(|it| it == marker.as_bytes()).unwrap();
        let bytes = [&bytes[..at], &more, &bytes[at..]].concat();
        let replies = exchange(&lab, &bytes).await;
        let shown = String::from_utf8_lossy(id);
        assert_eq!(replies[0].status, status, "{shown}: {replies:?}");
        match StatusCode::from_u16(status).unwrap() {
            StatusCode::ACCEPTED => {
                accepted += 1;
                let answer: serde_json::Value = serde_json::from_str(&replies[0].body).unwrap();
                assert_eq!(answer["id"], *shown);
            }
            _ => assert!(replies[0].is_refusal(), "{shown}: {replies:?}"),
        }
    }
    lab.until("default", |row| row["ready"] == accepted).await;
}
