//! A topology that breaks under a consumer: `receive` says what is missing, and recovers after the repair.

use std::{error::Error, num::NonZeroU32, time::Duration};

use bezoar_core::{
    ErrorKind, QueueAdmin, Settlement, SubscribeOptions, Subscription, Transport, TransportError,
};
use lapin::options::QueueDeleteOptions;
use tokio::time::{Instant, sleep};

use super::{
    support::{PATIENCE, Place, TYPES, foreign_channel, message, one, options, settle},
    vhost::Vhost,
};

/// The first error of `receive`; messages that arrive before it are completed.
async fn fails(worker: &dyn Subscription) -> TransportError {
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < PATIENCE, "nothing fails");
        match worker.receive(NonZeroU32::MIN, Duration::from_millis(500)).await {
            Ok(some) => {
                for held in some {
                    settle(worker, held, Settlement::Complete).await;
                }
            }
            Err(failed) => return failed,
        }
    }
}

fn told(failed: &TransportError) -> String {
    failed.source().map(ToString::to_string).unwrap_or_default()
}

/// The next message, however often `receive` fails before.
async fn recovers(worker: &dyn Subscription, id: &str) {
    let started = Instant::now();
    loop {
        match worker.receive(NonZeroU32::MIN, Duration::from_secs(1)).await {
            Ok(mut some) => {
                if let Some(held) = some.pop() {
                    assert_eq!(held.message.id.as_str(), id);
                    return settle(worker, held, Settlement::Complete).await;
                }
            }
            Err(failed) => assert!(started.elapsed() < PATIENCE, "{}", told(&failed)),
        }
        assert!(started.elapsed() < PATIENCE, "it does not arrive");
    }
}

async fn delete(name: &str) {
    let (_connection, channel) = foreign_channel().await;
    channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_work_queue_that_is_deleted_and_created_again_is_consumed_again() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        let worker = place.worker().await;
        place.send(message("before")).await.unwrap();
        settle(&*worker, one(&*worker).await, Settlement::Complete).await;
        delete(place.queue.as_str()).await;
        let failed = fails(&*worker).await;
        assert_eq!(failed.kind, ErrorKind::QueueNotFound(place.queue.clone()), "{}", told(&failed));
        place.transport.provision(&place.queue).await.unwrap();
        place.send(message("after")).await.unwrap();
        recovers(&*worker, "after").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_missing_quarantine_queue_is_reported_under_load_too_and_loses_no_suspect() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        place.send(message("suspect")).await.unwrap();
        for _ in 0..2 {
            let process = place.seen_with(options(queue_type));
            one(&*process.worker().await).await;
            process.transport.close().await;
        }
        let worker = place.worker().await;
        delete(&format!("{}.quarantine", place.queue)).await;
        for number in 0..10 {
            place.send(message(&format!("m-{number}"))).await.unwrap();
        }
        let failed = fails(&*worker).await;
        assert_eq!(failed.kind, ErrorKind::Unusable, "{}", told(&failed));
        let told = told(&failed);
        assert!(told.contains(".quarantine\"") && told.contains("bezoar provision"), "{told}");
        place.transport.provision(&place.queue).await.unwrap();
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < PATIENCE, "the suspect is lost");
            let Ok(some) = worker.receive(NonZeroU32::MIN, PATIENCE).await else {
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            let found = some.iter().any(|it| it.message.id.as_str() == "suspect");
            for held in some {
                settle(&*worker, held, Settlement::Complete).await;
            }
            if found {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_consumer_without_permission_says_so_and_recovers_once_it_is_granted() {
    let vhost = Vhost::new().await;
    let place = Place::with(vhost.options(TYPES[0])).await;
    let user = vhost.user().await;
    let restricted = place.seen_with(vhost.options_of(&user, TYPES[0]));
    let worker = restricted
        .transport
        .subscribe(&restricted.queue, SubscribeOptions::default())
        .await
        .unwrap();
    for read in ["", "broker-[0-9a-f]*$"] {
        // First neither queue may be read, then only the quarantine queue may not.
        vhost.restrict(&user, read).await;
        let failed = fails(&*worker).await;
        assert_eq!(failed.kind, ErrorKind::NotAuthorized, "{}", told(&failed));
        assert!(told(&failed).contains("permission"), "{}", told(&failed));
        vhost.permit(&user).await;
        place.send(message("m")).await.unwrap();
        recovers(&*worker, "m").await;
        // Paused: the next `receive` has to start the consumers again.
        restricted.transport.close().await;
    }
}
