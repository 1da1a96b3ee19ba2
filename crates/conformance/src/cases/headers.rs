//! Headers arrive unchanged, however unusual, up to the limit.

use bezoar_core::{ErrorKind, Message, Settlement};

use crate::{
    case::Case,
    samples::{assert_as_sent, failed_try, message, reason},
};

/// Asserts that the headers survive delivery, a retry, and dead-lettering.
async fn round_trip(case: Case, sent: Message) {
    case.send(sent.clone()).await;
    let worker = case.worker().await;
    let first = worker.one().await;
    assert_as_sent(&first.message, &sent);
    let tries = vec![failed_try(1)];
    let retry = Settlement::Retry { after: std::time::Duration::ZERO, tries: tries.clone() };
    worker.settle(first, retry).await;
    let second = worker.one().await;
    assert_as_sent(&second.message, &sent);
    worker.settle(second, Settlement::DeadLetter { reason: reason(), tries }).await;
    assert_as_sent(&case.dead().await.remove(0).message, &sent);
}

pub(crate) async fn an_empty_value_comes_back(case: Case) {
    round_trip(case, message("m").with_header("empty", "").with_header("blank", " ")).await;
}

pub(crate) async fn names_of_any_script_come_back(case: Case) {
    let names = ["größe", "検査", "🏥", "a b", "a.b:c/d=e;f,g", "'\"`\\", "é", "e\u{301}", "0"];
    let with_name = |sent: Message, name| sent.with_header(name, format!("value of {name}"));
    round_trip(case, names.into_iter().fold(message("m"), with_name)).await;
}

pub(crate) async fn control_characters_and_quotes_come_back(case: Case) {
    let values =
        ["a\nb", "a\r\nb", "\t", "\"quoted\"", "'; drop table", "a\0b", "\u{1b}[31m", " x "];
    let with_value = |sent: Message, (number, value): (usize, &str)| {
        sent.with_header(format!("header-{number}"), value)
    };
    round_trip(case, values.into_iter().enumerate().fold(message("m"), with_value)).await;
}

pub(crate) async fn names_that_differ_only_in_case_are_kept_apart(case: Case) {
    let sent = message("m").with_header("tenant", "lower").with_header("Tenant", "upper");
    round_trip(case, sent).await;
}

pub(crate) async fn names_like_our_own_come_back(case: Case) {
    let names = [
        "id",
        "type",
        "body",
        "ledger",
        "content-type",
        "message-id",
        "correlation-id",
        "timestamp",
        "bezoar-id",
        "Bezoar-Type",
        "bezoar-ledger",
        "x-death",
        "x-delay",
        "expiration",
    ];
    let with_name = |sent: Message, name| sent.with_header(name, "not yours");
    round_trip(case, names.into_iter().fold(message("m"), with_name)).await;
}

pub(crate) async fn many_headers_come_back(case: Case) {
    let count = (case.room_bytes() / 64).min(1_000);
    let with_number = |sent: Message, number| {
        sent.with_header(format!("header-{number}"), format!("value-{number}"))
    };
    round_trip(case, (0..count).fold(message("m"), with_number)).await;
}

pub(crate) async fn long_headers_come_back(case: Case) {
    let half = "x".repeat((case.room_bytes() / 2).min(30 * 1024));
    let sent = message("m").with_header("first", half.as_str()).with_header("second", half);
    round_trip(case, sent).await;
}

pub(crate) async fn headers_beyond_the_limit_are_refused(case: Case) {
    let sent = message("m").with_header("large", "x".repeat(64 * 1024));
    let kind = case.refusal(sent).await.kind;
    assert!(matches!(kind, ErrorKind::Invalid(_)), "refused as invalid, not as {kind:?}");
    case.worker().await.none("a refused message is not stored").await;
}

pub(crate) async fn a_header_without_a_name_is_refused(case: Case) {
    let kind = case.refusal(message("m").with_header("", "value")).await.kind;
    assert!(matches!(kind, ErrorKind::Invalid(_)), "refused as invalid, not as {kind:?}");
}
