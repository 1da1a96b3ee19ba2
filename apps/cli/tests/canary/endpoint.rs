//! An endpoint that puts the canary wherever there is room for it.

use crate::CANARY;

/// Types of messages that it does not take, each for a reason of its own.
pub(crate) const REFUSED: [&str; 8] =
    ["problem", "refused", "down", "throttled", "moved", "garbage", "half", "chunks"];

/// By the type of the message.
pub(crate) fn answer(head: &str) -> Vec<u8> {
    let kind = head.lines().find_map(|line| line.strip_prefix("bezoar-type: "));
    let reply = |status: u16, more: &str, body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 {status} {CANARY}\r\nconnection: close\r\nx-patient: {CANARY}\r\n\
             set-cookie: {CANARY}\r\ncontent-length: {length}\r\n{more}\r\n{body}"
        )
    };
    let text = match kind.unwrap_or_default() {
        "problem" => reply(422, "content-type: application/problem+json\r\n", &problem()),
        "refused" => reply(400, "content-type: text/plain\r\n", CANARY),
        "down" => reply(503, &format!("retry-after: {CANARY}\r\n"), CANARY),
        "throttled" => reply(429, &format!("content-type: {CANARY}\r\n"), CANARY),
        "moved" => reply(302, &format!("location: http://{CANARY}.example/{CANARY}\r\n"), CANARY),
        "garbage" => format!("{CANARY} {CANARY}\r\n{CANARY}\r\n\r\n"),
        "half" => format!("HTTP/1.1 400 {CANARY}\r\ncontent-length: 1000\r\n\r\n{CANARY}"),
        "chunks" => format!("HTTP/1.1 400 x\r\ntransfer-encoding: chunked\r\n\r\n{CANARY}\r\n"),
        _ => reply(200, "", CANARY),
    };
    text.into_bytes()
}

/// The path of a problem's type is a code, which is shown: that is what it is for. Host and query are not.
fn problem() -> String {
    serde_json::json!({
        "type": format!("https://{CANARY}.example/out-of-stock?patient={CANARY}"),
        "title": CANARY, "detail": CANARY, "instance": CANARY, CANARY: CANARY,
    })
    .to_string()
}
