//! Receivers that speak MLLP, well and badly.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bezoar::HandlerError;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use super::{
    FixedClock, LONG, NetworkRule, SHORT, client, client_for, context, deliver, endpoint, failure,
    hl7, message, numbered, options,
    server::{Server, hung_up},
    shown,
};
use crate::endpoint::{AckCode, CallOptions, Endpoint, EndpointCaller, Verdict};

fn url(server: &Server) -> String {
    format!("mllp://{}", server.address)
}

/// Reads one frame; `None` at the end of the connection.
pub(super) async fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut frame, mut buffer) = (Vec::new(), vec![0; 65_536]);
    while !frame.ends_with(b"\x1c\r") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => frame.extend_from_slice(&buffer[..read]),
        }
    }
    assert_eq!(frame[0], 0x0b);
    Some(frame[1..frame.len() - 2].to_vec())
}

/// The acknowledgement of a message, framed.
pub(super) fn ack(code: &str, message: &[u8]) -> Vec<u8> {
    let message = String::from_utf8_lossy(message);
    let id = message.split('|').nth(9).unwrap();
    format!("\x0bMSH|^~\\&|LAB|X|HIS|Y|2026||ACK|99|P|2.5\rMSA|{code}|{id}|CANARY\r\x1c\r").into()
}

/// Answers each message with what `reply` makes of it, until the sender hangs up.
async fn receiver(reply: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Server {
    let reply = Arc::new(reply);
    Server::start(move |mut stream| {
        let reply = reply.clone();
        async move {
            while let Some(message) = read_frame(&mut stream).await {
                let _ = stream.write_all(&reply(&message)).await;
            }
        }
    })
    .await
}

/// Delivers once and checks what came of it, and that no connection is left behind.
async fn check(name: &str, server: Server, timeout: Duration, expected: &str) {
    let endpoint = endpoint(&url(&server), timeout);
    let sent = deliver(&endpoint, message(hl7("MSG-1"))).await;
    assert_eq!(shown(&sent), expected, "{name}");
    if sent.is_err() {
        server.all_ended().await; // with the client still alive
    }
    drop(endpoint);
    server.all_ended().await;
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
        let server = receiver(move |message| ack(code, message)).await;
        let sent = deliver(&endpoint(&url(&server), LONG), message(hl7("MSG-1"))).await;
        assert_eq!(shown(&sent), expected);
        if let Err(HandlerError::Failed(_)) = sent {
            assert!(!failure(sent).detail.is_empty());
        }
    }
}

#[tokio::test]
async fn what_is_no_acknowledgement_has_a_code_of_its_own() {
    const NO_ACK: &str = "transient (hl7.no-ack)";
    let says = |bytes: &'static [u8]| receiver(move |_| bytes.to_vec());
    check("an empty frame", says(b"\x0b\x1c\r").await, LONG, NO_ACK).await;
    check("a byte", says(b"\x0b\x06\x1c\r").await, LONG, NO_ACK).await;
    check("an HTTP server", says(b"HTTP/1.1 400 Bad Request\r\n\r\n").await, LONG, NO_ACK).await;
    check("a message", says(b"\x0bMSH|^~\\&|||||||ORU|1\r\x1c\r").await, LONG, NO_ACK).await;
    let foreign = receiver(|_| ack("AA", &hl7("MSG-2"))).await;
    check("a foreign one", foreign, LONG, "transient (hl7.wrong-control-id)").await;
}

#[tokio::test]
async fn receivers_that_misbehave_have_clear_codes_and_leave_nothing_behind() {
    let silent = Server::start(|mut stream| async move { hung_up(&mut stream).await }).await;
    check("never answers", silent, SHORT, "transient (timeout)").await;
    let drip = receiver(|_| b"\x0bMSH".to_vec()).await;
    check("never ends its answer", drip, SHORT, "transient (timeout)").await;
    let closing = Server::start(|mut stream| async move {
        read_frame(&mut stream).await;
    })
    .await;
    let reset = "transient (reply.reset), uses up no retry";
    check("closes without an answer", closing, LONG, reset).await;
    let at_once = Server::start(|stream| async move { drop(stream) }).await;
    check("closes at once", at_once, LONG, reset).await;
    let within = Server::start(|mut stream| async move {
        read_frame(&mut stream).await;
        stream.write_all(b"\x0bMSH|").await.unwrap();
    })
    .await;
    check("closes within its answer", within, LONG, "transient (reply.truncated)").await;
    let flood = Server::start(|mut stream| async move {
        read_frame(&mut stream).await;
        let mut written = stream.write_all(b"\x0b").await;
        while written.is_ok() {
            written = stream.write_all(&[b'x'; 8192]).await;
        }
    })
    .await;
    check("floods", flood, LONG, "transient (reply.too-large)").await;
}

