//! Dead letters: moved elsewhere by the feed, or replayed and discarded in bulk on the broker.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use bezoar_core::{
    DeadLetter, DeadLetterFeed, ErrorKind, QueueAdmin, QueueName, Recognition, Settlement,
};
use bezoar_rabbitmq::{DeadLettering, Options, QueueType};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use test_support::tcp_proxy::TcpProxy;
use tokio::time::{Instant, sleep, timeout};

use super::support::{
    LAST_LETTER, PATIENCE, Place, TYPES, at, broker, dead_letter, foreign_channel, message, one,
    options, settle,
};

async fn next(feed: &dyn DeadLetterFeed) -> Vec<DeadLetter> {
    feed.next(NonZeroU32::new(100).unwrap(), PATIENCE).await.unwrap()
}

/// Takes `count` letters, in any number of batches.
async fn all(feed: &dyn DeadLetterFeed, count: usize) -> Vec<DeadLetter> {
    let (mut letters, started) = (Vec::new(), Instant::now());
    while letters.len() < count {
        assert!(started.elapsed() < PATIENCE, "{} of {count} came", letters.len());
        letters.extend(next(feed).await);
    }
    letters
}

async fn wait_for_dead(place: &Place, count: u64) {
    let started = Instant::now();
    while place.transport.depth(&place.queue).await.unwrap().dead != Some(count) {
        assert!(started.elapsed() < PATIENCE, "there are not {count} dead letters");
    }
}

async fn set_aside(place: &Place, ids: &[&str]) {
    let worker = place.worker().await;
    for id in ids {
        place.send(message(id)).await.unwrap();
        let held = one(&*worker).await;
        settle(&*worker, held, dead_letter()).await;
    }
    worker.close().await.unwrap();
    wait_for_dead(place, ids.len() as u64).await;
}

