//! Sending many at once, sending from handlers, errors of other crates, cheap routers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use bezoar::{
    Bezoar, ErrorKind, Failure, Json, Message, QueueName, Router, State, Worker, testing::Harness,
};

#[tokio::test]
async fn a_batch_gives_one_result_per_message_in_order() {
    let bezoar = bezoar::connect("memory:").await.unwrap();
    bezoar.provision("lab").await.unwrap();
    let publisher = bezoar.publisher();
    let message =
        |number: usize| publisher.message_of_type("result", &number).build().unwrap().message;
    // More than two chunks; one of them is refused.
    let mut batch: Vec<Message> = (0..600).map(message).collect();
    batch[300] = message(300).with_header("", "a header without a name");
    let ids: Vec<_> = batch.iter().map(|message| message.id.clone()).collect();

    let sent = publisher.send_batch("lab", batch).await;
    assert_eq!(sent.len(), 600);
    for (at, sent) in sent.iter().enumerate() {
        match sent {
            Ok(id) => assert!(at != 300 && *id == ids[at], "{at}"),
            Err(error) => {
                assert!(at == 300 && matches!(error.kind, ErrorKind::Invalid(_)), "{at} {error:?}");
            }
        }
    }
    let lab = QueueName::new("lab").unwrap();
    assert_eq!(bezoar.admin().depth(&lab).await.unwrap().ready, Some(599));

    assert!(publisher.send_batch("lab", Vec::<Message>::new()).await.is_empty());
    let refused = publisher.send_batch("", vec![message(1), message(2)]).await;
    let invalid = |error: &ErrorKind| matches!(error, ErrorKind::Invalid(_));
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|sent| invalid(&sent.as_ref().unwrap_err().kind)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_sends_is_tested_by_the_virtual_clock() {
    async fn forward(State(bezoar): State<Bezoar>, Json(value): Json<f64>) -> Result<(), Failure> {
        bezoar.send("archive", "result", &value).await?;
        Ok(())
    }
    let worker =
        |bezoar| Worker::new("lab", Router::with_state(bezoar).on("result", forward)).unwrap();
    let lab = Harness::start_with(worker).await;
    // Not provisioned at first: the policy's retries wait for it.
    lab.send("result", &14.1).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    lab.bezoar().provision("archive").await.unwrap();
    lab.until_idle().await;

    assert!(lab.dead_letters().await.is_empty());
    let archive = QueueName::new("archive").unwrap();
    let subscription = lab.bezoar().transport().subscribe(&archive, Default::default());
    let subscription = subscription.await.unwrap();
    let one = std::num::NonZeroU32::MIN;
    let [delivery] = &subscription.receive(one, Default::default()).await.unwrap()[..] else {
        panic!("one message")
    };
    assert_eq!(&delivery.message.body.reveal()[..], b"14.1");
    let year = delivery.message.time.to_string();
    assert!(year.starts_with("2001-09-09"), "by the virtual clock: {year}");
}

#[tokio::test(start_paused = true)]
async fn errors_of_anyhow_keep_their_chain() {
    async fn fails() -> Result<(), Failure> {
        fn store() -> anyhow::Result<()> {
            let source = std::io::Error::other("disk full");
            Err(anyhow::Error::new(source).context("not stored"))
        }
        Ok(store()?)
    }
    async fn fails_as_it_is() -> anyhow::Result<()> {
        anyhow::bail!("as it is")
    }
    let router = Router::new().on("fails", fails).on("as-it-is", fails_as_it_is);
    let lab = Harness::start(Worker::new("lab", router).unwrap()).await;
    lab.send("fails", &1).await;
    lab.until_idle().await;
    lab.send("as-it-is", &1).await;
    lab.until_idle().await;
    let dead = lab.dead_letters().await;
    let details: Vec<_> =
        dead.iter().map(|dead| dead.message.ledger.last().unwrap().detail.reveal()).collect();
    assert_eq!(details, ["not stored: disk full", "as it is"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_clones_the_state_once_and_the_router_not_at_all() {
    #[derive(Default)]
    struct Counted(Arc<AtomicU32>);
    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::SeqCst);
            Self(self.0.clone())
        }
    }
    async fn handler(_: State<Counted>) {}
    let clones = Arc::new(AtomicU32::new(0));
    let router = Router::with_state(Counted(clones.clone())).on("result", handler);
    let lab = Harness::start(Worker::new("lab", router.clone()).unwrap()).await;
    for _ in 0..10 {
        lab.send("result", &1).await;
    }
    lab.until_idle().await;
    assert_eq!(clones.load(Ordering::SeqCst), 10);
    drop(router);
}

#[test]
fn json_shows_nothing_of_its_value() {
    struct NotEvenDebug;
    assert_eq!(format!("{:?}", Json(NotEvenDebug)), "Json([hidden])");
    assert_eq!(format!("{:?}", Json("Wellensittich")), "Json([hidden])");
}