#[tokio::test]
async fn no_connection_uses_up_no_retry() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let sent = deliver(&endpoint(&format!("mllp://{gone}"), LONG), message(hl7("MSG-1"))).await;
    assert_eq!(shown(&sent), "transient (connect.refused), uses up no retry");
}

#[tokio::test]
async fn an_address_that_is_not_allowed_is_not_dialled() {
    let server = receiver(|message| ack("AA", message)).await;
    let client = client_for(NetworkRule::default()); // public addresses only
    let endpoint = Endpoint::new(options(&url(&server), LONG), client, Arc::new(FixedClock));
    assert_eq!(shown(&deliver(&endpoint, message(hl7("MSG-1"))).await), "postponed");
    assert_eq!(server.connections().accepted, 0);
}

#[tokio::test]
async fn what_cannot_be_framed_is_not_sent() {
    let server = receiver(|message| ack("AA", message)).await;
    let endpoint = endpoint(&url(&server), LONG);
    for (body, expected) in [
        ("MSH|^~\\&|||||||ORU|1\rNTE|\x1c\r", "permanent (mllp.framing-bytes)"),
        ("MSH|^~\\&|||||||ORU|1\rNTE|\x0b", "permanent (mllp.framing-bytes)"),
        ("\x0bMSH|^~\\&|||||||ORU|1\r\x1c\r", "permanent (mllp.framing-bytes)"),
        ("hello", "permanent (hl7.no-msh)"),
        ("MSH|^~\\&|", "permanent (hl7.no-control-id)"),
    ] {
        assert_eq!(shown(&deliver(&endpoint, message(body.into())).await), expected, "{body:?}");
    }
    assert_eq!(server.connections().accepted, 0);
}

#[tokio::test]
async fn messages_arrive_byte_for_byte_and_share_a_connection() {
    let (seen, mut messages) = mpsc::unbounded_channel();
    let server = receiver(move |message| {
        seen.send(message.to_vec()).unwrap();
        ack("AA", message)
    })
    .await;
    let endpoint = endpoint(&url(&server), LONG);
    for number in 0..20 {
        let body = [hl7(&number.to_string()), b"NTE|M\xfcller\n".to_vec()].concat();
        deliver(&endpoint, numbered(number, body.clone())).await.unwrap();
        assert_eq!(messages.recv().await.unwrap(), body);
    }
    assert_eq!(server.connections().accepted, 1);
}

#[tokio::test]
async fn receivers_without_a_last_byte_or_with_one_too_many_are_understood() {
    for end in ["\x1c", "\x1c\r\n", "\x1c\n"] {
        let server = receiver(move |message| {
            let framed = String::from_utf8(ack("AA", message)).unwrap();
            framed.replace("\x1c\r", end).into()
        })
        .await;
        let endpoint = endpoint(&url(&server), LONG);
        for number in 0..5 {
            deliver(&endpoint, numbered(number, hl7(&number.to_string()))).await.unwrap();
        }
        assert_eq!(server.connections().accepted, 1, "{end:?}");
    }
}

#[tokio::test]
async fn a_large_message_is_delivered() {
    let server = receiver(|message| ack("AA", message)).await;
    let body = [hl7("MSG-1"), vec![b'x'; 8 * 1024 * 1024]].concat();
    deliver(&endpoint(&url(&server), LONG), message(body)).await.unwrap();
}

/// Answers once on each connection and closes it: before the next message, or after reading it.
async fn closing_after_each(reads_on: bool, closed: mpsc::UnboundedSender<()>) -> Server {
    Server::start(move |mut stream| {
        let closed = closed.clone();
        async move {
            let message = read_frame(&mut stream).await.unwrap();
            stream.write_all(&ack("AA", &message)).await.unwrap();
            if reads_on {
                read_frame(&mut stream).await;
            }
            drop(stream);
            let _ = closed.send(());
        }
    })
    .await
}

