//! Every accepted message is delivered once.

use bezoar_core::{Destination, ErrorKind, Outgoing};

use crate::{
    case::Case,
    samples::{assert_as_sent, full_message, ids, message, messages},
    worker::PATIENCE,
};

pub(crate) async fn a_message_arrives_as_it_was_sent(case: Case) {
    let sent = full_message("m");
    case.send(sent.clone()).await;
    let worker = case.worker().await;
    assert_as_sent(&worker.one().await.message, &sent);
    worker.none("without faults there are no duplicates").await;
}

pub(crate) async fn a_batch_has_one_result_for_each_message(case: Case) {
    let too_long = "x".repeat(70_000);
    let bad = |id| message(id).with_header("long", too_long.as_str());
    let good = [message("first"), message("fourth"), message("fifth")];
    let [first, fourth, fifth] = good.clone().map(Outgoing::from);
    let batch = [first, bad("second").into(), bad("third").into(), fourth, fifth];
    let accepted: Vec<bool> = case.try_send(&batch).await.iter().map(Result::is_ok).collect();
    assert_eq!(accepted, [true, false, false, true, true], "results are in the order of the batch");
    let arrived = case.worker().await.consume_all().await;
    assert_eq!(ids(&arrived), ids(&good), "exactly the accepted messages arrive");
}

pub(crate) async fn an_empty_batch_has_no_results(case: Case) {
    case.try_send(&[]).await;
    case.worker().await.none("nothing was sent").await;
}

pub(crate) async fn a_large_batch_arrives_whole(case: Case) {
    let sent = messages(1_000);
    case.send_all(sent.clone()).await;
    let worker = case.worker().await;
    assert_eq!(ids(&worker.consume(1_000).await), ids(&sent), "each message arrives once");
    worker.none("without faults there are no duplicates").await;
}

pub(crate) async fn messages_arrive_in_the_order_of_sending(case: Case) {
    let sent = messages(30);
    let (first, second) = sent.split_at(10);
    case.send_all(first.to_vec()).await;
    for message in second {
        case.send(message.clone()).await;
    }
    let received: Vec<_> =
        case.worker().await.consume(30).await.into_iter().map(|message| message.id).collect();
    assert_eq!(received, ids(&sent), "without failures the order of sending is kept");
}

pub(crate) async fn a_message_id_may_repeat(case: Case) {
    case.send_all([message("same"), message("same").with_header("which", "second")]).await;
    case.send(message("same")).await;
    let received = case.worker().await.consume(3).await;
    assert_eq!(received.iter().filter(|message| message.headers.is_empty()).count(), 2);
}

pub(crate) async fn queues_are_separate(case: Case) {
    let other = case.other_queue().await;
    let (here, there) = (case.worker().await, case.worker_of(&other).await);
    case.send(message("here")).await;
    there.none("a message is delivered only from the queue it was sent to").await;
    let held = here.one().await;
    let to_other = Destination::from(&other);
    for result in case.transport().send(&to_other, &[message("there").into()]).await {
        result.expect("the other queue accepts the message");
    }
    assert_eq!(there.one().await.message.id.as_str(), "there");
    here.complete(vec![held]).await;
}

pub(crate) async fn a_topic_is_refused_where_there_are_none(case: Case) {
    let topic = Destination::Topic { name: case.queue.clone(), key: "key".to_owned() };
    let results = case.transport().send(&topic, &[message("a").into(), message("b").into()]).await;
    assert_eq!(results.len(), 2, "a batch has one result per message");
    for result in results {
        let kind = result.expect_err("there are no topics").kind;
        assert!(matches!(kind, ErrorKind::Unsupported(_)), "refused as unsupported, not {kind:?}");
    }
    case.worker().await.none("a refused message is not stored").await;
}

pub(crate) async fn receive_gives_no_more_than_asked_for(case: Case) {
    case.send_all(messages(5)).await;
    let worker = case.worker().await;
    let some = worker.receive(2, PATIENCE).await;
    assert!((1..=2).contains(&some.len()), "asked for 2, got {}", some.len());
    let rest = case.worker().await.take(5 - some.len()).await;
    assert_eq!(rest.len() + some.len(), 5, "messages that were not taken stay available");
}

pub(crate) async fn receive_gives_what_is_there_when_asked_for_more(case: Case) {
    case.send_all(messages(3)).await;
    let worker = case.worker().await;
    let mut received = worker.receive(u32::MAX, PATIENCE).await;
    assert!(!received.is_empty(), "one ready message ends the wait");
    received.extend(worker.take(3 - received.len()).await);
    worker.none("all messages were received").await;
}

pub(crate) async fn a_receive_ends_with_its_bytes(case: Case) {
    case.send_all(messages(5)).await; // 6 bytes each
    let worker = case.worker_with(&case.queue, case.options().with_max_bytes(13)).await;
    let mut left = 5;
    while left > 0 {
        let some = worker.receive(16, PATIENCE).await;
        assert!((1..=2).contains(&some.len()), "13 bytes are two messages, got {}", some.len());
        left -= some.len();
        worker.complete(some).await;
    }
    case.send(message("much longer than thirteen bytes")).await;
    assert_eq!(worker.receive(16, PATIENCE).await.len(), 1, "the first may be of any size");
}