fn ids(letters: &[DeadLetter]) -> BTreeSet<String> {
    letters.iter().map(|letter| letter.message.id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn the_feed_hands_out_what_was_set_aside_until_it_is_removed() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        set_aside(&place, &["a", "b", "c"]).await;
        let first = place.feed().await;
        let letters = all(&*first, 3).await;
        first.remove(&[letters[1].id]).await.unwrap();
        let short = Duration::from_millis(50);
        let more = first.next(NonZeroU32::MIN, short).await.unwrap();
        assert_eq!(more, [], "a letter that was handed out is not handed out again");
        drop(first);

        let second = place.feed().await;
        let rest = all(&*second, 2).await;
        assert_eq!(ids(&rest), BTreeSet::from(["a".to_owned(), "c".to_owned()]));
        assert!(rest.contains(&letters[0]), "the same id as before");
        second.remove(&rest.iter().map(|letter| letter.id).collect::<Vec<_>>()).await.unwrap();
        drop(second);
        wait_for_dead(&place, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_letter_of_the_brokers_own_comes_again_equal_and_flagged() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        let rejecting = Place {
            transport: place.transport.dead_lettering(DeadLettering::Reject),
            queue: place.queue.clone(),
        };
        set_aside(&rejecting, &["a"]).await;
        let taken = all(&*place.feed().await, 1).await.pop().unwrap();
        assert_eq!(taken.reason.code().as_str(), "rejected");
        assert_eq!(taken.message, message("a"), "no field is invented");
        let last = place.feed().await;
        let again = all(&*last, 1).await.pop().unwrap();
        assert_eq!((&again.message, again.at), (&taken.message, taken.at));
        assert_eq!(again.digest(), taken.digest());
        let seen = |letter: &DeadLetter| match letter.recognition {
            Recognition::Content { session, redelivered } => (session, redelivered),
            other => panic!("{other:?}"),
        };
        // RabbitMQ 4 flags a letter that was rejected already when it is delivered for the first time.
        let ((first, _), (second, redelivered)) = (seen(&taken), seen(&again));
        assert!(first != second && redelivered, "{queue_type:?}");
        last.remove(&[again.id]).await.unwrap();
        drop(last);
        wait_for_dead(&place, 0).await;
    }
}

/// The methods that a client has sent, as class and method: a frame is its type, channel, size, payload and end.
fn methods(sent: &[u8]) -> Vec<[u8; 4]> {
    let mut rest = sent.strip_prefix(b"AMQP\0\0\x09\x01").unwrap_or(sent);
    let mut methods = Vec::new();
    while let Some((head, tail)) = rest.split_first_chunk::<7>() {
        let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
        if head[0] == 1 {
            methods.extend(tail.first_chunk::<4>());
        }
        rest = tail.get(size + 1..).unwrap_or_default();
    }
    methods
}

/// A frame on a channel that is closed already makes the broker close the whole connection. lapin cancels a dropped
/// consumer from another thread, so that the cancel may follow the close.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_dropped_feed_closes_its_channel_and_sends_nothing_else() {
    const CANCEL: [u8; 4] = [0, 60, 0, 30];
    const CLOSE: [u8; 4] = [0, 20, 0, 40];
    const FEEDS: usize = 50;
    let place = Place::new(QueueType::Classic).await;
    set_aside(&place, &["a"]).await;
    let sent = Arc::new(Mutex::new(BTreeMap::<u32, Vec<u8>>::new()));
    let record = sent.clone();
    let proxy = TcpProxy::with_upload_filter(broker(), move |connection, bytes| {
        record.lock().unwrap().entry(connection).or_default().extend_from_slice(bytes);
    });
    let address = proxy.as_ref().unwrap().address().to_string();
    let options = Options { url: at(&address).into(), ..options(QueueType::Classic) };
    let watched = place.seen_with(options);
    for _ in 0..FEEDS {
        next(&*watched.feed().await).await;
    }
    let count = |method| -> usize {
        let sent = sent.lock().unwrap();
        let methods = sent.values().flat_map(|bytes| methods(bytes));
        methods.filter(|it| *it == method).count()
    };
    let started = Instant::now();
    while count(CLOSE) < FEEDS {
        assert!(started.elapsed() < PATIENCE, "{} channels are closed", count(CLOSE));
        tokio::task::yield_now().await;
    }
    watched.transport.close().await;
    assert_eq!(count(CANCEL), 0, "the channel is closed first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_dropped_wait_for_letters_loses_none() {
    let place = Place::new(QueueType::Quorum).await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    set_aside(&place, &names).await;
    let hundred = NonZeroU32::new(100).unwrap();
    // Dropped while it opens, at every point.
    for step in 0..100 {
        let feed = place.feed().await;
        let _ = timeout(Duration::from_micros(100 * step), feed.next(hundred, PATIENCE)).await;
    }
    // Dropped while it waits.
    let feed = place.feed().await;
    let (mut letters, mut dropped) = (Vec::new(), 0);
    while letters.len() < names.len() {
        match timeout(Duration::from_micros(100 << (dropped % 12)), feed.next(hundred, PATIENCE))
            .await
        {
            Ok(some) => letters.extend(some.unwrap()),
            Err(_) => dropped += 1,
        }
        assert!(dropped < 500, "{} came", letters.len());
    }
    assert_eq!(ids(&letters).len(), names.len());
    assert_eq!(letters.len(), names.len(), "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn there_is_no_feed_of_a_queue_that_is_not_there() {
    let place = Place::new(QueueType::Classic).await;
    let unknown = QueueName::new("there-is-no-such-queue").unwrap();
    let refused = place.transport.dead_letter_feed(&unknown).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::QueueNotFound(unknown));
}

/// How many bytes wait for their confirms, at most.
const FILL_LIMIT_BYTES: usize = 16 * 1024 * 1024;

/// Publishes letters of another client directly to the dead-letter queue.
async fn fill(place: &Place, count: usize, bytes: usize) {
    let (_connection, channel) = foreign_channel().await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let (name, body) = (format!("{}.dead", place.queue), vec![b'x'; bytes]);
    let mut confirms = Vec::new();
    for number in 0..count {
        let options = BasicPublishOptions::default();
        let properties = lapin::BasicProperties::default()
            .with_delivery_mode(2)
            .with_message_id(format!("m-{number}").into());
        let publish =
            channel.basic_publish("".into(), name.as_str().into(), options, &body, properties);
        confirms.push(publish.await.unwrap());
        if confirms.len() * bytes >= FILL_LIMIT_BYTES || confirms.len() == 1_000 {
            for confirm in confirms.drain(..) {
                confirm.await.unwrap();
            }
        }
    }
    for confirm in confirms {
        confirm.await.unwrap();
    }
}

/// The peak memory of this process so far.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_long_dead_letter_queue_needs_little_memory() {
    const COUNT: usize = 6_000;
    const BYTES: usize = 16 * 1024;
    let place = Place::new(QueueType::Classic).await;
    fill(&place, COUNT, BYTES).await;
    let before = peak_bytes();
    assert_eq!(place.feed().await.replay_all(100, LAST_LETTER).await.unwrap(), 100);
    assert_eq!(place.replay_all().await, COUNT as u64 - 100);
    wait_for_dead(&place, 0).await;
    let depth = place.transport.depth(&place.queue).await.unwrap();
    assert_eq!(depth.ready, Some(COUNT as u64));
    let grown = peak_bytes() - before;
    assert!(grown < COUNT * BYTES / 3, "{grown} bytes for {} of letters", COUNT * BYTES);
    fill(&place, 500, 1).await;
    assert_eq!(place.feed().await.discard_all(500, LAST_LETTER).await.unwrap(), 500);
    wait_for_dead(&place, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn large_letters_are_not_all_sent_at_once() {
    const COUNT: usize = 100;
    const LARGE_BYTES: usize = 4 * 1024 * 1024;
    let place = Place::new(QueueType::Classic).await;
    fill(&place, COUNT, LARGE_BYTES).await;
    let before = peak_bytes();
    let (feed, mut count) = (place.feed().await, 0);
    while count < COUNT {
        let letters = next(&*feed).await;
        sleep(Duration::from_millis(300)).await; // whatever the broker sends meanwhile takes memory
        count += letters.len();
        feed.remove(&letters.iter().map(|letter| letter.id).collect::<Vec<_>>()).await.unwrap();
    }
    wait_for_dead(&place, 0).await;
    let grown = peak_bytes() - before;
    assert!(
        grown < COUNT * LARGE_BYTES / 2,
        "{grown} bytes for {} of letters",
        COUNT * LARGE_BYTES
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn the_way_of_setting_aside_is_chosen_for_each_use_of_one_transport() {
    let place = Place::new(QueueType::Quorum).await;
    let rejecting = place.transport.dead_lettering(DeadLettering::Reject);
    for (transport, code) in [(rejecting, "rejected"), (place.transport.clone(), "test")] {
        let user = Place { transport, queue: place.queue.clone() };
        set_aside(&user, &["a"]).await;
        let feed = place.feed().await;
        let letter = all(&*feed, 1).await.pop().unwrap();
        assert_eq!(letter.reason.code().as_str(), code);
        feed.remove(&[letter.id]).await.unwrap();
        drop(feed);
        wait_for_dead(&place, 0).await;
    }
    place.send(message("m")).await.unwrap();
    let worker = place.worker().await;
    let held = one(&*worker).await;
    settle(&*worker, held, Settlement::Complete).await;
}