#[tokio::test]
async fn a_kept_connection_that_the_receiver_closed_costs_no_attempt() {
    let (closed, mut news) = mpsc::unbounded_channel();
    let server = closing_after_each(false, closed).await;
    let endpoint = endpoint(&url(&server), LONG);
    for number in 0..20 {
        deliver(&endpoint, numbered(number, hl7(&number.to_string()))).await.unwrap();
        news.recv().await.unwrap(); // closed before the next message
    }
    assert_eq!(server.connections().accepted, 20);
    let (closed, _news) = mpsc::unbounded_channel();
    let server = closing_after_each(true, closed).await;
    let endpoint = super::endpoint(&url(&server), LONG);
    for number in 0..20 {
        deliver(&endpoint, numbered(number, hl7(&number.to_string()))).await.unwrap();
    }
    assert_eq!(server.connections().accepted, 20);
}

#[tokio::test]
async fn a_late_acknowledgement_is_never_that_of_the_next_message() {
    let server = receiver(|message| match String::from_utf8_lossy(message).contains("|late|") {
        true => [ack("CA", message), ack("AA", message)].concat(),
        false => ack("AA", message),
    })
    .await;
    let endpoint = endpoint(&url(&server), LONG);
    for number in 0..5 {
        deliver(&endpoint, numbered(number, hl7("late"))).await.unwrap();
        deliver(&endpoint, numbered(100 + number, hl7(&number.to_string()))).await.unwrap();
    }
    let slow = Server::start(|mut stream| async move {
        while let Some(message) = read_frame(&mut stream).await {
            if String::from_utf8_lossy(&message).contains("|slow|") {
                hung_up(&mut stream).await; // and whatever it says then is lost with the connection
                return;
            }
            stream.write_all(&ack("AA", &message)).await.unwrap();
        }
    })
    .await;
    let endpoint = super::endpoint(&url(&slow), SHORT);
    deliver(&endpoint, numbered(1, hl7("1"))).await.unwrap();
    assert_eq!(shown(&deliver(&endpoint, numbered(2, hl7("slow"))).await), "transient (timeout)");
    deliver(&endpoint, numbered(3, hl7("3"))).await.unwrap();
    assert_eq!(slow.connections().accepted, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_a_time_use_as_many_connections() {
    let busy = Arc::new(AtomicUsize::new(0));
    let server = receiver({
        let busy = busy.clone();
        move |message| {
            busy.fetch_add(1, Ordering::SeqCst);
            ack("AA", message)
        }
    })
    .await;
    let endpoint = endpoint(&url(&server), LONG);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8_u32 {
        let endpoint = endpoint.clone();
        tasks.spawn(async move {
            for number in 0..100 {
                let number = task * 1_000 + number;
                deliver(&endpoint, numbered(number, hl7(&number.to_string()))).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(busy.load(Ordering::SeqCst), 800);
    assert!(server.connections().accepted <= 8, "{:?}", server.connections());
    drop(endpoint);
    server.all_ended().await;
}

#[tokio::test]
async fn a_delivery_that_is_dropped_closes_its_connection() {
    let (arrived, mut news) = mpsc::unbounded_channel();
    let server = Server::start(move |mut stream| {
        let arrived = arrived.clone();
        async move {
            read_frame(&mut stream).await;
            arrived.send(()).unwrap();
            hung_up(&mut stream).await;
        }
    })
    .await;
    let endpoint = endpoint(&url(&server), LONG);
    tokio::select! {
        _ = deliver(&endpoint, message(hl7("MSG-1"))) => panic!("nobody answers"),
        arrived = news.recv() => arrived.unwrap(),
    }
    server.all_ended().await;
}

#[tokio::test]
async fn a_call_without_blame_reports_the_acknowledgement() {
    let server = receiver(|message| ack("AR", message)).await;
    let options = CallOptions::new(url(&server).parse().unwrap());
    let caller = EndpointCaller::new(options, client(), Arc::new(FixedClock));
    let report = caller.call(&context(message(hl7("MSG-1")))).await;
    assert_eq!(report.verdict(), Verdict::Rejected);
    assert_eq!(report.acknowledgement(), Some(AckCode::ApplicationReject));
    assert_eq!((report.status(), report.code().as_str()), (None, "hl7.ar"));
    assert!(!format!("{report:?}").contains("CANARY"));
}
