//! Looking at messages in queues changes nothing and finds what is there.

use bezoar_core::{
    MessageAccess, MessageLocation, OrderingKey, PeekPage, PeekPosition, QueueState, QueuedMessage,
};

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

struct Lab {
    _server: Postgres,
    store: PostgresTransport,
    queue: QueueName,
}

impl Lab {
    async fn open() -> Self {
        let server = Postgres::start().unwrap();
        let store = opened(options(&server.url())).await;
        Self { _server: server, store, queue: queue() }
    }

    async fn send(&self, outgoing: Outgoing) {
        self.store.send(&(&self.queue).into(), &[outgoing]).await.remove(0).unwrap();
    }

    async fn subscription(&self) -> Box<dyn Subscription> {
        self.store.subscribe(&self.queue, SubscribeOptions::default()).await.unwrap()
    }

    async fn locate(&self, id: &str) -> MessageLocation {
        self.store.locate(&self.queue, &MessageId::new(id).unwrap()).await.unwrap()
    }

    async fn state(&self, id: &str) -> Option<QueueState> {
        match self.locate(id).await {
            MessageLocation::Found(state, message) => {
                assert_eq!(message.id.as_str(), id);
                Some(state)
            }
            _ => None,
        }
    }

    async fn peek(
        &self,
        state: QueueState,
        after: Option<PeekPosition>,
        limit: u32,
    ) -> Vec<QueuedMessage> {
        let page = PeekPage { state, after, limit: NonZeroU32::new(limit).unwrap() };
        self.store.peek(&self.queue, page).await.unwrap()
    }
}

fn message(id: &str) -> Message {
    let message_type = MessageType::new("result").unwrap();
    Message::new(MessageId::new(id).unwrap(), message_type, millis(1_000), "body")
}

fn once(id: &str) -> Outgoing {
    Outgoing::from(message(id)).once(24 * HOUR)
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_message_is_found_in_every_state_with_and_without_an_id_of_its_own() {
    let lab = Lab::open().await;
    for own in [true, false] {
        let named = |id: &str| if own { once(id) } else { message(id).into() };
        let (first, later) = (format!("first {own}"), format!("later {own}"));
        lab.send(named(&first)).await;
        lab.send(named(&later).after(HOUR)).await;
        assert_eq!(lab.state(&first).await, Some(QueueState::Ready));
        assert_eq!(lab.state(&later).await, Some(QueueState::Delayed));
        let open = lab.subscription().await;
        let mut taken = open.receive(NonZeroU32::MIN, PATIENCE).await.unwrap();
        let MessageLocation::Found(QueueState::Leased, leased) = lab.locate(&first).await else {
            panic!("a message that a worker has is leased");
        };
        assert_eq!((leased.acquired, leased.failed), (1, 0));
        assert_eq!(Some(leased.due_at), taken[0].lease_until);
        let settled = open.settle(vec![(taken.remove(0), Settlement::Complete)]).await;
        assert!(settled[0].is_ok());
        let gone = if own { MessageLocation::Left } else { MessageLocation::Unknown };
        assert_eq!(lab.locate(&first).await, gone);
    }
    assert_eq!(lab.locate("never sent").await, MessageLocation::Unknown);
    let nowhere = QueueName::new("nowhere").unwrap();
    lab.store.locate(&nowhere, &MessageId::new("a").unwrap()).await.unwrap_err();
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_repetition_and_a_batch_do_not_confuse_the_rows_of_ids() {
    let lab = Lab::open().await;
    lab.send(message("before").into()).await;
    let batch = [once("a"), once("a"), message("unnamed").into(), once("b"), once("c")];
    let sent = lab.store.send(&(&lab.queue).into(), &batch).await;
    assert!(sent.iter().all(Result::is_ok));
    let open = lab.subscription().await;
    let taken = open.receive(NonZeroU32::new(3).unwrap(), PATIENCE).await.unwrap();
    let ids: Vec<_> = taken.iter().map(|it| it.message.id.to_string()).collect();
    assert_eq!(ids, ["before", "a", "unnamed"]);
    open.settle(taken.into_iter().map(|it| (it, Settlement::Complete)).collect()).await;
    assert_eq!(lab.locate("a").await, MessageLocation::Left);
    for id in ["b", "c"] {
        assert_eq!(lab.state(id).await, Some(QueueState::Ready), "{id}");
    }
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_message_behind_another_of_its_key_is_blocked() {
    let lab = Lab::open().await;
    let key = OrderingKey::new("patient-7").unwrap();
    for id in ["first", "second"] {
        let mut outgoing = once(id);
        outgoing.message.ordering_key = Some(key.clone());
        lab.send(outgoing).await;
    }
    assert_eq!(lab.state("first").await, Some(QueueState::Ready));
    assert_eq!(lab.locate("second").await, MessageLocation::Blocked);
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn pages_list_each_message_of_a_state_once_without_its_content() {
    let lab = Lab::open().await;
    for number in 0..5 {
        let ready = message(&format!("m-{number}")).with_header("ward", "CANARY");
        lab.send(ready.into()).await;
        lab.send(Outgoing::from(message(&format!("d-{number}"))).after(HOUR)).await;
    }
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = lab.peek(QueueState::Ready, after, 2).await;
        let Some(last) = page.last() else { break };
        after = Some(last.position);
        listed.extend(page);
    }
    let ids: Vec<_> = listed.iter().map(|it| it.id.to_string()).collect();
    assert_eq!(ids, ["m-0", "m-1", "m-2", "m-3", "m-4"]);
    assert_eq!((listed[0].body_bytes, &listed[0].header_names[..]), (4, &["ward".to_owned()][..]));
    assert!(!format!("{listed:?}").contains("CANARY"), "header values are not shown");
    assert_eq!(lab.peek(QueueState::Delayed, None, 100).await.len(), 5);
    let open = lab.subscription().await;
    let taken = open.receive(NonZeroU32::new(9).unwrap(), PATIENCE).await.unwrap();
    assert_eq!(taken.len(), 5, "looking took nothing");
    assert_eq!(lab.peek(QueueState::Leased, None, 100).await.len(), 5);
    assert_eq!(lab.peek(QueueState::Ready, None, 100).await, []);
}
