//! Delayed messages that lost their way return to their queue, and not too early.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bezoar_core::{Outgoing, QueueAdmin, QueueName, Settlement, Transport};
use bezoar_rabbitmq::{Options, QueueType, UNROUTABLE};
use lapin::{options::QueueDeleteOptions, types::FieldTable};
use test_support::tcp_proxy::TcpProxy;
use tokio::time::{Instant, sleep};

use super::{
    support::{PATIENCE, Place, at, broker, message, one, options, settle},
    vhost::Vhost,
};

async fn send_delayed(place: &Place, ids: &[&str], delay: Duration) {
    let batch: Vec<_> = ids.iter().map(|id| Outgoing::from(message(id)).after(delay)).collect();
    for sent in place.transport.send(&(&place.queue).into(), &batch).await {
        sent.unwrap();
    }
}

/// Waits until `bezoar.unroutable` has so many messages.
async fn await_unroutable(place: &Place, count: usize) {
    let (unroutable, started) = (QueueName::new(UNROUTABLE).unwrap(), Instant::now());
    while place.transport.depth(&unroutable).await.unwrap().ready != Some(count as u64) {
        assert!(started.elapsed() < PATIENCE, "there are not {count}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn messages_of_a_deleted_queue_keep_no_others_from_returning() {
    const GONE: usize = 210; // more than a dead-letter feed prefetches
    let vhost = Vhost::new().await;
    let (_connection, channel) = vhost.channel().await;
    let gone = Place::with(vhost.options(QueueType::Quorum)).await;
    let place = Place::with(vhost.options(QueueType::Quorum)).await;
    send_delayed(&gone, &["gone"; GONE], Duration::from_secs(3)).await;
    let deleted = QueueDeleteOptions::default();
    channel.queue_delete(gone.queue.as_str().into(), deleted).await.unwrap();
    await_unroutable(&gone, GONE).await;
    send_delayed(&place, &["behind"], Duration::from_secs(3)).await;
    channel.queue_delete(place.queue.as_str().into(), deleted).await.unwrap();
    await_unroutable(&place, GONE + 1).await;
    place.transport.provision(&place.queue).await.unwrap();
    let worker = place.worker().await;
    let held = one(&*worker).await;
    assert_eq!(held.message.id.as_str(), "behind");
    settle(&*worker, held, Settlement::Complete).await;
    await_unroutable(&place, GONE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_message_that_returns_waits_for_the_rest_of_its_delay() {
    // Two delay queues: 12.8 s and 6.4 s.
    const DELAY: Duration = Duration::from_millis(19_200);
    let vhost = Vhost::new().await;
    let (_connection, channel) = vhost.channel().await;
    let place = Place::with(vhost.options(QueueType::Quorum)).await;
    let (second, first) = ("bezoar.delay.2.4".into(), "bezoar.delay.3".into());
    let (key, none) = ("bezoar.delay.3>2.4".into(), FieldTable::default());
    channel.queue_unbind(second, first, key, none).await.unwrap();
    let sent = Instant::now();
    send_delayed(&place, &["delayed"], DELAY).await;
    await_unroutable(&place, 1).await;
    let unroutable = QueueName::new(UNROUTABLE).unwrap();
    let lost = Place { transport: place.transport.clone(), queue: unroutable };
    assert_eq!(lost.dead().await.len(), 0, "its queue exists");
    assert!(sent.elapsed() < DELAY, "too slow to show anything");
    let worker = place.worker().await;
    let held = one(&*worker).await;
    assert!(sent.elapsed() >= DELAY, "early: {:?}", sent.elapsed());
    settle(&*worker, held, Settlement::Complete).await;
}

/// A proxy that counts what a client sends, except for heartbeats.
fn counting_proxy() -> (TcpProxy, Arc<AtomicUsize>) {
    const HEARTBEAT: u8 = 8;
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    let proxy = TcpProxy::with_upload_filter(broker(), move |_, bytes| {
        if bytes.first().is_some_and(|kind| *kind != HEARTBEAT) {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (proxy.unwrap(), requests)
}

/// Waits by the clock, because it shows that nothing happens meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_consumer_of_an_empty_queue_asks_the_broker_nothing() {
    let place = Place::with(options(QueueType::Quorum)).await;
    let (proxy, requests) = counting_proxy();
    let url = at(&proxy.address().to_string()).into();
    let place = place.seen_with(Options { url, ..options(QueueType::Quorum) });
    let worker = place.worker().await;
    place.send(message("first")).await.unwrap();
    settle(&*worker, one(&*worker).await, Settlement::Complete).await;
    let receiving = async { worker.receive(NonZeroU32::MIN, 4 * PATIENCE).await.unwrap() };
    let looking = async {
        sleep(Duration::from_secs(2)).await; // until the consumers run
        let before = requests.load(Ordering::SeqCst);
        assert!(before > 0, "the proxy counts");
        sleep(Duration::from_secs(25)).await;
        requests.load(Ordering::SeqCst) - before
    };
    let asked = tokio::select! {
        _ = receiving => panic!("nothing was sent"),
        asked = looking => asked,
    };
    assert_eq!(asked, 0);
}
