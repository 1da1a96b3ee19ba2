//! Clocks that are set back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bezoar_core::{Clock, Outgoing, QueueAdmin, Settlement, Transport, millis};
use bezoar_sqlite::{Options, SqliteTransport};
use jiff::Timestamp;
use tempfile::TempDir;

use super::support::*;

const START: i64 = 1_700_000_000_000;
const HOUR: i64 = 3_600_000;

/// A clock that can be set to any time.
#[derive(Debug)]
struct Adjustable(AtomicI64);

impl Clock for Adjustable {
    fn now(&self) -> Timestamp {
        millis(self.0.load(Ordering::SeqCst))
    }
}

fn clock() -> Arc<Adjustable> {
    Arc::new(Adjustable(START.into()))
}

async fn open_with_clock(folder: &TempDir, clock: &Arc<Adjustable>) -> SqliteTransport {
    open_transport(Options { clock: clock.clone(), ..Options::new(file_in(folder)) }).await
}

fn after(delay: Duration, name: &str) -> Outgoing {
    Outgoing::from(message(name, noise(1))).after(delay)
}

#[tokio::test]
async fn what_was_ready_stays_ready_when_the_clock_is_set_back() {
    let (folder, clock) = (folder(), clock());
    let transport = open_with_clock(&folder, &clock).await;
    send(&transport, &message("before", noise(1))).await.unwrap();
    clock.0.fetch_sub(HOUR, Ordering::SeqCst);
    send(&transport, &message("after", noise(1))).await.unwrap();
    let depth = transport.depth(&queue()).await.unwrap();
    assert_eq!((depth.ready, depth.delayed), (Some(2), Some(0)));
    assert_eq!(
        ids(&receive(&transport, 9).await),
        ["before", "after"],
        "the earlier message is not overtaken"
    );
}

#[tokio::test]
async fn what_was_ready_stays_ready_for_a_program_that_starts_after_the_clock_was_set_back() {
    let (folder, clock) = (folder(), clock());
    let transport = open_with_clock(&folder, &clock).await;
    send(&transport, &message("before", noise(1))).await.unwrap();
    drop(transport);
    clock.0.fetch_sub(HOUR, Ordering::SeqCst);
    let transport = open_with_clock(&folder, &clock).await;
    send(&transport, &message("after", noise(1))).await.unwrap();
    assert_eq!(transport.depth(&queue()).await.unwrap().ready, Some(2));
    assert_eq!(ids(&receive(&transport, 9).await), ["before", "after"]);
}

#[tokio::test]
async fn delays_and_leases_go_on_ending_after_the_clock_was_set_back() {
    let (folder, clock) = (folder(), clock());
    let transport = open_with_clock(&folder, &clock).await;
    let second = Duration::from_secs(1);
    all_accepted(transport.send(&queue().into(), &[after(second, "delayed before")]).await);
    transport.depth(&queue()).await.unwrap(); // reads the clock
    clock.0.fetch_sub(HOUR, Ordering::SeqCst);
    all_accepted(transport.send(&queue().into(), &[after(second, "delayed after")]).await);
    assert_eq!(ids(&receive(&transport, 9).await), [""; 0], "neither is delivered early");
    clock.0.fetch_add(1_000, Ordering::SeqCst);
    let held = receive(&transport, 9).await;
    assert_eq!(ids(&held), ["delayed before", "delayed after"], "neither is delivered late");
    settle(&transport, held, |_| Settlement::Retry { after: second, tries: vec![failed_try()] })
        .await;
    assert_eq!(ids(&receive(&transport, 9).await), [""; 0]);
    clock.0.fetch_add(1_000, Ordering::SeqCst);
    assert_eq!(receive(&transport, 9).await.len(), 2);
    clock.0.fetch_add(30_000, Ordering::SeqCst);
    assert_eq!(receive(&transport, 9).await.len(), 2, "their leases have ended");
}
