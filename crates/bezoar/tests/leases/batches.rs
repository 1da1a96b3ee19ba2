//! Messages that share one call of a handler, and lose their leases during it.

use bezoar::{Batch, BatchOptions};

use super::*;

/// How long a call takes: longer than a lease, so that a message that lost its own is delivered again meanwhile.
const CALL: Duration = Duration::from_secs(25);

/// A call: the ids and failures of its messages, when it began, and when it returned.
#[derive(Debug, Clone)]
struct Call {
    messages: Vec<(String, u32)>,
    began: Instant,
    returned: Option<Instant>,
}

#[derive(Debug, Clone, Default)]
struct Calls(Arc<Mutex<Vec<Call>>>);

impl Calls {
    fn all(&self) -> Vec<Call> {
        self.0.lock().unwrap().clone()
    }

    /// The ids of each call.
    fn ids(&self) -> Vec<Vec<String>> {
        let ids = |call: Call| call.messages.into_iter().map(|(id, _)| id).collect();
        self.all().into_iter().map(ids).collect()
    }
}

/// The first call fails every message whose id begins with `lost`; the others are done.
async fn handle(
    Batch(messages): Batch<Arc<Message>>,
    State(calls): State<Calls>,
) -> Vec<Result<(), Failure>> {
    let seen = messages.iter().map(|it| (it.id.to_string(), it.ledger.failed)).collect();
    let number = {
        let mut calls = calls.0.lock().unwrap();
        calls.push(Call { messages: seen, began: Instant::now(), returned: None });
        calls.len() - 1
    };
    sleep(CALL).await;
    calls.0.lock().unwrap()[number].returned = Some(Instant::now());
    let judge = |message: &Arc<Message>| match message.id.as_str().starts_with("lost") {
        true if number == 0 => Err(Failure::permanent("a result that nobody may use")),
        _ => Ok(()),
    };
    messages.iter().map(judge).collect()
}

fn batch_worker(transport: &Scripted, calls: &Calls) -> Worker {
    let options = BatchOptions::new(3, SECOND).unwrap();
    let router = Router::with_state(calls.clone()).on_batch("result", options, handle);
    let worker = Worker::new("lab", router).unwrap().lease(LEASE).concurrency(6);
    worker.deterministic(transport.clock.clone(), 1)
}

#[tokio::test(start_paused = true)]
async fn a_message_that_loses_its_lease_leaves_the_call_to_the_others() {
    let transport = Scripted::new().await;
    let calls = Calls::default();
    transport.lose("lost-1");
    send(&transport, &["a", "lost-1", "b"]).await;
    let running = run(&transport, batch_worker(&transport, &calls));
    until_empty(&transport).await;
    assert_eq!(calls.ids(), [vec!["a", "lost-1", "b"], vec!["lost-1"]]);
    let [first, second] = &calls.all()[..] else { panic!("two calls") };
    assert!(first.returned.is_some(), "the call goes on for the others");
    assert!(Some(second.began) < first.returned, "it was delivered again meanwhile");
    assert_eq!(second.messages[0].1, 0, "a lost lease is no failure of the message");
    let dead = transport.memory.dead_letters(&lab(), Default::default()).await.unwrap();
    assert!(dead.is_empty(), "its result of the first call is ignored: {dead:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_messages_all_lose_their_leases_is_dropped() {
    let transport = Scripted::new().await;
    let calls = Calls::default();
    let ids = ["lost-1", "lost-2", "lost-3"];
    ids.iter().for_each(|id| transport.lose(id));
    send(&transport, &ids).await;
    let running = run(&transport, batch_worker(&transport, &calls));
    until_empty(&transport).await;
    assert_eq!(calls.ids(), [ids, ids]);
    let [first, second] = &calls.all()[..] else { panic!("two calls") };
    assert_eq!(first.returned, None, "nobody waits for it any more");
    assert!(second.returned.is_some());
    let dead = transport.memory.dead_letters(&lab(), Default::default()).await.unwrap();
    assert!(dead.is_empty(), "{dead:?}");
    running.stop().await;
}
