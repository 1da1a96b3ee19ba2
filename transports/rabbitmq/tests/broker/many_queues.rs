//! A check of many queues asks for few things many times, and finds the same as a check of each queue.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bezoar_core::{Finding, QueueAdmin, QueueName};
use bezoar_rabbitmq::{Options, QueueType, RabbitTransport};
use lapin::{options::QueueDeleteOptions, types::FieldTable};
use test_support::tcp_proxy::TcpProxy;
use tokio::time::Instant;

use super::{
    support::{PATIENCE, broker, options},
    vhost::Vhost,
};

/// Enough for lists to be used, and for permissions to be asked for a sample of three queues for each.
const MANY: usize = 60;
/// Frames of AMQP, by size, class and method.
const CHANNEL_OPEN: [u8; 8] = [0, 0, 0, 5, 0, 20, 0, 10];
const UNBIND: [u8; 4] = [0, 50, 0, 50];

/// Queues in a virtual host of their own.
struct Queues {
    vhost: Vhost,
    transport: RabbitTransport,
    names: Vec<QueueName>,
}

impl Queues {
    async fn new(change: impl FnOnce(&[QueueName], Options) -> Options) -> Self {
        let vhost = Vhost::new().await;
        let name = |number| QueueName::new(format!("many-{number}")).unwrap();
        let names: Vec<_> = (0..MANY).map(name).collect();
        let options = change(&names, vhost.options(QueueType::Classic));
        let transport = RabbitTransport::open(options).unwrap();
        for name in &names {
            transport.provision(name).await.unwrap();
        }
        Self { vhost, transport, names }
    }

    /// Checks all queues with one call.
    async fn check(&self, transport: &RabbitTransport) -> Vec<Vec<Finding>> {
        let found = transport.validate_all(&self.names).await.unwrap();
        found.queues.into_iter().collect::<Result<_, _>>().unwrap()
    }
}

/// What a check sends.
#[derive(Default)]
struct Sent {
    requests: AtomicUsize,
    channels: AtomicUsize,
    unbinds: AtomicUsize,
}

impl Sent {
    fn take(&self) -> [usize; 3] {
        [&self.requests, &self.channels, &self.unbinds].map(|it| it.swap(0, Ordering::SeqCst))
    }
}

fn occurrences(bytes: &[u8], pattern: &[u8]) -> usize {
    bytes.windows(pattern.len()).filter(|some| *some == pattern).count()
}

/// The same broker, through proxies that count.
fn counted(queues: &Queues) -> (RabbitTransport, [TcpProxy; 2], Arc<Sent>) {
    let sent = Arc::new(Sent::default());
    let count = sent.clone();
    let amqp = TcpProxy::with_upload_filter(broker(), move |_, bytes| {
        count.channels.fetch_add(occurrences(bytes, &CHANNEL_OPEN), Ordering::SeqCst);
        count.unbinds.fetch_add(occurrences(bytes, &UNBIND), Ordering::SeqCst);
    });
    let management = std::env::var("BEZOAR_TEST_AMQP_MANAGEMENT").unwrap();
    let address = management.rsplit_once('@').unwrap().1.to_owned();
    let count = sent.clone();
    let http = TcpProxy::with_upload_filter(address.clone(), move |_, bytes| {
        count.requests.fetch_add(occurrences(bytes, b"GET /api/"), Ordering::SeqCst);
    });
    let (amqp, http) = (amqp.unwrap(), http.unwrap());
    let url = queues.vhost.url().replacen(&broker(), &amqp.address().to_string(), 1);
    let management = management.replacen(&address, &http.address().to_string(), 1);
    let options = Options {
        url: url.into(),
        management_url: Some(management.into()),
        ..options(QueueType::Classic)
    };
    (RabbitTransport::open(options).unwrap(), [amqp, http], sent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn many_queues_need_hardly_more_requests_than_one() {
    let queues = Queues::new(|_, options| options).await;
    let (transport, _proxies, sent) = counted(&queues);
    transport.validate(&queues.names[0]).await.unwrap();
    let [requests, channels, unbinds] = sent.take();
    queues.check(&transport).await;
    let all = sent.take();
    println!("one queue: {requests} requests, {channels} channels; {MANY} queues: {all:?}");
    // A page of queues instead of a few queues; a channel for each refusal, of which there are at most a hundred.
    assert!(all[0] <= requests, "{} requests, {requests} for one queue", all[0]);
    assert!(all[1] <= channels + 100, "{} channels, {channels} for one queue", all[1]);
    assert!(all[2] < unbinds + MANY, "{} unbinds, {unbinds} for one queue", all[2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn dead_letter_exchanges_of_their_own_are_listed_together() {
    let queues = Queues::new(|names, mut options| {
        for name in names {
            let own = bezoar_rabbitmq::DeadLetterNames {
                exchange: Some(format!("{name}.dlx")),
                ..Default::default()
            };
            options.dead_letter_names.insert(name.clone(), own);
        }
        options
    })
    .await;
    let found = queues.check(&queues.transport).await.concat();
    assert!(found.iter().all(|it| it.severity == bezoar_core::Severity::Note), "{found:?}");
    let (_connection, channel) = queues.vhost.channel().await;
    let (dead, key) = (format!("{}.dead", queues.names[7]), queues.names[7].as_str());
    let exchange = format!("{}.dlx", queues.names[7]);
    let unbind =
        channel.queue_unbind(dead.into(), exchange.into(), key.into(), FieldTable::default());
    unbind.await.unwrap();
    let found = queues.check(&queues.transport).await;
    let about = |it: &Finding| it.problem.contains("is not bound to queue \"many-7.dead\"");
    let with: Vec<_> = (0..MANY).filter(|at| found[*at].iter().any(about)).collect();
    assert_eq!(with, [7], "{:?}", found[7]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_check_of_many_queues_finds_what_a_check_of_each_finds() {
    let queues = Queues::new(|_, options| options).await;
    let (_connection, channel) = queues.vhost.channel().await;
    for missing in ["many-1", "many-2.dead", "many-3.quarantine"] {
        channel.queue_delete(missing.into(), QueueDeleteOptions::default()).await.unwrap();
    }
    let (key, none) = ("many-4", FieldTable::default());
    let unbind = channel.queue_unbind("many-4.dead".into(), "bezoar.dead".into(), key.into(), none);
    unbind.await.unwrap();
    queues.vhost.policy("^many-5$", r#"{"message-ttl": 90000}"#).await;
    let applies = async || {
        let found = queues.transport.validate(&queues.names[5]).await.unwrap();
        found.iter().any(|it| it.problem.contains("message-ttl"))
    };
    let started = Instant::now();
    while !applies().await {
        assert!(started.elapsed() < PATIENCE, "the policy does not apply");
    }
    let user = queues.vhost.user().await;
    let (read, write) = ("^(many-(1|6|7).*|bezoar[.]delay[.][0-4])$", "^(many-[1-8]|amq.default)$");
    queues.vhost.permit_exactly(&user, ["", write, read]).await;
    let restricted = queues.vhost.options_of(&user, QueueType::Classic);
    let restricted = RabbitTransport::open(restricted).unwrap();
    for transport in [&queues.transport, &restricted] {
        let together = queues.check(transport).await;
        assert!(together[1..=5].iter().all(|found| !found.is_empty()));
        for (name, found) in queues.names.iter().zip(&together).take(10) {
            let one = transport.validate_all(std::slice::from_ref(name)).await.unwrap();
            assert_eq!(found, one.queues[0].as_ref().unwrap(), "{name}");
        }
    }
}
