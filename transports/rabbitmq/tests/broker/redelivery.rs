//! A message that crashes its process is counted before it is handed out again, and its neighbours are not blamed.

use std::{collections::BTreeSet, time::Duration};

use bezoar_core::{ErrorKind, QueueAdmin, Settlement};
use bezoar_rabbitmq::QueueType;
use tokio::time::{Instant, timeout};

use super::{
    process::{MAX_DELIVERIES, Other, POISON},
    support::{PATIENCE, Place, TYPES, message, one, options, settle},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_delivery_that_ended_with_the_connection_stays_counted() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        place.send(message("m")).await.unwrap();
        for acquired in 1..=4 {
            let process = place.seen_with(options(queue_type));
            let worker = process.worker().await;
            let held = one(&*worker).await;
            assert_eq!(held.message.ledger.acquired, acquired);
            assert_eq!(held.redelivered, acquired > 1, "flagged if it was delivered before");
            process.transport.close().await;
            let late = worker.settle(vec![(held, Settlement::Complete)]).await.pop().unwrap();
            let kind = late.unwrap_err().kind;
            let lost = matches!(kind, ErrorKind::LeaseLost | ErrorKind::OutcomeUnknown);
            assert!(lost, "a receipt of an old channel: {kind:?}");
        }
        let worker = place.worker().await;
        let held = one(&*worker).await;
        assert_eq!((held.message.ledger.failed, held.message.ledger.released), (0, 0));
        settle(&*worker, held, Settlement::Complete).await;
    }
}

/// Sends neighbours, in the first round with the poison message among them.
async fn send_round(place: &Place, round: u32) -> BTreeSet<String> {
    let names: BTreeSet<_> = (0..12).map(|number| format!("m-{round}-{number}")).collect();
    for (at, name) in names.iter().enumerate() {
        if round == 0 && at == 5 {
            place.send(message(POISON)).await.unwrap();
        }
        place.send(message(name)).await.unwrap();
    }
    names
}

/// Runs processes, each until it dies, until the poison message is dead-lettered and `count` others are handled. Returns
/// what was handled, and how many processes died.
async fn work_it_off(
    place: &Place,
    queue_type: QueueType,
    others: usize,
) -> (BTreeSet<String>, u32) {
    let (mut handled, mut deaths) = (BTreeSet::new(), 0);
    let started = Instant::now();
    loop {
        let mut process = Other::start("work", queue_type, &place.queue);
        loop {
            assert!(started.elapsed() < Duration::from_secs(90), "{deaths} died, {handled:?}");
            match timeout(Duration::from_millis(500), process.handled()).await {
                Ok(Some(id)) => _ = handled.insert(id),
                Ok(None) => break,
                Err(_) => {
                    let depth = place.transport.depth(&place.queue).await.unwrap();
                    if handled.len() >= others && depth.dead > Some(0) {
                        return (handled, deaths);
                    }
                }
            }
        }
        deaths += 1;
    }
}

async fn dead(place: &Place) -> BTreeSet<String> {
    let letters = place.dead().await;
    letters.iter().map(|letter| letter.message.id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_message_that_crashes_its_process_is_dead_lettered_and_its_neighbours_are_not() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        let sent = send_round(&place, 0).await;
        let (handled, deaths) = work_it_off(&place, queue_type, sent.len()).await;
        assert_eq!(deaths, MAX_DELIVERIES, "as often as allowed, and no more");
        assert_eq!(dead(&place).await, BTreeSet::from([POISON.to_owned()]));
        assert_eq!(handled, sent, "every neighbour was handled");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn neighbours_that_were_lost_with_it_are_not_blamed() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        let sent = send_round(&place, 0).await;
        for _ in 0..2 {
            let task = format!("lease:{}", sent.len() + 1);
            let mut process = Other::start(&task, queue_type, &place.queue);
            assert_eq!(timeout(PATIENCE * 2, process.handled()).await.unwrap(), None);
        }
        let (handled, deaths) = work_it_off(&place, queue_type, sent.len()).await;
        assert_eq!(deaths, 1, "two were counted before, the third is the last");
        assert_eq!(dead(&place).await, BTreeSet::from([POISON.to_owned()]));
        assert_eq!(handled, sent, "every neighbour was handled");
    }
}
