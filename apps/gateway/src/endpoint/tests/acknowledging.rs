//! Routes with `ack = "hl7"` over HTTP: what the reply to a message means.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bezoar::{HandlerError, blame::BreakerState};
use http::StatusCode;
use tokio::io::AsyncWriteExt;

use super::{
    FixedClock, LONG, client, context, deliver, endpoint_with, failure, hl7, message, numbered,
    options,
    server::{Server, answering, hung_up, read_request},
    shown,
};
use crate::endpoint::{
    AckCode, AckMode, CallOptions, CallReport, Endpoint, EndpointCaller, Verdict,
};

fn endpoint(url: &str, timeout: Duration) -> Endpoint {
    let mut options = options(url, timeout);
    options.call.ack = AckMode::Hl7;
    endpoint_with(options)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// An acknowledgement of the message with control id `MSG-1`.
fn ack(code: &str) -> String {
    format!("MSH|^~\\&|LAB|X|HIS|Y|2026||ACK|99|P|2.5\rMSA|{code}|MSG-1|CANARY\rERR|x\r")
}

async fn answered(reply: String) -> Result<(), HandlerError> {
    let server = Server::saying(reply).await;
    deliver(&endpoint(&server.url(), LONG), message(hl7("MSG-1"))).await
}

#[tokio::test]
async fn an_acknowledgement_decides_what_becomes_of_the_message() {
    for (code, expected) in [
        ("AA", "done"),
        ("CA", "done"),
        ("AE", "external service (hl7.ae)"),
        ("CE", "external service (hl7.ce)"),
        ("AR", "permanent (hl7.ar)"),
        ("CR", "permanent (hl7.cr)"),
        ("XX", "transient (hl7.unknown-ack-code)"),
    ] {
        assert_eq!(shown(&answered(ok(&ack(code))).await), expected, "{code}");
    }
    let failure = failure(answered(ok(&ack("AE"))).await);
    assert_eq!(failure.detail.reveal(), "CANARY\nERR|x");
}

#[tokio::test]
async fn success_without_the_acknowledgement_is_not_success() {
    for reply in ["", "OK", "<html>", "{}", "MSH|^~\\&|||||||ACK|1\r"] {
        assert_eq!(shown(&answered(ok(reply)).await), "transient (hl7.no-ack)", "{reply}");
    }
    let no_content = "HTTP/1.1 204 No\r\n\r\n".to_owned();
    assert_eq!(shown(&answered(no_content).await), "transient (hl7.no-ack)");
    let foreign = ack("AA").replace("MSG-1", "MSG-2");
    assert_eq!(shown(&answered(ok(&foreign)).await), "transient (hl7.wrong-control-id)");
}

#[tokio::test]
async fn other_statuses_mean_what_they_always_mean() {
    for (status, expected) in [
        (400, "permanent (http.400)"),
        (500, "external service (http.500)"),
        (503, "external service (http.503), uses up no retry"),
    ] {
        let reply = ok(&ack("AA")).replace("200 OK", &format!("{status} X"));
        assert_eq!(shown(&answered(reply).await), expected);
    }
}

#[tokio::test]
async fn an_acknowledgement_is_read_to_a_bound_and_only_as_a_whole() {
    let long = format!("{}ZZZ|{}\r", ack("AA"), "x".repeat(100_000));
    assert_eq!(shown(&answered(ok(&long)).await), "done");
    // MSA-2 would be MSG-1 if the segment could end anywhere.
    let head = "MSH|^~\\&|||||||ACK|1\r";
    let filler = "Z".repeat(64 * 1024 - head.len() - "\rMSA|AA|MSG-1".len());
    let cut = format!("{head}{filler}\rMSA|AA|MSG-1{}\r", "7".repeat(100_000));
    assert_eq!(shown(&answered(ok(&cut)).await), "transient (hl7.no-ack)");
    let broken = format!("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{}", ack("AA"));
    let closing = Server::start(move |mut stream| {
        let broken = broken.clone();
        async move {
            read_request(&mut stream).await;
            stream.write_all(broken.as_bytes()).await.unwrap();
        }
    })
    .await;
    let sent = deliver(&endpoint(&closing.url(), LONG), message(hl7("MSG-1"))).await;
    assert_eq!(shown(&sent), "transient (reply.truncated)");
}

#[tokio::test]
async fn a_message_that_cannot_be_acknowledged_is_not_sent() {
    let (server, requests) = answering(|| StatusCode::OK).await;
    let endpoint = endpoint(&server.url(), LONG);
    for (body, expected) in [
        ("", "permanent (hl7.no-msh)"),
        (r#"{"patient": 7}"#, "permanent (hl7.no-msh)"),
        ("PID|1\r", "permanent (hl7.no-msh)"),
        ("MSH|^~\\&|||||||ORU||P\r", "permanent (hl7.no-control-id)"),
    ] {
        assert_eq!(shown(&deliver(&endpoint, message(body.into())).await), expected);
    }
    assert_eq!((requests.len(), server.connections().accepted), (0, 0));
    assert_eq!(endpoint.breaker().status().state, BreakerState::Closed);
}

#[tokio::test]
async fn the_content_type_is_that_of_hl7_unless_one_is_set() {
    let (server, mut requests) = answering(|| StatusCode::OK).await;
    let _ = deliver(&endpoint(&server.url(), LONG), message(hl7("MSG-1"))).await;
    let (parts, body) = requests.recv().await.unwrap();
    assert_eq!(parts.headers["content-type"], "x-application/hl7-v2+er7");
    assert_eq!(body, hl7("MSG-1"));
    let mut options = options(&server.url(), LONG);
    options.call.ack = AckMode::Hl7;
    options.call.headers.insert("content-type", "application/hl7-v2").unwrap();
    let _ = deliver(&endpoint_with(options), message(hl7("MSG-1"))).await;
    let (parts, _) = requests.recv().await.unwrap();
    assert_eq!(parts.headers["content-type"], "application/hl7-v2");
}

#[tokio::test]
async fn an_endpoint_that_never_acknowledges_opens_the_breaker_and_uses_up_no_more_retries() {
    let (server, requests) = answering(|| StatusCode::OK).await;
    let endpoint = endpoint(&server.url(), LONG);
    let send = |number| deliver(&endpoint, numbered(number, hl7(&number.to_string())));
    for number in 1..=5 {
        assert_eq!(shown(&send(number).await), "transient (hl7.no-ack)");
    }
    for number in 6..20 {
        assert_eq!(shown(&send(number).await), "postponed");
    }
    assert_eq!(requests.len(), 5);
    assert_eq!(endpoint.breaker().status().code.unwrap().as_str(), "hl7.no-ack");
    endpoint.breaker().probe_now();
    assert_eq!(shown(&send(6).await), "transient (hl7.no-ack), uses up no retry");
}

#[tokio::test]
async fn poison_that_is_never_acknowledged_counts_while_others_succeed() {
    let calls = Arc::new(AtomicU32::new(0));
    let server = Server::start(move |mut stream| {
        let calls = calls.clone();
        async move {
            read_request(&mut stream).await;
            let reply = match calls.fetch_add(1, Ordering::SeqCst) % 2 {
                0 => ok("OK"),
                _ => ok(&ack("AA")),
            };
            let _ = stream
                .write_all(reply.replace("200 OK", "200 OK\r\nconnection: close").as_bytes())
                .await;
            hung_up(&mut stream).await;
        }
    })
    .await;
    let endpoint = endpoint(&server.url(), LONG);
    for number in 1..20 {
        let poison = deliver(&endpoint, numbered(number, hl7("MSG-1"))).await;
        assert_eq!(shown(&poison), "transient (hl7.no-ack)");
        deliver(&endpoint, numbered(100 + number, hl7("MSG-1"))).await.unwrap();
    }
}

async fn called(reply: String, body: &str) -> CallReport {
    let server = Server::saying(reply).await;
    let options = CallOptions {
        ack: AckMode::Hl7,
        timeout: LONG,
        ..CallOptions::new(server.url().parse().unwrap())
    };
    let caller = EndpointCaller::new(options, client(), Arc::new(FixedClock));
    caller.call(&context(message(body.into()))).await
}

#[tokio::test]
async fn a_call_without_blame_reports_the_acknowledgement() {
    let message = String::from_utf8(hl7("MSG-1")).unwrap();
    for (code, verdict) in [
        (AckCode::ApplicationAccept, Verdict::Accepted),
        (AckCode::CommitAccept, Verdict::Accepted),
        (AckCode::ApplicationError, Verdict::Refused),
        (AckCode::CommitError, Verdict::Refused),
        (AckCode::ApplicationReject, Verdict::Rejected),
        (AckCode::CommitReject, Verdict::Rejected),
    ] {
        let report = called(ok(&ack(code.as_str())), &message).await;
        assert_eq!((report.verdict(), report.acknowledgement()), (verdict, Some(code)));
        assert_eq!(report.status(), Some(StatusCode::OK));
        assert!(!format!("{report:?}").contains("CANARY"));
    }
    let report = called(ok("CANARY"), &message).await;
    assert_eq!((report.verdict(), report.acknowledgement()), (Verdict::Refused, None));
    assert_eq!(format!("{report:?}"), "CallReport { verdict: Refused, code: \"hl7.no-ack\", .. }");
    let report = called(ok(&ack("AA")), "not HL7").await;
    assert_eq!((report.verdict(), report.status()), (Verdict::Rejected, None));
    assert_eq!(report.code().as_str(), "hl7.no-msh");
}
