//! Requests that were good once, and then something happened to them.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use crate::{
    MESSAGES,
    socket::{LAST, Reply, exchange, request},
    still_accepts,
    support::Lab,
};

/// A panic anywhere in this process, of the gateway too, whose connection then just ends.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// What confuses readers of HTTP, JSON or paths.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r\n\r\n",
    b"\0",
    b"\xff",
    b"\xc0\xae",
    b" ",
    b":",
    b"%",
    b"%2e%2e%2f",
    b"%00",
    b"%ff",
    b"/../",
    b"content-length: 3\r\n",
    b"transfer-encoding: chunked\r\n",
    b"-1",
    b"{",
    b"[",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"99999999999999999999",
    b"expect: 100-continue\r\n",
    b"?queue=%ff",
    b"HTTP/1.0",
    b"upgrade: h2c\r\n",
    b"bezoar-id: \t\r\n",
    b"bezoar-delay: -1\r\n",
];

/// Which request, where in it, how much of it goes, and what takes its place.
type Mishap = (usize, f64, usize, Vec<u8>);

fn mishap() -> impl Strategy<Value = Mishap> {
    let piece = prop::sample::select(PIECES).prop_map(<[u8]>::to_vec);
    let inserted = prop_oneof![3 => piece, 1 => prop::collection::vec(any::<u8>(), 0..8)];
    (0..5_usize, 0.0..1.0, 0..12_usize, inserted)
}

fn good_requests(lab: &Lab) -> [Vec<u8>; 5] {
    let sized = |more: &str, body: &str| format!("{more}content-length: {}\r\n", body.len());
    let post = |path: &str, more: &str, body: &str| {
        request(lab, &format!("POST {path}"), &sized(more, body), body.as_bytes())
    };
    let batches = "/v1/queues/default/batches";
    [
        post(MESSAGES, "bezoar-id: a\r\nbezoar-delay: 1h\r\n", "{\"x\":1}"),
        post(batches, "", "[{\"id\":\"b\",\"body\":[1]},{\"body_base64\":\"AA==\"}]"),
        post(batches, "content-type: application/x-ndjson\r\n", "{\"body\":1}\r\n\n{\"body\":2}"),
        request(
            lab,
            &format!("POST {MESSAGES}"),
            "transfer-encoding: chunked\r\n",
            b"1\r\nx\r\n0\r\n\r\n",
        ),
        request(lab, "GET /v1/dead-letters?queue=default&limit=5&after=0", "", b""),
    ]
}

fn happen(mut request: Vec<u8>, (_, at, length, inserted): &Mishap) -> Vec<u8> {
    let at = (at * request.len() as f64) as usize;
    let end = (at + length).min(request.len());
    request.splice(at..end, inserted.iter().copied());
    request.extend(LAST.as_bytes());
    request
}

fn is_fine(reply: &Reply) -> bool {
    (200..300).contains(&reply.status) || reply.status == 100 || reply.is_refusal()
}

#[test]
fn whatever_happens_to_a_request_it_is_served_or_refused() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        before(info);
    }));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let lab = runtime.block_on(Lab::start(""));
    let good = good_requests(&lab);
    let mut runner =
        TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let served = runner.run(&mishap(), |mishap| {
        let bytes = happen(good[mishap.0].clone(), &mishap);
        let replies = runtime.block_on(exchange(&lab, &bytes));
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        prop_assert!(replies.iter().all(is_fine), "{}: {:?}", shown, replies);
        prop_assert_eq!(PANICS.load(Ordering::Relaxed), 0);
        Ok(())
    });
    served.unwrap();
    runtime.block_on(still_accepts(&lab));
}
