//! A message id is accepted only once within a window, if the sender asks for it.

use bezoar_core::{Acceptance, DeadLetterIds, ErrorKind, Message, Outgoing, TransportError};

use crate::{
    case::Case,
    samples::{ids, message},
};

fn once(case: &Case, message: Message) -> Outgoing {
    Outgoing::from(message).once(case.ticks(10))
}

pub(crate) async fn the_same_id_is_accepted_once(case: Case) {
    let first = || once(&case, message("same").with_header("which", "first"));
    case.send_all([first(), once(&case, message("same")), once(&case, message("other"))]).await;
    case.elapse(9).await;
    case.send(once(&case, message("same"))).await;
    let received = case.worker().await.consume_all().await;
    assert_eq!(ids(&received).len(), 2, "the repetitions are not stored");
    assert!(
        received.iter().all(|it| it.id.as_str() == "other" || !it.headers.is_empty()),
        "the first message is kept"
    );
}

pub(crate) async fn a_repetition_is_reported_as_one(case: Case) {
    let first = || once(&case, message("same"));
    let sent = |results: Vec<Result<Acceptance, TransportError>>| -> Vec<Acceptance> {
        results.into_iter().map(|result| result.expect("it is accepted")).collect()
    };
    let results = sent(case.try_send(&[first(), first(), once(&case, message("other"))]).await);
    assert_eq!(results, [Acceptance::New, Acceptance::Repeated, Acceptance::New]);
    assert_eq!(sent(case.try_send(&[first()]).await), [Acceptance::Repeated]);
    let unasked = sent(case.try_send(&[message("same").into()]).await);
    assert_eq!(unasked, [Acceptance::New], "the sender did not ask for it to be accepted once");
    case.elapse(11).await;
    assert_eq!(sent(case.try_send(&[first()]).await), [Acceptance::New], "its time is over");
}

pub(crate) async fn the_same_id_with_another_body_is_a_conflict(case: Case) {
    let other = || message("same").with_body("another body");
    case.send(once(&case, message("same"))).await;
    let batch = [once(&case, other()), once(&case, message("same")), once(&case, message("new"))];
    let results = case.try_send(&batch).await;
    let kind = results[0]
        .as_ref()
        .expect_err("a different body under the same id is refused")
        .kind
        .clone();
    assert_eq!(kind, ErrorKind::Conflict(message("same").id), "the error names the id");
    assert!(results[1..].iter().all(Result::is_ok), "the others of its batch are accepted");
    case.elapse(11).await;
    case.send(once(&case, other())).await;
    assert_eq!(case.worker().await.consume_all().await.len(), 3);
}

pub(crate) async fn a_repetition_after_the_message_is_done_is_still_one(case: Case) {
    case.send(once(&case, message("same"))).await;
    let worker = case.worker().await;
    worker.consume(1).await;
    case.send(once(&case, message("same"))).await;
    worker.none("a completed message is not accepted again within its window").await;
}

pub(crate) async fn the_same_id_is_accepted_again_after_its_time(case: Case) {
    case.send(once(&case, message("same"))).await;
    case.elapse(11).await;
    case.send(once(&case, message("same"))).await;
    case.send(once(&case, message("same"))).await;
    assert_eq!(case.worker().await.consume_all().await.len(), 2);
}

pub(crate) async fn another_queue_may_have_the_same_id(case: Case) {
    let other = case.other_queue().await;
    case.send(once(&case, message("same"))).await;
    let sent = case.transport().send(&(&other).into(), &[once(&case, message("same"))]).await;
    assert!(sent.iter().all(Result::is_ok));
    case.worker_of(&other).await.one().await;
}

pub(crate) async fn a_replayed_message_is_no_repetition(case: Case) {
    case.send(once(&case, message("same"))).await;
    let worker = case.worker().await;
    let delivery = worker.one().await;
    worker.settle(delivery, crate::samples::dead_letter()).await;
    assert_eq!(case.replay(DeadLetterIds::All).await, 1);
    worker.consume(1).await;
}
