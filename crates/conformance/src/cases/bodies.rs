//! Bodies arrive byte for byte, up to the size limit.

use std::time::Duration;

use bezoar_core::{Body, DETAIL_LIMIT_BYTES, Detail, ErrorKind, FailedTry, Message, Settlement};

use crate::{
    case::Case,
    samples::{assert_as_sent, dead_letter, failed_try, message},
};

async fn round_trip(case: Case, body: impl Into<Body>) {
    let sent = with_body("m", body);
    case.send(sent.clone()).await;
    let received = case.worker().await.one().await.message;
    assert_eq!(received.body.len(), sent.body.len(), "a body keeps its size");
    assert!(received.body == sent.body, "a body keeps its bytes");
}

fn with_body(id: &str, body: impl Into<Body>) -> Message {
    message(id).with_body(body)
}

/// Bytes that differ from their neighbours, so that a lost or moved part is noticed.
fn bytes(count: usize) -> Vec<u8> {
    (0..=250).cycle().take(count).collect()
}

pub(crate) async fn an_empty_body_comes_back(case: Case) {
    round_trip(case, "").await;
}

pub(crate) async fn a_single_byte_comes_back(case: Case) {
    round_trip(case, "\0").await;
}

pub(crate) async fn every_byte_value_comes_back(case: Case) {
    round_trip(case, (0..=255).chain((0..=255).rev()).collect::<Vec<u8>>()).await;
}

pub(crate) async fn text_that_is_not_utf_8_comes_back(case: Case) {
    round_trip(case, b"caf\xe9 \xff\xfe \xed\xa0\x80 \xc0\x80 \xf0\x9f\r\n".to_vec()).await;
}

pub(crate) async fn a_body_that_looks_encoded_is_left_as_it_is(case: Case) {
    let bodies =
        ["aGVsbG8=", r#"{"id":"x","body":"aGVsbG8="}"#, "null", "%20", "\u{feff}x", " x\n"];
    for body in bodies {
        case.send(with_body("m", body)).await;
        let received = case.worker().await.consume(1).await.remove(0);
        assert_as_sent(&received, &with_body("m", body));
    }
}

pub(crate) async fn a_body_of_the_greatest_size_comes_back(case: Case) {
    let most = case.can().max_message_bytes;
    round_trip(case, bytes(most)).await;
}

pub(crate) async fn one_byte_more_is_refused_with_all_that_matters(case: Case) {
    let can = case.can();
    let size = can.max_message_bytes + 1;
    let error = case.refusal(with_body("too large", bytes(size))).await;
    let ErrorKind::TooLarge { id, actual_bytes, limit_bytes } = &error.kind else {
        panic!("a large message is refused as too large, not as {:?}", error.kind);
    };
    assert_eq!(id.as_str(), "too large", "the error names the message");
    assert_eq!((*actual_bytes, *limit_bytes), (size, can.max_message_bytes), "size and limit");
    assert_eq!(error.transport, can.transport, "the error names the transport");
    assert_eq!(error.operation, "send", "the error names the operation");
    case.worker().await.none("a refused message is not stored").await;
}

pub(crate) async fn a_refused_message_does_not_hinder_its_batch(case: Case) {
    let large = with_body("too large", bytes(case.can().max_message_bytes + 1));
    let batch = [message("before").into(), large.into(), message("after").into()];
    let accepted: Vec<bool> = case.try_send(&batch).await.iter().map(Result::is_ok).collect();
    assert_eq!(accepted, [true, false, true], "only the message that does not fit is refused");
    case.worker().await.consume(2).await;
}

pub(crate) async fn a_body_of_the_greatest_size_can_be_retried_and_set_aside(case: Case) {
    let sent = with_body("full", bytes(case.can().max_message_bytes));
    case.send(sent.clone()).await;
    let worker = case.worker().await;
    let detail = Detail::truncated("x".repeat(DETAIL_LIMIT_BYTES));
    let tries = vec![FailedTry { detail, ..failed_try(1) }];
    let retry = Settlement::Retry { after: Duration::ZERO, tries };
    worker.settle(worker.one().await, retry).await;
    worker.settle(worker.one().await, dead_letter()).await;
    let dead = case.dead().await.remove(0).message;
    assert!(dead.body == sent.body, "a retry or dead letter never fails because of its size");
}
