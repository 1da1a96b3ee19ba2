//! Jobs that share a transaction with one that the database refuses.

use std::{num::NonZeroU32, path::Path, time::Duration};

use bezoar_core::{ErrorKind, Message, Outgoing, QueueAdmin, Settlement, Transport};
use bezoar_sqlite::Options;

use super::{sql::*, support::*};

/// Makes the database refuse the statement `when` for the message named `refused`.
fn refuse(path: &Path, when: &str, row: &str) {
    sql(
        path,
        &format!(
            "CREATE TRIGGER refuse BEFORE {when} ON bezoar_messages WHEN {row}.id = 'refused'
             BEGIN SELECT raise(ABORT, 'refused'); END"
        ),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_run_again_is_no_claim_that_is_undone() {
    for _ in 0..20 {
        let folder = folder();
        let transport = open_transport(Options::new(file_in(&folder))).await;
        refuse(&file_in(&folder), "INSERT", "new");
        send(&transport, &message("m", noise(1))).await.unwrap();
        let subscription = subscription(&transport).await;
        // The first waits for the lock, so the other two share the next transaction.
        let lock = lock(&file_in(&folder));
        let (first, refused) = (message("first", noise(1)), message("refused", noise(1)));
        let late = [Outgoing::from(first).after(Duration::from_secs(9))];
        let to = queue().into();
        let (_, held, refused, ()) = tokio::join!(
            transport.send(&to, &late),
            async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                subscription.receive(NonZeroU32::MIN, Duration::ZERO).await.unwrap()
            },
            async {
                tokio::time::sleep(Duration::from_millis(30)).await;
                send(&transport, &refused).await
            },
            async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                lock.execute_batch("COMMIT").unwrap();
            },
        );
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Other);
        assert_eq!(ids(&held), ["m"]);
        transport.provision(&queue()).await.unwrap(); // all queued jobs have run
        assert_eq!(ids(&receive(&transport, 9).await), [""; 0], "it is leased");
        settle(&transport, held, |_| Settlement::Complete).await;
    }
}

#[tokio::test]
async fn a_settlement_that_is_refused_does_not_fail_its_neighbours() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    for name in ["a", "refused", "b", "c"] {
        send(&transport, &message(name, noise(1))).await.unwrap();
    }
    refuse(&file_in(&folder), "DELETE", "old");
    let held = receive(&transport, 4).await;
    let batch = held.into_iter().map(|held| (held, Settlement::Complete)).collect();
    let results = subscription(&transport).await.settle(batch).await;
    let kinds: Vec<_> =
        results.into_iter().map(|result| result.map_err(|error| error.kind)).collect();
    assert_eq!(kinds, [Ok(()), Err(ErrorKind::Other), Ok(()), Ok(())]);
    let depth = transport.depth(&queue()).await.unwrap();
    assert_eq!((depth.ready, depth.leased), (Some(0), Some(1)));
}

#[tokio::test]
async fn a_locked_database_keeps_a_batch_of_settlements_waiting_once() {
    let folder = folder();
    let timeout = Duration::from_millis(200);
    let options = Options { busy_timeout: timeout, ..Options::new(file_in(&folder)) };
    let transport = open_transport(options.clone()).await;
    let messages: Vec<_> = (0..50).map(|number| message(&number.to_string(), noise(1))).collect();
    all_accepted(transport.send(&queue().into(), &outgoing(&messages)).await);
    let (held, subscription) = (receive(&transport, 50).await, subscription(&transport).await);
    let _lock = lock(&options.path);
    let start = std::time::Instant::now();
    let batch = held.into_iter().map(|held| (held, Settlement::Complete)).collect();
    for result in subscription.settle(batch).await {
        assert_eq!(result.unwrap_err().kind, ErrorKind::Unavailable);
    }
    assert!(start.elapsed() < timeout * 10, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_very_large_batch_is_stored_in_parts_and_in_order() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    refuse(&file_in(&folder), "INSERT", "new");
    let mut batch: Vec<Message> =
        (0..20_001).map(|number| message(&number.to_string(), noise(1))).collect();
    batch[15_000] = message("refused", noise(1));
    let results = transport.send(&queue().into(), &outgoing(&batch)).await;
    let refused: Vec<_> = (0..).zip(&results).filter(|(_, result)| result.is_err()).collect();
    let refused: Vec<_> = refused.into_iter().map(|(at, _)| at).collect();
    assert_eq!(
        refused,
        Vec::from_iter(10_000..20_000),
        "only the part that contains the refused message fails"
    );
    let expected: Vec<_> = (0..10_000).chain([20_000]).map(|number| number.to_string()).collect();
    assert_eq!(ids(&receive(&transport, 30_000).await), expected);
}

#[tokio::test]
async fn a_batch_of_many_bytes_is_stored_in_parts() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    refuse(&file_in(&folder), "INSERT", "new");
    let body = noise(16 * 1024 * 1024);
    let names = ["0", "1", "2", "3", "4", "refused"]; // four of them make 64 MiB
    let batch = names.map(|name| message(name, body.clone()));
    let results = transport.send(&queue().into(), &outgoing(&batch)).await;
    let done: Vec<_> = results.iter().map(Result::is_ok).collect();
    assert_eq!(done, [true, true, true, true, false, false]);
}
