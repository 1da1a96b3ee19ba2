//! The permissions of the guide are enough.

use std::time::Duration;

use bezoar_core::{ErrorKind, Finding, QueueAdmin, QueueName, Settlement};
use bezoar_rabbitmq::{Options, QueueType, RabbitTransport, ReturnQueues};

use super::{
    support::{Place, dead_letter, is_empty, message, one, retry, settle},
    vhost::Vhost,
};

const PROVISION: [&str; 3] = [
    r"^(bezoar\\..*|orders(\\.quarantine|\\.dead)?)$",
    r"^(bezoar\\..*|orders(\\.quarantine|\\.dead)?)$",
    r"^(bezoar\\..*|orders(\\.quarantine)?)$",
];
const CONSUME: [&str; 3] = [
    "",
    r"^(amq\\.default|bezoar\\.(dead|return\\.orders)|orders)$",
    r"^(orders(\\.quarantine|\\.dead)?|bezoar\\.delay\\..*|bezoar\\.unroutable)$",
];

const COMPLETE: [&str; 3] = ["", "", r"^orders(\\.quarantine)?$"];
const COUNT: [&str; 3] = ["", "", ""];

async fn place(vhost: &Vhost, permissions: [&str; 3]) -> Place {
    place_with(vhost, permissions, ReturnQueues::Auto).await
}

async fn place_with(vhost: &Vhost, permissions: [&str; 3], return_queues: ReturnQueues) -> Place {
    let user = vhost.user().await;
    vhost.permit_exactly(&user, permissions).await;
    let options = Options {
        management_url: None,
        return_queues,
        ..vhost.options_of(&user, QueueType::Quorum)
    };
    let transport = RabbitTransport::open(options).unwrap();
    Place { transport, queue: QueueName::new("orders").unwrap() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn the_permissions_of_the_guide_are_enough() {
    for return_queues in [ReturnQueues::Auto, ReturnQueues::Always] {
        are_enough(return_queues).await;
    }
}

async fn are_enough(return_queues: ReturnQueues) {
    let vhost = Vhost::new().await;
    let administrator = place_with(&vhost, PROVISION, return_queues).await;
    administrator.transport.provision(&administrator.queue).await.unwrap();
    let consumer = place(&vhost, CONSUME).await;
    assert_eq!(missing_permissions(&consumer).await, [""; 0]);
    let worker = consumer.worker().await;
    consumer.send(message("m")).await.unwrap();
    settle(&*worker, one(&*worker).await, retry(Duration::from_millis(50))).await;
    settle(&*worker, one(&*worker).await, dead_letter()).await;
    assert_eq!(consumer.replay_all().await, 1);
    settle(&*worker, one(&*worker).await, Settlement::Complete).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn messages_that_succeed_need_only_the_permission_to_read_and_counting_needs_none() {
    let vhost = Vhost::new().await;
    let administrator = place(&vhost, PROVISION).await;
    administrator.transport.provision(&administrator.queue).await.unwrap();
    let sender = place(&vhost, CONSUME).await;
    sender.send(message("first")).await.unwrap();
    sender.send(message("second")).await.unwrap();
    let counter = place(&vhost, COUNT).await;
    let depth = counter.transport.depth(&counter.queue).await.unwrap();
    assert_eq!((depth.ready, depth.dead), (Some(2), Some(0)));

    let worker = place(&vhost, COMPLETE).await.worker().await;
    settle(&*worker, one(&*worker).await, Settlement::Complete).await;
    let held = one(&*worker).await;
    let refused = worker.settle(vec![(held.copy(), retry(Duration::ZERO))]).await.pop().unwrap();
    assert_eq!(refused.unwrap_err().kind, ErrorKind::NotAuthorized);
    settle(&*worker, held, Settlement::Complete).await; // nothing was lost
    assert!(is_empty(&*worker).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_user_who_may_not_create_is_told_what_to_ask_for() {
    let vhost = Vhost::new().await;
    let consumer = place(&vhost, CONSUME).await;
    let refused = consumer.transport.provision(&consumer.queue).await.unwrap_err();
    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert!(source.contains("lacks the permission to create exchange"), "{source}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn the_check_finds_every_missing_permission() {
    let vhost = Vhost::new().await;
    let administrator = place(&vhost, PROVISION).await;
    administrator.transport.provision(&administrator.queue).await.unwrap();
    let consumer = place(&vhost, CONSUME).await;
    consumer.send(message("m")).await.unwrap();
    assert_eq!(missing_permissions(&consumer).await, [""; 0]);
    let found = missing_permissions(&place(&vhost, ["", "", ""]).await).await;
    let expected = [
        "read queue \"orders\"",
        "read queue \"orders.quarantine\"",
        "write queue \"orders\"",
        "read queue \"orders.dead\": its dead letters can only be counted",
        "write the default exchange",
        "write exchange \"bezoar.dead\"",
    ];
    assert_eq!(found, expected);
    let [configure, write, read] = CONSUME;
    let unread = read.replace(r"delay\\..*", r"delay\\.[0-4]");
    let found = missing_permissions(&place(&vhost, [configure, write, &unread]).await).await;
    assert_eq!(found, ["read exchange \"bezoar.delay.5\""]);
    // Asking neither took the message nor left one.
    let worker = consumer.worker().await;
    let held = one(&*worker).await;
    assert!(!held.redelivered);
    settle(&*worker, held, Settlement::Complete).await;
    assert!(is_empty(&*worker).await);
}

async fn missing_permissions(place: &Place) -> Vec<String> {
    let findings = place.transport.validate_all(std::slice::from_ref(&place.queue)).await.unwrap();
    let findings = findings.queues.into_iter().flat_map(|found| found.unwrap());
    let missing =
        |it: Finding| it.problem.split_once(" lacks the permission to ").map(|it| it.1.to_owned());
    findings.filter_map(missing).collect()
}
