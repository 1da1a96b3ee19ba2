//! What is written together does not wait for each other.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use bezoar_core::{Settlement, SubscribeOptions, Subscription, Transport};
use bezoar_rabbitmq::{Options, QueueType};
use test_support::tcp_proxy::TcpProxy;

use super::support::{PATIENCE, Place, at, broker, message, one, options, retry, settle};

const ACK: [u8; 4] = [0, 60, 0, 80];
const BIND: [u8; 4] = [0, 50, 0, 20];

/// How many chunks of bytes, as they come from the client, contain a method.
#[derive(Default)]
struct Writes {
    acks: AtomicUsize,
    binds: AtomicUsize,
}

/// The same queue through a proxy that counts.
fn watched(place: &Place) -> (Place, TcpProxy, Arc<Writes>) {
    let writes = Arc::new(Writes::default());
    let count = writes.clone();
    let proxy = TcpProxy::with_upload_filter(broker(), move |_, bytes| {
        let has = |method: [u8; 4]| bytes.windows(4).any(|some| *some == method);
        count.acks.fetch_add(usize::from(has(ACK)), Ordering::SeqCst);
        if has(BIND) {
            count.binds.fetch_add(1, Ordering::SeqCst);
            // The broker has not answered yet: only a client that does not wait writes the others meanwhile.
            thread::sleep(Duration::from_millis(100));
        }
    })
    .unwrap();
    let url = at(&proxy.address().to_string());
    let options = Options { url: url.into(), management_url: None, ..options(QueueType::Classic) };
    (place.seen_with(options), proxy, writes)
}

async fn take(worker: &dyn Subscription, count: usize) -> Vec<bezoar_core::Delivery> {
    let mut held = Vec::new();
    while held.len() < count {
        held.extend(worker.receive(NonZeroU32::new(200).unwrap(), PATIENCE).await.unwrap());
    }
    held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn acknowledgements_of_a_batch_are_written_together() {
    const COUNT: usize = 200;
    let place = Place::new(QueueType::Classic).await;
    let all: Vec<_> = (0..COUNT).map(|number| message(&number.to_string()).into()).collect();
    for sent in place.transport.send(&(&place.queue).into(), &all).await {
        sent.unwrap();
    }
    let (place, _proxy, writes) = watched(&place);
    let options = SubscribeOptions::default().with_prefetch(NonZeroU32::new(400).unwrap());
    let worker = place.transport.subscribe(&place.queue, options).await.unwrap();
    let mut held = take(&*worker, COUNT).await;
    let first = held.remove(0); // so that each of the others needs a frame of its own
    let batch = held.into_iter().map(|it| (it, Settlement::Complete)).collect();
    for settled in worker.settle(batch).await {
        settled.unwrap();
    }
    settle(&*worker, first, Settlement::Complete).await;
    let acks = writes.acks.load(Ordering::SeqCst);
    assert!(acks < COUNT / 4, "{acks} writes for {COUNT} acknowledgements");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn the_bindings_of_delays_are_checked_together() {
    let place = Place::new(QueueType::Classic).await;
    let (place, _proxy, writes) = watched(&place);
    place.send(message("m")).await.unwrap();
    let worker = place.worker().await;
    let held = one(&*worker).await;
    let before = writes.binds.load(Ordering::SeqCst);
    settle(&*worker, held, retry(Duration::from_millis(20))).await;
    let binds = writes.binds.load(Ordering::SeqCst) - before;
    assert!(binds > 0 && binds < 5, "{binds} writes for ten bindings");
    settle(&*worker, one(&*worker).await, Settlement::Complete).await;
}
