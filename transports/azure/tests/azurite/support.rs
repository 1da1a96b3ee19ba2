//! What the tests share: a transport on the shared Azurite, and Microsoft's own client to look from outside.

use std::{num::NonZeroU32, time::Duration};

use azure_core::http::Url;
use azure_storage_queue::{
    QueueClient,
    models::{
        PeekedMessage, QueueClientGetPropertiesResultHeaders, QueueClientPeekMessagesOptions,
        QueueMessage,
    },
};
use bezoar_azure::{AzureTransport, Options};
use bezoar_core::{
    Code, DeadLetter, Delivery, FailedTry, Failure, Message, MessageId, MessageType, QueueAdmin,
    QueueName, Reason, Settlement, SubscribeOptions, Subscription, Transport, TransportError,
    millis,
};
use test_support::azurite::Azurite;

pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn options() -> Options {
    options_at(&Azurite::shared().connection_string())
}

pub(crate) fn options_at(connection_string: &str) -> Options {
    let mut options = Options::new(connection_string.parse().unwrap());
    options.limits.first_poll = Duration::from_millis(50);
    options
}

pub(crate) fn open(options: Options) -> AzureTransport {
    AzureTransport::open(options).unwrap()
}

/// A queue that nobody else uses, provisioned.
pub(crate) async fn queue(name: &str) -> QueueName {
    let queue = QueueName::new(format!("{name}-{:08x}", rand::random::<u32>())).unwrap();
    open(options()).provision(&queue).await.unwrap();
    queue
}

pub(crate) fn message(id: &str, body: impl Into<bezoar_core::Body>) -> Message {
    let (id, kind) = (MessageId::new(id).unwrap(), MessageType::new("lab.result").unwrap());
    Message::new(id, kind, millis(1_700_000_000_123), body)
}

pub(crate) async fn send(
    transport: &AzureTransport,
    queue: &QueueName,
    message: Message,
) -> Result<(), TransportError> {
    transport.send(&queue.into(), &[message.into()]).await.pop().unwrap().map(drop)
}

pub(crate) async fn subscribe(
    transport: &AzureTransport,
    queue: &QueueName,
    lease_seconds: u64,
) -> Box<dyn Subscription> {
    let lease = Duration::from_secs(lease_seconds);
    let options = SubscribeOptions::default().with_lease(lease);
    transport.subscribe(queue, options).await.unwrap()
}

pub(crate) async fn one(subscription: &dyn Subscription) -> Delivery {
    let mut some = subscription.receive(NonZeroU32::MIN, PATIENCE).await.unwrap();
    some.pop().expect("there is a message")
}

pub(crate) async fn settle(
    subscription: &dyn Subscription,
    delivery: Delivery,
    settlement: Settlement,
) -> Result<(), TransportError> {
    subscription.settle(vec![(delivery, settlement)]).await.pop().unwrap()
}

pub(crate) fn retry(detail: &str) -> Settlement {
    Settlement::Retry { after: Duration::ZERO, tries: vec![failed_try(detail)] }
}

pub(crate) fn dead_letter(detail: &str) -> Settlement {
    let reason = Reason::new(Reason::EXHAUSTED, "max retries (3) exhausted");
    Settlement::DeadLetter { reason, tries: vec![failed_try(detail)] }
}

fn failed_try(detail: &str) -> FailedTry {
    let failure = Failure::transient(detail.to_owned()).with_code(Code::from_static("http.500"));
    FailedTry::new(millis(1_700_000_000_000), Duration::from_millis(7), &failure)
}

/// All dead letters of a queue. None is removed.
pub(crate) async fn dead(transport: &AzureTransport, queue: &QueueName) -> Vec<DeadLetter> {
    let feed = transport.dead_letter_feed(queue).await.unwrap().unwrap();
    feed.next(NonZeroU32::MAX, Duration::from_millis(200)).await.unwrap()
}

pub(crate) fn text(message: &Message) -> String {
    String::from_utf8(message.body.reveal().to_vec()).unwrap()
}

/// A queue as other programs see it: through Microsoft's client, with a shared access signature.
pub(crate) struct Outside(QueueClient);

impl Outside {
    pub(crate) fn queue(name: &str) -> Self {
        let azurite = Azurite::shared();
        let (port, account) = (azurite.queue_port(), azurite.account());
        let sas = sas("rwdlacup", "2099-01-01");
        let url = format!("http://127.0.0.1:{port}/{account}/{name}?{sas}");
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self(QueueClient::new(Url::parse(&url).unwrap(), None, None).unwrap())
    }

    pub(crate) async fn put(&self, text: &str) {
        let message = QueueMessage { message_text: Some(text.to_owned()) };
        self.0.send_message(message.try_into().unwrap(), None).await.unwrap();
    }

    /// Stores a text that is XML already, as a program that builds its requests by hand does. Returns the status.
    pub(crate) async fn put_xml(&self, queue: &QueueName, xml: &str) -> u16 {
        let (azurite, sas) = (Azurite::shared(), sas("rwdlacup", "2099-01-01"));
        let (port, account) = (azurite.queue_port(), azurite.account());
        let url = format!("http://127.0.0.1:{port}/{account}/{queue}/messages?{sas}");
        let body = format!("<QueueMessage><MessageText>{xml}</MessageText></QueueMessage>");
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        http.post(url).body(body).send().await.unwrap().status().as_u16()
    }

    pub(crate) async fn peek(&self) -> Vec<PeekedMessage> {
        let number_of_messages = Some(32);
        let options = QueueClientPeekMessagesOptions { number_of_messages, ..Default::default() };
        let peeked = self.0.peek_messages(Some(options)).await.unwrap();
        peeked.into_model().unwrap().items.unwrap_or_default()
    }

    pub(crate) async fn texts(&self) -> Vec<String> {
        self.peek().await.into_iter().map(|it| it.message_text.unwrap_or_default()).collect()
    }

    /// How many messages it has, also invisible ones.
    pub(crate) async fn count(&self) -> i64 {
        let properties = self.0.get_properties(None).await.unwrap();
        properties.approximate_messages_count().unwrap().unwrap()
    }

    /// Receives a message and deletes it.
    pub(crate) async fn remove_one(&self) {
        let received = self.0.receive_messages(None).await.unwrap().into_model().unwrap();
        let message = received.items.unwrap().remove(0);
        let (id, pop_receipt) = (message.message_id.unwrap(), message.pop_receipt.unwrap());
        self.0.delete_message(&id, &pop_receipt, None).await.unwrap();
    }

    pub(crate) async fn delete_queue(&self) {
        self.0.delete(None).await.unwrap();
    }
}

/// The account's shared access signature.
pub(crate) fn sas(permissions: &str, expiry: &str) -> String {
    Azurite::shared().signature(permissions, expiry)
}

/// A connection string with a signature in place of the key.
pub(crate) fn sas_connection_string(sas: &str) -> String {
    let (port, account) = (Azurite::shared().queue_port(), Azurite::shared().account());
    format!("QueueEndpoint=http://127.0.0.1:{port}/{account};SharedAccessSignature={sas}")
}
